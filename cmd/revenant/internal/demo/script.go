package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// script runs the method of a record in both arms and writes the timeline. Where the order
// matters a step waits until it has seen what comes first; it looks at the
// clock only where the record does.
type script struct {
	record  *Record
	clock   clock
	arms    [2]*arm // control, protected
	line    func(Line)
	doing   func(string)
	entries []Entry
}

// move is one move of the method, which both arms make at the same time.
type move struct {
	part    int
	planned float64 // when it is expected, in the record's minutes
	clocked bool    // wait for that moment
	doing   string  // what is going on until it is done
	run     step
}

// step is a move in one arm. It returns what is to be told of it. What did not
// happen in time is no error: that is for the verdict to say.
type step func(ctx context.Context, a *arm, m move) ([]Entry, error)

func (s *script) run(ctx context.Context) error {
	for _, m := range s.record.method(s) {
		s.doing(m.doing)
		if m.clocked {
			if err := s.wait(ctx, m.planned); err != nil {
				return err
			}
		}
		if err := s.both(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// wait waits for a moment of the record.
func (s *script) wait(ctx context.Context, minutes float64) error {
	timer := time.NewTimer(time.Until(s.clock.at(minutes)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// both makes a move in both arms and tells what happened.
func (s *script) both(ctx context.Context, m move) error {
	var entries [2][]Entry
	var errs [2]error
	before := [2]string{s.arms[0].session().ID, s.arms[1].session().ID}
	done := make(chan struct{})
	go func() {
		defer close(done)
		entries[1], errs[1] = m.run(ctx, s.arms[1], m)
	}()
	entries[0], errs[0] = m.run(ctx, s.arms[0], m)
	<-done
	for i, a := range s.arms {
		for j := range entries[i] {
			e := &entries[i][j]
			e.Arm, e.Part = a.name, m.part
			if e.Session == "" {
				e.Session = before[i]
			}
		}
		s.entries = append(s.entries, entries[i]...)
		if errs[i] != nil {
			errs[i] = fmt.Errorf("demo: %s arm: %w", a.name, errs[i])
		}
	}
	for _, l := range s.clock.merge(entries[0], entries[1]) {
		s.line(l)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return errors.Join(errs[0], errs[1])
}

// watch waits until cond is true of an arm. When patience has come to an end it
// reports false.
func (s *script) watch(ctx context.Context, a *arm, m move, cond func(*Recording) bool) (*Recording, bool) {
	from := s.clock.at(m.planned)
	if now := time.Now(); now.After(from) {
		from = now
	}
	ctx, cancel := context.WithDeadline(ctx, from.Add(s.clock.real(s.record.patience)))
	defer cancel()
	rec, err := a.rec.until(ctx, cond)
	return rec, err == nil
}
