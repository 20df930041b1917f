package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/middleware"
)

// DESIGN 4.3's table, row by row, with the SDKs' clients as those who get the
// outcome.

// sdkClient is either SDK's client.
type sdkClient struct {
	caller
	*inbox
	session string
	gone    error       // what its calls get of a session that is over
	alive   func() bool // whether it holds its session for alive
	end     func() error
}

var sdks = []string{"go-sdk", "mcp-go"}

func (a *arm) connect(sdk string) *sdkClient {
	a.t.Helper()
	if sdk == "go-sdk" {
		c := a.connectOfficial()
		return &sdkClient{c, &c.inbox, c.ID(), gosdk.ErrSessionMissing, c.alive, func() error { return c.err }}
	}
	c := a.connectMarks(!a.quiet)
	session := c.GetSessionId()
	return &sdkClient{
		c, &c.inbox, session, transport.ErrSessionTerminated,
		func() bool { synctest.Wait(); return c.GetSessionId() == session },
		func() error { return transport.ErrSessionTerminated },
	}
}

// checkOver checks that a client knows that its session is over, in its SDK's
// own words.
func (c *sdkClient) checkOver(t *testing.T) {
	t.Helper()
	if c.alive() {
		t.Errorf("the session is thought alive, want it over")
		return
	}
	if err := c.end(); !errors.Is(err, c.gone) {
		t.Errorf("the session ended with %v, want %v", err, c.gone)
	}
}

// script is a stub's GETs: the first stream says "one" and ends after a second,
// and asks to come back a second later. Then come the answers, and from then on
// a stream that goes on from there.
func script(s *stub, answers ...http.HandlerFunc) {
	s.get = func(w http.ResponseWriter, r *http.Request, n int) {
		switch {
		case n == 1:
			open(w, "retry: 1000\n\n", note("1", "one"))
			pause(r.Context(), time.Second)
		case n-2 < len(answers):
			answers[n-2](w, r)
		default:
			open(w, note("2", "two"), note("3", "three"))
			<-r.Context().Done()
		}
	}
}

// status is an answer that is no stream.
func status(code int, contentType, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// eachSDK runs f against a stub for both SDKs and both arms.
func eachSDK(t *testing.T, cfg middleware.Config, f func(t *testing.T, b *bed, s *stub, a *arm, sdk string)) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			eachArm(t, func(t *testing.T, name string) {
				virtualStub(t, func(t *testing.T, b *bed, s *stub) { f(t, b, s, b.arm(name, cfg), sdk) })
			})
		})
	}
}

var (
	oneTwoThree = []string{"one", "two", "three"}
	justOne     = oneTwoThree[:1]
)

