package middleware_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

const replayed = "id: 8\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n" +
	"id: 9\r\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"method\":\"x\"}\r\n\r\n"

func TestLiveReleasesTheReplayByteForByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = sseAnswer(replayed), after(time.Millisecond, alive)
		resp, err := w.reconnect("7")
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, resp); got != replayed {
			t.Errorf("body = %q, want %q", got, replayed)
		}
		if got, want := w.requests(), []string{"GET 7", "POST ping"}; !reflect.DeepEqual(got, want) {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
		if got, want := w.observed(), []string{"held", "probe sent", "probe answered", "released"}; !reflect.DeepEqual(got, want) {
			t.Errorf("observed %q, want %q", got, want)
		}
		if e := w.event(middleware.Released); e.Events != 2 || int(e.Bytes) != len(replayed) {
			t.Errorf("released %d events of %d bytes, want 2 of %d", e.Events, e.Bytes, len(replayed))
		}
	})
}

func TestDeadQuarantinesTheReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = openSSE(replayed), after(time.Millisecond, gone)
		resp, err := w.reconnect("7")
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusNotFound || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("answer is %s of type %q, want 404 of application/problem+json", resp.Status, resp.Header.Get("Content-Type"))
		}
		e := deadErr(t, middleware.ErrorFrom(resp))
		if e.Phase != middleware.PhaseProbe || e.Verdict != middleware.Dead || e.StatusCode != 404 ||
			e.LastEventID != "7" || e.SessionID != sid || e.QuarantinedEvents != 2 || e.OutcomeUnknown {
			t.Errorf("error is %#v", e)
		}
		read(t, resp)
		for range 3 {
			for _, do := range []func() (*http.Response, error){
				func() (*http.Response, error) { return w.reconnect("7") },
				func() (*http.Response, error) { return w.call("tools/call") },
			} {
				resp, err := do()
				if err != nil {
					t.Fatal(err)
				}
				if e := deadErr(t, middleware.ErrorFrom(resp)); e.Phase != middleware.PhaseFence {
					t.Errorf("phase %q, want fence", e.Phase)
				}
			}
		}
		if got, want := w.requests(), []string{"GET 7", "POST ping"}; !reflect.DeepEqual(got, want) {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
		deadErr(t, w.transport.SessionErr(sid))
	})
}

// A 404 or 410 at the reconnect is enough, whatever is in it. C03, C17.
func TestGoneAtTheReconnectIsDeadWithoutAProbe(t *testing.T) {
	for name, tc := range map[string]struct {
		answer      http.HandlerFunc
		status      int
		contentType string
	}{
		"JSON-RPC error of a number":  {status(404, "application/json", `{"jsonrpc":"2.0","id":31,"error":{"code":-32001,"message":"no such session"}}`), 404, "application/json"},
		"JSON-RPC error of null":      {status(404, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no such session"}}`), 404, "application/json"},
		"JSON-RPC result":             {status(404, "application/json; charset=utf-8", `{"jsonrpc":"2.0","id":"x1","result":{}}`), 404, "application/json; charset=utf-8"},
		"page of a proxy":             {status(404, "text/html", "<html>default backend</html>"), 404, "text/html"},
		"text":                        {status(404, "text/plain", "unknown session"), 404, "text/plain"},
		"event stream":                {status(404, "text/event-stream", replayed), 404, "text/event-stream"},
		"nothing":                     {noContentType(404, ""), 404, ""},
		"gone, with nothing":          {noContentType(410, ""), 410, ""},
		"gone, with a JSON-RPC error": {status(410, "application/json", `{"jsonrpc":"2.0","id":2,"error":{"code":-32000}}`), 410, "application/json"},
		"gone, with a page":           {status(410, "text/html", "<p>gone</p>"), 410, "text/html"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = tc.answer, alive
				e := isTerminal(t, w.resume(t, "40"))
				deadErr(t, e)
				if e.Phase != middleware.PhaseReplay || e.Verdict != middleware.Dead || e.StatusCode != tc.status || e.ContentType != tc.contentType {
					t.Errorf("error is of phase %q, verdict %v, status %d, type %q, want replay, dead, %d, %q",
						e.Phase, e.Verdict, e.StatusCode, e.ContentType, tc.status, tc.contentType)
				}
				if e.SessionID != sid || e.LastEventID != "40" || e.QuarantinedEvents != 0 || e.OutcomeUnknown {
					t.Errorf("error is %#v", e)
				}
				deadErr(t, middleware.ErrorFrom(must(t, func() (*http.Response, error) { return w.call("tools/list") })))
				isTerminal(t, w.resume(t, "40"))
				if got, want := w.requests(), []string{"GET 40"}; !reflect.DeepEqual(got, want) {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
				if got := w.observed(); count(got, "session dead") != 1 || count(got, "held") != 0 {
					t.Errorf("observed %q, want one session dead and nothing held", got)
				}
				deadErr(t, w.transport.SessionErr(sid))
			})
		})
	}
}

