package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

const heartbeat = ": keepalive\n\n"

// gets is the cursors of the GETs on the wire so far, "" for none.
func (w *world) gets() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := []string{}
	for _, s := range w.wire {
		if s.method == "GET" {
			out = append(out, s.cursor)
		}
	}
	return out
}

// lastGET is the header of the last GET on the wire.
func (w *world) lastGET() http.Header {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.wire) - 1; i >= 0; i-- {
		if w.wire[i].method == "GET" {
			return w.wire[i].header
		}
	}
	return nil
}

// readAll reconnects at a cursor, "" for none, and reads the stream to its end.
func (w *world) readAll(t *testing.T, cursor string) string {
	t.Helper()
	resp := w.resume(t, cursor)
	if err := middleware.ErrorFrom(resp); err != nil {
		t.Fatalf("ErrorFrom(answer at %q) = %v, want nil", cursor, err)
	}
	return read(t, resp)
}

// callAll makes a call and reads its answer to the end.
func (w *world) callAll(t *testing.T, method string) {
	t.Helper()
	read(t, must(t, func() (*http.Response, error) { return w.call(method) }))
}

// wantGETs asserts the cursors of all GETs on the wire.
func (w *world) wantGETs(t *testing.T, want ...string) {
	t.Helper()
	if got := w.gets(); !reflect.DeepEqual(got, want) {
		t.Errorf("cursors of the GETs on the wire = %q, want %q", got, want)
	}
}

// C37, C53: a client that has no cursor, because it was never given one, still
// resumes: its server may replay everything.
func TestSecondStandaloneGETIsGuardedWithoutACursor(t *testing.T) {
	for name, tc := range map[string]struct {
		first http.HandlerFunc
		probe http.HandlerFunc
		want  middleware.Verdict
	}{
		"live":                 {sseAnswer(notification("", "a")), alive, live},
		"dead":                 {sseAnswer(notification("", "a")), gone, dead},
		"dead, nothing before": {sseAnswer(), gone, dead},
		"dead, keepalives":     {sseAnswer(heartbeat, heartbeat), gone, dead},
		"undecided":            {sseAnswer(notification("", "a")), status(401, "", ""), ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = inTurn(tc.first, sseAnswer(replayed)), after(time.Millisecond, tc.probe)
				w.readAll(t, "")
				if got := w.observed(); len(got) != 0 {
					t.Errorf("observed %q after the first GET, want nothing", got)
				}
				resp := w.resume(t, "")
				switch tc.want {
				case live:
					isUntouched(t, resp, 200, replayed)
				case dead:
					if e := deadErr(t, isTerminal(t, resp)); e.QuarantinedEvents != 2 || e.LastEventID != "" {
						t.Errorf("error is %#v, want 2 events and no cursor", e)
					}
				default:
					isAmbiguous(t, resp, "")
				}
				if got, want := w.requests(), []string{"GET", "GET", "POST ping"}; !reflect.DeepEqual(got, want) {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
			})
		})
	}
}

// Also while the first stream is still open: some servers allow one only, and
// some clients are quicker than their own teardown.
func TestSecondStandaloneGETIsGuardedWhileTheFirstIsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = inTurn(openSSE(notification("5", "a")), sseAnswer(replayed)), after(time.Millisecond, gone)
		first := w.resume(t, "")
		defer first.Body.Close()
		_, _ = first.Body.Read(make([]byte, 500))
		if e := deadErr(t, isTerminal(t, w.resume(t, ""))); e.QuarantinedEvents != 2 {
			t.Errorf("%d events quarantined, want 2", e.QuarantinedEvents)
		}
		w.wantGETs(t, "", "") // nothing is put back: the stream had not ended
	})
}

// An answer to a POST is not the standalone stream: a session without one has
// its first GET before it.
func TestGETAfterOnlyPOSTStreamsIsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = sseAnswer(replayed), sseAnswer("id: c1-1\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n\n")
		w.callAll(t, "tools/call")
		isUntouched(t, w.resume(t, ""), 200, replayed)
		if got, want := w.requests(), []string{"POST tools/call", "GET"}; !reflect.DeepEqual(got, want) {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
	})
}

