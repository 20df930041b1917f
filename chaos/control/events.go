package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// How a Client stays with the events of a run.
const (
	// silence is after how long without a byte a stream is taken for dead. A
	// daemon writes each KeepAlive.
	silence = 3 * KeepAlive * time.Second
	// attempts is how often in a row it connects again without an event between,
	// after pauses from firstPause that double up to lastPause.
	attempts   = 8
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

var errSilent = fmt.Errorf("nothing was heard for %v", silence)

// Events calls f for the events of a run after the n-th, as [Backend] says. When
// the stream breaks it connects again and goes on after the last event that f had;
// it gives up when that fails several times in a row, or the first time.
func (c *Client) Events(ctx context.Context, id string, after int, f func(RunEvent) error) error {
	path, err := runPath(id)
	if err != nil {
		return err
	}
	s := stream{client: c, path: path + "/events", last: after, f: f}
	for failures := 0; ; failures++ {
		last := s.last
		err := s.follow(ctx)
		if s.over || s.refused || ctx.Err() != nil || !s.connected {
			return err
		}
		if s.last > last {
			failures = 0
		}
		if failures == attempts {
			return err
		}
		pause := time.NewTimer(min(firstPause<<failures, lastPause))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		}
	}
}

// stream is where a call of Events is.
type stream struct {
	client *Client
	path   string
	f      func(RunEvent) error

	last      int
	connected bool // once at least
	refused   bool // by f, or by the daemon with something that will not pass
	over      bool
}

// follow calls f for the events of one connection. Its error is the caller's if
// that is the last.
func (s *stream) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	alarm := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer alarm.Stop()

	r := request{method: http.MethodGet, path: s.path, accept: typeEvents}
	if s.last > 0 {
		r.header = map[string]string{"Last-Event-ID": strconv.Itoa(s.last)}
	}
	resp, err := s.client.send(ctx, r)
	if err != nil {
		return s.problem(ctx, err)
	}
	defer resp.Body.Close()
	s.connected = true
	events := newEventReader(&watched{r: resp.Body, alarm: alarm})
	for {
		e, err := events.next()
		if err == nil {
			err = s.take(e)
		}
		if s.over || s.refused {
			return err
		}
		if err != nil {
			return s.client.fail(r, s.problem(ctx, err))
		}
	}
}

// take handles one event.
func (s *stream) take(e event) error {
	switch e.name {
	case EventEnd:
		s.over = true
	case EventProblem:
		p := &Problem{}
		if err := json.Unmarshal([]byte(e.data), p); err != nil {
			return fmt.Errorf("a problem in the stream: %w", err)
		}
		s.refused = p.Type != Unavailable
		return p
	case EventRun:
		var event RunEvent
		if err := json.Unmarshal([]byte(e.data), &event); err != nil {
			return fmt.Errorf("an event in the stream: %w", err)
		}
		if event.N <= s.last {
			return nil
		}
		if err := s.f(event); err != nil {
			s.refused = true
			return err
		}
		s.last = event.N
	}
	return nil
}

// problem says why a connection was not made, or broke.
func (s *stream) problem(ctx context.Context, err error) error {
	var p *Problem
	if errors.As(err, &p) {
		s.refused = p.Type != Unavailable
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// watched sets off an alarm when a read takes too long. What happens between two
// reads is the time of whoever reads.
type watched struct {
	r     io.Reader
	alarm *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	w.alarm.Reset(silence)
	defer w.alarm.Stop()
	return w.r.Read(p)
}
