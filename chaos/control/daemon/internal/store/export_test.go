package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// Old makes a database of an older version of the schema.
func Old(ctx context.Context, dir string, version int) error {
	s := &Store{file: filepath.Join(dir, FileName)}
	return s.prepare(ctx, migrations[:version])
}

// Exec does something to a database that no program of ours would.
func Exec(ctx context.Context, dir, statement string) error {
	db, err := openPool(filepath.Join(dir, FileName), 1)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement)
	return errors.Join(err, db.Close())
}

// LimitPages bounds how large a database may grow, to so many pages more than it
// has: as if the disk were full then.
func (s *Store) LimitPages(more int) error {
	var pages int
	if err := s.writer.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		return err
	}
	_, err := s.writer.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages+more))
	return err
}

// Pragma returns a setting of the connections that write.
func (s *Store) Pragma(name string) (value string, err error) {
	err = s.writer.QueryRow("PRAGMA " + name).Scan(&value)
	return value, err
}
