package interop_test

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

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// C83, C84: twenty sessions die at once and their clients do not give up. The
// load balancer cuts idle streams every half minute, so that listeners come
// back for ever.
func TestADeadSessionCostsTheWireTwoRequests(t *testing.T) {
	const sessions, cutoff = 20, 30 * time.Second
	// listen connects a client that only listens. insist has an application call
	// once a minute as well, whatever it gets.
	listen := func(sdk string) func(a *arm) (string, func(b *bed)) {
		return func(a *arm) (string, func(b *bed)) {
			c := a.connect(sdk)
			return c.session, nil
		}
	}
	insist := func(sdk string) func(a *arm) (string, func(b *bed)) {
		return func(a *arm) (string, func(b *bed)) {
			c := a.connect(sdk)
			return c.session, func(b *bed) {
				for range 60 {
					time.Sleep(time.Minute)
					_, _ = c.call(context.Background(), "echo", map[string]any{"text": "x"})
				}
			}
		}
	}
	for what, client := range map[string]func(a *arm) (string, func(b *bed)){
		"go-sdk listening": listen("go-sdk"), "mcp-go listening": listen("mcp-go"),
		"go-sdk calling": insist("go-sdk"), "mcp-go calling": insist("mcp-go"),
	} {
		t.Run(what, func(t *testing.T) {
			eachArm(t, func(t *testing.T, name string) {
				virtual(t, mcpserver.Config{Retry: time.Second}, lb.Config{IdleTimeout: cutoff}, func(t *testing.T, b *bed) {
					type dying struct {
						a       *arm
						session string
					}
					var all []dying
					var loops []func(b *bed)
					for range sessions {
						a := b.arm(name, middleware.Config{})
						session, loop := client(a)
						synctest.Wait()
						b.emit(session, "alive")
						all = append(all, dying{a, session})
						loops = append(loops, loop)
					}
					b.cut(lb.FIN)
					for _, d := range all {
						b.emit(d.session, "dead")
						b.server.Reap(d.session)
					}
					over := make(chan struct{}, sessions)
					for _, loop := range loops {
						go func() {
							if loop != nil {
								loop(b)
							}
							over <- struct{}{}
						}()
					}
					b.until(time.Hour + time.Minute)
					for range sessions {
						<-over
					}
					total, most := 0, 0
					for _, d := range all {
						n := 0
						for _, w := range d.a.tap.of(d.session, 0) {
							died, _ := b.server.Oracle().DiedAt(d.session)
							if w.at >= died.Sub(b.began) && w.at > 0 {
								n++
							}
						}
						total, most = total+n, max(most, n)
					}
					t.Logf("%s: %.1f requests on the wire for each of %d dead sessions in an hour, at most %d", name, float64(total)/sessions, sessions, most)
					if name == "protected" && (most > 2 || total < sessions) {
						t.Errorf("at most %d requests for a dead session, %d in all, want 2 at most, and 1 to find out", most, total)
					}
				})
			})
		})
	}
}

// C08, C74, C84: a client of no SDK that tries both its stream and its call
// again every 100 ms.
func TestANaiveClientCostsTheWireTwoRequests(t *testing.T) {
	const sessions = 20
	eachArm(t, func(t *testing.T, name string) {
		virtual(t, mcpserver.Config{}, lb.Config{}, func(t *testing.T, b *bed) {
			a := b.arm(name, middleware.Config{})
			var ids []string
			for range sessions {
				c := b.arm("control", middleware.Config{}).connect("mcp-go")
				synctest.Wait()
				b.emit(c.session, "alive", "dead")
				b.server.Reap(c.session)
				ids = append(ids, c.session)
			}
			cursors := map[string]string{}
			for _, e := range b.server.Oracle().History().Events {
				if cursors[e.SessionID] == "" {
					cursors[e.SessionID] = e.EventID
				}
			}
			rounds := 300
			if name == "control" {
				rounds = 30
			}
			applied := 0
			for range rounds {
				for _, id := range ids {
					applied += naive(t, a, id, cursors[id])
				}
				time.Sleep(100 * time.Millisecond)
			}
			n := len(a.tap.of("", 0))
			t.Logf("%s: %d requests for %d dead sessions in %d rounds, %d dead events applied", name, n, sessions, rounds, applied)
			if name == "control" {
				if n != 2*rounds*sessions || applied != rounds*sessions {
					t.Errorf("control: %d requests, %d dead events applied, want %d and %d", n, applied, 2*rounds*sessions, rounds*sessions)
				}
			} else if n > 2*sessions || applied != 0 {
				t.Errorf("protected: %d requests for %d dead sessions, %d dead events applied, want at most two each, and none", n, sessions, applied)
			}
		})
	})
}

// naive reconnects, reads one event, and calls. It returns how many events it
// was given.
func naive(t *testing.T, a *arm, session, cursor string) (events int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		req, err := http.NewRequestWithContext(ctx, method, a.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(headerSession, session)
		req.Header.Set("Accept", "application/json, text/event-stream")
		if method == http.MethodGet {
			req.Header.Set(headerCursor, cursor)
		} else {
			req.Header.Set("Content-Type", "application/json")
			req.Body = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`))
		}
		resp, err := a.http.Do(req)
		if err != nil {
			var dead *middleware.SessionResumptionError
			if !errors.As(err, &dead) {
				t.Fatal(err)
			}
			continue
		}
		if resp.StatusCode == http.StatusOK {
			buf := make([]byte, 4096)
			n, _ := resp.Body.Read(buf)
			events += strings.Count(string(buf[:n]), "notifications/message")
		}
		resp.Body.Close()
	}
	return events
}

// What is no verdict ends no session, and so may go on for ever: the numbers,
// for the record. 400 (C06) is passed on, 503 is held back and ends after three
// rounds.
func TestAnUndecidedServerIsNotAskedMoreThanWithoutUs(t *testing.T) {
	for _, code := range []int{400, 503} {
		for _, sdk := range sdks {
			t.Run(fmt.Sprint(code, " ", sdk), func(t *testing.T) {
				wire := map[string]int{}
				for _, name := range arms {
					virtualStub(t, func(t *testing.T, b *bed, s *stub) {
						refused := status(code, "text/plain", "no")
						first := func(w http.ResponseWriter, r *http.Request) {
							open(w, note("1", "one"))
						}
						s.get = func(w http.ResponseWriter, r *http.Request, n int) {
							if n == 1 {
								first(w, r)
								return
							}
							refused(w, r)
						}
						a := b.arm(name, middleware.Config{})
						c := a.connect(sdk)
						b.until(10 * time.Minute)
						wire[name] = count(a.tap.of(c.session, 0), http.MethodGet, "")
					})
				}
				t.Logf("GETs in 10 minutes: control %d, protected %d", wire["control"], wire["protected"])
				// One more: a cursor that was restored and refused is dropped.
				if code == 400 && wire["protected"] > wire["control"]+1 {
					t.Errorf("protected: %d GETs, control: %d, want no more", wire["protected"], wire["control"])
				}
				if code == 503 && wire["protected"] > 50 {
					t.Errorf("protected: %d GETs, want three rounds of them and an end", wire["protected"])
				}
			})
		}
	}
}