// C03, C17: 404 and 410 at the reconnect, whatever their body.
func TestGoneAtTheReconnect(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"404":            status(404, "text/plain", "Session not found"),
		"404 JSON-RPC":   status(404, "application/json", `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`),
		"404 of a proxy": status(404, "text/html", "<html><h1>404</h1></html>"),
		"410":            status(410, "text/plain", ""),
		"410 JSON-RPC":   status(410, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"gone"}}`),
	}
	for what, answer := range answers {
		t.Run(what, func(t *testing.T) {
			eachSDK(t, middleware.Config{}, func(t *testing.T, b *bed, s *stub, a *arm, sdk string) {
				script(s, answer, answer, answer, answer)
				c := a.connect(sdk)
				b.until(2*time.Second + promptly)
				b.until(time.Minute)
				if a.guard == nil {
					t.Logf("control: alive %v, %v; %d GETs, %d DELETEs", c.alive(), c.end(), count(a.tap.of("", 0), "GET", ""), count(a.tap.of("", 0), "DELETE", ""))
					return
				}
				c.checkOver(t)
				wire := a.tap.of(c.session, 1500*time.Millisecond)
				if len(wire) != 1 || wire[0].method != http.MethodGet {
					t.Errorf("on the wire from the reconnect on: %v, want one GET", wire)
				}
				e := a.sessionErr(c.session)
				if e.Phase != middleware.PhaseReplay || !errors.Is(e, middleware.ErrSessionDead) || e.StatusCode != wire[0].status {
					t.Errorf("SessionErr(session) = %+v, want a death in phase replay by status %d", e, wire[0].status)
				}
				if _, err := c.call(t.Context(), "x", nil); err == nil {
					t.Errorf("call after the death = nil, want an error")
				}
				if got := c.all(); !slices.Equal(got, justOne) {
					t.Errorf("the client has %q, want %q", got, justOne)
				}
			})
		})
	}
}

// C82: a login page in place of the stream. The client keeps its cursor, comes
// back, and the session goes on when the page is gone.
func TestLoginPageAtTheReconnect(t *testing.T) {
	page := status(200, "text/html; charset=utf-8", "<!DOCTYPE html>\n<p>Sign in\n\nid: 99\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"forged\"}}\n\n")
	eachSDK(t, middleware.Config{}, func(t *testing.T, b *bed, s *stub, a *arm, sdk string) {
		script(s, page, page)
		c := a.connect(sdk)
		b.until(time.Minute)
		if a.guard == nil {
			t.Logf("control: alive %v, %v; the client has %q", c.alive(), c.end(), c.all())
			if sdk == "go-sdk" && c.alive() {
				t.Errorf("control: go-sdk's session lives, want it ended by the page")
			}
			return
		}
		if !c.alive() {
			t.Fatalf("session ended: %v", c.end())
		}
		if got := c.all(); !slices.Equal(got, oneTwoThree) {
			t.Errorf("the client has %q, want %q", got, oneTwoThree)
		}
		var cursors []string
		for _, w := range a.tap.of(c.session, 0) {
			if w.method == http.MethodGet {
				cursors = append(cursors, w.cursor)
			}
		}
		if want := []string{"", "1", "1", "1"}; !slices.Equal(cursors, want) {
			t.Errorf("cursors on the wire: %q, want %q", cursors, want)
		}
		if n := count(a.tap.of(c.session, 0), "POST", "ping"); n != 1 {
			t.Errorf("%d probes, want 1: a page needs none", n)
		}
	})
}

// C27, C40: what passes by itself must not end a session, as it does bare
// go-sdk's.
func TestUnavailableAtTheReconnect(t *testing.T) {
	for _, code := range []int{429, 500, 502, 503, 504} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			eachSDK(t, middleware.Config{}, func(t *testing.T, b *bed, s *stub, a *arm, sdk string) {
				busy := status(code, "text/plain", "later", "Retry-After", "5")
				script(s, busy, busy)
				c := a.connect(sdk)
				b.until(time.Minute)
				got := c.all()
				if a.guard == nil {
					if alive := c.alive(); alive != (sdk == "mcp-go") {
						t.Errorf("control: session alive %v (%v), want it ended for go-sdk only", alive, c.end())
					}
					return
				}
				if !c.alive() || !slices.Equal(got, oneTwoThree) {
					t.Errorf("session alive %v (%v), the client has %q, want it alive and %q", c.alive(), c.end(), got, oneTwoThree)
				}
				var at []time.Duration
				for _, w := range a.tap.of(c.session, time.Second) {
					if w.method == http.MethodGet {
						at = append(at, w.at)
					}
				}
				if len(at) != 3 || at[1]-at[0] != 5*time.Second || at[2]-at[1] != 5*time.Second {
					t.Errorf("GETs at %v, want three, five seconds apart", at)
				}
			})
		})
	}
}

// C27 on a call's stream: bare, both SDKs lose the call.
func TestUnavailableAtTheResumeOfACall(t *testing.T) {
	eachSDK(t, middleware.Config{}, func(t *testing.T, b *bed, s *stub, a *arm, sdk string) {
		resumes := 0
		var id json.RawMessage
		s.call = func(w http.ResponseWriter, r *http.Request, call json.RawMessage) {
			id = call
			open(w, "retry: 1000\n\n", note("call/1", "under way"))
		}
		s.get = func(w http.ResponseWriter, r *http.Request, _ int) {
			if !strings.HasPrefix(r.Header.Get(headerCursor), "call/") {
				quiet(w, r)
				return
			}
			if resumes++; resumes == 1 {
				status(503, "text/plain", "later")(w, r)
				return
			}
			open(w, "id: call/2\n"+answerTo(id, "done"))
		}
		c := a.connect(sdk)
		o := <-a.start(c, "x", nil)
		if a.guard == nil {
			if o.err == nil {
				t.Errorf("control: call = %+v, want it failed by a 503", o)
			}
			return
		}
		if o.text != "done" || o.err != nil || resumes != 2 {
			t.Errorf("call = %+v after %d resumes, want done after 2", o, resumes)
		}
		if !c.alive() {
			t.Errorf("session ended: %v", c.end())
		}
	})
}

// lingering is a dialer whose connections, once cut, are still open for the
// server for a while, as behind a proxy that has not noticed.
type lingering struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	time time.Duration

	mu    sync.Mutex
	conns []*lingeringConn
}

type lingeringConn struct {
	net.Conn
	cut    chan struct{}
	once   sync.Once
	linger time.Duration
}

func (l *lingering) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := l.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &lingeringConn{Conn: conn, cut: make(chan struct{}), linger: l.time}
	l.mu.Lock()
	l.conns = append(l.conns, c)
	l.mu.Unlock()
	return c, nil
}

// cutAll breaks every connection for the client, at once.
func (l *lingering) cutAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.once.Do(func() { close(c.cut) })
		_ = c.SetReadDeadline(time.Now())
	}
	l.conns = nil
}

func (c *lingeringConn) Close() error {
	select {
	case <-c.cut:
		time.AfterFunc(c.linger, func() { c.Conn.Close() })
		return nil
	default:
		return c.Conn.Close()
	}
}

// 409: go-sdk's server refuses a stream whose last connection it still holds
// for open.
func TestConflictWithAStreamThatLingers(t *testing.T) {
	eachArm(t, func(t *testing.T, name string) {
		synctest.Test(t, func(t *testing.T) {
			srv := newOfficialServer()
			b := newHandlerBed(t, srv.handler, srv.close)
			lingers := &lingering{dial: b.front.DialContext, time: 4 * time.Second}
			base := &http.Transport{DialContext: lingers.DialContext}
			t.Cleanup(base.CloseIdleConnections)
			a := newArm(t, name, middleware.Config{}, base)
			a.url = b.url
			c := a.connectOfficial()
			c.listenToAll(t)
			srv.say(t, "one")
			synctest.Wait()
			lingers.cutAll()
			synctest.Wait()
			srv.say(t, "two")
			b.until(time.Minute)
			conflicts := 0
			for _, w := range a.tap.of(c.ID(), 0) {
				if w.status == http.StatusConflict {
					conflicts++
				}
			}
			if conflicts == 0 {
				t.Errorf("no 409 came: this test is about one")
			}
			alive := c.alive()
			if a.guard == nil {
				if alive {
					t.Errorf("control: the session lives, want it ended by a 409")
				}
				return
			}
			if got := c.all(); !alive || !slices.Equal(got, []string{"one", "two"}) {
				t.Errorf("session alive %v (%v), the client has %q, want it alive, one and two", alive, c.err, got)
			}
		})
	})
}

// C90: 401 and 403 at the reconnect are the client's own business: both arms do
// the same, and nothing is fenced.
func TestUnauthorizedAtTheReconnect(t *testing.T) {
	for _, code := range []int{401, 403} {
		for _, sdk := range sdks {
			t.Run(fmt.Sprint(code, " ", sdk), func(t *testing.T) {
				var saw []string
				for _, name := range arms {
					virtualStub(t, func(t *testing.T, b *bed, s *stub) {
						a := b.arm(name, middleware.Config{})
						denied := status(code, "text/plain", "who are you", "WWW-Authenticate", "Bearer")
						script(s, denied, denied)
						c := a.connect(sdk)
						b.until(time.Minute)
						gets := a.tap.of(c.session, 0)
						end := ""
						if !c.alive() {
							end = fmt.Sprint(c.end())
						}
						saw = append(saw, fmt.Sprintf("alive %v %s, %d GETs, %d DELETEs", end == "", end, count(gets, "GET", ""), count(gets, "DELETE", "")))
						if a.guard != nil && len(a.observed(middleware.SessionDead)) != 0 {
							t.Errorf("the session was declared dead: %v", a.observed(middleware.SessionDead))
						}
					})
				}
				if saw[0] != saw[1] {
					t.Errorf("protected: %s\ncontrol: %s\nwant the same", saw[1], saw[0])
				}
			})
		}
	}
}

// undecidedProbes answer a probe so that it says nothing (C05, C12, C13, C15,
// C20).
var undecidedProbes = map[string]func(w http.ResponseWriter, r *http.Request, id json.RawMessage){
	"400":     refuseProbe(400, "Bad Request: No valid session ID"),
	"401":     refuseProbe(401, "who are you"),
	"403":     refuseProbe(403, "no"),
	"503":     refuseProbe(503, "later"),
	"hanging": func(_ http.ResponseWriter, r *http.Request, _ json.RawMessage) { <-r.Context().Done() },
	"202":     refuseProbe(202, ""),
	"an HTML page": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		status(200, "text/html", "<html>")(w, r)
	},
	"an error without id": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		status(200, "application/json", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}`)(w, r)
	},
	"an error in an event": func(w http.ResponseWriter, _ *http.Request, _ json.RawMessage) {
		open(w, "data: {\"error\":\"Session not found\"}\n\n")
	},
	"an error with its id": func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
		status(200, "application/json", `{"jsonrpc":"2.0","id":`+string(id)+`,"error":{"code":-32600,"message":"Invalid session ID"}}`)(w, r)
	},
	"somebody else's result": func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		result(w, json.RawMessage(`"other"`), `{}`)
	},
}

