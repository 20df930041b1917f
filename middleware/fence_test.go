package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// The ways in which servers and what stands before them say 404. C08, C10, C17.
var refusals = []struct{ name, contentType, body string }{
	{"a JSON-RPC error with an id", "application/json", `{"jsonrpc":"2.0","id":41,"error":{"code":-32002,"message":"Session expired"}}`},
	{"a JSON-RPC error without one", "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"unknown session"}}`},
	{"text", "text/plain; charset=utf-8", "no such session"},
	{"a proxy's page", "text/html", "<html><h1>404</h1></html>"},
	{"an event stream", "text/event-stream", "event: message\ndata: {\"error\":\"gone\"}\n\n"},
	{"nothing", "", ""},
}

// C08, C10, C11, C17: the status alone decides, and what the client sees is
// one and the same.
func TestARequestAnsweredGoneEndsTheSession(t *testing.T) {
	for _, method := range []string{"POST", "DELETE"} {
		for _, code := range []int{404, 410} {
			for _, refusal := range refusals {
				t.Run(fmt.Sprintf("%s/%d/%s", method, code, refusal.name), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t, middleware.Config{})
						defer w.close()
						w.post = status(code, refusal.contentType, refusal.body)
						w.del = w.post
						resp, err := w.transport.RoundTrip(w.request(t.Context(), method, "", `{"jsonrpc":"2.0","id":41,"method":"tools/list"}`))
						e := problem(t, resp, err)
						deadErr(t, e)
						if e.Phase != middleware.PhaseRequest || e.Verdict != middleware.Dead || e.StatusCode != code ||
							e.SessionID != sid || e.LastEventID != "" || e.QuarantinedEvents != 0 || e.OutcomeUnknown {
							t.Errorf("error is %#v", e)
						}
						if refusal.contentType != "" && e.ContentType != refusal.contentType {
							t.Errorf("ContentType = %q, want the server's %q", e.ContentType, refusal.contentType)
						}
						if fence := typed(t, w.transport.SessionErr(sid)); fence.Phase != middleware.PhaseRequest || fence.StatusCode != code {
							t.Errorf("SessionErr(%q) = %v, want that of the request", sid, fence)
						}
						dead := w.all(middleware.SessionDead)
						if len(dead) != 1 || dead[0].SessionID != sid || dead[0].Verdict != middleware.Dead || dead[0].StatusCode != code ||
							!errors.Is(dead[0].Err, middleware.ErrSessionDead) {
							t.Errorf("session dead was observed as %+v, want once, of %q by %d", dead, sid, code)
						}
						if got, want := w.observed(), []string{"session dead"}; len(got) != 1 {
							t.Errorf("observed %q, want %q", got, want)
						}
						if stats := w.transport.Stats(); stats.Dead != 1 || stats.Fenced != 0 || stats.Probes != 0 || stats.Ambiguous != 0 {
							t.Errorf("Stats() = %+v, want one dead and nothing else", stats)
						}
					})
				})
			}
		}
	}
}

// C08, C83: whatever the method is, and whether or not there is a cursor.
func TestAFencedSessionReachesTheWireByNoMethod(t *testing.T) {
	for _, method := range []string{"GET", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "QUERY"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.kill()
				for _, cursor := range []string{"", "c-31"} {
					for _, text := range []string{"", `{"jsonrpc":"2.0","id":41,"method":"tools/list"}`, "not JSON", `[{"jsonrpc":"2.0","id":1,"method":"initialize"}]`} {
						req := w.request(t.Context(), method, cursor, "")
						body := &requestBody{Reader: strings.NewReader(text)}
						req.Body = body
						resp, err := w.transport.RoundTrip(req)
						e := problem(t, resp, err)
						deadErr(t, e)
						if e.Phase != middleware.PhaseFence || e.LastEventID != cursor || e.SessionID != sid || e.StatusCode != 404 || e.OutcomeUnknown {
							t.Errorf("error is %#v, want phase fence and cursor %q", e, cursor)
						}
						if !body.closed() {
							t.Errorf("%s %q: the request's body was not closed", method, text)
						}
					}
				}
				if got := w.requests(); len(got) != 1 {
					t.Errorf("on the wire: %q, want only the first", got)
				}
				fenced := w.all(middleware.Fenced)
				if len(fenced) != 8 {
					t.Fatalf("fenced was observed %d times, want 8", len(fenced))
				}
				for _, e := range fenced {
					if e.Method != method || e.SessionID != sid || e.Err == nil {
						t.Errorf("observed %+v, want method %q and an error", e, method)
					}
				}
			})
		})
	}
}