func TestGoneWithABodyThatNeverComesIsDeadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Length", "4000")
			status(http.StatusNotFound, "text/html", "<html>")(rw, r)
			_ = http.NewResponseController(rw).Flush()
			<-r.Context().Done()
		}
		start := time.Now()
		deadErr(t, isTerminal(t, w.resume(t, "40")))
		if took := time.Since(start); took > time.Second {
			t.Errorf("the terminal outcome came after %v, want at once", took)
		}
	})
}

// C82: a success that is no event stream is somebody else's answer.
func TestSuccessThatIsNoEventStreamIsAmbiguous(t *testing.T) {
	const page = "<!DOCTYPE html><title>Sign in</title>"
	for name, tc := range map[string]struct {
		answer      http.HandlerFunc
		status      int
		contentType string
	}{
		"page":                 {status(200, "text/html; charset=utf-8", page), 200, "text/html; charset=utf-8"},
		"JSON-RPC result":      {status(200, "application/json", `{"jsonrpc":"2.0","id":4,"result":{}}`), 200, "application/json"},
		"no type":              {noContentType(200, replayed), 200, ""},
		"no type, no body":     {noContentType(200, ""), 200, ""},
		"type that begins so":  {status(200, "text/event-stream-v2", replayed), 200, "text/event-stream-v2"},
		"type that is garbage": {status(200, "text event-stream", replayed), 200, "text event-stream"},
		"page, accepted":       {status(202, "text/html", page), 202, "text/html"},
		"text, created":        {status(201, "text/plain", "ok"), 201, "text/plain"},
		"long page":            {status(200, "text/html", strings.Repeat(page, 9000)), 200, "text/html"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = tc.answer, alive
				start := time.Now()
				e, retry := isAmbiguous(t, w.resume(t, "ev_77"), "ev_77")
				if e.Phase != middleware.PhaseReplay || e.StatusCode != tc.status || e.ContentType != tc.contentType {
					t.Errorf("error is of phase %q, status %d, type %q, want replay, %d, %q", e.Phase, e.StatusCode, e.ContentType, tc.status, tc.contentType)
				}
				if retry <= 0 || retry > 30*time.Second {
					t.Errorf("retry = %v, want more than 0 and at most 30s", retry)
				}
				if took := time.Since(start); took > 0 {
					t.Errorf("the answer took %v, want none", took)
				}
				if got, want := w.requests(), []string{"GET ev_77"}; !reflect.DeepEqual(got, want) {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
				if err := w.transport.SessionErr(sid); err != nil {
					t.Errorf("SessionErr(%q) = %v, want nil", sid, err)
				}
			})
		})
	}
}

// The type of an event stream may be spelled in more than one way.
func TestContentTypeOfAReplayIsReadAsAMediaType(t *testing.T) {
	for _, contentType := range []string{"text/event-stream; charset=utf-8", "Text/Event-Stream", "text/event-stream;charset"} {
		t.Run(contentType, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = status(200, contentType, replayed), alive
				isUntouched(t, w.resume(t, "3"), 200, replayed)
				if got, want := w.requests(), []string{"GET 3", "POST ping"}; !reflect.DeepEqual(got, want) {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
			})
		})
	}
}