func refuseProbe(code int, body string) func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
	return func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
		status(code, "text/plain", body)(w, r)
	}
}

// A session that nobody can tell of: nothing is released, the client comes
// back, and in the third round the session is over, for the client as one that
// is dead.
func TestProbeThatSaysNothing(t *testing.T) {
	for what, ping := range undecidedProbes {
		t.Run(what, func(t *testing.T) {
			for _, sdk := range sdks {
				t.Run(sdk, func(t *testing.T) {
					virtualStub(t, func(t *testing.T, b *bed, s *stub) {
						a := b.arm("protected", middleware.Config{})
						script(s)
						s.ping = ping
						c := a.connect(sdk)
						b.until(10 * time.Minute)
						c.checkOver(t)
						if got := c.all(); !slices.Equal(got, justOne) {
							t.Errorf("the client has %q, want %q", got, justOne)
						}
						e := a.sessionErr(c.session)
						if !errors.Is(e, middleware.ErrLivenessUnknown) || e.Verdict != middleware.Ambiguous || e.Phase != middleware.PhaseProbe {
							t.Errorf("SessionErr(session) = %+v, want ErrLivenessUnknown in phase probe", e)
						}
						gets := 0
						for _, w := range a.tap.of(c.session, time.Second) {
							if w.method != http.MethodGet {
								continue
							}
							if gets++; w.cursor != "1" {
								t.Errorf("a reconnect has the cursor %q, want 1", w.cursor)
							}
						}
						if gets != middleware.DefaultAmbiguousRounds {
							t.Errorf("%d reconnects on the wire, want %d", gets, middleware.DefaultAmbiguousRounds)
						}
					})
				})
			}
		})
	}
}

