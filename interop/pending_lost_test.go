package interop_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// loser loses the first answer to a server-to-client request on its way.
type loser struct {
	next http.RoundTripper
	how  string // "before" or "after" the server has it, or "503" in its place
	lost atomic.Bool
}

var errLost = errors.New("the connection was lost")

func (l *loser) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, req, err := isAnswer(req)
	if err != nil {
		return nil, err
	}
	if !answer || !l.lost.CompareAndSwap(false, true) {
		return l.next.RoundTrip(req)
	}
	switch l.how {
	case "503":
		return instead(req, http.StatusServiceUnavailable), nil
	case "after":
		resp, err := l.next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		resp.Body.Close()
	}
	return nil, errLost
}

// isAnswer reports whether a request answers one of the server's. What it
// returns is to be sent in its place.
func isAnswer(req *http.Request) (bool, *http.Request, error) {
	if req.Method != http.MethodPost {
		return false, req, nil
	}
	body, err := io.ReadAll(req.Body)
	req.Body.Close()
	if err != nil {
		return false, nil, err
	}
	var m struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(body, &m)
	req = req.Clone(req.Context())
	req.Body = io.NopCloser(bytes.NewReader(body))
	return m.Method == "" && m.ID != nil, req, nil
}

// instead is a response that no server has made.
func instead(req *http.Request, status int) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: req,
	}
}

// refuser refuses the first answers to server-to-client requests, as a server
// does that does not wait for them.
type refuser struct {
	next  http.RoundTripper
	times int64
	seen  atomic.Int64
}

func (r *refuser) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, req, err := isAnswer(req)
	if err != nil {
		return nil, err
	}
	if !answer || r.seen.Add(1) > r.times {
		return r.next.RoundTrip(req)
	}
	return instead(req, http.StatusBadRequest), nil
}

// An answer that is lost on the way to a server that waits for it. Without a
// token nobody can know that it does. With one, the person is asked once more.
func TestPendingAnswerLostOnTheWay(t *testing.T) {
	for _, sdk := range sdks {
		for _, how := range []string{"before", "503", "after"} {
			for _, token := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s %s token %v", sdk, how, token), func(t *testing.T) {
					eachArm(t, func(t *testing.T, name string) {
						server := inclusive
						server.LivenessToken = token
						p := &person{thinks: always(5 * time.Second)}
						asked(t, name, sdk, true, server, balancerFor(sdk, sixty), middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
							a.tap.base = &loser{next: a.tap.base, how: how}
							done := a.start(c, "confirm", confirmIt)
							b.until(10 * minute)
							o, end := ended(t, done)
							t.Logf("%s, answer lost %s, token %v, %s: prompts %d, call: %s", sdk, how, token, name, p.prompted(), end)
							switch {
							case how == "after":
								// The server had it, and its call ends.
								p.checkPrompts(t, 1)
								if o.text != yes || o.at != 5*time.Second {
									t.Errorf("%s: call %s, want it answered at 5s", name, end)
								}
							case a.guard == nil, token:
								p.checkPrompts(t, 2)
								if o.text != yes || o.at < 66*time.Second || o.at > 67*time.Second {
									t.Errorf("%s: call %s, want it answered at 66s", name, end)
								}
							default:
								p.checkPrompts(t, 1)
								checkStale(t, sdk, o.err)
								if o.at < 61*time.Second || o.at > 62*time.Second {
									t.Errorf("%s: call %s, want it failed at 61s", name, end)
								}
								a.checkStaleEvents(t, 1, asksForm, true)
							}
							a.checkLivesOn(t, c)
							checkAgain(t, c, p)
						})
					})
				})
			}
		}
	}
}

// The limit of that: the server has the answer, which nobody else knows, and
// works in silence. The middleware fails a call that would have succeeded; the
// person who is asked again can see what has been done.
func TestPendingAnswerLostAfterASilentServerHadIt(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			eachArm(t, func(t *testing.T, name string) {
				p := &person{thinks: always(5 * time.Second)}
				server := inclusive
				server.LivenessToken = true // the replay has the old one: it is not waiting
				asked(t, name, sdk, true, server, balancerFor(sdk, sixty), middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
					a.tap.base = &loser{next: a.tap.base, how: "after"}
					done := a.start(c, "confirm", map[string]any{"message": destructive, "work_events": 1, "interval_ms": 90_000})
					b.until(10 * minute)
					o, end := ended(t, done)
					t.Logf("%s, %s: prompts %d, call: %s", sdk, name, p.prompted(), end)
					if a.guard == nil {
						p.checkPrompts(t, 2)
						return
					}
					p.checkPrompts(t, 1)
					checkStale(t, sdk, o.err)
					a.checkStaleEvents(t, 1, asksForm, true)
					a.checkLivesOn(t, c)
				})
			})
		})
	}
}

