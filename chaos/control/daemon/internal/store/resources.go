package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// Resource is a resource, without what is not known before it runs.
type Resource struct {
	ID               string
	Kind             control.Kind
	Name             string
	Generation       int64
	Created, Updated time.Time
	Spec             []byte
	// Addrs are the addresses that it keeps.
	Addrs []string
}

// Resources returns all.
func (s *Store) Resources(ctx context.Context) ([]Resource, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT id, kind, name, generation, created, updated, spec, addrs FROM resources ORDER BY kind, name`)
	if err != nil {
		return nil, s.explain(err)
	}
	defer rows.Close()
	var all []Resource
	for rows.Next() {
		var r Resource
		var created, updated, spec, addrs string
		err := rows.Scan(&r.ID, &r.Kind, &r.Name, &r.Generation, &created, &updated, &spec, &addrs)
		if err == nil {
			r.Spec = []byte(spec)
			err = errors.Join(r.Created.UnmarshalText([]byte(created)), r.Updated.UnmarshalText([]byte(updated)), json.Unmarshal([]byte(addrs), &r.Addrs))
		}
		if err != nil {
			return nil, s.explain(err)
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, s.explain(err)
	}
	return all, nil
}

// Put stores a resource: a new one, or in the place of what its ID had.
func (s *Store) Put(ctx context.Context, r Resource) error {
	addrs, err := json.Marshal(r.Addrs)
	if err != nil {
		return err
	}
	return s.change(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO resources (id, kind, name, generation, created, updated, spec, addrs) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET generation = excluded.generation, updated = excluded.updated, spec = excluded.spec, addrs = excluded.addrs`,
			r.ID, r.Kind, r.Name, r.Generation, r.Created.Format(time.RFC3339Nano), r.Updated.Format(time.RFC3339Nano), string(r.Spec), string(addrs))
		return err
	})
}

// Delete removes a resource, and an experiment's runs with it.
func (s *Store) Delete(ctx context.Context, id string) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM resources WHERE id = ?`, id)
		return err
	})
}

// haltKey is the setting that is there while the daemon is halted. Its value is the
// reason.
const haltKey = "halt"

// Halted returns whether the daemon is halted, and why.
func (s *Store) Halted(ctx context.Context) (reason string, halted bool, err error) {
	err = s.reader.QueryRowContext(ctx, `SELECT value FROM settings WHERE key = ?`, haltKey).Scan(&reason)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", false, nil
	case err != nil:
		return "", false, s.explain(err)
	}
	return reason, true, nil
}

// Halt stores that the daemon is halted.
func (s *Store) Halt(ctx context.Context, reason string) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO settings (key, value) VALUES (?, ?)`, haltKey, reason)
		return err
	})
}

// Resume stores that it is not.
func (s *Store) Resume(ctx context.Context) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM settings WHERE key = ?`, haltKey)
		return err
	})
}
