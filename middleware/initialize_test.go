package middleware_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/revenant-mcp/revenant/middleware"
)

// bodies records the POST bodies that a Base was given, byte for byte, and the
// headers of each.
type bodies struct {
	http.RoundTripper
	mu      sync.Mutex
	sent    []string
	headers []http.Header
	lengths []int64
}

func (b *bodies) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPost {
		text, err := io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		b.sent = append(b.sent, string(text))
		b.headers = append(b.headers, req.Header.Clone())
		b.lengths = append(b.lengths, req.ContentLength)
		b.mu.Unlock()
		length := req.ContentLength
		req = req.WithContext(req.Context())
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(text)), length
	}
	return b.RoundTripper.RoundTrip(req)
}

// An id that a server gives out anew is another session of the same name.
func TestInitializeLiftsTheFenceOfTheIDItGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.kill()
		deadErr(t, w.transport.SessionErr(sid))
		w.initialize()
		if err := w.transport.SessionErr(sid); err != nil {
			t.Errorf("SessionErr(%q) = %v, want nil", sid, err)
		}
		if got := w.transport.Sessions(); len(got) != 1 || got[0].SessionID != sid || got[0].LastAlive.IsZero() {
			t.Errorf("Sessions() = %+v, want %q, found alive", got, sid)
		}
		w.post, w.get = alive, sseAnswer(replayed)
		w.mustCall("tools/list", 200)
		if got := read(t, w.open()); got != replayed {
			t.Errorf("the new session's first stream = %q, want %q", got, replayed)
		}
		if got, want := w.requests(), []string{"POST tools/list", "GET"}; strings.Join(got, ",") != strings.Join(want, ",") {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
	})
}

// Whatever an answer says that starts no session leaves the fence alone.
func TestAFenceStandsUntilAnotherSessionIsGivenItsID(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"another id": func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Mcp-Session-Id", "another")
			alive(rw, r)
		},
		"no id": alive,
		"refused": func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Mcp-Session-Id", sid)
			rw.WriteHeader(400)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				w.kill()
				w.post = answer
				req := w.message(t.Context(), "initialize")
				req.Header.Del("Mcp-Session-Id")
				resp, err := w.transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				read(t, resp)
				deadErr(t, w.transport.SessionErr(sid))
			})
		})
	}
}

// padded is an initialize of exactly n bytes, with all that a codec might
// change if it decoded the message and encoded it again.
func padded(n int) string {
	const head = "\t{ \"params\" : {\"x\":1.0e2, \"y\":\"<\\u00e9\\/>\", \"pad\":\""
	const tail = "\"},\r\n \"method\":\"initialize\", \"id\":0,\"jsonrpc\":\"2.0\" } \n"
	return head + strings.Repeat("p", n-len(head)-len(tail)) + tail
}

// MCP 2025-11-25, session management: a client that gets 404 sends an
// initialize "without a session ID attached". Some leave the old one on.
func TestInitializeWithAFencedIDGoesOutWithoutIt(t *testing.T) {
	for _, test := range []struct {
		name    string
		size    int
		chunked bool
	}{
		{"small", 200, false},
		{"small, of unknown length", 333, true},
		{"64 KiB", 64 << 10, false},
		{"64 KiB, of unknown length", 64 << 10, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base := &bodies{}
				w := newWorld(t, middleware.Config{Base: base})
				base.RoundTripper = w.base
				defer w.close()
				w.kill()
				w.post = func(rw http.ResponseWriter, r *http.Request) {
					rw.Header().Set("Mcp-Session-Id", "5f8a7c1e-second")
					rw.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(rw, `{"jsonrpc":"2.0","id":0,"result":{}}`)
				}
				text := padded(test.size)
				req := w.request(t.Context(), "POST", "", text)
				if test.chunked {
					req.ContentLength, req.GetBody = -1, nil
				}
				body := &requestBody{Reader: strings.NewReader(text)}
				req.Body = body
				req.Header.Set("Authorization", "Bearer b-77")
				before := req.Header.Clone()
				resp, err := w.transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := read(t, resp), `{"jsonrpc":"2.0","id":0,"result":{}}`; got != want || resp.StatusCode != 200 || middleware.ErrorFrom(resp) != nil {
					t.Errorf("answer is %s %q, want the server's %q", resp.Status, got, want)
				}
				if len(base.sent) != 2 {
					t.Fatalf("%d POSTs on the wire, want 2", len(base.sent))
				}
				if base.sent[1] != text {
					t.Errorf("sent %.80q… of %d bytes, want %.80q… of %d", base.sent[1], len(base.sent[1]), text, len(text))
				}
				want := before.Clone()
				want.Del("Mcp-Session-Id")
				if got := base.headers[1]; fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("sent the headers %v, want %v", got, want)
				}
				if fmt.Sprint(req.Header) != fmt.Sprint(before) {
					t.Errorf("the client's request now has the headers %v, want %v", req.Header, before)
				}
				if !body.closed() {
					t.Error("the request's body was not closed")
				}
				if n := w.kinds(middleware.Fenced); n != 0 {
					t.Errorf("fenced was observed %d times, want never", n)
				}
				deadErr(t, w.transport.SessionErr(sid))
				if got := ids(w.transport.Sessions()); got != "5f8a7c1e-second" {
					t.Errorf("Sessions() = %q, want the new one", got)
				}
			})
		})
	}
}