// C54: a stream that breaks again before it brings an id leaves the client
// without the cursor that it had.
func TestLostCursorIsPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.post = alive
		w.get = byCursor(map[string]http.HandlerFunc{
			"":    sseAnswer(notification("s-1", "a") + notification("s-2", "b") + notification("", "c")),
			"s-2": inTurn(sseAnswer(heartbeat), sseAnswer(heartbeat), sseAnswer(notification("s-3", "d"))),
			"s-3": sseAnswer(),
		})
		w.readAll(t, "")
		if got := w.readAll(t, "s-2"); got != heartbeat {
			t.Errorf("body = %q, want %q", got, heartbeat)
		}
		before := len(w.observed())
		req := w.request(t.Context(), "GET", "", "")
		resp := must(t, func() (*http.Response, error) { return w.transport.RoundTrip(req) })
		if got := read(t, resp); got != heartbeat {
			t.Errorf("body = %q, want %q", got, heartbeat)
		}
		if req.Header.Get("Last-Event-ID") != "" {
			t.Error("the client's own request was changed")
		}
		if resp.Request != req {
			t.Error("the answer's Request is not the client's")
		}
		if got := w.observed()[before:]; len(got) == 0 || got[0] != "cursor restored" || count(got, "cursor restored") != 1 {
			t.Errorf("observed %q, want cursor restored first", got)
		}
		if e := w.event(middleware.CursorRestored); e.LastEventID != "s-2" || e.SessionID != sid {
			t.Errorf("the hook was told of %q of session %q, want s-2 of %q", e.LastEventID, e.SessionID, sid)
		}
		w.readAll(t, "") // a stream that was put back can be lost again
		w.readAll(t, "") // and the cursor moves on with what it brings
		w.wantGETs(t, "", "s-2", "s-2", "s-2", "s-3")
		if got := w.lastGET().Values("Last-Event-Id"); !reflect.DeepEqual(got, []string{"s-3"}) {
			t.Errorf("Last-Event-ID on the wire = %q, want one of s-3", got)
		}
		if got := w.transport.Stats().CursorsRestored; got != 3 {
			t.Errorf("CursorsRestored = %d, want 3", got)
		}
	})
}

// What is put back is replayed like any other cursor: held and probed.
func TestReplayAtARestoredCursorIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.post = after(time.Millisecond, gone)
		w.get = byCursor(map[string]http.HandlerFunc{"": sseAnswer(notification("e1", "a")), "e1": openSSE(replayed)})
		w.readAll(t, "")
		if e := deadErr(t, isTerminal(t, w.resume(t, ""))); e.LastEventID != "e1" || e.QuarantinedEvents != 2 {
			t.Errorf("error is at %q with %d events, want at e1 with 2", e.LastEventID, e.QuarantinedEvents)
		}
		if got, want := w.requests(), []string{"GET", "GET e1", "POST ping"}; !reflect.DeepEqual(got, want) {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
	})
}

// An undecided answer gives the client the cursor that it had lost.
func TestUndecidedAnswerRepeatsTheRestoredCursor(t *testing.T) {
	for name, tc := range map[string]struct{ get, probe http.HandlerFunc }{
		"probe":       {openSSE(replayed), status(403, "", "")},
		"page":        {status(200, "text/html", "x"), alive},
		"unavailable": {withHeader(status(503, "", ""), "Retry-After", "16"), alive},
		"no headers":  {silent, alive},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				var well atomic.Bool
				w.post = func(rw http.ResponseWriter, r *http.Request) {
					if well.Load() {
						alive(rw, r)
					} else {
						tc.probe(rw, r)
					}
				}
				w.get = byCursor(map[string]http.HandlerFunc{"": sseAnswer(notification("a:17", "a")), "a:17": inTurn(tc.get, tc.get, sseAnswer(replayed))})
				w.readAll(t, "")
				isAmbiguous(t, w.resume(t, ""), "a:17")
				isAmbiguous(t, w.resume(t, ""), "a:17") // and a client that loses it again
				well.Store(true)
				isUntouched(t, w.resume(t, "a:17"), 200, replayed)
				w.wantGETs(t, "", "a:17", "a:17", "a:17")
			})
		})
	}
}

