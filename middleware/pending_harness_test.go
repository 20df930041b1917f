package middleware_test

import (
	"encoding/json"
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

// place is where a server asks its client: on the standalone stream or on that
// of the client's call 7, when it opens or once it is resumed, with events that
// have ids or not.
type place struct {
	name    string
	ofCall  bool
	resumed bool
	noIDs   bool
}

var places = []place{
	{name: "standalone"},
	{name: "standalone, resumed", resumed: true},
	{name: "standalone, no cursor", noIDs: true},
	{name: "call", ofCall: true},
	{name: "call, resumed", ofCall: true, resumed: true},
}

// onCall is the place where a call can be failed.
var onCall = place{name: "call", ofCall: true}

// asker is a server with a session in which it asks its client something.
type asker struct {
	*world
	place
	reply  http.HandlerFunc // to the client's answers; the zero value is a 202
	cursor string           // where the client stands
	events int
}

func newAsker(t *testing.T, at place, cfg middleware.Config) *asker {
	t.Helper()
	a := &asker{world: newWorld(t, cfg), place: at, reply: status(http.StatusAccepted, "", "")}
	a.post = byMethod(map[string]http.HandlerFunc{
		"ping": after(time.Millisecond, alive), // what has been sent is there
		"":     func(rw http.ResponseWriter, r *http.Request) { a.reply(rw, r) },
	})
	return a
}

// inBubble runs a test of one asker.
func inBubble(t *testing.T, at place, cfg middleware.Config, f func(*testing.T, *asker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t, at, cfg)
		defer a.close()
		f(t, a)
	})
}

// onTools answers the client's calls with h.
func (a *asker) onTools(h http.HandlerFunc) {
	rest := a.post
	a.post = byMethod(map[string]http.HandlerFunc{"tools/call": h, "": rest})
}

// message 12 of the server's, and what may become of it.
const (
	elicitation = `{"jsonrpc":"2.0","id":12,"method":"elicitation/create","params":{"message":"Delete it?"}}`
	withdrawal  = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12}}`
	callAnswer  = `{"jsonrpc":"2.0","id":7,"result":{"content":[]}}`
	progress    = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`
	toolCall    = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"rm"}}`
	answer12    = `{"jsonrpc":"2.0","id":12,"result":{"action":"accept"}}`
)

// request is a message of the server's that asks for something.
func request(id, method string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{}}`, id, method)
}

// asserting is message 12 with a liveness token.
func asserting(token string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":12,"method":"elicitation/create","params":{"_meta":{"revenant/livenessToken":%q}}}`, token)
}

// event makes an event of one message, with the next id where there are ids.
func (a *asker) event(message string) string {
	if a.noIDs {
		return "data: " + message + "\n\n"
	}
	a.events++
	return fmt.Sprintf("id: e-%d\ndata: %s\n\n", a.events, message)
}

func (a *asker) eventsOf(messages []string) (events []string) {
	for _, m := range messages {
		events = append(events, a.event(m))
	}
	return events
}

// blank is what stands in for an event that is kept back.
func blank(event string) string {
	id, _, ok := strings.Cut(event, "\n")
	if !ok || !strings.HasPrefix(id, "id: ") {
		return ""
	}
	return id + "\ndata: \n\n"
}

// opens opens the stream with h.
func (a *asker) opens(h http.HandlerFunc) *http.Response {
	a.t.Helper()
	if !a.ofCall {
		a.get = h
		return a.open()
	}
	a.onTools(h)
	return a.posts(toolCall)
}

// posts sends a message of the client's.
func (a *asker) posts(message string) *http.Response {
	a.t.Helper()
	resp, err := a.transport.RoundTrip(a.world.request(a.t.Context(), "POST", "", message))
	if err != nil {
		a.t.Fatalf("POST %s = %v, want a response", message, err)
	}
	return resp
}

// answers sends the answer to request 12 and wants the status. Its error is
// what ErrorFrom finds.
func (a *asker) answers(want int) error {
	a.t.Helper()
	resp := a.posts(answer12)
	body := read(a.t, resp)
	if resp.StatusCode != want {
		a.t.Errorf("the answer is answered %d %q, want %d", resp.StatusCode, body, want)
	}
	return middleware.ErrorFrom(resp)
}

