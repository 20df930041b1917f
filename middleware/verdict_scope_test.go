package middleware_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// The first GET of a session is the client's alone: clients wait for its
// headers before they go on. C18.
func TestFirstGETIsNeitherDelayedNorProbed(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		status int
		body   string
	}{
		"stream":          {sseAnswer(replayed), 200, replayed},
		"empty stream":    {sseAnswer(), 200, ""},
		"not found":       {status(404, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32601}}`), 404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32601}}`},
		"gone":            {status(410, "text/plain", "no stream"), 410, "no stream"},
		"not allowed":     {status(405, "", ""), 405, ""},
		"unavailable":     {withHeader(status(503, "text/plain", "later"), "Retry-After", "2"), 503, "later"},
		"conflict":        {status(409, "text/plain", "one is open"), 409, "one is open"},
		"page":            {status(200, "text/html", "<p>hello</p>"), 200, "<p>hello</p>"},
		"no type":         {noContentType(200, "what"), 200, "what"},
		"unauthenticated": {status(401, "text/plain", "who"), 401, "who"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{AmbiguousRounds: 1})
				defer w.close()
				w.get, w.post = tc.answer, alive
				start := time.Now()
				isUntouched(t, w.resume(t, ""), tc.status, tc.body)
				if took := time.Since(start); took > 0 {
					t.Errorf("the first GET took %v, want nothing", took)
				}
				if err := w.transport.SessionErr(sid); err != nil {
					t.Errorf("SessionErr(%q) = %v, want nil", sid, err)
				}
				if resp := must(t, func() (*http.Response, error) { return w.call("tools/list") }); resp.StatusCode != 200 {
					t.Errorf("the next call got %s, want 200", resp.Status)
				} else {
					read(t, resp)
				}
				if got, want := w.requests(), []string{"GET", "POST tools/list"}; !reflect.DeepEqual(got, want) {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
				if got := w.observed(); len(got) != 0 {
					t.Errorf("observed %q, want nothing", got)
				}
			})
		})
	}
}

// A GET that opened no stream does not make the next one a reconnect.
func TestGETAfterOneThatOpenedNoStreamIsStillTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = inTurn(status(404, "text/plain", "a"), status(503, "text/plain", "b"), status(200, "text/html", "c"), sseAnswer(replayed))
		w.post = gone
		isUntouched(t, w.resume(t, ""), 404, "a")
		isUntouched(t, w.resume(t, ""), 503, "b")
		isUntouched(t, w.resume(t, ""), 200, "c")
		isUntouched(t, w.resume(t, ""), 200, replayed)
		if got := w.requests(); count(got, "GET") != 4 || len(got) != 4 {
			t.Errorf("on the wire: %q, want 4 GETs", got)
		}
	})
}

// Events of the first GET are handed on the moment they arrive.
func TestFirstGETIsHandedOnAsItArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		first, second := notification("a1", "x"), notification("a2", "y")
		w.get = func(rw http.ResponseWriter, r *http.Request) {
			startSSE(rw)
			for _, e := range []string{first, second} {
				time.Sleep(20 * time.Second)
				_, _ = io.WriteString(rw, e)
				_ = http.NewResponseController(rw).Flush()
			}
			<-r.Context().Done()
		}
		start := time.Now()
		resp := w.resume(t, "")
		defer resp.Body.Close()
		if took := time.Since(start); took > 0 {
			t.Errorf("the headers came after %v, want at once", took)
		}
		for i, want := range []string{first, second} {
			got := make([]byte, len(want))
			if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
				t.Fatalf("event %d = %q, %v, want %q", i, got, err, want)
			}
			if at := time.Since(start); at != time.Duration(i+1)*20*time.Second {
				t.Errorf("event %d came after %v, want %ds", i, at, 20*(i+1))
			}
		}
		if got, want := w.requests(), []string{"GET"}; !reflect.DeepEqual(got, want) {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
	})
}