// C83, C84: a client that comes back every second for a quarter of an hour.
func TestAThousandRetriesCostTheWireNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.kill()
		for i := range 1000 {
			req := w.request(t.Context(), "GET", "", "")
			var body *requestBody
			if i%2 == 0 {
				req = w.message(t.Context(), "tools/call")
				body = &requestBody{Reader: req.Body}
				req.Body = body
			}
			resp, err := w.transport.RoundTrip(req)
			if err != nil || resp.StatusCode != 404 {
				t.Fatalf("RoundTrip = %v, %v, want 404", resp, err)
			}
			read(t, resp)
			if body != nil && !body.closed() {
				t.Fatalf("retry %d: the request's body was not closed", i)
			}
			time.Sleep(time.Second)
		}
		if got := w.requests(); len(got) != 1 {
			t.Errorf("%d requests on the wire, want 1", len(got))
		}
		if stats := w.transport.Stats(); stats.Fenced != 1000 || stats.Dead != 1 || stats.Sessions != 1 {
			t.Errorf("Stats() = %+v, want 1000 fenced, one dead, one session", stats)
		}
		if n := w.kinds(middleware.SessionDead); n != 1 {
			t.Errorf("session dead was observed %d times, want once", n)
		}
	})
}

// With TerminalError a client gets the error itself, and the same promises.
func TestTerminalErrorReturnsTheTypedError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{Terminal: middleware.TerminalError})
		defer w.close()
		w.post = gone
		resp, err := w.call("tools/list")
		if e := deadErr(t, err); resp != nil || e.Phase != middleware.PhaseRequest || e.StatusCode != 404 {
			t.Errorf("RoundTrip = %v, %v, want no response and phase request", resp, err)
		}
		req := w.request(t.Context(), "DELETE", "", "")
		body := &requestBody{Reader: strings.NewReader("x")}
		req.Body = body
		resp, err = w.transport.RoundTrip(req)
		if e := deadErr(t, err); resp != nil || e.Phase != middleware.PhaseFence || !body.closed() {
			t.Errorf("RoundTrip = %v, %v, want no response, phase fence and the body closed", resp, err)
		}
		if got := w.requests(); len(got) != 1 {
			t.Errorf("on the wire: %q, want only the first", got)
		}
	})
}

// A server that announces a long 404 and stalls has said all that counts.
func TestAGoneAnswerThatStallsStillEndsTheSession(t *testing.T) {
	for _, method := range []string{"POST", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.post = func(rw http.ResponseWriter, r *http.Request) {
					rw.Header().Set("Content-Length", "64")
					rw.WriteHeader(404)
					_ = http.NewResponseController(rw).Flush()
					<-r.Context().Done()
				}
				w.del = w.post
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				start := time.Now()
				resp, err := w.transport.RoundTrip(w.request(ctx, method, "", ""))
				if took := time.Since(start); took > middleware.DefaultProbeBudget {
					t.Errorf("RoundTrip took %v, want no longer than %v", took, middleware.DefaultProbeBudget)
				}
				problem(t, resp, err)
			})
		})
	}
}

// DELETE answered 2xx is the client's own doing: a fence, and no alarm.
func TestDeleteAcceptedFencesQuietly(t *testing.T) {
	for _, code := range []int{200, 202, 204} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.del = func(rw http.ResponseWriter, _ *http.Request) {
					rw.Header().Set("X-Server", "own words")
					rw.WriteHeader(code)
				}
				resp, err := w.transport.RoundTrip(w.request(t.Context(), "DELETE", "", ""))
				if err != nil || resp.StatusCode != code || resp.Header.Get("X-Server") != "own words" {
					t.Fatalf("RoundTrip = %v, %v, want the server's %d", resp, err, code)
				}
				if err := middleware.ErrorFrom(resp); err != nil {
					t.Errorf("ErrorFrom = %v, want nil", err)
				}
				read(t, resp)
				if got := w.observed(); len(got) != 0 {
					t.Errorf("observed %q, want nothing", got)
				}
				if stats := w.transport.Stats(); stats.Dead != 0 {
					t.Errorf("Stats().Dead = %d, want 0", stats.Dead)
				}
				if got := w.transport.Sessions(); len(got) != 0 {
					t.Errorf("Sessions() = %+v, want it forgotten", got)
				}
				deadErr(t, w.transport.SessionErr(sid))
				resp, err = w.call("tools/list")
				if e := problem(t, resp, err); e.Phase != middleware.PhaseFence {
					t.Errorf("phase %q, want fence", e.Phase)
				}
				if got, want := w.requests(), []string{"DELETE"}; len(got) != 1 {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
			})
		})
	}
}