// C06, C12, C90: what says nothing of the session is the client's own affair.
func TestOtherStatusesPassAndNeverFence(t *testing.T) {
	for code, body := range map[int]string{
		204: "", 301: "moved", 302: "found", 304: "", 307: "elsewhere",
		400: `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session ID"}}`,
		401: "token expired", 402: "pay", 403: "<html>forbidden</html>", 405: "no stream here", 406: "no", 408: "slow", 412: "", 421: "wrong pod", 426: "", 451: "law",
	} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{AmbiguousRounds: 1})
				defer w.close()
				down := withHeader(status(code, "text/plain", body), "Www-Authenticate", `Bearer realm="a"`, "Location", "http://elsewhere.test/")
				w.get, w.post = inTurn(down, down, down, sseAnswer(replayed)), alive
				start := time.Now()
				for range 3 {
					resp := w.resume(t, "12")
					if got := resp.Header.Get("Www-Authenticate") + resp.Header.Get("Location"); got != `Bearer realm="a"http://elsewhere.test/` {
						t.Errorf("header fields are %q, want the server's", got)
					}
					isUntouched(t, resp, code, body)
				}
				if took := time.Since(start); took > 0 {
					t.Errorf("3 answers took %v, want none", took)
				}
				if err := w.transport.SessionErr(sid); err != nil {
					t.Errorf("SessionErr(%q) = %v, want nil", sid, err)
				}
				isUntouched(t, w.resume(t, "12"), 200, replayed)
				if got, want := w.requests(), []string{"GET 12", "GET 12", "GET 12", "GET 12", "POST ping"}; !reflect.DeepEqual(got, want) {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
			})
		})
	}
}

// C27, C29, C40: a server that is busy for a moment is asked once more.
func TestUnavailableReconnectIsTriedAgain(t *testing.T) {
	for _, code := range []int{409, 429, 500, 502, 503, 504, 520, 599} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{AmbiguousRounds: 1})
				defer w.close()
				down := status(code, "text/event-stream", "data: an event of the proxy\n\n")
				w.get, w.post = inTurn(down, down, down, sseAnswer(replayed)), alive
				start := time.Now()
				isUntouched(t, w.resume(t, "p:6"), 200, replayed)
				if took := time.Since(start); took < 100*time.Millisecond || took > middleware.DefaultProbeBudget {
					t.Errorf("three more attempts took %v, want a backoff and less than %v", took, middleware.DefaultProbeBudget)
				}
				want := []string{"GET p:6", "GET p:6", "GET p:6", "GET p:6", "POST ping"}
				if got := w.requests(); !reflect.DeepEqual(got, want) {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
			})
		})
	}
}

func TestUnavailableThenGoneIsDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = inTurn(status(502, "text/html", "bad gateway"), gone), alive
		if e := deadErr(t, isTerminal(t, w.resume(t, "21"))); e.StatusCode != 404 || e.ContentType != "text/plain" {
			t.Errorf("error is of status %d, type %q, want 404 of text/plain", e.StatusCode, e.ContentType)
		}
		if got, want := w.requests(), []string{"GET 21", "GET 21"}; !reflect.DeepEqual(got, want) {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
	})
}

// C29, C42: after the budget, nobody knows, and no probe is asked.
func TestUnavailableForTheWholeBudgetIsAmbiguous(t *testing.T) {
	for _, code := range []int{409, 429, 502, 503} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const budget = 9 * time.Second
				w := newWorld(t, middleware.Config{ProbeBudget: budget})
				defer w.close()
				w.get, w.post = status(code, "text/html", "try later"), alive
				start := time.Now()
				resp := w.resume(t, "21")
				if took := time.Since(start); took > budget || took < budget-backoffMost {
					t.Errorf("the answer came after %v, want within the last attempt of %v", took, budget)
				}
				if e, _ := isAmbiguous(t, resp, "21"); e.StatusCode != code || e.ContentType != "text/html" || e.Phase != middleware.PhaseReplay {
					t.Errorf("error is of phase %q, status %d, type %q, want replay, %d, text/html", e.Phase, e.StatusCode, e.ContentType, code)
				}
				if got := w.requests(); count(got, "GET 21") != len(got) || len(got) < 5 || len(got) > 30 {
					t.Errorf("on the wire: %q, want some GETs and no probe", got)
				}
				if err := w.transport.SessionErr(sid); err != nil {
					t.Errorf("SessionErr(%q) = %v, want nil", sid, err)
				}
			})
		})
	}
}