// A cursor belongs to one stream: that of a call's is never put on the
// standalone one.
func TestCursorOfACallIsNeverPutBack(t *testing.T) {
	newCallWorld := func(t *testing.T, standalone http.HandlerFunc) *world {
		w := newWorld(t, middleware.Config{})
		w.get = byCursor(map[string]http.HandlerFunc{
			"":      standalone,
			"std-4": sseAnswer(heartbeat),
			"c1-2":  sseAnswer(notification("c1-3", "progress")),
			"c1-3":  sseAnswer(notification("c1-4", "progress")),
			"c1-4":  sseAnswer(heartbeat),
		})
		w.post = byMethod(map[string]http.HandlerFunc{
			"tools/call": sseAnswer("id: c1-1\ndata: \n\n" + notification("c1-2", "progress")), "ping": alive,
		})
		return w
	}
	standalone := sseAnswer(notification("std-4", "a"))
	t.Run("resumed before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newCallWorld(t, standalone)
			defer w.close()
			w.readAll(t, "")
			w.callAll(t, "tools/call")
			w.readAll(t, "c1-2")
			w.readAll(t, "c1-3")
			w.readAll(t, "c1-4")
			w.readAll(t, "")
			w.readAll(t, "")
			w.wantGETs(t, "", "c1-2", "c1-3", "c1-4", "std-4", "std-4")
		})
	})
	t.Run("call before the standalone stream", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newCallWorld(t, standalone)
			defer w.close()
			w.callAll(t, "tools/call")
			w.readAll(t, "c1-2")
			w.readAll(t, "") // the first: there is nothing to put back
			w.readAll(t, "c1-3")
			w.readAll(t, "")
			w.wantGETs(t, "c1-2", "", "c1-3", "std-4")
		})
	})
	t.Run("standalone stream without ids", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newCallWorld(t, sseAnswer(notification("", "a")))
			defer w.close()
			w.readAll(t, "")
			w.callAll(t, "tools/call")
			w.readAll(t, "c1-2")
			w.readAll(t, "c1-3")
			w.readAll(t, "")
			w.wantGETs(t, "", "c1-2", "c1-3", "")
		})
	})
	t.Run("call that is forgotten", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newCallWorld(t, sseAnswer(notification("", "a")))
			defer w.close()
			w.readAll(t, "")
			w.callAll(t, "tools/call")
			other := w.post
			for i := range 100 { // more calls than cursors are kept of
				w.post = sseAnswer(notification(fmt.Sprintf("x%d-1", i), "progress"))
				w.callAll(t, "tools/call")
			}
			w.post = other
			w.readAll(t, "c1-2")
			w.readAll(t, "")
			w.wantGETs(t, "", "c1-2", "")
		})
	})
	t.Run("resumed before the broken body is closed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newCallWorld(t, standalone)
			defer w.close()
			w.readAll(t, "")
			events := "id: c1-1\ndata: \n\n" + notification("c1-2", "progress")
			ping := w.post
			w.post = byMethod(map[string]http.HandlerFunc{"tools/call": openSSE(events), "": ping})
			resp := must(t, func() (*http.Response, error) { return w.call("tools/call") })
			if _, err := io.ReadFull(resp.Body, make([]byte, len(events))); err != nil {
				t.Fatal(err)
			}
			w.readAll(t, "c1-2")
			resp.Body.Close()
			w.readAll(t, "")
			w.wantGETs(t, "", "c1-2", "std-4")
		})
	})
	t.Run("undecided and resumed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newCallWorld(t, standalone)
			defer w.close()
			w.readAll(t, "")
			w.callAll(t, "tools/call")
			probe := w.post
			w.post = status(401, "", "")
			isAmbiguous(t, w.resume(t, "c1-2"), "c1-2")
			w.post = probe
			w.readAll(t, "c1-2")
			w.readAll(t, "")
			w.wantGETs(t, "", "c1-2", "c1-2", "std-4")
		})
	})
	for name, first := range map[string]http.HandlerFunc{
		"not opened and resumed": status(200, "text/html", "<p>"),
		"refused and resumed":    status(401, "text/plain", "who"),
		"broken and resumed":     breaksOffAtOnce,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newCallWorld(t, standalone)
				defer w.close()
				w.base.DisableKeepAlives = true // or net/http itself repeats a GET that breaks
				w.get = byCursor(map[string]http.HandlerFunc{
					"": standalone, "c1-2": inTurn(first, sseAnswer(heartbeat)), "std-4": sseAnswer(heartbeat),
				})
				w.readAll(t, "")
				w.callAll(t, "tools/call")
				if resp, err := w.reconnect("c1-2"); err == nil {
					read(t, resp)
				}
				w.readAll(t, "c1-2")
				w.readAll(t, "")
				w.wantGETs(t, "", "c1-2", "c1-2", "std-4")
			})
		})
	}
}