// Two calls at once, of which one goes stale. The other one, which has asked on
// its own stream, is none the worse.
func TestPendingOneOfTwoCalls(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			server := mcpserver.Config{Replay: mcpserver.ReplayInclusive, OnBreak: mcpserver.BreakCancels, StaleAnswer: 400}
			// The first call's person is away when its stream idles. The second
			// call's never idles.
			p := &person{thinks: awayAt(90 * time.Second)}
			asked(t, "protected", sdk, true, server, balancerFor(sdk, sixty), middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
				first := a.start(c, "confirm", confirmIt)
				b.until(time.Second)
				second := a.start(c, "confirm", map[string]any{"message": destructive, "work_events": 10, "interval_ms": 20_000})
				b.until(10 * minute)
				o, end := ended(t, first)
				checkStale(t, sdk, o.err)
				other, otherEnd := ended(t, second)
				if other.text != yes || other.at != 206*time.Second {
					t.Errorf("the other call: %s, want %q after 3m26s", otherEnd, yes)
				}
				t.Logf("%s: prompts %d; the one call: %s; the other: %s", sdk, p.prompted(), end, otherEnd)
				var want []string
				for _, text := range numbered("confirm ", 10) {
					want = append(want, text+" of 10")
				}
				if got := c.all(); !slices.Equal(got, want) {
					t.Errorf("the client has %q, want %q", got, want)
				}
				p.checkPrompts(t, 2)
				a.checkStaleEvents(t, 1, asksForm, true)
				a.checkLivesOn(t, c)
			})
		})
	}
}

// Both calls' streams are cut and replayed, and of only one the server refuses
// the answer.
func TestPendingOneOfTwoReplayedCalls(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			p := &person{thinks: func(n int) time.Duration { return time.Duration(n) * 10 * time.Second }}
			asked(t, "protected", sdk, true, inclusive, lb.Config{}, middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
				a.tap.base = &refuser{next: a.tap.base, times: 1}
				first, second := a.start(c, "confirm", confirmIt), a.start(c, "confirm", confirmIt)
				b.until(5 * time.Second)
				b.cut(lb.CleanEnd)
				b.until(minute)
				o, end := ended(t, first)
				other, otherEnd := ended(t, second)
				if o.err == nil {
					o, other = other, o
				}
				t.Logf("%s: prompts %d; calls: %s; %s", sdk, p.prompted(), end, otherEnd)
				checkStale(t, sdk, o.err)
				if other.text != yes || other.err != nil || o.at != 10*time.Second || other.at != 20*time.Second {
					t.Errorf("calls: %s; %s, want one stale at 10s, the other %q at 20s", end, otherEnd, yes)
				}
				p.checkPrompts(t, 2)
				a.checkStaleEvents(t, 1, asksForm, true)
				a.checkLivesOn(t, c)
			})
		})
	}
}

// Both go stale, and each is told so once.
func TestPendingBothOfTwoCalls(t *testing.T) {
	for _, sdk := range sdks {
		t.Run(sdk, func(t *testing.T) {
			p := &person{thinks: func(n int) time.Duration { return time.Duration(n) * 10 * time.Second }}
			asked(t, "protected", sdk, true, inclusive, lb.Config{}, middleware.Config{}, p, func(t *testing.T, b *bed, a *arm, c *sdkClient) {
				a.tap.base = &refuser{next: a.tap.base, times: 2}
				done := []<-chan outcome{a.start(c, "confirm", confirmIt), a.start(c, "confirm", confirmIt)}
				b.until(5 * time.Second)
				b.cut(lb.CleanEnd)
				b.until(minute)
				var at []time.Duration
				for _, d := range done {
					o, _ := ended(t, d)
					checkStale(t, sdk, o.err)
					at = append(at, o.at)
				}
				slices.Sort(at)
				if want := []time.Duration{10 * time.Second, 20 * time.Second}; !slices.Equal(at, want) {
					t.Errorf("the calls failed at %v, want %v", at, want)
				}
				p.checkPrompts(t, 2)
				a.checkStaleEvents(t, 2, asksForm, true)
				a.checkLivesOn(t, c)
			})
		})
	}
}
