package mcpserver_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

func TestSessionDiesExactlyWhenItsTimeHasComeSinceTheLastRefresh(t *testing.T) {
	const ttl = 10 * time.Second
	for _, test := range []struct {
		refresh mcpserver.Refresh
		lives   time.Duration // with a POST at 4 s and a GET at 8 s
	}{
		{mcpserver.RefreshPOST, 4*time.Second + ttl},
		{mcpserver.RefreshAny, 8*time.Second + ttl},
		{mcpserver.RefreshNever, ttl},
	} {
		t.Run(test.refresh.String(), func(t *testing.T) {
			virtual(t, mcpserver.Config{SessionTTL: ttl, Refresh: test.refresh}, func(t *testing.T, b *bed) {
				began := time.Now()
				session := b.initialize()
				time.Sleep(4 * time.Second)
				if status := b.ping(session); status != 200 {
					t.Errorf("ping at 4 s: %d, want 200", status)
				}
				time.Sleep(4 * time.Second)
				stream := b.listen(session)

				due := began.Add(test.lives)
				time.Sleep(time.Until(due) - time.Nanosecond)
				if at, dead := b.server.Oracle().DiedAt(session); dead {
					t.Errorf("DiedAt() = %v, want that it lives until %v", at, due)
				}
				if n := len(b.records(mcpserver.SessionDied)); n != 0 {
					t.Errorf("%d deaths observed before %v, want 0", n, due)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				died := b.records(mcpserver.SessionDied)
				if len(died) != 1 || !died[0].At.Equal(due) || died[0].Session.ID != session || died[0].Session.Why != mcpserver.WhyExpired {
					t.Errorf("deaths observed by %v: %+v, want that of %s, expired", due, died, session)
				}
				if status := b.ping(session); status != 404 {
					t.Errorf("ping at %v: %d, want 404", test.lives, status)
				}
				if at, dead := b.server.Oracle().DiedAt(session); !dead || !at.Equal(due) {
					t.Errorf("DiedAt() = %v, %v, want %v", at, dead, due)
				}
				if _, ended := stream.settled(); ended {
					t.Error("the open stream ended with its session, want it open")
				}
			})
		})
	}
}

func TestSessionsDieInTheOrderOfTheirRefreshes(t *testing.T) {
	virtual(t, mcpserver.Config{SessionTTL: 10 * time.Second}, func(t *testing.T, b *bed) {
		first, second := b.initialize(), b.initialize()
		time.Sleep(4 * time.Second)
		b.ping(first)
		for _, want := range []struct {
			session string
			after   time.Duration
		}{{second, 6 * time.Second}, {first, 4 * time.Second}} {
			before := len(b.records(mcpserver.SessionDied))
			time.Sleep(want.after)
			synctest.Wait()
			if died := b.records(mcpserver.SessionDied)[before:]; len(died) != 1 || died[0].Session.ID != want.session {
				t.Errorf("deaths observed: %+v, want that of %s", died, want.session)
			}
		}
	})
}

func TestRequestAtTheInstantOfDeathComesTooLate(t *testing.T) {
	virtual(t, mcpserver.Config{SessionTTL: time.Second}, func(t *testing.T, b *bed) {
		session := b.initialize()
		time.Sleep(time.Second - time.Nanosecond)
		if status := b.ping(session); status != 200 {
			t.Errorf("ping a nanosecond before the end: %d, want 200", status)
		}
		time.Sleep(time.Second)
		if status := b.ping(session); status != 404 {
			t.Errorf("ping at the end: %d, want 404", status)
		}
	})
}

func TestSessionWithoutTTLLives(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		time.Sleep(1000 * time.Hour)
		if status := b.ping(session); status != 200 {
			t.Errorf("ping: %d, want 200", status)
		}
	})
}

func TestReapDeletesTheRecordAndNothingElse(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		stream := b.listen(session)
		b.emit(session, "one")
		b.emit(session, "two")
		time.Sleep(time.Minute)
		if !b.server.Reap(session) {
			t.Error("Reap() = false, want true")
		}
		if b.server.Reap(session) {
			t.Error("Reap() of a dead session = true, want false")
		}
		if b.server.Reap("nobody") {
			t.Error("Reap() of an unknown session = true, want false")
		}
		if status := b.ping(session); status != 404 {
			t.Errorf("ping: %d, want 404", status)
		}
		frames, ended := stream.settled()
		if len(frames) != 2 || ended {
			t.Fatalf("stream: %d events, ended %v, want 2 and open", len(frames), ended)
		}
		replay, _ := b.open("GET", session, frames[0].id, "").settled()
		if got := texts(t, replay); len(got) != 1 || got[0] != "two" {
			t.Errorf("replay: %q, want [two]", got)
		}
		died := b.records(mcpserver.SessionDied)
		if len(died) != 1 || died[0].Session.Why != mcpserver.WhyReaped || !died[0].At.Equal(time.Now()) {
			t.Errorf("deaths observed: %+v, want one, reaped, now", died)
		}
	})
}

