package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
)

// tokenName is the file in the data directory with the daemon's own token.
const tokenName = "token"

// maxToken is the largest file that is read as a token.
const maxToken = 4096

// readToken reads a token from a file that only this user can read.
func readToken(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return "", fmt.Errorf("token file %s: it is no file", file)
	case mode.Perm()&0o077 != 0 && runtime.GOOS != "windows":
		return "", fmt.Errorf("token file %s: it has mode %04o, want 0600, so that only you can read it: chmod 600 %s", file, mode.Perm(), file)
	case info.Size() > maxToken:
		return "", fmt.Errorf("token file %s: it has %d bytes, want one token", file, info.Size())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("token file %s: it is empty, want a token", file)
	}
	return token, nil
}

// ownToken is readToken of a file that is made, with a random token, if there is
// none.
func ownToken(file string) (string, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return readToken(file)
	}
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := rand.Text()
	_, err = f.WriteString(token + "\n")
	if err := errors.Join(err, f.Close()); err != nil {
		// Half a token must not be there the next time.
		return "", fmt.Errorf("token file: %w", errors.Join(err, os.Remove(file)))
	}
	return token, nil
}