// The standalone stream of one session is nobody else's.
func TestCursorOfAnotherSessionIsNeverPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = sseAnswer(notification("e1", "a")), alive
		w.readAll(t, "")
		for range 2 {
			req := w.request(t.Context(), "GET", "", "")
			req.Header.Set("Mcp-Session-Id", "another")
			w.get = sseAnswer(heartbeat)
			read(t, must(t, func() (*http.Response, error) { return w.transport.RoundTrip(req) }))
		}
		w.wantGETs(t, "", "", "")
	})
}

// C55, C56, C58: what the last event id of a stream is, is the specification's
// to say.
func TestCursorThatIsPutBack(t *testing.T) {
	for name, tc := range map[string]struct {
		stream string
		want   string // "" for none
	}{
		"one":                         {notification("41", "a"), "41"},
		"the last":                    {notification("41", "a") + notification("42", "b"), "42"},
		"sticky":                      {notification("41", "a") + notification("", "b"), "41"},
		"with spaces inside":          {notification("a b", "a"), "a b"},
		"not ASCII":                   {notification("küche", "a"), "küche"},
		"CR LF":                       {"id: 43\r\ndata: x\r\n\r\n", "43"},
		"CR":                          {"id: 44\rdata: x\r\r", "44"},
		"mark":                        {"\uFEFFid: 45\ndata: x\n\n", "45"},
		"no space":                    {"id:46\ndata: x\n\n", "46"},
		"two in one event":            {"id: 47\nid: 48\ndata: x\n\n", "48"},
		"no data":                     {"id: 49\n\n", "49"},
		"reset":                       {notification("41", "a") + "id:\ndata: x\n\n", ""},
		"reset, no colon":             {notification("41", "a") + "id\n\n", ""},
		"reset and set":               {notification("41", "a") + "id:\n\n" + notification("50", "b"), "50"},
		"NUL is ignored":              {notification("41", "a") + "id: 5\x001\ndata: x\n\n", "41"},
		"NUL alone":                   {"id: \x00\ndata: x\n\n", ""},
		"another case is no id":       {notification("41", "a") + "ID: 52\ndata: x\n\n", "41"},
		"another name is no id":       {notification("41", "a") + "idx: 53\ndata: x\n\n", "41"},
		"comment is no id":            {notification("41", "a") + ":id: 54\n\n", "41"},
		"control character":           {notification("41", "a") + "id: 5\x015\ndata: x\n\n", ""},
		"DEL":                         {"id: 5\x7f6\ndata: x\n\n", ""},
		"space before it":             {"id:  57\ndata: x\n\n", ""},
		"space after it":              {"id: 58 \ndata: x\n\n", ""},
		"tab after it":                {"id: 59\t\ndata: x\n\n", ""},
		"longer than any header":      {"id: " + strings.Repeat("y", 1<<20) + "\ndata: x\n\n", ""},
		"good one after a bad one":    {"id: 5\x019\ndata: x\n\n" + notification("60", "b"), "60"},
		"short one after a long one":  {"id: " + strings.Repeat("y", 1<<20) + "\ndata: x\n\n" + notification("61", "b"), "61"},
		"long, and then none at all":  {notification("41", "a") + "id: " + strings.Repeat("y", 1<<20) + "\ndata: x\n\n" + notification("", "b"), ""},
		"nothing":                     {"", ""},
		"only comments":               {heartbeat, ""},
		"only data":                   {notification("", "a"), ""},
		"only a retry":                {"retry: 10\n\n", ""},
		"id of an event without data": {notification("41", "a") + "id: 62\nevent: x\n\n", "62"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = inTurn(sseAnswer(tc.stream), sseAnswer(heartbeat)), alive
				if got := w.readAll(t, ""); got != tc.stream {
					t.Errorf("body = %.100q, want %.100q", got, tc.stream)
				}
				w.readAll(t, "")
				w.wantGETs(t, "", tc.want)
				wantCount := uint64(0)
				if tc.want != "" {
					wantCount = 1
				}
				if got := w.transport.Stats().CursorsRestored; got != wantCount || count(w.observed(), "cursor restored") != int(wantCount) {
					t.Errorf("CursorsRestored = %d, observed %q, want %d", got, w.observed(), wantCount)
				}
				if got := count(w.requests(), "POST ping"); got != 1 {
					t.Errorf("%d probes, want 1: the second GET is a reconnect all the same", got)
				}
			})
		})
	}
}