func TestRetryAfterOfTheReconnectIsHonoured(t *testing.T) {
	// The clock of a bubble starts at a full second, as a date can say it.
	date := func(d time.Duration) func() string {
		return func() string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	}
	text := func(v string) func() string { return func() string { return v } }
	for name, tc := range map[string]struct {
		code  int
		value func() string
		least time.Duration
	}{
		"seconds":            {503, text("3"), 3 * time.Second},
		"more seconds":       {429, text("11"), 11 * time.Second},
		"conflict":           {409, text("2"), 2 * time.Second},
		"a date":             {503, date(7 * time.Second), 7 * time.Second},
		"a date, limited":    {429, date(4 * time.Second), 4 * time.Second},
		"at once":            {503, text("0"), 0},
		"a date in the past": {503, date(-time.Hour), 0},
		"nonsense":           {503, text("soon"), 0},
		"negative":           {503, text("-8"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get = inTurn(func(rw http.ResponseWriter, r *http.Request) {
					withHeader(status(tc.code, "", ""), "Retry-After", tc.value())(rw, r)
				}, sseAnswer(replayed))
				w.post = alive
				isUntouched(t, w.resume(t, "0-1"), 200, replayed)
				at := w.times("GET")
				if len(at) != 2 {
					t.Fatalf("on the wire: %q, want two GETs", w.requests())
				}
				if d := at[1].Sub(at[0]); d < tc.least || d > tc.least+backoffMost {
					t.Errorf("the second GET came after %v, want %v or little more", d, tc.least)
				}
			})
		})
	}
}

// Each attempt waits as long as it was told to, and the last one is the last
// that fits into the budget.
func TestRetryAfterCountsAgainstTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = withHeader(status(503, "", ""), "Retry-After", "4"), alive
		start := time.Now()
		resp := w.resume(t, "21")
		if took := time.Since(start); took < 12*time.Second || took > middleware.DefaultProbeBudget {
			t.Errorf("the answer came after %v, want 12s to %v", took, middleware.DefaultProbeBudget)
		}
		if _, retry := isAmbiguous(t, resp, "21"); retry < 4*time.Second {
			t.Errorf("retry = %v, want the server's 4s", retry)
		}
		at := w.times("GET")
		if len(at) != 4 {
			t.Fatalf("%d attempts, want 4", len(at))
		}
		for i := 1; i < len(at); i++ {
			if d := at[i].Sub(at[i-1]); d < 4*time.Second {
				t.Errorf("attempt %d came after %v, want not before 4s", i+1, d)
			}
		}
	})
}

func TestRetryAfterBeyondTheBudgetEndsAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		code  int
		value func() string
		want  time.Duration
	}{
		"seconds":         {503, func() string { return "20" }, 20 * time.Second},
		"the budget":      {429, func() string { return "15" }, 15 * time.Second},
		"a date":          {503, func() string { return time.Now().Add(28 * time.Second).UTC().Format(http.TimeFormat) }, 28 * time.Second},
		"over a minute":   {429, func() string { return "75" }, 75 * time.Second},
		"a date far away": {503, func() string { return time.Now().Add(2 * time.Minute).UTC().Format(http.TimeFormat) }, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get = func(rw http.ResponseWriter, r *http.Request) {
					withHeader(status(tc.code, "", ""), "Retry-After", tc.value())(rw, r)
				}
				start := time.Now()
				resp := w.resume(t, "21")
				if took := time.Since(start); took > 0 {
					t.Errorf("the answer came after %v, want at once", took)
				}
				if _, retry := isAmbiguous(t, resp, "21"); retry != tc.want {
					t.Errorf("retry = %v, want the server's %v", retry, tc.want)
				}
				if got, want := w.requests(), []string{"GET 21"}; !reflect.DeepEqual(got, want) {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
			})
		})
	}
}

// zipped answers with an event stream in gzip.
func zipped(events string) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		startSSE(rw)
		z := gzip.NewWriter(rw)
		_, _ = io.WriteString(z, events)
		_ = z.Close()
	}
}

// C45: what cannot be read is not handed on, and what Go has decoded can be.
func TestEncodedReplay(t *testing.T) {
	for name, tc := range map[string]struct {
		accept string // the client's own Accept-Encoding
		answer http.HandlerFunc
		live   bool
	}{
		"gzip that the client asked for":  {"gzip", zipped(replayed), false},
		"br that the client asked for":    {"br", withHeader(sseAnswer("\x8b\x03\x80"), "Content-Encoding", "br"), false},
		"identity, said":                  {"gzip", sseAnswer(replayed), true},
		"gzip that the transport decodes": {"", zipped(replayed), true},
		"br that nobody asked for":        {"", withHeader(sseAnswer("\x8b\x03\x80"), "Content-Encoding", "br"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = tc.answer, alive
				req := w.request(t.Context(), "GET", "61", "")
				if tc.accept != "" {
					req.Header.Set("Accept-Encoding", tc.accept)
				}
				resp := must(t, func() (*http.Response, error) { return w.transport.RoundTrip(req) })
				if tc.live {
					isUntouched(t, resp, 200, replayed)
					return
				}
				if e, _ := isAmbiguous(t, resp, "61"); e.StatusCode != 200 {
					t.Errorf("status of the error = %d, want 200", e.StatusCode)
				}
				if err := w.transport.SessionErr(sid); err != nil {
					t.Errorf("SessionErr(%q) = %v, want nil", sid, err)
				}
			})
		})
	}
}

