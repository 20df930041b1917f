package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// begin starts a session and has it get one event, so that there is a cursor.
func (s *script) begin(ctx context.Context, a *arm, m move) ([]Entry, error) {
	if err := a.app.initialize(ctx); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("initializes: the server begins a session of %.0f minutes", sessionTTL)
	if m.part > 1 {
		text = "initializes anew: works at once, it is a new session"
	}
	entries := []Entry{{At: time.Now(), Kind: "initialized", Text: text, Session: a.session().ID}}
	e, err := s.send(ctx, a, m)
	e.Text += ", then the stream is silent"
	return append(entries, e), err
}

// event sends one event, unless the session has died before its time.
func (s *script) event(ctx context.Context, a *arm, m move) ([]Entry, error) {
	e, err := s.send(ctx, a, m)
	if errors.Is(err, mcpserver.ErrSessionGone) {
		return nil, nil
	}
	switch m.planned {
	case firstEvent:
		e.Text += fmt.Sprintf("; from now on one comes every %.0f minutes", eventInterval)
	case lastEvent:
		e.Text += ", the last one"
	default:
		e.Quiet = true
	}
	return []Entry{e}, err
}

// send has the server send an event and waits until the application has it.
func (s *script) send(ctx context.Context, a *arm, m move) (Entry, error) {
	stamp, err := a.server.Emit(a.app.session.ID(), "hello")
	if err != nil {
		return Entry{}, err
	}
	rec, ok := s.watch(ctx, a, m, func(r *Recording) bool {
		got := r.applied(stamp.Session)
		return len(got) > 0 && got[len(got)-1] == stamp
	})
	if !ok {
		return Entry{At: time.Now(), Kind: "event_late", Session: stamp.Session, Text: "does not get event " + rec.eventID(stamp)}, nil
	}
	return Entry{At: time.Now(), Kind: "event_applied", Session: stamp.Session, Text: "gets event " + rec.eventID(stamp)}, nil
}

// away waits until the load balancer has cut the stream. While the client is
// away the server logs some events and, if reap is set, then loses the session:
// what a restart does to a server whose log is durable and whose sessions are
// not.
func (s *script) away(missed int, reap bool) step {
	return func(ctx context.Context, a *arm, m move) ([]Entry, error) {
		session := a.session()
		rec, ok := s.watch(ctx, a, m, func(r *Recording) bool { return !r.cut(session).IsZero() })
		if !ok {
			return nil, nil
		}
		entries := []Entry{{At: rec.cut(session), Kind: "stream_cut",
			Text: fmt.Sprintf("the load balancer cuts the stream, idle for %.0f minutes", idleTimeout)}}
		var stamps []mcpserver.Stamp
		for range missed {
			stamp, err := a.server.Emit(session.ID, "missed")
			if err != nil {
				return entries, err
			}
			stamps = append(stamps, stamp)
		}
		logged := time.Now()
		if reap {
			a.server.Reap(session.ID)
		}
		rec, _ = a.rec.recording()
		entries = append(entries, Entry{At: logged, Kind: "events_logged",
			Text: fmt.Sprintf("the server logs %s while the client is away", rec.eventIDs(stamps))})
		if died, _ := rec.died(session.ID); !died.IsZero() {
			entries = append(entries, Entry{At: died, Kind: "session_died",
				Text: "the server loses the session, as in a restart; the log stays"})
		}
		return entries, nil
	}
}

// back waits until the client has reconnected and it is clear what the
// application makes of it: it was given the replay, or told that there is no
// session any more. In that case it begins a new one.
func (s *script) back(missed int) step {
	return func(ctx context.Context, a *arm, m move) ([]Entry, error) {
		session := a.session()
		rec, _ := s.watch(ctx, a, m, func(r *Recording) bool {
			now, _ := r.session(m.part - 1)
			return !now.Ended.IsZero() || len(r.applied(session.ID)) > missed
		})
		get, ok := rec.reconnect(session)
		if !ok {
			return nil, nil
		}
		entries := []Entry{{At: get.At, Kind: "reconnected",
			Text: fmt.Sprintf("reconnects with cursor %s and is answered %d", get.LastEventID, get.Status)}}
		entries = append(entries, guarded(rec, session, get)...)

		now, _ := rec.session(m.part - 1)
		t := CountSession(rec, now)
		if all := rec.applied(session.ID); len(all) > 1 {
			e := Entry{At: rec.Applied[len(rec.Applied)-1].At, Kind: "replay_applied",
				Text: "its application gets " + rec.eventIDs(all[1:])}
			if t.AppliedDead > 0 {
				e.Kind, e.Tone = "dead_session_events_applied", Harm
				e.Text = fmt.Sprintf("its application acts on %d events of a dead session", t.AppliedDead)
			}
			entries = append(entries, e)
		}
		if now.Ended.IsZero() {
			return entries, nil
		}
		told := now.Reason
		if told == nil {
			told = now.Err
		}
		entries = append(entries, Entry{At: now.Ended, Kind: "session_ended", Tone: Good,
			Text: "its application is told at once", Detail: told.Error()})
		if err := a.app.initialize(ctx); err != nil {
			return entries, err
		}
		return append(entries, Entry{At: time.Now(), Kind: "initialized", Session: a.session().ID, Text: "initializes anew"}), nil
	}
}