// The same server, healed after two rounds: the session goes on, and what was
// held back comes, once.
func TestProbeThatSaysNothingForAWhile(t *testing.T) {
	for what, ping := range undecidedProbes {
		t.Run(what, func(t *testing.T) {
			for _, sdk := range sdks {
				t.Run(sdk, func(t *testing.T) {
					virtualStub(t, func(t *testing.T, b *bed, s *stub) {
						a := b.arm("protected", middleware.Config{})
						script(s)
						s.ping = func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
							s.mu.Lock()
							healed := s.gets > 3
							s.mu.Unlock()
							if healed {
								result(w, id, `{}`)
								return
							}
							ping(w, r, id)
						}
						c := a.connect(sdk)
						b.until(10 * time.Minute)
						if got := c.all(); !c.alive() || !slices.Equal(got, oneTwoThree) {
							t.Errorf("session alive %v (%v), the client has %q, want it alive and %q", c.alive(), c.end(), got, oneTwoThree)
						}
						if text, err := c.call(t.Context(), "x", nil); text != "ok" || err != nil {
							t.Errorf("call = %q, %v, want ok", text, err)
						}
					})
				})
			}
		})
	}
}

// The same on a call's stream: the answer that asks the client to come back
// repeats the cursor, without which go-sdk would give the call up.
func TestProbeThatSaysNothingForAWhileOfACall(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			virtualStub(t, func(t *testing.T, b *bed, s *stub) {
				a := b.arm("protected", middleware.Config{})
				var call json.RawMessage
				resumes := 0
				s.call = func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
					call = id
					open(w, "retry: 1000\n\n", note("call/1", "under way"))
				}
				s.get = func(w http.ResponseWriter, r *http.Request, _ int) {
					if cursor := r.Header.Get(headerCursor); cursor != "call/1" {
						quiet(w, r)
						return
					}
					resumes++
					open(w, note("call/2", "nearly there"), "id: call/3\n"+answerTo(call, "done"))
				}
				s.ping = func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
					if resumes < 3 {
						undecidedProbes["400"](w, r, id)
						return
					}
					result(w, id, `{}`)
				}
				c := a.connect(sdk)
				o := <-a.start(c, "x", nil)
				synctest.Wait()
				if o.text != "done" || o.err != nil || resumes != 3 {
					t.Errorf("call = %+v after %d resumes, want done after 3", o, resumes)
				}
				if got, want := c.all(), []string{"under way", "nearly there"}; !slices.Equal(got, want) || !c.alive() {
					t.Errorf("session alive %v (%v), the client has %q, want it alive and %q", c.alive(), c.end(), got, want)
				}
			})
		})
	}
}

