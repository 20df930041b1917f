package middleware_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

func TestSessionErrOfASessionThatIsNotFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.post = alive
		for _, id := range []string{"", "never seen", sid} {
			// A nil *SessionResumptionError in an error would not be nil.
			if err := w.transport.SessionErr(id); err != nil {
				t.Errorf("SessionErr(%q) = %#v, want nil", id, err)
			}
		}
		w.mustCall("tools/list", 200)
		if err := w.transport.SessionErr(sid); err != nil {
			t.Errorf("SessionErr(%q) = %v, want nil", sid, err)
		}
	})
}

// SessionErr remembers what the one reconnect that found out had held.
func TestSessionErrTellsTheWholeStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = openSSE("id: 41\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"e-1\",\"method\":\"elicitation/create\"}\n\n", replayed), gone
		resp, err := w.reconnect("40")
		problem(t, resp, err)
		e := deadErr(t, w.transport.SessionErr(sid))
		if e.Phase != middleware.PhaseProbe || e.StatusCode != 404 || e.LastEventID != "40" || e.QuarantinedEvents != 3 || len(e.Quarantined) != 3 {
			t.Fatalf("SessionErr(%q) = %#v, want 3 events quarantined after 40 by the probe's 404", sid, e)
		}
		if q := e.Quarantined[0]; q.EventID != "41" || q.Method != "elicitation/create" || q.RequestID != `"e-1"` || q.Bytes == 0 {
			t.Errorf("Quarantined[0] = %+v, want the elicitation e-1 of event 41", q)
		}
	})
}

func TestErrorFromAnswersOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.post = status(404, "application/problem+json", `{"type":"urn:revenant:session-dead","status":404}`)
		req := w.message(t.Context(), "tools/list")
		req.Header.Del("Mcp-Session-Id")
		foreign, err := w.transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer foreign.Body.Close()
		for name, resp := range map[string]*http.Response{
			"nil":               nil,
			"zero":              {},
			"without a request": {StatusCode: 404},
			"a server's":        foreign,
			"a bare request's":  {StatusCode: 404, Request: req},
		} {
			if err := middleware.ErrorFrom(resp); err != nil {
				t.Errorf("ErrorFrom(%s) = %#v, want nil", name, err)
			}
		}
	})
}

// http.Client stands above the RoundTripper and wraps the body where it has a
// Timeout.
func TestErrorFromThroughAClient(t *testing.T) {
	for name, client := range map[string]http.Client{
		"plain":                {},
		"with a timeout":       {Timeout: time.Minute},
		"that never redirects": {CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				client.Transport = w.transport
				w.post, w.get = gone, gone
				for i, method := range []string{"POST", "GET", "POST"} {
					resp, err := client.Do(w.request(t.Context(), method, "", `{"jsonrpc":"2.0","id":1,"method":"x"}`))
					if err != nil {
						t.Fatal(err)
					}
					want := middleware.PhaseFence
					if i == 0 {
						want = middleware.PhaseRequest
					}
					if e := deadErr(t, middleware.ErrorFrom(resp)); e.Phase != want {
						t.Errorf("%s: phase %q, want %q", method, e.Phase, want)
					}
					problem(t, resp, nil)
					if e := deadErr(t, middleware.ErrorFrom(resp)); e.Phase != want {
						t.Errorf("after Close: phase %q, want %q", e.Phase, want)
					}
				}
				w.client.Transport = nil
			})
		})
	}
}

// A RoundTripper between the client and the middleware does not hide it.
func TestErrorFromThroughARoundTripper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.kill()
		between := baseFunc(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			req.Header.Set("Authorization", "Bearer b-8")
			resp, err := w.transport.RoundTrip(req)
			if err != nil {
				return nil, err
			}
			again := *resp
			again.Body = io.NopCloser(io.LimitReader(resp.Body, 8))
			return &again, nil
		})
		resp, err := (&http.Client{Transport: between}).Do(w.request(t.Context(), "GET", "7", ""))
		if err != nil {
			t.Fatal(err)
		}
		deadErr(t, middleware.ErrorFrom(resp))
		resp.Body.Close()
	})
}

func TestSessionsIsASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		if got := w.transport.Sessions(); got == nil || len(got) != 0 {
			t.Errorf("Sessions() = %#v, want an empty list", got)
		}
		w.initialize()
		began := time.Now()
		time.Sleep(time.Minute)
		w.post = alive
		f := newFeed()
		w.get = f.ServeHTTP
		stream := follow(w.open(), 64)
		f.pieces <- "id: g-5\ndata: {}\n\n"
		synctest.Wait()
		w.url = "http://mcp.test/a?x=1"
		w.under("zz")
		w.url = "http://mcp.test/mcp"
		got := w.transport.Sessions()
		if len(got) != 2 {
			t.Fatalf("Sessions() = %+v, want 2", got)
		}
		if want := (middleware.SessionInfo{SessionID: "zz", Endpoint: "http://mcp.test/a"}); got[0] != want {
			t.Errorf("Sessions()[0] = %+v, want %+v", got[0], want)
		}
		if g := got[1]; g.SessionID != sid || g.Endpoint != "http://mcp.test/mcp" || !g.LastAlive.Equal(began) || g.InFlight != 1 {
			t.Errorf("Sessions()[1] = %+v, want %q, alive at %v, with one in flight", g, sid, began)
		}
		close(f.pieces)
		<-stream.done
		stream.body.Close()
		if g := w.transport.Sessions()[1]; g.InFlight != 0 || g.Cursor != "g-5" {
			t.Errorf("Sessions()[1] = %+v, want nothing in flight and the cursor g-5", g)
		}
		// One reconnect without a verdict.
		w.get, w.post = sseAnswer(), status(400, "", "")
		resp, err := w.reconnect("g-5")
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		if g := w.transport.Sessions()[1]; g.AmbiguousRounds != 1 || g.InFlight != 0 {
			t.Errorf("Sessions()[1] = %+v, want one round without a verdict", g)
		}
	})
}

func TestStatsCountWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		want := middleware.Stats{}
		check := func(what string) {
			t.Helper()
			if got := w.transport.Stats(); got != want {
				t.Errorf("after %s: Stats() = %+v, want %+v", what, got, want)
			}
		}
		check("nothing")
		w.get, w.post = sseAnswer(replayed), after(moment, alive)
		resp, err := w.reconnect("7")
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		want.Sessions, want.Reconnects, want.Probes, want.Live, want.ReleasedEvents = 1, 1, 1, 1, 2
		check("a live reconnect")

		time.Sleep(time.Minute)
		w.get = sseAnswer()
		if resp, err = w.reconnect("9"); err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		want.Reconnects, want.Probes, want.Live, want.EmptyReplays = 2, 2, 2, 1
		check("an empty replay")

		time.Sleep(time.Minute)
		w.get, w.post = sseAnswer(replayed), status(401, "", "")
		if resp, err = w.reconnect("9"); err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		want.Reconnects, want.Probes, want.Ambiguous, want.Quarantined = 3, 3, 1, 2
		check("an undecided one")

		if resp, err = w.reconnect(""); err != nil { // the cursor is put back
			t.Fatal(err)
		}
		read(t, resp)
		want.Reconnects, want.Probes, want.Ambiguous, want.Quarantined, want.CursorsRestored = 4, 4, 2, 4, 1
		check("one that had lost its cursor")

		w.post = gone
		resp, err = w.reconnect("9")
		problem(t, resp, err)
		want.Reconnects, want.Probes, want.Dead, want.Quarantined = 5, 5, 1, 6
		check("a death")

		resp, err = w.reconnect("9")
		problem(t, resp, err)
		want.Fenced = 1
		check("a fence")
	})
}

// The hook is called under no lock: whatever it asks of the Transport, it gets
// an answer.
func TestTheHookMayCallEveryMethod(t *testing.T) {
	for name, last := range map[string]http.HandlerFunc{"dead": gone, "unusable": status(400, "", "")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { hookMayCallEveryMethod(t, last) })
		})
	}
}

// hookMayCallEveryMethod ends the session with what last answers its probes.
func hookMayCallEveryMethod(t *testing.T, last http.HandlerFunc) {
	var w *world
	var mu sync.Mutex
	told := make(map[middleware.Kind]int)
	inside := 0 // RoundTrips from within the hook
	cfg := middleware.Config{LivenessLease: time.Minute, AmbiguousRounds: 2}
	cfg.Observe = func(e middleware.Event) {
		mu.Lock()
		told[e.Kind]++
		nested := inside > 0
		inside++
		mu.Unlock()
		defer func() {
			mu.Lock()
			inside--
			mu.Unlock()
		}()
		_ = w.transport.Stats()
		_ = w.transport.Sessions()
		_ = w.transport.SessionErr(e.SessionID)
		w.transport.CloseIdleConnections()
		if nested {
			return
		}
		for _, id := range []string{e.SessionID, "another"} {
			req := w.message(t.Context(), "from/hook")
			req.Header.Set("Mcp-Session-Id", id)
			resp, err := w.transport.RoundTrip(req)
			if err != nil {
				t.Errorf("RoundTrip of %q inside %v = %v", id, e.Kind, err)
				continue
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	w = newWorld(t, cfg)
	defer w.close()
	pings := alive
	w.post = func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if strings.Contains(string(body), "ping") {
			pings(rw, r)
			return
		}
		rw.WriteHeader(202) // which proves nothing, or it would end the rounds
	}
	do := func(cursor string) {
		resp, err := w.reconnect(cursor)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	w.get = sseAnswer(replayed)
	do("7") // released
	do("")  // its cursor restored
	time.Sleep(time.Second)
	f := newFeed()
	w.get = f.ServeHTTP
	stream := follow(w.open(), 64)
	time.Sleep(2 * time.Minute)
	f.pieces <- "data: after the lease\n\n" // held and released by the lease
	synctest.Wait()
	stream.body.Close()
	<-stream.done
	w.get = sseAnswer(replayed)
	pings = last
	do("9") // quarantined
	do("9") // and given up, if it was not dead
	do("9") // fenced
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	for kind := middleware.Held; kind <= middleware.CursorRestored; kind++ {
		if told[kind] == 0 {
			t.Errorf("%q was never observed", kind)
		}
	}
}

func TestCloseIdleConnectionsReachesTheBase(t *testing.T) {
	base := &idler{}
	transport, err := middleware.New(middleware.Config{Base: base})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	client.CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("Base.CloseIdleConnections was called %d times, want once", base.closed)
	}
	if transport, err = middleware.New(middleware.Config{Base: baseFunc(nil)}); err != nil {
		t.Fatal(err)
	}
	transport.CloseIdleConnections() // of a Base that has none: nothing happens
}

type idler struct{ closed int }

func (*idler) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.EOF }
func (b *idler) CloseIdleConnections()                         { b.closed++ }