// What is none of the middleware's business reaches Base as the client made
// it, and its answer the client as Base did. C18, C94.
func TestWithoutASessionNothingIsTouched(t *testing.T) {
	asIs := func(*http.Request) {}
	noSession := func(r *http.Request) { r.Header.Del("Mcp-Session-Id") }
	version := func(v string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Mcp-Protocol-Version", v) }
	}
	for name, tc := range map[string]struct {
		change  func(*http.Request)
		touched bool
	}{
		"no session":                 {noSession, false},
		"empty session":              {func(r *http.Request) { r.Header.Set("Mcp-Session-Id", "") }, false},
		"first without sessions":     {version("2026-07-28"), false},
		"later":                      {version("2026-11-05"), false},
		"much later":                 {version("2031-01-01"), false},
		"later, no session":          {func(r *http.Request) { noSession(r); version("2027-02-02")(r) }, false},
		"session":                    {asIs, true},
		"session, no version":        {func(r *http.Request) { r.Header.Del("Mcp-Protocol-Version") }, true},
		"session, the day before":    {version("2026-07-27"), true},
		"session, oldest":            {version("2025-03-26"), true},
		"session, version of no day": {version("draft"), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *world
				var gotReq *http.Request
				var gotResp *http.Response
				w = newWorld(t, middleware.Config{AmbiguousRounds: 1, Base: baseFunc(func(req *http.Request) (*http.Response, error) {
					resp, err := w.base.RoundTrip(req)
					if gotReq == nil {
						gotReq, gotResp = req, resp
					}
					return resp, err
				})})
				defer w.close()
				for _, x := range []struct {
					method string
					answer http.HandlerFunc
					status int
					body   string
				}{
					{"GET", gone, 404, "Session not found"},
					{"GET", status(410, "text/plain", "gone"), 410, "gone"},
					{"GET", status(503, "text/plain", "later"), 503, "later"},
					{"GET", status(200, "text/html", "<p>"), 200, "<p>"},
					{"GET", sseAnswer(replayed), 200, replayed},
					{"GET", sseAnswer("id: 4\ndata: torn"), 200, "id: 4\ndata: torn"},
					{"POST", gone, 404, "Session not found"},
					{"POST", status(400, "application/json", "{}"), 400, "{}"},
					{"DELETE", status(200, "", ""), 200, ""},
					{"POST", sseAnswer(replayed), 200, replayed},
				} {
					w.get, w.post, w.del = x.answer, x.answer, x.answer
					cursor, body := "", ""
					if x.method == "GET" {
						cursor = "3"
					}
					if x.method == "POST" {
						body = `{"jsonrpc":"2.0","id":12,"method":"tools/call"}`
					}
					req := w.request(t.Context(), x.method, cursor, body)
					tc.change(req)
					gotReq, gotResp = nil, nil
					before := time.Now()
					resp, err := w.transport.RoundTrip(req)
					if tc.touched {
						if err == nil {
							resp.Body.Close()
						}
						if gotReq == req {
							t.Error("Base got the client's request, want one of a flight")
						}
						break // guarded: what that means, other tests say
					}
					if err != nil {
						t.Fatal(err)
					}
					if gotReq != req || gotResp != resp {
						t.Errorf("%s answered %d: request and answer are not Base's", x.method, x.status)
					}
					isUntouched(t, resp, x.status, x.body)
					if took := time.Since(before); took > 0 {
						t.Errorf("%s answered %d took %v, want nothing", x.method, x.status, took)
					}
				}
				if tc.touched {
					return
				}
				if got := w.requests(); len(got) != 10 {
					t.Errorf("on the wire: %q, want 10 requests", got)
				}
				if got := w.observed(); len(got) != 0 {
					t.Errorf("observed %q, want nothing", got)
				}
				if got := w.transport.Sessions(); len(got) != 0 {
					t.Errorf("Sessions() = %v, want none", got)
				}
				if err := w.transport.SessionErr(sid); err != nil {
					t.Errorf("SessionErr(%q) = %v, want nil", sid, err)
				}
			})
		})
	}
}