// What the probe's 404 says is said by its status. C17.
func TestGoneAtTheProbeIsDeadWhateverTheBody(t *testing.T) {
	for name, tc := range map[string]struct {
		answer      http.HandlerFunc
		status      int
		contentType string
	}{
		"own result":       {rpcAnswerCode(404, "application/json", `{"jsonrpc":"2.0","id":$id,"result":{}}`), 404, "application/json"},
		"own result, SSE":  {rpcAnswerCode(410, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}\n\n"), 410, "text/event-stream"},
		"method not found": {rpcAnswerCode(404, "application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"?"}}`), 404, "application/json"},
		"page":             {status(404, "text/html", "<h1>404</h1>"), 404, "text/html"},
		"nothing":          {noContentType(410, ""), 410, ""},
		"broken body":      {breaksOff(404, "text/plain", "half"), 404, "text/plain"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				var left atomic.Bool
				w.get = func(rw http.ResponseWriter, r *http.Request) { openSSE(replayed)(rw, r); left.Store(true) }
				w.post = after(time.Millisecond, tc.answer)
				resp := w.resume(t, "7")
				synctest.Wait()
				if !left.Load() {
					t.Error("the held GET is still open after the verdict")
				}
				e := deadErr(t, isTerminal(t, resp))
				if e.Phase != middleware.PhaseProbe || e.StatusCode != tc.status || e.ContentType != tc.contentType || e.QuarantinedEvents != 2 {
					t.Errorf("error is of phase %q, status %d, type %q, %d events, want probe, %d, %q, 2",
						e.Phase, e.StatusCode, e.ContentType, e.QuarantinedEvents, tc.status, tc.contentType)
				}
				isTerminal(t, must(t, func() (*http.Response, error) { return w.call("tools/call") }))
				if got, want := w.requests(), []string{"GET 7", "POST ping"}; !reflect.DeepEqual(got, want) {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
			})
		})
	}
}

// C22: a server that heals a stale id answers in another session's name.
func TestSilentlyReplacedSessionIsDead(t *testing.T) {
	asSSE := rpcAnswer("text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}\n\n")
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		want   middleware.Verdict
	}{
		"another, JSON":       {withHeader(alive, "Mcp-Session-Id", "b2-fresh"), middleware.Dead},
		"another, SSE":        {withHeader(asSSE, "Mcp-Session-Id", "b2-fresh"), middleware.Dead},
		"in another case":     {withHeader(alive, "Mcp-Session-Id", "5F8A7C1E-SESSION"), middleware.Dead},
		"the same":            {withHeader(alive, "mcp-session-id", sid), middleware.Live},
		"the same, SSE":       {withHeader(asSSE, "Mcp-Session-Id", sid), middleware.Live},
		"none":                {alive, middleware.Live},
		"an empty one":        {withHeader(alive, "Mcp-Session-Id", ""), middleware.Live},
		"another, unable too": {withHeader(rpcAnswer("application/json", `{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"?"}}`), "Mcp-Session-Id", "b2-fresh"), middleware.Dead},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = sseAnswer(replayed), after(time.Millisecond, tc.answer)
				resp := w.resume(t, "7")
				if tc.want == middleware.Live {
					isUntouched(t, resp, 200, replayed)
					return
				}
				e := deadErr(t, isTerminal(t, resp))
				if e.Phase != middleware.PhaseProbe || e.Verdict != middleware.Dead || e.StatusCode != 200 || e.QuarantinedEvents != 2 {
					t.Errorf("error is %#v, want of phase probe, dead, status 200, 2 events", e)
				}
				deadErr(t, w.transport.SessionErr(sid))
			})
		})
	}
}
