package store

import (
	"bytes"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// application is the database's application_id: it says whose the file is.
const application = 0x7265766e // "revn"

//go:embed migrations/*.sql
var files embed.FS

// migrations are the texts of the files, in their order: the n-th leads to version
// n.
var migrations = func() (all []string) {
	for n := 1; ; n++ {
		text, err := files.ReadFile("migrations/" + strconv.Itoa(n) + ".sql")
		if err != nil {
			return all
		}
		all = append(all, string(text))
	}
}()

// Version is the newest version of the schema, which [Open] brings a database to.
func Version() int { return len(migrations) }

// prepare sees to it that the file is a database of the newest version.
func (s *Store) prepare(ctx context.Context, steps []string) error {
	found, err := os.Lstat(s.file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if log, err := os.Lstat(s.file + "-wal"); err == nil && log.Size() > 0 {
			return fmt.Errorf("%w: it is missing, and its log %s is there; restore the one, or move the other away", ErrDamaged, log.Name())
		}
		return s.create(ctx, steps)
	case err != nil:
		return err
	case !found.Mode().IsRegular():
		return fmt.Errorf("%w: it is no file", ErrForeign)
	}
	if err := checkHeader(s.file); err != nil {
		return err
	}
	db, err := openPool(s.file, 1)
	if err != nil {
		return err
	}
	err = examine(ctx, db, len(steps))
	if err == nil {
		err = migrate(ctx, db, steps)
	}
	return errors.Join(err, db.Close())
}

// checkHeader looks at the first bytes before SQLite does: to that an empty file is
// a database which is still to be filled.
func checkHeader(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	const magic = "SQLite format 3\x00"
	begins := make([]byte, len(magic))
	n, err := io.ReadFull(f, begins)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it is empty; restore it, or move it away to begin anew", ErrDamaged)
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case !bytes.Equal(begins, []byte(magic)):
		return fmt.Errorf("%w: it does not begin as a database does; restore it, or move it away to begin anew", ErrDamaged)
	}
	return nil
}

// examine reads a database, and says what is wrong with it.
func examine(ctx context.Context, db *sql.DB, newest int) error {
	var id, version int
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	switch {
	case id != application:
		return fmt.Errorf("%w: its application_id is %#x, want %#x", ErrForeign, id, application)
	case version > newest:
		return fmt.Errorf("%w: its schema has version %d, and this program knows versions up to %d; use the newer program, or another data directory", ErrNewer, version, newest)
	}
	var fault string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&fault); err != nil {
		return err
	}
	if fault != "ok" {
		return fmt.Errorf("%w: %s; restore it, or move it away to begin anew", ErrDamaged, fault)
	}
	return nil
}

// migrate takes the steps that a database has not had.
func migrate(ctx context.Context, db *sql.DB, steps []string) error {
	var version int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version); err != nil {
		return err
	}
	for n := version + 1; n <= len(steps); n++ {
		err := inTransaction(ctx, db, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, steps[n-1]+fmt.Sprintf(";PRAGMA user_version = %d;", n))
			return err
		})
		if err != nil {
			return fmt.Errorf("to version %d of its schema: %w", n, err)
		}
	}
	return nil
}

// create makes a database under another name, so that there is a whole one or
// none.
func (s *Store) create(ctx context.Context, steps []string) (err error) {
	unfinished := s.file + ".new"
	for _, left := range []string{unfinished, unfinished + "-journal"} { // by one that was killed
		if err := os.Remove(left); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	f, err := os.OpenFile(unfinished, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(unfinished) // it is not there any more if all is well
	if err := f.Close(); err != nil {
		return err
	}
	db, err := openPool(unfinished, 1)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", application))
	if err == nil {
		err = migrate(ctx, db, steps)
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Rename(unfinished, s.file); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(s.file))
}

// syncFolder makes a new name in a folder last.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