// Any SSE server with a session in a header can be guarded.
func TestServerOfAnotherProtocol(t *testing.T) {
	const events = "id: 900\nevent: price\ndata: 12.5\n\n"
	say := func(body string) http.HandlerFunc { return status(200, "text/plain", body) }
	for name, tc := range map[string]struct {
		whoami http.HandlerFunc
		want   middleware.Verdict
		probes int // 0: more than one, within the budget
	}{
		"yes":                  {say("yes"), middleware.Live, 1},
		"no":                   {say("no"), middleware.Dead, 1},
		"does not say":         {say("perhaps"), middleware.Ambiguous, 1},
		"not found":            {status(404, "text/plain", "yes"), middleware.Dead, 1},
		"gone":                 {status(410, "text/plain", "yes"), middleware.Dead, 1},
		"another header":       {withHeader(say("yes"), "Mcp-Session-Id", "other"), middleware.Live, 1},
		"long yes":             {say("yes" + strings.Repeat(" ", 4000)), middleware.Live, 1},
		"never":                {silent, middleware.Ambiguous, 0},
		"breaks off":           {breaksOff(200, "text/plain", "yes"), middleware.Ambiguous, 0},
		"breaks off, then yes": {inTurn(breaksOff(200, "text/plain", "no"), say("yes")), middleware.Live, 2},
		"busy, then yes":       {inTurn(status(503, "text/plain", "busy"), say("yes")), middleware.Live, 2},
		"busy, then not found": {inTurn(status(502, "text/plain", "busy"), gone), middleware.Dead, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *world
				w = newWorld(t, middleware.Config{
					SessionHeader: "x-feed-session",
					MaxHeldBytes:  1 << 10,
					Probe: middleware.Probe{
						NewRequest: func(ctx context.Context, reconnect *http.Request) (*http.Request, error) {
							if got := reconnect.Header.Get("Last-Event-ID"); got != "899" {
								t.Errorf("NewRequest got the cursor %q, want 899", got)
							}
							req, err := http.NewRequestWithContext(ctx, "GET", w.url+"/whoami", nil)
							if err == nil {
								req.Header.Set("X-Feed-Session", reconnect.Header.Get("X-Feed-Session"))
							}
							return req, err
						},
						Judge: func(resp *http.Response, body []byte) middleware.Verdict {
							if len(body) > 1<<10 {
								t.Errorf("Judge got %d bytes, want at most MaxHeldBytes", len(body))
							}
							switch {
							case resp.StatusCode == 200 && strings.HasPrefix(string(body), "yes"):
								return middleware.Live
							case resp.StatusCode == 200 && string(body) == "no":
								return middleware.Dead
							}
							return middleware.Ambiguous
						},
					},
				})
				defer w.close()
				probes := 0
				w.get = func(rw http.ResponseWriter, r *http.Request) {
					if r.URL.Path != "/mcp/whoami" {
						sseAnswer(events)(rw, r)
						return
					}
					probes++
					if got := r.Header.Get("X-Feed-Session"); got != sid {
						t.Errorf("the probe's session is %q, want %q", got, sid)
					}
					after(time.Millisecond, tc.whoami)(rw, r)
				}
				reconnect := func() *http.Response {
					req := w.request(t.Context(), "GET", "899", "")
					req.Header.Del("Mcp-Session-Id")
					req.Header.Set("X-Feed-Session", sid)
					return must(t, func() (*http.Response, error) { return w.transport.RoundTrip(req) })
				}
				start := time.Now()
				resp := reconnect()
				if took := time.Since(start); took > middleware.DefaultProbeBudget {
					t.Errorf("the answer came after %v, want at most %v", took, middleware.DefaultProbeBudget)
				}
				if probes != tc.probes && (tc.probes != 0 || probes < 2) {
					t.Errorf("%d probes, want %d (0: more than one)", probes, tc.probes)
				}
				switch tc.want {
				case middleware.Live:
					isUntouched(t, resp, 200, events)
				case middleware.Dead:
					if e := deadErr(t, isTerminal(t, resp)); e.QuarantinedEvents != 1 || e.SessionID != sid {
						t.Errorf("error is %#v, want of session %q, with 1 event", e, sid)
					}
					before := len(w.requests())
					isTerminal(t, reconnect())
					if got := w.requests()[before:]; len(got) != 0 {
						t.Errorf("on the wire after the fence: %q, want nothing", got)
					}
				default:
					isAmbiguous(t, resp, "899")
				}
			})
		})
	}
}

// MCP's own header means nothing where another one is configured.
func TestSessionHeaderOfAnotherNameReplacesMCPs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{SessionHeader: "X-Feed-Session"})
		defer w.close()
		w.get, w.post = sseAnswer(replayed), gone
		isUntouched(t, w.resume(t, "7"), 200, replayed)
		isUntouched(t, must(t, func() (*http.Response, error) { return w.call("tools/call") }), 404, "Session not found")
		isUntouched(t, w.resume(t, "7"), 200, replayed)
		if got, want := w.requests(), []string{"GET 7", "POST tools/call", "GET 7"}; !reflect.DeepEqual(got, want) {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
	})
}

// A probe that cannot be built tells nothing.
func TestProbeThatCannotBeBuiltIsAmbiguous(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noTicket := errors.New("no ticket")
		w := newWorld(t, middleware.Config{Probe: middleware.Probe{
			NewRequest: func(context.Context, *http.Request) (*http.Request, error) { return nil, noTicket },
			Judge:      func(*http.Response, []byte) middleware.Verdict { return middleware.Live },
		}})
		defer w.close()
		w.get, w.post = openSSE(replayed), alive
		start := time.Now()
		isAmbiguous(t, w.resume(t, "7"), "7")
		if took := time.Since(start); took > middleware.DefaultProbeBudget {
			t.Errorf("the answer came after %v, want at most %v", took, middleware.DefaultProbeBudget)
		}
		if e := w.event(middleware.ProbeAnswered); !errors.Is(e.Err, noTicket) || e.Verdict != middleware.Ambiguous {
			t.Errorf("the hook was told %v, %v, want ambiguous, %v", e.Verdict, e.Err, noTicket)
		}
		if got, want := w.requests(), []string{"GET 7"}; !reflect.DeepEqual(got, want) {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
	})
}
