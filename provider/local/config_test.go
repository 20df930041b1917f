package local_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/provider/local"
)

func TestDefaultDataDir(t *testing.T) {
	for _, c := range []struct{ state, home, want string }{
		{"/state", "/home", "/state/revenant"},
		{"", "/home", "/home/.local/state/revenant"},
		{"relative", "/home", "/home/.local/state/revenant"},
		{"", "", ""},
	} {
		got, err := local.DefaultDataDir(func(name string) string {
			return map[string]string{"XDG_STATE_HOME": c.state, "HOME": c.home}[name]
		})
		if got != filepath.FromSlash(c.want) || (err != nil) != (c.want == "") {
			t.Errorf("DefaultDataDir with %q and %q = %q, %v, want %q", c.state, c.home, got, err, c.want)
		}
	}
}

func TestCheckDataDir(t *testing.T) {
	if dir, err := local.CheckDataDir("here"); err != nil || !filepath.IsAbs(dir) {
		t.Errorf("CheckDataDir(here) = %q, %v, want an absolute path", dir, err)
	}
	if _, err := local.CheckDataDir("/" + strings.Repeat("x", 90)); err == nil || !strings.Contains(err.Error(), "no more than 103") {
		t.Errorf("CheckDataDir of 91 characters = %v, want that it is too long", err)
	}
}
