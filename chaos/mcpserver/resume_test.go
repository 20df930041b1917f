package mcpserver_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// The defect: the log answers for a session that the store no longer has. The
// times are the field's.
func TestReplaySucceedsAndPingFailsAfterTheSessionsDeath(t *testing.T) {
	cfg := mcpserver.Config{SessionTTL: 30 * time.Minute, LogRetention: 60 * time.Minute}
	virtual(t, cfg, func(t *testing.T, b *bed) {
		session := b.initialize()
		stream := b.listen(session)
		time.Sleep(5 * time.Minute)
		for _, text := range []string{"4471", "4472", "4473"} {
			b.emit(session, text)
		}
		frames, _ := stream.settled()
		if len(frames) != 3 {
			t.Fatalf("%d events, want 3", len(frames))
		}
		cursor := frames[0].id
		stream.cut()

		replay := func(when string) {
			t.Helper()
			resumed := b.open("GET", session, cursor, "")
			got, _ := resumed.settled()
			if want := []string{"4472", "4473"}; !slices.Equal(texts(t, got), want) {
				t.Errorf("replay %s: %q, want %q", when, texts(t, got), want)
			}
			resumed.cut()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		replay("at 6 min, alive")
		time.Sleep(27 * time.Minute)
		replay("at 33 min, dead")
		if status := b.ping(session); status != 404 {
			t.Errorf("ping at 33 min: %d, want 404", status)
		}
		resp, body := b.do("POST", session, "", toolCall(1, "echo", `{"text":"x"}`))
		if resp.StatusCode != 404 {
			t.Errorf("tools/call at 33 min: %s %q, want 404", resp.Status, body)
		}

		time.Sleep(32*time.Minute - time.Nanosecond)
		replay("a nanosecond before the log forgets")
		time.Sleep(time.Nanosecond)
		if resp, body := b.do("GET", session, cursor, ""); resp.StatusCode != 400 {
			t.Errorf("GET when the log has forgotten: %s %q, want 400", resp.Status, body)
		}

		for _, r := range b.server.Oracle().History().Requests {
			if r.LastEventID == "" {
				continue
			}
			age := r.At.Sub(frames0At(b))
			wantAlive, wantStatus := age < 25*time.Minute, 200
			if age >= 60*time.Minute {
				wantStatus = 400
			}
			if r.SessionAlive != wantAlive || r.Status != wantStatus {
				t.Errorf("request %d, %v after the events: alive %v, status %d, want %v and %d", r.N, age, r.SessionAlive, r.Status, wantAlive, wantStatus)
			}
		}
	})
}

// frames0At is when the first event was stored.
func frames0At(b *bed) time.Time { return b.server.Oracle().History().Events[0].At }

func TestEventsEmittedWhileDisconnectedAreReplayedInOrderOnce(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		stream := b.listen(session)
		b.emit(session, "seen")
		cursor := stream.next().id
		stream.cut()
		synctest.Wait()

		var want []string
		for i := range 150 { // more than mcp-go's channel holds
			text := fmt.Sprint(i)
			want = append(want, text)
			b.emit(session, text)
		}
		stream = b.open("GET", session, cursor, "")
		got, ended := stream.settled()
		if !slices.Equal(texts(t, got), want) || ended {
			t.Errorf("replay: %q, ended %v, want %q and open", texts(t, got), ended, want)
		}
		b.emit(session, "live")
		got, _ = stream.settled()
		if len(got) != 1 || texts(t, got)[0] != "live" {
			t.Fatalf("after the replay: %q, want [live]", texts(t, got))
		}
		stream.cut()

		got, _ = b.open("GET", session, got[0].id, "").settled()
		if len(got) != 0 {
			t.Errorf("replay after the last event: %q, want none", texts(t, got))
		}
	})
}

func TestReplayStaysOnTheStreamOfItsCursor(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session, other := b.initialize(), b.initialize()
		stream := b.listen(session)
		b.emit(session, "a1")
		call, _ := b.open("POST", session, "", toolCall(1, "emit", `{"count":3}`)).settled()
		b.emit(session, "a2")
		alone, _ := stream.settled()

		got, ended := b.open("GET", session, alone[0].id, "").settled()
		if want := []string{"a2"}; !slices.Equal(texts(t, got), want) || ended {
			t.Errorf("standalone stream from a1: %q, ended %v, want %q and open", texts(t, got), ended, want)
		}
		got, ended = b.open("GET", session, call[1].id, "").settled()
		if want := []string{"emit 3 of 3"}; !slices.Equal(texts(t, got), want) || len(got) != 2 || !ended {
			t.Errorf("call's stream from 2 of 3: %d events, %q, ended %v, want %q, the answer, and the end", len(got), texts(t, got), ended, want)
		}
		for _, cursor := range []string{"0", "999999", "0" + alone[0].id, "x"} {
			if resp, _ := b.do("GET", session, cursor, ""); resp.StatusCode != 400 {
				t.Errorf("GET from cursor %q: %s, want 400", cursor, resp.Status)
			}
		}
		if resp, _ := b.do("GET", other, alone[0].id, ""); resp.StatusCode != 400 {
			t.Errorf("GET from another session's cursor: %s, want 400", resp.Status)
		}
	})
}

func TestLogKeepsTheLatestEventsOfEachSession(t *testing.T) {
	virtual(t, mcpserver.Config{MaxEvents: 3}, func(t *testing.T, b *bed) {
		session, other := b.initialize(), b.initialize()
		stream, quiet := b.listen(session), b.listen(other)
		b.emit(other, "quiet")
		for i := range 5 {
			b.emit(session, fmt.Sprint(i))
		}
		got, _ := stream.settled()
		if resp, _ := b.do("GET", session, got[1].id, ""); resp.StatusCode != 400 {
			t.Errorf("GET from the fourth last event: %s, want 400", resp.Status)
		}
		replay, _ := b.open("GET", session, got[2].id, "").settled()
		if want := []string{"3", "4"}; !slices.Equal(texts(t, replay), want) {
			t.Errorf("replay: %q, want %q", texts(t, replay), want)
		}
		b.open("GET", other, quiet.next().id, "")
	})
}

func TestRetryHintComesFirstOnEveryStream(t *testing.T) {
	virtual(t, mcpserver.Config{Retry: 1500 * time.Millisecond}, func(t *testing.T, b *bed) {
		session := b.initialize()
		hint := frame{retry: "1500"}
		stream := b.listen(session)
		if got, _ := stream.settled(); len(got) != 1 || got[0] != hint {
			t.Errorf("GET: %+v, want only the hint", got)
		}
		b.emit(session, "one")
		cursor := stream.next().id
		if got := b.open("GET", session, cursor, "").next(); got != hint {
			t.Errorf("resumed GET: %+v, want the hint first", got)
		}
		call := b.open("POST", session, "", toolCall(1, "emit", `{"count":1}`))
		if got, _ := call.settled(); len(got) != 3 || got[0] != hint || got[1].retry != "" {
			t.Errorf("POST: %+v, want the hint, one event, the answer", got)
		}
		resp, body := b.do("POST", session, "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if resp.Header.Get("Content-Type") != "application/json" || body != `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n" {
			t.Errorf("ping: %q, want plain JSON", body)
		}
	})
}

func TestNoRetryHintByDefault(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		stream := b.listen(session)
		b.emit(session, "one")
		if got, _ := stream.settled(); len(got) != 1 || got[0].retry != "" {
			t.Errorf("GET: %+v, want the event alone", got)
		}
	})
}