// C58, C59: a released replay is what the server wrote: CRLF, split anywhere,
// with comments, an id after its data, and data on two lines.
func TestReleasedReplayIsDecodedAlike(t *testing.T) {
	replay := ": hello\r\n\r\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\r\ndata: \"params\":{\"level\":\"info\",\"data\":\"two\"}}\r\nid: 2\r\n\r\n" +
		"retry: 1000\r\nid: 3\r\nevent: message\r\ndata:{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"three\"}}\r\n\r\n"
	for _, chunk := range []int{1, 7, 1000} {
		t.Run(fmt.Sprintf("chunks of %d", chunk), func(t *testing.T) {
			eachSDK(t, middleware.Config{}, func(t *testing.T, b *bed, s *stub, a *arm, sdk string) {
				script(s, func(w http.ResponseWriter, r *http.Request) {
					open(w)
					for part := range slices.Chunk([]byte(replay), chunk) {
						say(w, string(part))
					}
					<-r.Context().Done()
				})
				c := a.connect(sdk)
				b.until(10 * time.Second)
				if got := c.all(); !slices.Equal(got, oneTwoThree) || !c.alive() {
					t.Errorf("session alive %v, the client has %q, want it alive and %q", c.alive(), got, oneTwoThree)
				}
			})
		})
	}
}

// What a server puts into the probe's answer belongs to the stream: the client
// gets it, once, after what was held.
func TestMessagesInTheProbesAnswerReachTheClientOnce(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			virtualStub(t, func(t *testing.T, b *bed, s *stub) {
				a := b.arm("protected", middleware.Config{})
				script(s)
				s.ping = func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
					open(w, "id: probe/1\ndata: \n\n", note("probe/2", "queued 1"), note("probe/3", "queued 2"),
						fmt.Sprintf("id: probe/4\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", id))
				}
				c := a.connect(sdk)
				b.until(5 * time.Second)
				want := append(slices.Clone(oneTwoThree), "queued 1", "queued 2")
				if got := c.all(); !slices.Equal(got, want) || !c.alive() {
					t.Errorf("session alive %v, the client has %q, want it alive and %q", c.alive(), got, want)
				}
			})
		})
	}
}
