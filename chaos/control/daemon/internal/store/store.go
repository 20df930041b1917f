package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// FileName is the database's name in its folder.
const FileName = "revenant.db"

// readers is how many may read at once.
const readers = 4

// The errors that callers tell apart. Each comes with the file and the cause.
var (
	// ErrNotFound: there is nothing of that name.
	ErrNotFound = errors.New("is not there")
	// ErrDamaged: the file is no database, or not a whole one.
	ErrDamaged = errors.New("is damaged")
	// ErrForeign: the file is a database, and somebody else's.
	ErrForeign = errors.New("is another program's database")
	// ErrNewer: a newer program has written it.
	ErrNewer = errors.New("was written by a newer program")
	// ErrFull: there is no room for more.
	ErrFull = errors.New("the disk is full")
	// ErrUnwritable: it cannot be written.
	ErrUnwritable = errors.New("cannot be written")
)

// Store is an open database. Its methods may be called from any goroutine.
type Store struct {
	file string
	// One connection writes, so that writers wait for their turn here, where their
	// contexts can end that, and not in SQLite.
	writer, reader *sql.DB
}

// Open opens the database in a folder, makes one if there is none, and brings an
// older one up to date.
func Open(ctx context.Context, dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	s := &Store{file: filepath.Join(dir, FileName)}
	if err := s.prepare(ctx, migrations); err != nil {
		return nil, s.explain(err)
	}
	if s.writer, err = openPool(s.file, 1, "journal_mode(WAL)"); err != nil {
		return nil, s.explain(err)
	}
	if s.reader, err = openPool(s.file, readers, "query_only(1)"); err != nil {
		return nil, errors.Join(s.explain(err), s.writer.Close())
	}
	var mode string
	if err := s.writer.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		return nil, errors.Join(s.explain(fmt.Errorf("its journal mode is %q, want wal: %w", mode, err)), s.Close())
	}
	return s, nil
}

// openPool opens a database that is there.
func openPool(file string, connections int, pragmas ...string) (*sql.DB, error) {
	query := url.Values{
		"_txlock": {"immediate"},
		"_pragma": append([]string{"busy_timeout(5000)", "foreign_keys(1)", "synchronous(FULL)"}, pragmas...),
		"mode":    {"rw"},
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: file, RawQuery: query.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// Close closes it. What was stored is in the one file afterwards.
func (s *Store) Close() error {
	// The last connection to be closed writes the log back, so it has to be the
	// one that may write.
	if err := errors.Join(s.reader.Close(), s.writer.Close()); err != nil {
		return s.explain(err)
	}
	return nil
}

// change does something in one transaction, all or nothing.
func (s *Store) change(ctx context.Context, do func(tx *sql.Tx) error) error {
	err := inTransaction(ctx, s.writer, do)
	if err == nil || errors.Is(err, ErrNotFound) {
		return err
	}
	return s.explain(err)
}

func inTransaction(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		tx.Rollback() // err is the cause of what this may say
		return err
	}
	return tx.Commit()
}

// explain names the file, and gives SQLite's errors a meaning.
func (s *Store) explain(err error) error {
	meaning := error(nil)
	if e := (*sqlite.Error)(nil); errors.As(err, &e) {
		switch e.Code() & 0xff { // the rest is details
		case sqlite3.SQLITE_FULL:
			meaning = ErrFull
		case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
			meaning = ErrDamaged
		case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM:
			meaning = ErrUnwritable
		}
	}
	if errors.Is(err, os.ErrPermission) {
		meaning = ErrUnwritable
	}
	if meaning == nil {
		return fmt.Errorf("store: %s: %w", s.file, err)
	}
	return fmt.Errorf("store: %s: %w: %w", s.file, meaning, err)
}
