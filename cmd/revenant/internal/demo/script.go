package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// script runs the method in both arms and writes the timeline. Where the order
// matters a step waits until it has seen what comes first; it looks at the
// clock only where the record does.
type script struct {
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

// method is what the demo does.
func (s *script) method() []move {
	const (
		idling = "silence: the load balancer's idle clock runs"
		away   = "the clients wait as long as the server has asked them to"
	)
	cut1, cut2 := firstInitialize+idleTimeout, secondInitialize+idleTimeout
	moves := []move{
		{1, firstInitialize, true, "servers and load balancers are up", s.begin},
		{1, cut1, false, idling, s.away(missedAlive, false)},
		{1, cut1 + retryHint, false, away, s.back(missedAlive)},
	}
	for at := firstEvent; at <= lastEvent; at += eventInterval {
		moves = append(moves, move{1, at, true, "the server sends an event every 2 minutes", s.event})
	}
	return append(moves, []move{
		{1, firstInitialize + sessionTTL, false, "silence: the session's time is running out", s.expire},
		{1, firstToolCall, true, "nothing passes on the wire: nobody can know", s.callInVain},

		{2, secondInitialize, true, "the applications give their sessions up", s.begin},
		{2, cut2, false, idling, s.away(missedDead, true)},
		{2, cut2 + retryHint, false, away, s.back(missedDead)},
		{2, secondToolCall, true, "the control arm believes itself connected", s.callAgain},
	}...)
}

func (s *script) run(ctx context.Context) error {
	for _, m := range s.method() {
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
	ctx, cancel := context.WithDeadline(ctx, from.Add(s.clock.real(patience)))
	defer cancel()
	rec, err := a.rec.until(ctx, cond)
	return rec, err == nil
}