func TestDeletePurgesTheLogAndEndsTheStreams(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session, other := b.initialize(), b.initialize()
		stream, kept := b.listen(session), b.listen(other)
		b.emit(session, "one")
		b.emit(session, "two")
		b.emit(other, "one")
		work := b.open("POST", session, "", toolCall(1, "work", `{"events":100,"interval_ms":1000,"detached":true}`))
		time.Sleep(1500 * time.Millisecond) // The answer began with its first event.
		frames, _ := stream.settled()
		worked, _ := work.settled()
		if len(frames) != 2 || len(worked) != 2 {
			t.Fatalf("streams: %d and %d events, want 2 and 2", len(frames), len(worked))
		}
		stored := len(b.records(mcpserver.EventStored))

		if resp, _ := b.do("DELETE", session, "", ""); resp.StatusCode != 200 {
			t.Errorf("DELETE: %s, want 200", resp.Status)
		}
		time.Sleep(time.Minute)
		if _, ended := stream.settled(); !ended || stream.err != nil {
			t.Errorf("standalone stream ended %v (%v), want a clean end", ended, stream.err)
		}
		if got, ended := work.settled(); !ended || len(got) != 0 {
			t.Errorf("stream of work: %d events, ended %v, want none and its end", len(got), ended)
		}
		if n := len(b.records(mcpserver.EventStored)); n != stored {
			t.Errorf("%d events stored after DELETE, want 0", n-stored)
		}
		for _, cursor := range []string{frames[0].id, worked[0].id} {
			if resp, _ := b.do("GET", session, cursor, ""); resp.StatusCode != 400 {
				t.Errorf("GET from cursor %s: %s, want 400", cursor, resp.Status)
			}
		}
		if status := b.ping(session); status != 404 {
			t.Errorf("ping: %d, want 404", status)
		}
		if _, err := b.server.Emit(session, "x"); !errors.Is(err, mcpserver.ErrSessionGone) {
			t.Errorf("Emit() = %v, want ErrSessionGone", err)
		}
		died := b.records(mcpserver.SessionDied)
		if len(died) != 1 || died[0].Session.ID != session || died[0].Session.Why != mcpserver.WhyDeleted {
			t.Errorf("deaths observed: %+v, want that of %s, deleted", died, session)
		}
		if got, ended := kept.settled(); len(got) != 1 || ended || b.ping(other) != 200 {
			t.Errorf("the other session's stream: %d events, ended %v, want it untouched", len(got), ended)
		}
		if n := pumps(); n != 1 {
			t.Errorf("mcp-go keeps %d sessions, want the other's", n)
		}
	})
}

// What mcp-go holds for a session is discarded when nothing can come of it any
// more, and not before.
func TestStateOfADeadSessionIsDiscardedAfterItsLastEventAndRequest(t *testing.T) {
	cfg := mcpserver.Config{SessionTTL: time.Minute, LogRetention: time.Hour}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		stream := b.listen(session)
		b.emit(session, "one")
		work := b.open("POST", session, "", toolCall(1, "emit", `{"count":1}`))
		if _, ended := work.settled(); !ended {
			t.Error("stream of emit is open, want its end")
		}

		expect := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			if n := pumps(); n != want {
				t.Errorf("%s: mcp-go keeps %d sessions, want %d", when, n, want)
			}
		}
		time.Sleep(2 * time.Minute)
		expect(1, "dead, with events and an open stream")
		if _, body := b.do("POST", session, "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`); body != "Session terminated\n" {
			t.Errorf("ping: %q, want mcp-go's word for a session that it knows of", body)
		}
		stream.cut()
		expect(1, "dead, with events")
		time.Sleep(time.Hour)
		expect(0, "dead, without events")
		if _, body := b.do("POST", session, "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`); body != "Invalid session ID\n" {
			t.Errorf("ping: %q, want mcp-go's word for one that it never heard of", body)
		}

		// Such a GET makes mcp-go keep a session that was never in the store.
		stream = b.listen("nobody")
		expect(1, "unknown, with an open stream")
		stream.cut()
		expect(0, "unknown")

		session = b.initialize()
		stream = b.listen(session)
		time.Sleep(2 * time.Minute)
		expect(1, "dead, with an open stream")
		if _, ended := stream.settled(); ended {
			t.Error("open stream of a dead session ended, want it open")
		}
		stream.cut()
		expect(0, "dead, without anything")

		session = b.initialize()
		stream = b.listen(session)
		stream.cut()
		expect(1, "alive, without anything")
		time.Sleep(time.Minute)
		expect(0, "dead of age, without anything")

		session = b.initialize()
		stream = b.listen(session)
		stream.cut()
		expect(1, "alive, without anything")
		if !b.server.Reap(session) {
			t.Error("Reap() = false, want true")
		}
		expect(0, "reaped, without anything")
	})
}

func TestStateIsDiscardedOnTimeAlsoWhenNothingElseHappens(t *testing.T) {
	cfg := mcpserver.Config{LogRetention: time.Hour, SessionTTL: 24 * time.Hour}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		b.initialize() // its death is due later
		stream := b.listen(session)
		time.Sleep(time.Minute)
		b.emit(session, "one")
		stream.cut()
		b.server.Reap(session)
		time.Sleep(time.Hour - time.Nanosecond)
		synctest.Wait()
		if n := pumps(); n != 1 {
			t.Errorf("before the log has forgotten, mcp-go keeps %d sessions, want 1", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := pumps(); n != 0 {
			t.Errorf("when the log has forgotten, mcp-go keeps %d sessions, want 0", n)
		}
	})
}
