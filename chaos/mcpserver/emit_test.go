package mcpserver_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

func TestEmitReachesTheStandaloneStreamWithItsStamp(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		stream := b.listen(session)
		var want []mcpserver.Stamp
		for i := range 3 {
			want = append(want, b.emit(session, fmt.Sprint(i)))
		}
		frames, _ := stream.settled()
		var got []mcpserver.Stamp
		for _, f := range frames {
			got = append(got, f.stamp(t))
		}
		if !slices.Equal(got, want) || want[0] != (mcpserver.Stamp{Session: session, Seq: 1}) {
			t.Errorf("stamps seen %v, want %v, from 1", got, want)
		}
	})
}

func TestEmitHasStoredTheEventWhenItReturns(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		b.listen(session)
		for i := range 50 {
			stamp := b.emit(session, "x")
			events := b.server.Oracle().History().Events
			if len(events) != i+1 || events[i].Stamp != stamp {
				t.Fatalf("after Emit %d: %d events, want it to be the last", i+1, len(events))
			}
		}
	})
}

func TestEmitSaysWhyItCannot(t *testing.T) {
	virtual(t, mcpserver.Config{SessionTTL: time.Minute}, func(t *testing.T, b *bed) {
		session := b.initialize()
		if _, err := b.server.Emit(session, "x"); !errors.Is(err, mcpserver.ErrNoStream) || !strings.Contains(err.Error(), session) {
			t.Errorf("Emit() before the first GET = %v, want ErrNoStream and the session", err)
		}
		if _, err := b.server.Emit("nobody", "x"); !errors.Is(err, mcpserver.ErrSessionGone) {
			t.Errorf("Emit() to an unknown session = %v, want ErrSessionGone", err)
		}
		stream := b.listen(session)
		b.emit(session, "x")
		time.Sleep(time.Minute)
		if _, err := b.server.Emit(session, "x"); !errors.Is(err, mcpserver.ErrSessionGone) {
			t.Errorf("Emit() to a dead session = %v, want ErrSessionGone", err)
		}
		if got, ended := stream.settled(); len(got) != 1 || ended {
			t.Errorf("stream: %d events, ended %v, want 1 and open", len(got), ended)
		}
		if err := b.stop(); err != nil {
			t.Errorf("Run() = %v, want nil", err)
		}
		if _, err := b.server.Emit(session, "x"); !errors.Is(err, mcpserver.ErrClosed) {
			t.Errorf("Emit() after the end = %v, want ErrClosed", err)
		}
	})
}

// mcp-go drops what finds its channel full.
func TestEmitFailsInTimeWhenTheClientDoesNotReadAndLosesNothing(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		resp, err := b.client.Do(b.request("GET", session, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := 0; ; i++ {
			if i == 1000 {
				t.Fatal("1000 events accepted that nobody reads")
			}
			text := fmt.Sprintf("%d %s", i, strings.Repeat("x", 500))
			began := time.Now()
			_, err := b.server.Emit(session, text)
			want = append(want, text)
			if err == nil {
				continue
			}
			if waited := time.Since(began); !errors.Is(err, mcpserver.ErrBacklog) || waited != 5*time.Second {
				t.Errorf("Emit() = %v after %v, want ErrBacklog after 5s", err, waited)
			}
			break
		}
		s := &stream{t: t, resp: resp, frames: make(chan frame, 1000)}
		go s.read()
		if got, _ := s.settled(); !slices.Equal(texts(t, got), want) {
			t.Errorf("%d events read, want all %d", len(got), len(want))
		}
	})
}

func TestDeleteEndsAnEmitThatWaits(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		resp, err := b.client.Do(b.request("GET", session, "", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var wg sync.WaitGroup
		began := time.Now()
		wg.Go(func() {
			for range 1000 {
				_, err := b.server.Emit(session, strings.Repeat("x", 500))
				if err == nil {
					continue
				}
				if waited := time.Since(began); !errors.Is(err, mcpserver.ErrSessionGone) || waited != time.Second {
					t.Errorf("Emit() = %v after %v, want ErrSessionGone after 1s", err, waited)
				}
				return
			}
			t.Error("1000 events accepted that nobody reads")
		})
		time.Sleep(time.Second)
		if resp, _ := b.do("DELETE", session, "", ""); resp.StatusCode != 200 {
			t.Errorf("DELETE: %s, want 200", resp.Status)
		}
		wg.Wait()
	})
}

// mcp-go has one channel for all of a session's notifications, and whoever is
// quickest takes from it.
func TestNothingStraysOntoAnotherStream(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		session := b.initialize()
		alone := b.listen(session)
		slow := b.open("POST", session, "", toolCall(1, "work", `{"events":20,"interval_ms":100}`))
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				if status := b.ping(session); status != 200 {
					t.Errorf("ping: %d, want 200", status)
				}
			})
		}
		var want []string
		for i := range 20 {
			text := fmt.Sprint("emitted ", i)
			b.emit(session, text)
			want = append(want, text)
			time.Sleep(50 * time.Millisecond)
		}
		quick, _ := b.open("POST", session, "", toolCall(2, "emit", `{"count":150}`)).settled()
		time.Sleep(2 * time.Second)
		wg.Wait()

		got, _ := alone.settled()
		if !slices.Equal(texts(t, got), want) {
			t.Errorf("standalone stream: %q, want %q", texts(t, got), want)
		}
		for _, call := range []struct {
			name   string
			frames []frame
			count  int
		}{{"emit", quick, 150}, {"work", first(slow.settled()), 20}} {
			var want []string
			for i := range call.count {
				want = append(want, fmt.Sprintf("%s %d of %d", call.name, i+1, call.count))
			}
			if !slices.Equal(texts(t, call.frames), want) || len(call.frames) != call.count+1 {
				t.Errorf("stream of %s: %d events, %q, want %d and the answer", call.name, len(call.frames), texts(t, call.frames), call.count)
			}
		}
	})
}

func first[T, U any](v T, _ U) T { return v }

func TestStampsAreUnique(t *testing.T) {
	virtual(t, mcpserver.Config{}, func(t *testing.T, b *bed) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := make(map[int]string)
		note := func(session string, frames []frame) {
			mu.Lock()
			defer mu.Unlock()
			for _, f := range frames {
				s := f.stamp(t)
				if s.Session != session {
					t.Errorf("stamp %+v on session %s, want its own", s, session)
				}
				if _, ok := seen[s.Seq]; ok {
					t.Errorf("stamp %d seen twice", s.Seq)
				}
				seen[s.Seq] = s.Session
			}
		}
		for range 4 {
			session := b.initialize()
			alone := b.listen(session)
			wg.Go(func() {
				for range 20 {
					b.emit(session, "x")
				}
				for range 20 {
					note(session, []frame{alone.next()})
				}
				call := b.open("POST", session, "", toolCall(1, "emit", `{"count":10}`))
				for f := range call.frames {
					note(session, []frame{f})
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if len(seen) != 4*(20+10+1) {
			t.Errorf("%d stamps seen, want %d", len(seen), 4*31)
		}
	})
}