// The server may well give the fenced id out again in that answer.
func TestInitializeWithAFencedIDCanGetItAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.kill()
		w.post = func(rw http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Mcp-Session-Id"); got != "" {
				t.Errorf("initialize carries the id %q, want none", got)
			}
			rw.Header().Set("Mcp-Session-Id", sid)
			alive(rw, r)
		}
		w.mustCall("initialize", 200)
		w.post = alive
		w.mustCall("tools/list", 200)
	})
}

// All else that carries a fenced id is refused, whatever it looks like.
func TestOnlyAnInitializeGetsPastTheFence(t *testing.T) {
	for name, text := range map[string]string{
		"another method":      `{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"method":"initialize"}}`,
		"a notification":      `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		"an answer":           `{"jsonrpc":"2.0","id":41,"result":{"method":"initialize"}}`,
		"another case":        `{"jsonrpc":"2.0","id":41,"Method":"initialize"}`,
		"a longer method":     `{"jsonrpc":"2.0","id":41,"method":"initialize2"}`,
		"a method in a list":  `{"jsonrpc":"2.0","id":41,"method":["initialize"]}`,
		"a batch":             `[{"jsonrpc":"2.0","id":41,"method":"initialize"},{"jsonrpc":"2.0","id":42,"method":"tools/call"}]`,
		"two messages":        `{"jsonrpc":"2.0","id":41,"method":"initialize"}{"jsonrpc":"2.0","id":42,"method":"tools/call"}`,
		"broken":              `{"jsonrpc":"2.0","id":41,"method":"initialize"`,
		"nothing":             ``,
		"more than 64 KiB":    padded(64<<10 + 1),
		"very much more":      padded(1 << 20),
		"a method said twice": `{"jsonrpc":"2.0","method":"initialize","id":41,"method":"tools/call"}`,
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/chunked=%v", name, chunked), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, middleware.Config{})
					defer w.close()
					w.kill()
					w.post = alive
					req := w.request(t.Context(), "POST", "", text)
					body := &requestBody{Reader: strings.NewReader(text)}
					req.Body = body
					if chunked {
						req.ContentLength, req.GetBody = -1, nil
					}
					resp, err := w.transport.RoundTrip(req)
					if e := problem(t, resp, err); e.Phase != middleware.PhaseFence {
						t.Errorf("phase %q, want fence", e.Phase)
					}
					if !body.closed() {
						t.Error("the request's body was not closed")
					}
					if got := w.requests(); len(got) != 1 {
						t.Errorf("on the wire: %q, want only the first", got)
					}
				})
			})
		}
	}
}

// A body that cannot be read is no initialize, and closed.
func TestARefusedBodyThatFailsIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.kill()
		req := w.request(t.Context(), "POST", "", "")
		body := &requestBody{Reader: io.MultiReader(strings.NewReader(`{"method":"initialize"`), iotestErr{})}
		req.Body, req.ContentLength = body, -1
		resp, err := w.transport.RoundTrip(req)
		problem(t, resp, err)
		if !body.closed() {
			t.Error("the request's body was not closed")
		}
	})
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, io.ErrNoProgress }
