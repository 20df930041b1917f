package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// Run is a run, with what is not for others.
type Run struct {
	control.Run
	// Seq counts the runs in the order in which they were begun. AddRun gives it.
	Seq int64
	// ExperimentID is the ID of its experiment, and Key what it was begun with, ""
	// for nothing.
	ExperimentID, Key string
	// Input is the definition that is run, as JSON.
	Input []byte
	// LastEvent is the greatest number that an event of it can have.
	LastEvent int
}

// AddRun stores a new run and its first events, and returns its Seq.
func (s *Store) AddRun(ctx context.Context, r Run, events ...control.RunEvent) (seq int64, err error) {
	doc, err := json.Marshal(r.Run)
	if err != nil {
		return 0, err
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		added, err := tx.ExecContext(ctx, `INSERT INTO runs (id, experiment_id, key, doc, input, last_event) VALUES (?, ?, ?, ?, ?, ?)`,
			r.ID, r.ExperimentID, sql.NullString{String: r.Key, Valid: r.Key != ""}, string(doc), string(r.Input), r.LastEvent)
		if err != nil {
			return err
		}
		if seq, err = added.LastInsertId(); err != nil {
			return err
		}
		return addEvents(ctx, tx, r.ID, events)
	})
	return seq, err
}

// SaveRun stores what has become of a run, and more events of it.
func (s *Store) SaveRun(ctx context.Context, r Run, events ...control.RunEvent) error {
	doc, err := json.Marshal(r.Run)
	if err != nil {
		return err
	}
	return s.change(ctx, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, `UPDATE runs SET doc = ?, last_event = ? WHERE id = ?`, string(doc), r.LastEvent, r.ID)
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(ErrNotFound, err)
		}
		return addEvents(ctx, tx, r.ID, events)
	})
}

func addEvents(ctx context.Context, tx *sql.Tx, id string, events []control.RunEvent) error {
	for _, e := range events {
		doc, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO events (run_id, n, doc) VALUES (?, ?, ?)`, id, e.N, string(doc)); err != nil {
			return err
		}
	}
	return nil
}

const runColumns = `SELECT seq, doc, experiment_id, coalesce(key, ''), input, last_event FROM runs `

// query returns the runs that the rest of a statement chooses.
func (s *Store) query(ctx context.Context, rest string, args ...any) ([]Run, error) {
	rows, err := s.reader.QueryContext(ctx, runColumns+rest, args...)
	if err != nil {
		return nil, s.explain(err)
	}
	defer rows.Close()
	all := []Run{}
	for rows.Next() {
		var r Run
		var doc, input string
		err := rows.Scan(&r.Seq, &doc, &r.ExperimentID, &r.Key, &input, &r.LastEvent)
		if err == nil {
			r.Input = []byte(input)
			err = json.Unmarshal([]byte(doc), &r.Run)
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

// one is the only run of a query, or [ErrNotFound].
func one(runs []Run, err error) (Run, error) {
	if err != nil {
		return Run{}, err
	}
	if len(runs) == 0 {
		return Run{}, ErrNotFound
	}
	return runs[0], nil
}

// Run returns the run with an id.
func (s *Store) Run(ctx context.Context, id string) (Run, error) {
	return one(s.query(ctx, `WHERE id = ?`, id))
}

// RunByKey returns the run of an experiment that was begun with a key.
func (s *Store) RunByKey(ctx context.Context, experimentID, key string) (Run, error) {
	return one(s.query(ctx, `WHERE experiment_id = ? AND key = ?`, experimentID, key))
}

// Runs returns the latest runs of an experiment, by its name, "" for all; the
// latest first.
func (s *Store) Runs(ctx context.Context, experiment string, limit int) ([]Run, error) {
	return s.query(ctx, `WHERE ?1 = '' OR experiment = ?1 ORDER BY seq DESC LIMIT ?2`, experiment, limit)
}

// Unfinished returns the runs that are not over, the oldest first.
func (s *Store) Unfinished(ctx context.Context) ([]Run, error) {
	return s.query(ctx, `WHERE state IN (?, ?) ORDER BY seq`, control.Queued, control.Active)
}

// Latest returns an experiment's latest run, and the latest that is over.
func (s *Store) Latest(ctx context.Context, experimentID string) (run, over Run, err error) {
	if run, err = one(s.query(ctx, `WHERE experiment_id = ? ORDER BY seq DESC LIMIT 1`, experimentID)); err != nil {
		return run, over, err
	}
	over, err = one(s.query(ctx, `WHERE experiment_id = ? AND state IN (?, ?) ORDER BY seq DESC LIMIT 1`, experimentID, control.Done, control.Interrupted))
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return run, over, err
}

// Prune removes an experiment's oldest runs that are over, so that so many of
// those are left.
func (s *Store) Prune(ctx context.Context, experimentID string, keep int) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM runs WHERE seq IN (
			SELECT seq FROM runs WHERE experiment_id = ? AND state IN (?, ?) ORDER BY seq DESC LIMIT -1 OFFSET ?)`,
			experimentID, control.Done, control.Interrupted, keep)
		return err
	})
}

// Events returns a run's stored events after the n-th.
func (s *Store) Events(ctx context.Context, id string, after int) ([]control.RunEvent, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT doc FROM events WHERE run_id = ? AND n > ? ORDER BY n`, id, after)
	if err != nil {
		return nil, s.explain(err)
	}
	defer rows.Close()
	var all []control.RunEvent
	for rows.Next() {
		var e control.RunEvent
		var doc string
		err := rows.Scan(&doc)
		if err == nil {
			err = json.Unmarshal([]byte(doc), &e)
		}
		if err != nil {
			return nil, s.explain(err)
		}
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		return nil, s.explain(err)
	}
	return all, nil
}

// AddJournal stores a run and the JSON of its n-th journal, together.
func (s *Store) AddJournal(ctx context.Context, r Run, n int, data []byte) error {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(data)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	doc, err := json.Marshal(r.Run)
	if err != nil {
		return err
	}
	return s.change(ctx, func(tx *sql.Tx) error {
		done, err := tx.ExecContext(ctx, `UPDATE runs SET doc = ? WHERE id = ?`, string(doc), r.ID)
		if err != nil {
			return err
		}
		if changed, err := done.RowsAffected(); err != nil || changed == 0 {
			return errors.Join(ErrNotFound, err)
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO journals (run_id, n, data) VALUES (?, ?, ?)`, r.ID, n, packed.Bytes())
		return err
	})
}

// Journal returns the JSON of a run's n-th journal, or [ErrNotFound].
func (s *Store) Journal(ctx context.Context, id string, n int) ([]byte, error) {
	var packed []byte
	err := s.reader.QueryRowContext(ctx, `SELECT data FROM journals WHERE run_id = ? AND n = ?`, id, n).Scan(&packed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, ErrNotFound
	case err != nil:
		return nil, s.explain(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, s.explain(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, s.explain(err)
	}
	return data, nil
}