// An event that was torn off has not been handed on, and its id neither.
func TestCursorOfATornEventIsNotPutBack(t *testing.T) {
	for name, torn := range map[string]string{"after the id": "id: 12\n", "in the id": "id: 1", "in the data": "id: 12\ndata: {\"json", "before the blank line": "id: 12\ndata: {}\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get, w.post = inTurn(sseAnswer(notification("11", "a"), torn), sseAnswer(heartbeat)), alive
				resp := w.resume(t, "")
				if got, err := io.ReadAll(resp.Body); err == nil || string(got) != notification("11", "a") {
					t.Errorf("body = %q, %v, want the first event and an error", got, err)
				}
				w.readAll(t, "")
				w.wantGETs(t, "", "11")
			})
		})
	}
}

// What counts is what the client has read, not what the middleware has: from
// anywhere further on, events would be lost.
func TestCursorThatIsPutBackIsThatOfTheLastEventRead(t *testing.T) {
	events := []string{
		notification("21", "a"), notification("", "b"), notification("22", "c"), "id:\ndata: reset\n\n", notification("23", "d"), notification("24", "e"),
	}
	stream := strings.Join(events, "")
	// at is the cursor once so many bytes have been read, before the one that
	// the stream began at.
	at := func(n int, before string) string {
		cursors := []string{"21", "21", "22", "", "23", "24"}
		for i, e := range events {
			if n -= len(e); n < 0 {
				break
			}
			before = cursors[i]
		}
		return before
	}
	reads := []int{0, 1, len(events[0]) - 1, len(events[0]), len(events[0]) + 1, len(events[0]) + len(events[1])}
	for n, i := 0, 0; i < len(events); i++ {
		n += len(events[i])
		reads = append(reads, n-1, n, min(n+5, len(stream)))
	}
	for name, tc := range map[string]struct {
		reconnect bool
		atOnce    bool // the whole stream in one write
		buffer    int
	}{
		"first stream":                {false, true, 4096},
		"first stream, small reads":   {false, true, 7},
		"first stream, event by one":  {false, false, 4096},
		"held replay":                 {true, true, 4096},
		"held replay, small reads":    {true, true, 7},
		"held replay, event by event": {true, false, 64},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range reads {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, middleware.Config{})
					defer w.close()
					opened := openSSE(events...)
					if tc.atOnce {
						opened = openSSE(stream)
					}
					begin := []http.HandlerFunc{opened, sseAnswer(heartbeat)}
					cursor := ""
					if tc.reconnect {
						cursor = "20"
						begin = append([]http.HandlerFunc{sseAnswer(notification("20", "z"))}, begin...)
					}
					w.get, w.post = inTurn(begin...), after(time.Millisecond, alive)
					if tc.reconnect {
						w.readAll(t, "")
					}
					resp := w.resume(t, cursor)
					got := 0
					for got < n {
						k, err := resp.Body.Read(make([]byte, min(tc.buffer, n-got)))
						if err != nil {
							t.Fatalf("reading %d of %d bytes: %v", got, n, err)
						}
						got += k
					}
					resp.Body.Close()
					synctest.Wait()
					w.readAll(t, "")
					if gets := w.gets(); gets[len(gets)-1] != at(n, cursor) {
						t.Errorf("after %d of %d bytes the cursor is %q, want %q", n, len(stream), gets[len(gets)-1], at(n, cursor))
					}
				})
			}
		})
	}
}

