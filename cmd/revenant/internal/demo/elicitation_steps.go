package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// ask begins a session and calls the tool, and waits until the person is asked.
func (s *script) ask(ctx context.Context, a *arm, m move) ([]Entry, error) {
	if err := a.app.initialize(ctx); err != nil {
		return nil, err
	}
	entries := []Entry{{At: time.Now(), Kind: "initialized", Session: a.session().ID, Quiet: true}}
	a.app.begin(confirmTool, confirmText)
	entries = append(entries, Entry{At: time.Now(), Kind: "called", Session: a.session().ID,
		Text: "calls a tool that deletes something; the server asks first"})
	rec, ok := s.watch(ctx, a, m, func(r *Recording) bool { return len(r.Prompts) > 0 })
	if !ok {
		return entries, nil
	}
	return append(entries, Entry{At: rec.Prompts[0].At, Kind: "prompted", Session: a.session().ID,
		Text: "the person is prompted: " + confirmText["message"].(string)}), nil
}

// stopWaiting waits until the load balancer has cut the stream and the server
// has given the request up for it.
func (s *script) stopWaiting(ctx context.Context, a *arm, m move) ([]Entry, error) {
	session := a.session()
	rec, ok := s.watch(ctx, a, m, func(r *Recording) bool {
		return len(r.cuts(session)) > 0 && !r.asked(0).Cancelled.IsZero()
	})
	var entries []Entry
	if cuts := rec.cuts(session); len(cuts) > 0 {
		entries = append(entries, Entry{At: cuts[0].At, Kind: "stream_cut",
			Text: fmt.Sprintf("the load balancer cuts the stream, idle for %.0f s", askIdle*60)})
	}
	if ok {
		entries = append(entries, Entry{At: rec.asked(0).Cancelled, Kind: "request_abandoned",
			Text: "the server waits for no answer any more, and does not say so"})
	}
	return entries, nil
}

// answer has the person confirm, and whatever else they are asked from now on.
func (s *script) answer(ctx context.Context, a *arm, m move) ([]Entry, error) {
	a.app.decide()
	rec, ok := s.watch(ctx, a, m, func(r *Recording) bool { return len(r.Server.Answers) > 0 })
	if !ok {
		return nil, nil
	}
	got := rec.Server.Answers[0]
	text := fmt.Sprintf("the person confirms: answered %d, but nobody waits for it", got.Status)
	if got.Taken {
		text = "the person confirms in time"
	}
	return []Entry{{At: got.At, Kind: "answered", Text: text}}, nil
}

// comeBack waits until the client has reconnected for the n-th time and it is
// clear what becomes of the request that is replayed. Where the call has failed,
// the application makes it anew.
func (s *script) comeBack(n int) step {
	return func(ctx context.Context, a *arm, m move) ([]Entry, error) {
		session := a.session()
		if rec, _ := a.rec.recording(); !rec.callOf(0).End.IsZero() {
			return nil, nil // It waits for nothing any more.
		}
		rec, _ := s.watch(ctx, a, m, func(r *Recording) bool {
			gets := r.reconnects(session)
			if len(gets) < n {
				return !r.callOf(0).End.IsZero()
			}
			_, kept := r.guard(middleware.DuplicateSuppressed, session.ID, gets[n-1].At)
			_, failed := r.guard(middleware.Stale, session.ID, gets[n-1].At)
			return kept && !failed || !r.callOf(0).End.IsZero() || r.promptedAfter(gets[n-1].At) || len(r.cuts(session)) > n
		})
		gets := rec.reconnects(session)
		if len(gets) < n {
			return nil, nil
		}
		entries := whatComesBack(rec, session, gets[n-1], n)
		call := rec.callOf(0)
		if call.End.IsZero() {
			return entries, nil
		}
		e := Entry{At: call.End, Kind: "call_ended", Text: "the call is answered"}
		if call.Err != nil {
			e.Kind, e.Tone, e.Text, e.Detail = "call_failed", Good, "the call fails: "+codeOf(call.Err), call.Err.Error()
		}
		entries = append(entries, e)
		if call.Err == nil || !rec.Sessions[0].Ended.IsZero() {
			return entries, nil
		}
		return append(entries, s.again(ctx, a)), nil
	}
}

// again makes the call once more.
func (s *script) again(ctx context.Context, a *arm) Entry {
	bound, cancel := s.bound(ctx)
	defer cancel()
	err := a.app.call(bound, confirmTool, confirmText)
	e := Entry{At: time.Now(), Kind: "call_answered", Tone: Good, Text: "calls the tool anew: the person is asked and confirms; done"}
	if err != nil {
		e.Kind, e.Tone, e.Text, e.Detail = "call_failed", Harm, "calls the tool anew: fails", err.Error()
	}
	return e
}

// whatComesBack tells of the n-th reconnect.
func whatComesBack(rec *Recording, session Session, get mcpserver.Request, n int) []Entry {
	entries := []Entry{{At: get.At, Kind: "reconnected", Quiet: n > 2,
		Text: fmt.Sprintf("reconnects with cursor %s and is answered %d", get.LastEventID, get.Status)}}
	entries = append(entries, slices.DeleteFunc(guarded(rec, session, get), func(e Entry) bool { return e.Kind == "released" })...)
	if e, ok := rec.guard(middleware.Stale, session.ID, get.At); ok {
		entries = append(entries, Entry{At: e.Time, Kind: "request_stale", Tone: Good,
			Text: "it finds the request stale: nobody waits for the answer", Detail: e.Err.Error()})
	} else if e, ok := rec.guard(middleware.DuplicateSuppressed, session.ID, get.At); ok {
		entries = append(entries, Entry{At: e.Time, Kind: "request_suppressed", Tone: Good,
			Text: "it keeps the request back: the person has answered it"})
	}
	prompts := rec.promptsFor(rec.asked(0))
	if i := slices.IndexFunc(prompts, func(p Prompt) bool { return !p.At.Before(get.At) }); i >= 0 {
		entries = append(entries, Entry{At: prompts[i].At, Kind: "prompted", Tone: Harm,
			Text: fmt.Sprintf("the person is prompted for the %s time, and confirms", ordinal(i+1))})
	}
	return entries
}

// look calls another tool, which shows whether the session lives, and looks what
// has become of the call.
func (s *script) look(ctx context.Context, a *arm, _ move) ([]Entry, error) {
	bound, cancel := s.bound(ctx)
	defer cancel()
	err := a.app.call(bound, otherTool, echoText)
	e := Entry{At: time.Now(), Kind: "call_answered", Text: "calls another tool: works, the session lives"}
	if err != nil {
		e.Kind, e.Text, e.Detail = "call_failed", "calls another tool: fails", err.Error()
	}
	entries := []Entry{e}
	if rec, _ := a.rec.recording(); rec.callOf(0).End.IsZero() {
		entries = append(entries, Entry{At: time.Now(), Kind: "call_open", Tone: Harm, Text: "the call is still open"})
	}
	return entries, nil
}

// bound ends a call that hangs. That a machine is slow is no reason to end one,
// however short the record's minutes are.
func (s *script) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(s.clock.real(s.record.patience), 10*time.Second))
}

func ordinal(n int) string {
	switch n {
	case 1:
		return "1st"
	case 2:
		return "2nd"
	case 3:
		return "3rd"
	}
	return fmt.Sprintf("%dth", n)
}
