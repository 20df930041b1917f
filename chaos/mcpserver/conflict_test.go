package mcpserver_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// get is the status of a GET that is to have no stream.
func (b *bed) get(session, cursor string) int {
	b.t.Helper()
	resp, _ := b.do("GET", session, cursor, "")
	return resp.StatusCode
}

func TestAttachedStreamIsRefusedToAnother(t *testing.T) {
	virtual(t, mcpserver.Config{Conflict: mcpserver.ConflictRefused}, func(t *testing.T, b *bed) {
		session, other := b.initialize(), b.initialize()
		stream := b.listen(session)
		b.emit(session, "one")
		cursor := stream.next().id
		for _, from := range []string{"", cursor} {
			if status := b.get(session, from); status != 409 {
				t.Errorf("GET from %q while the stream is attached: %d, want 409", from, status)
			}
		}
		if status := b.get(session, "nonsense"); status != 400 {
			t.Errorf("GET from an unknown cursor: %d, want 400", status)
		}
		b.listen(other)
		if status := b.ping(session); status != 200 {
			t.Errorf("ping: %d, want 200", status)
		}
		if status := b.reply(session, 99, yes); status != 400 {
			t.Errorf("an answer: %d, want 400 as nothing was asked", status)
		}
		b.emit(session, "two")
		if got, ended := stream.settled(); !slices.Equal(texts(t, got), []string{"two"}) || ended {
			t.Errorf("attached stream: %q, ended %v, want it undisturbed", texts(t, got), ended)
		}

		stream.cut()
		synctest.Wait()
		got, _ := b.open("GET", session, cursor, "").settled()
		if !slices.Equal(texts(t, got), []string{"two"}) {
			t.Errorf("replay after the cut: %q, want [two]", texts(t, got))
		}
		if status := b.get(session, ""); status != 409 {
			t.Errorf("GET while the resumed stream is attached: %d, want 409", status)
		}
		h := b.server.Oracle().History()
		if last := h.Requests[len(h.Requests)-1]; last.Status != 409 || !last.SessionAlive {
			t.Errorf("last request %+v, want 409 of a living session", last)
		}
	})
}

func TestCallsStreamIsAttachedForAsLongAsItsConnection(t *testing.T) {
	virtual(t, mcpserver.Config{Conflict: mcpserver.ConflictRefused}, func(t *testing.T, b *bed) {
		session := b.initialize()
		work := b.open("POST", session, "", toolCall(1, "work", `{"events":10,"interval_ms":1000,"detached":true}`))
		cursor := work.next().id
		if status := b.get(session, cursor); status != 409 {
			t.Errorf("GET from a cursor of a call in flight: %d, want 409", status)
		}
		alone := b.listen(session)

		// The tool goes on, its connection does not.
		work.cut()
		synctest.Wait()
		work = b.open("GET", session, cursor, "")
		if status := b.get(session, cursor); status != 409 {
			t.Errorf("GET while the resumed stream is attached: %d, want 409", status)
		}
		elapse(10 * time.Second)
		got, ended := work.settled()
		if len(texts(t, got)) != 9 || !ended {
			t.Errorf("resumed: %q, ended %v, want the other 9 and the end", texts(t, got), ended)
		}
		if again, ended := b.open("GET", session, got[0].id, "").settled(); len(again) != len(got)-1 || !ended {
			t.Errorf("replay when the call has ended: %d events, ended %v, want %d and the end", len(again), ended, len(got)-1)
		}
		if _, ended := alone.settled(); ended {
			t.Error("standalone stream has ended, want it open")
		}
	})
}

func TestAttachedStreamIsTakenOverByDefault(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		first := b.listen(session)
		second := b.listen(session)
		b.emit(session, "one")
		if _, ended := first.settled(); !ended {
			t.Error("first stream is open, want its end")
		}
		if got, _ := second.settled(); len(got) != 1 {
			t.Errorf("second stream: %+v, want the event", got)
		}
	})
}

// go-sdk's client takes a 409 for the end of the session.
func TestSDKClientIsNotDisturbedByARefusedRival(t *testing.T) {
	virtual(t, mcpserver.Config{Conflict: mcpserver.ConflictRefused, Retry: time.Second}, func(t *testing.T, b *bed) {
		c := connect(b, "2025-11-25")
		b.emit(c.ID(), "one")
		if status := b.get(c.ID(), ""); status != 409 {
			t.Errorf("a rival's GET: %d, want 409", status)
		}
		c.seen()
		c.cut()
		elapse(2 * time.Second)
		b.emit(c.ID(), "two")
		if got := c.seen(); len(got) != 2 {
			t.Errorf("stamps %v, want both: after a cut it may come back", got)
		}
	})
}