// A replay that was never released was never read.
func TestCursorOfAQuarantinedReplayIsNotPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = inTurn(sseAnswer(notification("30", "a")), sseAnswer(notification("31", "b")+notification("32", "c")), sseAnswer(heartbeat))
		w.post = after(time.Millisecond, inTurn(status(400, "", ""), alive))
		w.readAll(t, "")
		isAmbiguous(t, w.resume(t, "30"), "30")
		w.readAll(t, "")
		w.wantGETs(t, "", "30", "30")
	})
}

// A server may refuse a cursor that the client did not ask for: then the
// client's own GET is sent.
func TestRestoredCursorThatIsRefusedIsDropped(t *testing.T) {
	for _, code := range []int{400, 412, 422} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.get = byCursor(map[string]http.HandlerFunc{
					"":    inTurn(sseAnswer(notification("z-9", "a")), sseAnswer(replayed), sseAnswer(heartbeat)),
					"z-9": status(code, "text/plain", "no such cursor"),
					"9":   sseAnswer(notification("10", "b")),
				})
				w.post = after(time.Millisecond, alive)
				w.readAll(t, "")
				isUntouched(t, w.resume(t, ""), 200, replayed)
				w.wantGETs(t, "", "z-9", "")
				if got := count(w.requests(), "POST ping"); got != 1 {
					t.Errorf("%d probes, want 1", got)
				}
				// The cursors that came since are as good as any.
				w.readAll(t, "")
				w.wantGETs(t, "", "z-9", "", "9")
			})
		})
	}
}

func TestRestoredCursorThatIsRefusedIsNotTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = byCursor(map[string]http.HandlerFunc{
			"":    inTurn(sseAnswer(notification("z-9", "a")), sseAnswer(heartbeat), status(400, "text/plain", "bare"), sseAnswer(heartbeat)),
			"z-9": status(400, "text/plain", "no such cursor"),
		})
		w.post = alive
		w.readAll(t, "")
		w.readAll(t, "")
		isUntouched(t, w.resume(t, ""), 400, "bare") // what the client's own GET got
		w.readAll(t, "")
		w.wantGETs(t, "", "z-9", "", "", "")
		if err := w.transport.SessionErr(sid); err != nil {
			t.Errorf("SessionErr(%q) = %v, want nil", sid, err)
		}
	})
}

// Other answers to a restored cursor are answers like any.
func TestOtherAnswersToARestoredCursor(t *testing.T) {
	for name, tc := range map[string]struct {
		answer http.HandlerFunc
		check  func(t *testing.T, w *world, resp *http.Response)
		gets   []string
	}{
		"not found": {gone, func(t *testing.T, _ *world, resp *http.Response) {
			if e := deadErr(t, isTerminal(t, resp)); e.LastEventID != "q5" {
				t.Errorf("cursor of the error = %q, want q5", e.LastEventID)
			}
		}, []string{"", "q5"}},
		"unauthenticated": {inTurn(status(401, "text/plain", "who"), sseAnswer(replayed)), func(t *testing.T, w *world, resp *http.Response) {
			isUntouched(t, resp, 401, "who")
			isUntouched(t, w.resume(t, ""), 200, replayed)
		}, []string{"", "q5", "q5"}},
		"forbidden": {inTurn(status(403, "text/plain", "no"), sseAnswer(replayed)), func(t *testing.T, w *world, resp *http.Response) {
			isUntouched(t, resp, 403, "no")
			isUntouched(t, w.resume(t, ""), 200, replayed)
		}, []string{"", "q5", "q5"}},
		"unavailable for a moment": {inTurn(status(503, "", ""), status(409, "", ""), sseAnswer(replayed)), func(t *testing.T, _ *world, resp *http.Response) {
			isUntouched(t, resp, 200, replayed)
		}, []string{"", "q5", "q5", "q5"}},
		"broken": {inTurn(breaksOffAtOnce, sseAnswer(replayed)), func(t *testing.T, w *world, resp *http.Response) {
			if resp != nil {
				t.Errorf("answer = %s, want the network's error", resp.Status)
			}
			isUntouched(t, w.resume(t, ""), 200, replayed)
		}, []string{"", "q5", "q5"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.base.DisableKeepAlives = true // or net/http itself repeats a GET that breaks
				w.get = byCursor(map[string]http.HandlerFunc{"": sseAnswer(notification("q5", "a")), "q5": tc.answer})
				w.post = alive
				w.readAll(t, "")
				resp, _ := w.reconnect("")
				tc.check(t, w, resp)
				w.wantGETs(t, tc.gets...)
			})
		})
	}
}