// answersTo sends the answer to another request, which the server takes.
func (a *asker) answersTo(id string) {
	a.t.Helper()
	resp := a.posts(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
	if read(a.t, resp); resp.StatusCode != http.StatusAccepted {
		a.t.Errorf("the answer to %s is answered %d, want 202", id, resp.StatusCode)
	}
}

// loses sends the answer to request 12, which gets no answer of its own.
func (a *asker) loses() {
	a.t.Helper()
	reply := a.reply
	a.reply = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	if _, err := a.transport.RoundTrip(a.world.request(a.t.Context(), "POST", "", answer12)); err == nil {
		a.t.Error("the answer got an answer, want an error")
	}
	a.reply = reply
}

// brings lets the server send the messages for the first time, and returns
// their events and what the client reads of them.
func (a *asker) brings(messages ...string) (sent, got string) {
	a.t.Helper()
	if a.resumed {
		a.takes(a.opens(sseAnswer(a.event(progress))))
		return a.replays(messages...)
	}
	events := a.eventsOf(messages)
	return strings.Join(events, ""), a.takes(a.opens(sseAnswer(events...)))
}

// replays reconnects where the client stands, and returns what the server
// replays and what the client reads of it.
func (a *asker) replays(messages ...string) (sent, got string) {
	a.t.Helper()
	events := a.eventsOf(messages)
	a.get = sseAnswer(events...)
	return strings.Join(events, ""), a.takes(a.resume(a.t, a.cursor))
}

// takes reads a response to its end and keeps its cursor.
func (a *asker) takes(resp *http.Response) string {
	a.t.Helper()
	got := read(a.t, resp)
	a.stands(got)
	return got
}

func (a *asker) stands(got string) {
	if i := strings.LastIndex("\n"+got, "\nid: "); i >= 0 {
		a.cursor, _, _ = strings.Cut(got[i+len("id: "):], "\n")
	}
}

// keepsBack asserts that request 12, alone in a replay, does not get through.
func (a *asker) keepsBack(why string) {
	a.t.Helper()
	if sent, got := a.replays(elicitation); got != blank(sent) {
		a.t.Errorf("%s: a replay of %q = %q, want it kept back", why, sent, got)
	}
}

// failedCall is the JSON-RPC error by which a call is failed.
type failedCall struct {
	id, reason, method, request string
}

// stale7 fails call 7 for the sake of request 12.
var stale7 = failedCall{"7", "stale", "elicitation/create", "12"}

// failures are the failed calls in what a client has read.
func failures(t *testing.T, got string) (all []failedCall) {
	t.Helper()
	for line := range strings.SplitSeq(got, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || !strings.Contains(data, "-32001") {
			continue
		}
		var m struct {
			JSONRPC string
			ID      json.RawMessage
			Error   struct {
				Code    int
				Message string
				Data    struct {
					Reason, Method string
					RequestID      json.RawMessage
				}
			}
		}
		if err := json.Unmarshal([]byte(strings.Trim(data, "[]")), &m); err != nil {
			t.Errorf("%q is no JSON-RPC error: %v", data, err)
			continue
		}
		if m.JSONRPC != "2.0" || m.Error.Code != -32001 || m.Error.Message == "" {
			t.Errorf("%q is not the error -32001 of JSON-RPC 2.0", data)
		}
		all = append(all, failedCall{string(m.ID), m.Error.Data.Reason, m.Error.Data.Method, string(m.Error.Data.RequestID)})
	}
	return all
}

// failsOnce asserts that got fails one call, and nothing else.
func failsOnce(t *testing.T, got string, want failedCall) {
	t.Helper()
	if all := failures(t, got); len(all) != 1 || all[0] != want {
		t.Errorf("%q fails %+v, want %+v", got, all, want)
	}
	if strings.Contains(got, "elicitation/create\",\"params") {
		t.Errorf("%q has the request, too", got)
	}
}

// isStale asserts what the client's own code is told.
func isStale(t *testing.T, err error, call string) {
	t.Helper()
	var e *middleware.StaleElicitationError
	if !errors.As(err, &e) || !errors.Is(err, middleware.ErrStaleElicitation) {
		t.Errorf("error is %v, want a *StaleElicitationError", err)
		return
	}
	if e.SessionID != sid || e.RequestID != "12" || e.Method != "elicitation/create" || e.OriginRequestID != call || e.Reason == "" {
		t.Errorf("error is %+v, want request 12 of call %q", e, call)
	}
}

// origin is the call that is failed for a request of this place.
func (p place) origin() string {
	if p.ofCall {
		return "7"
	}
	return ""
}

// pending is Sessions().Pending of the one session.
func (a *asker) pending() int {
	a.t.Helper()
	all := a.transport.Sessions()
	if len(all) != 1 {
		a.t.Fatalf("%d sessions, want 1", len(all))
	}
	return all[0].Pending
}

// bodyOnly hides that a reader can be read again, so that a request gets no
// GetBody.
type bodyOnly struct{ io.Reader }

// elapse lets the bubble's time go by.
func elapse(d time.Duration) { time.Sleep(d) }