// guarded is what the middleware made of a reconnect.
func guarded(rec *Recording, session Session, get mcpserver.Request) (entries []Entry) {
	after := get.At
	if e, ok := rec.guard(middleware.Held, session.ID, after); ok {
		entries = append(entries, Entry{At: e.Time, Kind: "held", Text: "the middleware holds what is replayed"})
	}
	if e, ok := rec.guard(middleware.ProbeAnswered, session.ID, after); ok {
		text := fmt.Sprintf("it probes the session: %d, %s", e.StatusCode, map[middleware.Verdict]string{
			middleware.Live: "the session lives", middleware.Dead: "the session is dead",
		}[e.Verdict])
		entries = append(entries, Entry{At: e.Time, Kind: "probed", Text: text, Tone: Good})
	}
	if e, ok := rec.guard(middleware.Released, session.ID, after); ok {
		entries = append(entries, Entry{At: e.Time, Kind: "released", Text: "it releases what it held"})
	}
	if e, ok := rec.guard(middleware.Quarantined, session.ID, after); ok {
		entries = append(entries, Entry{At: e.Time, Kind: "quarantined", Tone: Good,
			Text: fmt.Sprintf("it quarantines the replay, %d events of a dead session", len(rec.missed(session, rec.cut(session), get.At)))})
	}
	return entries
}

// expire waits for the session's time to run out.
func (s *script) expire(ctx context.Context, a *arm, m move) ([]Entry, error) {
	session := a.session()
	rec, ok := s.watch(ctx, a, m, func(r *Recording) bool {
		died, _ := r.died(session.ID)
		return !died.IsZero()
	})
	if !ok {
		return nil, nil
	}
	died, _ := rec.died(session.ID)
	return []Entry{{At: died, Kind: "session_died", Text: "the session expires; the stream stays open, no one is told"}}, nil
}

// callInVain calls a tool of the dead session, and some times more.
func (s *script) callInVain(ctx context.Context, a *arm, _ move) ([]Entry, error) {
	session := a.session()
	if err := a.app.call(ctx, "echo", echoText); err == nil {
		return []Entry{{At: time.Now(), Kind: "call_answered", Text: "calls a tool: works, though the session is dead"}}, nil
	}
	at := time.Now()
	for range retries {
		_ = a.app.call(ctx, "echo", echoText)
	}
	rec, _ := a.rec.recording()
	entries := []Entry{
		failedCall(rec, session, at),
		{At: time.Now(), Kind: "call_retried", Text: fmt.Sprintf("%d retries fail as well; %s", retries, arrivals(rec, session))},
	}
	for _, c := range rec.Calls {
		if c.SessionID != session.ID {
			continue
		}
		e := Entry{At: c.End, Kind: "call_blamed", Text: "all it has is the error of a tool call", Detail: c.Err.Error()}
		if c.Reason != nil {
			e.Kind, e.Text, e.Detail = "session_blamed", "the middleware fences the session and says that it is dead", c.Reason.Error()
		}
		return append(entries, e), nil
	}
	return entries, nil
}

// callAgain calls a tool at the end of part 2, and begins a new session where
// only that shows that the old one is dead.
func (s *script) callAgain(ctx context.Context, a *arm, _ move) ([]Entry, error) {
	session := a.session()
	err := a.app.call(ctx, "echo", echoText)
	at := time.Now()
	if err == nil {
		return []Entry{{At: at, Kind: "call_answered", Text: "calls a tool: works", Tone: Good}}, nil
	}
	rec, _ := a.rec.recording()
	e := failedCall(rec, session, at)
	e.Text, e.Tone, e.Detail = e.Text+"; only now it knows", Harm, err.Error()
	if err := a.app.initialize(ctx); err != nil {
		return []Entry{e}, err
	}
	return []Entry{e, {At: time.Now(), Kind: "initialized", Session: a.session().ID, Text: "initializes anew"}}, nil
}

func failedCall(rec *Recording, session Session, at time.Time) Entry {
	e := Entry{At: at, Kind: "call_failed", Text: "calls a tool: fails"}
	for _, q := range rec.Server.Requests {
		if q.SessionID == session.ID && q.RPC == "tools/call" {
			e.Text = fmt.Sprintf("calls a tool: fails with %d", q.Status)
			if q.Status == http.StatusNotFound {
				break
			}
		}
	}
	return e
}

// arrivals says how many of the retries the server got.
func arrivals(rec *Recording, session Session) string {
	if n := CountSession(rec, session).CallsArrived - 1; n > 0 {
		return fmt.Sprintf("%d of them reach the server", n)
	}
	return "none of them reaches the server"
}