// A cursor that the client does have is the client's to choose, whatever the
// middleware knows.
func TestCursorOfTheClientIsSentAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = inTurn(sseAnswer(notification("51", "a")+notification("52", "b")+notification("53", "c")), sseAnswer(heartbeat))
		w.post = alive
		w.readAll(t, "")
		for _, cursor := range []string{"51", "53", "99", "not one of ours", "52"} {
			w.readAll(t, cursor)
			if got := w.lastGET()["Last-Event-Id"]; !reflect.DeepEqual(got, []string{cursor}) {
				t.Errorf("Last-Event-ID on the wire = %q, want %q", got, cursor)
			}
		}
		if got := w.transport.Stats().CursorsRestored; got != 0 {
			t.Errorf("CursorsRestored = %d, want 0", got)
		}
	})
}

// Once a client has gone back to an older cursor and read on from there, the
// newest one that the middleware knew is not the last that the client has read.
func TestCursorFromBeforeTheClientWentBackIsNotPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		two := notification("52", "b") + notification("53", "c")
		w.get = inTurn(
			sseAnswer(notification("51", "a")+two),
			sseAnswer(two+notification("54", "d")+notification("55", "e")),
			sseAnswer(heartbeat),
		)
		w.post = after(time.Millisecond, alive)
		w.readAll(t, "")
		w.readAll(t, "51")
		w.readAll(t, "")
		gets := w.gets()
		if got := gets[len(gets)-1]; got != "55" && got != "" {
			t.Errorf("cursor of the last GET = %q, want 55, which was read last, or none", got)
		}
	})
}

// A client may close the broken body only after it has resumed, and read on,
// in the next.
func TestCursorOfABodyThatIsClosedLateIsNotPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = inTurn(openSSE(notification("m1", "a")), sseAnswer(notification("m2", "b")+notification("m3", "c")), sseAnswer(heartbeat))
		w.post = after(time.Millisecond, alive)
		first := w.resume(t, "")
		event := make([]byte, len(notification("m1", "a")))
		if _, err := io.ReadFull(first.Body, event); err != nil {
			t.Fatal(err)
		}
		w.readAll(t, "m1")
		first.Body.Close()
		w.readAll(t, "")
		w.wantGETs(t, "", "m1", "m3")
	})
}

// Only what has ended is resumed; the client's own Close counts as an end.
func TestCursorIsPutBackOnceTheStreamIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = inTurn(sseAnswer(notification("m0", "z")), openSSE(heartbeat, notification("m1", "a")), sseAnswer(heartbeat))
		w.post = after(time.Millisecond, alive)
		w.readAll(t, "")
		first := w.resume(t, "m0")
		w.readAll(t, "") // nothing of it has been read, and it is open
		if _, err := io.ReadFull(first.Body, make([]byte, len(heartbeat+notification("m1", "a")))); err != nil {
			t.Fatal(err)
		}
		w.readAll(t, "")
		first.Body.Close()
		w.readAll(t, "")
		w.wantGETs(t, "", "m0", "", "", "m1")
	})
}