// What is on the wire beside an accepted DELETE is left to end by itself: its
// 404 is no second death.
func TestAGoneAnswerAfterDeleteRaisesNoAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		deleted := make(chan struct{})
		w.post = func(rw http.ResponseWriter, r *http.Request) {
			<-deleted
			gone(rw, r)
		}
		w.del = status(200, "", "")
		call := send(w.transport, w.message(t.Context(), "tools/slow"))
		synctest.Wait()
		resp, err := w.transport.RoundTrip(w.request(t.Context(), "DELETE", "", ""))
		if err != nil {
			t.Fatal(err)
		}
		read(t, resp)
		synctest.Wait()
		if call.returned() {
			t.Errorf("the call was ended with %v, want it left alone", call.err)
		}
		close(deleted)
		deadErr(t, call.failure(t))
		if n := w.kinds(middleware.SessionDead); n != 0 {
			t.Errorf("session dead was observed %d times, want never", n)
		}
	})
}

func TestDeleteRefusedDoesNotFence(t *testing.T) {
	for _, code := range []int{301, 400, 401, 403, 405, 409, 429, 500, 501, 503} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.del, w.post = status(code, "text/plain", "no"), alive
				resp, err := w.transport.RoundTrip(w.request(t.Context(), "DELETE", "", ""))
				if err != nil || resp.StatusCode != code || middleware.ErrorFrom(resp) != nil || read(t, resp) != "no" {
					t.Errorf("RoundTrip = %v, %v, want the server's %d", resp, err, code)
				}
				w.mustCall("tools/list", 200)
				if err := w.transport.SessionErr(sid); err != nil {
					t.Errorf("SessionErr = %v, want nil", err)
				}
			})
		})
	}
}

// POST statuses that say nothing of the session pass with their bodies. C12.
func TestAPostRefusedOtherwiseDoesNotFence(t *testing.T) {
	for _, code := range []int{202, 400, 401, 403, 405, 409, 429, 500, 502, 503} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.post = status(code, "application/json", `{"error":"No valid session ID"}`)
				for range 3 {
					if got := w.mustCall("tools/list", code); got != `{"error":"No valid session ID"}` {
						t.Errorf("body = %q, want the server's", got)
					}
				}
				if got := w.requests(); len(got) != 3 || w.transport.SessionErr(sid) != nil || len(w.observed()) != 0 {
					t.Errorf("on the wire: %q, observed %q, want three calls and nothing", got, w.observed())
				}
			})
		})
	}
}

// C18: a 404 without a session id says that the endpoint has no such method.
func TestGoneWithoutASessionPasses(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2026-07-28", "2027-01-01"} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post, w.del = gone, gone, gone
				for _, method := range []string{"GET", "POST", "DELETE"} {
					req := w.request(t.Context(), method, "c-31", "")
					req.Header.Set("MCP-Protocol-Version", version)
					if version < "2026" {
						req.Header.Del("Mcp-Session-Id")
					}
					resp, err := w.transport.RoundTrip(req)
					if err != nil || middleware.ErrorFrom(resp) != nil || read(t, resp) != "Session not found" {
						t.Errorf("%s = %v, %v, want the server's 404", method, resp, err)
					}
				}
				if got := w.requests(); len(got) != 3 || len(w.observed()) != 0 || len(w.transport.Sessions()) != 0 {
					t.Errorf("on the wire: %q, observed %q, sessions %v, want it passed on", got, w.observed(), w.transport.Sessions())
				}
			})
		})
	}
}

// An id is a server's own: no other endpoint's session of that name is ended.
func TestFencesArePerEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.kill()
		w.post = alive
		for _, test := range []struct {
			url    string
			fenced bool
		}{
			{"http://mcp.test/mcp", true},
			{"http://mcp.test/mcp?tenant=b", true},
			{"http://mcp.test/other", false},
			{"http://mcp.test/mcp/", false},
			{"http://second.test/mcp", false},
			{"http://mcp.test:8080/mcp", false},
		} {
			w.url = test.url
			resp, err := w.call("tools/list")
			if err != nil {
				t.Fatal(err)
			}
			if got := middleware.ErrorFrom(resp) != nil; got != test.fenced {
				t.Errorf("call of %q was fenced: %v, want %v", test.url, got, test.fenced)
			}
			read(t, resp)
		}
		deadErr(t, w.transport.SessionErr(sid))
		// And each dies for itself, by the latest of which SessionErr answers.
		w.url, w.post = "http://second.test/mcp", status(410, "text/html", "")
		resp, err := w.call("tools/list")
		problem(t, resp, err)
		if e := typed(t, w.transport.SessionErr(sid)); e.StatusCode != 410 {
			t.Errorf("SessionErr(%q) has status %d, want the latest fence's 410", sid, e.StatusCode)
		}
	})
}

