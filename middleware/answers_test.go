package middleware_test

import (
	"errors"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// backoffMost is the longest that the middleware may wait by itself before it
// asks once more.
const backoffMost = 2500 * time.Millisecond

// moment is what a server may take that answers at once.
const moment = 5 * time.Millisecond

// inTurn answers the n-th request with the n-th handler, and every later one
// with the last.
func inTurn(handlers ...http.HandlerFunc) http.HandlerFunc {
	var n atomic.Int64
	return func(rw http.ResponseWriter, r *http.Request) {
		i := min(int(n.Add(1)), len(handlers))
		handlers[i-1](rw, r)
	}
}

// byCursor answers a GET by its Last-Event-ID; "" is the GET without one. An
// unknown cursor is a 418, which no test wants.
func byCursor(handlers map[string]http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		h := handlers[r.Header.Get("Last-Event-Id")]
		if h == nil {
			h = status(http.StatusTeapot, "text/plain", "no such cursor")
		}
		h(rw, r)
	}
}

// byMethod answers a POST by its JSON-RPC method; "" is what answers the rest.
func byMethod(handlers map[string]http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		h := handlers[between(string(body), `"method":"`, `"`)]
		if h == nil {
			h = handlers[""]
		}
		h(rw, r)
	}
}

// rpcAnswer answers a POST with 200 and body, in which $id stands for the
// request's id.
func rpcAnswer(contentType, body string) http.HandlerFunc {
	return rpcAnswerCode(http.StatusOK, contentType, body)
}

func rpcAnswerCode(code int, contentType, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		request, _ := io.ReadAll(r.Body)
		status(code, contentType, strings.ReplaceAll(body, "$id", rpcID(string(request))))(rw, r)
	}
}

// withHeader adds header fields, given in pairs, to what h answers.
func withHeader(h http.HandlerFunc, pairs ...string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			rw.Header().Add(pairs[i], pairs[i+1])
		}
		h(rw, r)
	}
}

// noContentType answers without one: net/http would make one up.
func noContentType(code int, body string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		rw.Header()["Content-Type"] = nil
		status(code, "", body)(rw, r)
	}
}

// after lets h answer only when d has gone by: in a bubble, when all else has
// come to rest.
func after(d time.Duration, h http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			h(rw, r)
		case <-r.Context().Done():
		}
	}
}

// silent never answers.
func silent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// breaksOff sends the beginning of an answer, with $id as in rpcAnswer, and
// breaks the connection.
func breaksOff(code int, contentType, beginning string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		request, _ := io.ReadAll(r.Body)
		rw.Header().Set("Content-Type", contentType)
		rw.WriteHeader(code)
		_, _ = io.WriteString(rw, strings.ReplaceAll(beginning, "$id", rpcID(string(request))))
		_ = http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	}
}

// count is how often a line stands in what has reached the wire, or a kind in
// what was observed.
func count(lines []string, line string) (n int) {
	for _, l := range lines {
		if l == line {
			n++
		}
	}
	return n
}

// must is for requests that get a response, whatever it is.
func must(t *testing.T, do func() (*http.Response, error)) *http.Response {
	t.Helper()
	resp, err := do()
	if err != nil {
		t.Fatalf("RoundTrip = %v, want a response", err)
	}
	return resp
}

// resume reconnects at a cursor and gets a response.
func (w *world) resume(t *testing.T, cursor string) *http.Response {
	t.Helper()
	return must(t, func() (*http.Response, error) { return w.reconnect(cursor) })
}

// isAmbiguous asserts that resp asks the client to come back with its cursor
// and says nothing else, and returns when.
func isAmbiguous(t *testing.T, resp *http.Response, cursor string) (e *middleware.SessionResumptionError, retry time.Duration) {
	t.Helper()
	err := middleware.ErrorFrom(resp)
	if !errors.As(err, &e) || !errors.Is(err, middleware.ErrLivenessUnknown) || e.Verdict != middleware.Ambiguous {
		t.Fatalf("ErrorFrom(%s) = %v, want an ambiguous ErrLivenessUnknown", resp.Status, err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("answer is %s of type %q, want 200 of text/event-stream", resp.Status, resp.Header.Get("Content-Type"))
	}
	want := `^retry: ([0-9]+)\ndata: ?\n\n$`
	if cursor != "" {
		want = `^id: ` + regexp.QuoteMeta(cursor) + `\n` + want[1:]
	}
	body := read(t, resp)
	m := regexp.MustCompile(want).FindStringSubmatch(body)
	if m == nil {
		t.Fatalf("body = %.300q, want only the cursor %q, retry and empty data", body, cursor)
	}
	if e.SessionID != sid || e.LastEventID != cursor {
		t.Errorf("error is of session %q at %q, want %q at %q", e.SessionID, e.LastEventID, sid, cursor)
	}
	ms, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return e, time.Duration(ms) * time.Millisecond
}

// isTerminal asserts that resp is the terminal outcome and returns its error.
func isTerminal(t *testing.T, resp *http.Response) *middleware.SessionResumptionError {
	t.Helper()
	var e *middleware.SessionResumptionError
	if err := middleware.ErrorFrom(resp); !errors.As(err, &e) {
		t.Fatalf("ErrorFrom(%s) = %v, want a *SessionResumptionError", resp.Status, err)
	}
	if resp.StatusCode != http.StatusNotFound || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("answer is %s of type %q, want 404 of application/problem+json", resp.Status, resp.Header.Get("Content-Type"))
	}
	if body := read(t, resp); strings.Contains(body, "jsonrpc") || strings.Contains(body, "notifications/") {
		t.Errorf("body = %q, want nothing of the server's", body)
	}
	return e
}

// isUntouched asserts that resp is the server's own answer.
func isUntouched(t *testing.T, resp *http.Response, code int, body string) {
	t.Helper()
	if err := middleware.ErrorFrom(resp); err != nil {
		t.Errorf("ErrorFrom(%s) = %v, want nil", resp.Status, err)
	}
	if got := read(t, resp); resp.StatusCode != code || got != body {
		t.Errorf("answer is %d %q, want %d %q", resp.StatusCode, got, code, body)
	}
}

// notification is one event of a server's own.
func notification(id, data string) string {
	event := `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + data + `"}}` + "\n\n"
	if id == "" {
		return event
	}
	return "id: " + id + "\n" + event
}