// under sends one message under the given session id.
func (w *world) under(id string) *http.Response {
	w.t.Helper()
	req := w.message(w.t.Context(), "tools/list")
	req.Header.Set("Mcp-Session-Id", id)
	resp, err := w.transport.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

func ids(infos []middleware.SessionInfo) string {
	var all []string
	for _, info := range infos {
		all = append(all, info.SessionID)
	}
	return strings.Join(all, " ")
}

func TestMaxSessionsForgetsTheLeastRecentlyUsedSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{MaxSessions: 3})
		defer w.close()
		w.post = alive
		for _, id := range []string{"a", "b", "c", "a", "d"} {
			w.under(id)
		}
		if got, want := ids(w.transport.Sessions()), "a c d"; got != want {
			t.Errorf("Sessions() = %q, want %q", got, want)
		}
		for _, id := range []string{"c", "e"} {
			w.under(id)
		}
		if got, want := ids(w.transport.Sessions()), "c d e"; got != want {
			t.Errorf("Sessions() = %q, want %q", got, want)
		}
		if stats := w.transport.Stats(); stats.Sessions != 5 {
			t.Errorf("Stats().Sessions = %d, want 5", stats.Sessions)
		}
	})
}

func TestMaxSessionsForgetsTheLeastRecentlyUsedFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{MaxSessions: 3})
		defer w.close()
		w.post = gone
		for _, id := range []string{"a", "b", "c"} {
			w.under(id)
		}
		w.under("a") // refused here, and used by that
		for range 5 {
			_ = w.transport.SessionErr("b") // who only looks does not use it
		}
		w.under("d")
		for id, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
			if got := w.transport.SessionErr(id) != nil; got != want {
				t.Errorf("SessionErr(%q) is an error: %v, want %v", id, got, want)
			}
		}
		before := len(w.requests())
		for _, id := range []string{"c", "a", "d"} {
			w.under(id)
		}
		if got := len(w.requests()); got != before {
			t.Errorf("%d requests of fenced sessions on the wire, want none", got-before)
		}
		for range 3 {
			w.under("b") // forgotten: it costs the wire one request, once
		}
		if got := len(w.requests()); got != before+1 {
			t.Errorf("%d requests of the forgotten session on the wire, want 1", got-before)
		}
		if got := w.transport.Sessions(); len(got) != 0 {
			t.Errorf("Sessions() = %q, want none", ids(got))
		}
	})
}

// Many sessions that come and go leave a bounded trace.
func TestSessionsAndFencesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{MaxSessions: 16})
		defer w.close()
		w.post = gone
		for i := range 200 {
			w.under(fmt.Sprint("dead-", i))
		}
		w.post = alive
		for i := range 200 {
			w.under(fmt.Sprint("live-", i))
		}
		if got := len(w.transport.Sessions()); got != 16 {
			t.Errorf("len(Sessions()) = %d, want 16", got)
		}
		fences := 0
		for i := range 200 {
			if w.transport.SessionErr(fmt.Sprint("dead-", i)) != nil {
				fences++
			}
		}
		if fences != 16 {
			t.Errorf("%d fences, want 16", fences)
		}
	})
}

// A GET that is refused must not wait for anything either.
func TestTheFenceAnswersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.kill()
		start := time.Now()
		resp, err := w.reconnect("c-9")
		problem(t, resp, err)
		if took := time.Since(start); took != 0 {
			t.Errorf("RoundTrip took %v, want no time", took)
		}
	})
}

// A request whose body never ends is refused with its context, as every other.
func TestARefusedRequestHonoursItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.kill()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		pr, pw := io.Pipe()
		req := w.request(ctx, "POST", "", "")
		req.Body = pr
		over := make(chan struct{})
		defer close(over)
		go func() {
			_, _ = io.WriteString(pw, `{"jsonrpc":"2.0","id":41,"method":`)
			hour := time.NewTimer(time.Hour)
			defer hour.Stop()
			select { // the client has more to say, but not now
			case <-hour.C:
			case <-over:
			}
			pw.Close()
		}()
		start := time.Now()
		resp, err := w.transport.RoundTrip(req)
		if err == nil {
			read(t, resp)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("RoundTrip took %v, want it to end with its context after 1s", took)
		}
	})
}
