package middleware_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

var (
	taken   = status(http.StatusAccepted, "", "")
	refuses = status(http.StatusBadRequest, "application/json", `{"jsonrpc":"2.0","error":{"code":-32600,"message":"no such request"}}`)
)

// A refused answer is the business of the call that has asked: the client must
// not take it for the end of its session.
func TestARefusedAnswerIsStaleAtOnce(t *testing.T) {
	for _, code := range []int{400, 405, 413, 415, 422} {
		for _, p := range places {
			inBubble(t, p, middleware.Config{}, func(t *testing.T, a *asker) {
				a.brings(elicitation)
				a.reply = status(code, "text/plain", "no")
				isStale(t, a.answers(http.StatusAccepted), a.origin())
				e := a.world.event(middleware.Stale)
				isStale(t, e.Err, a.origin())
				if e.StatusCode != code || e.SessionID != sid || e.RequestID != "12" || e.RPCMethod != "elicitation/create" || e.OriginRequestID != a.origin() {
					t.Errorf("event = %+v", e)
				}
				sent, got := a.replays(elicitation, progress)
				events := strings.SplitAfter(sent, "\n\n")
				rest, ok := strings.CutPrefix(got, blank(events[0])+events[1])
				if !ok {
					t.Errorf("%s, %d: %q, want the request kept back", p.name, code, got)
				}
				if !p.ofCall && rest != "" {
					t.Errorf("%s, %d: %q behind the replay, want nothing", p.name, code, rest)
				}
				if p.ofCall {
					failsOnce(t, rest, stale7)
					if strings.Contains(rest, "id: ") {
						t.Errorf("the failure %q has a cursor of its own", rest)
					}
					sent, got = a.replays(callAnswer)
					if got != blank(sent) {
						t.Errorf("the answer of a failed call = %q, want it kept back", got)
					}
				}
				if n := a.transport.Stats().Stale; n != 1 {
					t.Errorf("Stale = %d, want 1", n)
				}
			})
		}
	}
}

// The 202 is an ordinary answer, for the client and for who stands between.
func TestTheAnswerInPlaceOfARefusal(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.reply = refuses
		req := a.world.request(t.Context(), "POST", "", answer12)
		resp, err := a.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		isStale(t, middleware.ErrorFrom(resp), "7")
		if resp.StatusCode != 202 || resp.Status != "202 Accepted" || resp.Header.Get("Content-Type") != "" || resp.ContentLength != 0 {
			t.Errorf("answer is %q of type %q with %d bytes", resp.Status, resp.Header.Get("Content-Type"), resp.ContentLength)
		}
		if got := read(t, resp); got != "" {
			t.Errorf("body = %q, want none", got)
		}
		for _, s := range a.transport.Sessions() {
			if s.InFlight != 0 {
				t.Errorf("InFlight = %d, want 0", s.InFlight)
			}
		}
	})
}

// The refusal itself is closed: its connection must not wait for a reader.
func TestARefusalThatIsKeptFromTheClientIsClosed(t *testing.T) {
	refusal := &requestBody{Reader: strings.NewReader("no")}
	tr, err := middleware.New(middleware.Config{Base: baseFunc(func(req *http.Request) (*http.Response, error) {
		if req.Method == "GET" {
			return fakeAnswer(req, 200, asSSE, io.NopCloser(strings.NewReader(data(elicitation)))), nil
		}
		req.Body.Close()
		return fakeAnswer(req, 400, "text/plain", refusal), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []struct{ method, body string }{{"GET", ""}, {"POST", answer12}} {
		req, err := http.NewRequestWithContext(t.Context(), m.method, "http://mcp.test/mcp", strings.NewReader(m.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Mcp-Session-Id", sid)
		read(t, must(t, func() (*http.Response, error) { return tr.RoundTrip(req) }))
	}
	if n := tr.Stats().Stale; n != 1 || refusal.closes != 1 {
		t.Errorf("Stale = %d and the refusal was closed %d times, want 1 and once", n, refusal.closes)
	}
}

// A header without a value is no header: a proxy would write it out.
func TestTheAnswerInPlaceOfARefusalHasNoEmptyHeader(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.reply = refuses
		resp := a.posts(answer12)
		read(t, resp)
		if v, ok := resp.Header["Content-Type"]; ok {
			t.Errorf("Content-Type = %q, want none", v)
		}
	})
}

// A refusal of anything else than answers to known requests is the client's to
// see.
func TestARefusalThatTheClientSees(t *testing.T) {
	for name, tc := range map[string]struct {
		body  string
		want  int
		stale uint64
	}{
		"the answer":               {answer12, 202, 1},
		"written otherwise":        {strings.Replace(answer12, "12", "12.0", 1), 202, 1},
		"an error as answer":       {`{"jsonrpc":"2.0","id":12,"error":{"code":-1,"message":"no"}}`, 202, 1},
		"a batch of answers":       {`[` + answer12 + `]`, 202, 1},
		"a batch of two":           {`[` + answer12 + `,{"jsonrpc":"2.0","id":13,"result":{}}]`, 202, 2},
		"with an unknown one":      {`[` + answer12 + `,{"jsonrpc":"2.0","id":99,"result":{}}]`, 400, 1},
		"with a call":              {`[` + answer12 + `,{"jsonrpc":"2.0","id":8,"method":"tools/list"}]`, 400, 1},
		"with a notification":      {`[` + answer12 + `,{"jsonrpc":"2.0","method":"notifications/x"}]`, 400, 1},
		"with a withdrawal":        {`[` + answer12 + `,{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":8}}]`, 400, 1},
		"an unknown one":           {`{"jsonrpc":"2.0","id":99,"result":{}}`, 400, 0},
		"a string for a number":    {`{"jsonrpc":"2.0","id":"12","result":{}}`, 400, 0},
		"a call":                   {`{"jsonrpc":"2.0","id":12,"method":"tools/list"}`, 400, 0},
		"a notification":           {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 400, 0},
		"a response without an id": {`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":""}}`, 400, 0},
		"nonsense":                 {`nonsense`, 400, 0},
	} {
		for kind, wrap := range map[string]func(string) io.Reader{
			"again":  func(s string) io.Reader { return strings.NewReader(s) },
			"stream": func(s string) io.Reader { return bodyOnly{strings.NewReader(s)} },
		} {
			inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
				a.brings(elicitation, request("13", "roots/list"))
				a.onTools(refuses)
				a.post = byMethod(map[string]http.HandlerFunc{"ping": alive, "": refuses})
				req := a.world.request(t.Context(), "POST", "", "x")
				req.Body, req.GetBody, req.ContentLength = nil, nil, 0
				made, err := http.NewRequestWithContext(t.Context(), "POST", a.url, wrap(tc.body))
				if err != nil {
					t.Fatal(err)
				}
				made.Header = req.Header
				resp, err := a.transport.RoundTrip(made)
				if err != nil {
					t.Fatal(err)
				}
				body := read(t, resp)
				if resp.StatusCode != tc.want || (tc.want == 400) != (body != "") {
					t.Errorf("%s, %s: %d %q, want %d", name, kind, resp.StatusCode, body, tc.want)
				}
				if n := a.transport.Stats().Stale; n != tc.stale {
					t.Errorf("%s, %s: Stale = %d, want %d", name, kind, n, tc.stale)
				}
			})
		}
	}
}

// A refusal of what is over already is no news: nothing fails again.
func TestARefusalOfWhatIsOverIsKeptFromTheClient(t *testing.T) {
	for name, over := range map[string]func(*testing.T, *asker){
		"answered already": func(t *testing.T, a *asker) { a.answers(202) },
		"cancelled":        func(t *testing.T, a *asker) { a.replays(withdrawal) },
		"its call is over": func(t *testing.T, a *asker) { a.replays(callAnswer) },
		"refused already":  func(t *testing.T, a *asker) { a.reply = refuses; a.answers(202) },
		"stale in place":   func(t *testing.T, a *asker) { a.loses(); a.replays(elicitation) },
		"answered, over":   func(t *testing.T, a *asker) { a.answers(202); a.replays(callAnswer) },
	} {
		for _, others := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
					a.brings(elicitation)
					if others { // something else is still to be answered
						a.replays(request("13", "roots/list"))
					}
					over(t, a)
					before := a.transport.Stats().Stale
					a.reply = refuses
					a.answers(http.StatusAccepted)
					if n := a.transport.Stats().Stale; n != before {
						t.Errorf("Stale = %d after %d, want no more", n, before)
					}
					_, got := a.replays(progress)
					if n := len(failures(t, got)); n > 0 && before == 0 {
						t.Errorf("%q fails a call, want none", got)
					}
				})
			})
		}
	}
}

// Wherever the call's stream stands when its request's answer is refused, the
// call learns it once.
func TestARefusedAnswerFailsTheCallWhereverItsStreamStands(t *testing.T) {
	t.Run("blocked in a read", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			f := newFeed()
			f.first = a.event(elicitation)
			resp := a.opens(f.ServeHTTP)
			r := follow(resp, 4096)
			synctest.Wait()
			a.reply = refuses
			a.answers(202)
			<-r.done
			rest, ok := strings.CutPrefix(r.text(), f.first)
			if !ok || r.ended() != io.EOF {
				t.Errorf("read %q and %v, want the request and a clean end", r.text(), r.ended())
			}
			failsOnce(t, rest, stale7)
			resp.Body.Close()
		})
	})
	t.Run("blocked behind a torn event", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			f := newFeed()
			f.first = a.event(elicitation)
			resp := a.opens(f.ServeHTTP)
			r := follow(resp, 10)
			f.pieces <- "id: torn\ndata: {"
			synctest.Wait()
			a.reply = refuses
			a.answers(202)
			<-r.done
			rest, ok := strings.CutPrefix(r.text(), f.first)
			if !ok || r.ended() != io.EOF || strings.Contains(rest, "torn") {
				t.Errorf("read %q and %v, want the request, nothing torn, and a clean end", r.text(), r.ended())
			}
			failsOnce(t, rest, stale7)
			resp.Body.Close()
		})
	})
	t.Run("open, and nobody reads", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			ask := a.event(elicitation)
			resp := a.opens(openSSE(ask))
			if got := readN(t, resp.Body, len(ask)); got != ask {
				t.Fatalf("read %q, want %q", got, ask)
			}
			a.reply = refuses
			a.answers(202)
			failsOnce(t, read(t, resp), stale7)
		})
	})
	t.Run("held", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(elicitation)
			f := newFeed()
			f.first = a.event(progress)
			a.get = f.ServeHTTP
			a.post = byMethod(map[string]http.HandlerFunc{"ping": after(time.Second, alive), "": refuses})
			o := send(a.transport, a.world.request(t.Context(), "GET", a.cursor, ""))
			synctest.Wait()
			a.answers(202)
			more := a.event(progress)
			f.pieces <- more // what comes until the verdict belongs to the replay
			synctest.Wait()
			if o.returned() {
				t.Fatal("the replay was released before its verdict")
			}
			<-o.done
			rest, ok := strings.CutPrefix(read(t, must(t, func() (*http.Response, error) { return o.resp, o.err })), f.first+more)
			if !ok {
				t.Errorf("what was held is not there, but %q", rest)
			}
			failsOnce(t, rest, stale7)
		})
	})
	t.Run("held by the lease", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{LivenessLease: time.Minute}, func(t *testing.T, a *asker) {
			f := newFeed()
			f.first = a.event(elicitation)
			r := follow(a.opens(f.ServeHTTP), 4096)
			synctest.Wait()
			a.post = byMethod(map[string]http.HandlerFunc{"ping": after(time.Second, alive), "": refuses})
			time.Sleep(2 * time.Minute)
			held := a.event(progress)
			f.pieces <- held
			synctest.Wait() // it is held, and the session probed
			a.answers(202)
			<-r.done
			rest, ok := strings.CutPrefix(r.text(), f.first)
			if !ok || r.ended() != io.EOF {
				t.Errorf("read %q and %v, want the request, the failure and a clean end", r.text(), r.ended())
			}
			failsOnce(t, rest, stale7)
			r.body.Close()
		})
	})
	t.Run("between reconnects, and empty then", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(elicitation)
			a.reply = refuses
			a.answers(202)
			_, got := a.replays()
			failsOnce(t, got, stale7)
			if _, got := a.replays(); got != "" {
				t.Errorf("the next replay = %q, want nothing", got)
			}
		})
	})
	t.Run("between reconnects, and then its answer", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(elicitation)
			a.reply = refuses
			a.answers(202)
			if sent, got := a.replays(callAnswer); got != sent {
				t.Errorf("%q, want the call's own answer alone: %q", got, sent)
			}
			if _, got := a.replays(progress); len(failures(t, got)) > 0 {
				t.Errorf("%q fails a call that was answered", got)
			}
		})
	})
	t.Run("the old one lingers when it is resumed", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			ask := a.event(elicitation)
			old := a.opens(openSSE(ask))
			a.stands(readN(t, old.Body, len(ask))) // and then nothing comes any more
			a.get = openSSE(a.event(progress))
			r := follow(a.resume(t, a.cursor), 4096)
			synctest.Wait()
			a.reply = refuses
			a.answers(202)
			synctest.Wait()
			failsOnce(t, r.text(), stale7)
			old.Body.Close()
			r.body.Close()
			<-r.done
		})
	})
	t.Run("the old one lingers while the new one is held", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			ask := a.event(elicitation)
			old := a.opens(openSSE(ask))
			a.stands(readN(t, old.Body, len(ask)))
			held := a.event(progress)
			a.get = openSSE(held)
			a.post = byMethod(map[string]http.HandlerFunc{"ping": after(time.Second, alive), "": refuses})
			o := send(a.transport, a.world.request(t.Context(), "GET", a.cursor, ""))
			synctest.Wait()
			a.answers(202)
			<-o.done
			r := follow(must(t, func() (*http.Response, error) { return o.resp, o.err }), 4096)
			synctest.Wait()
			failsOnce(t, strings.TrimPrefix(r.text(), held), stale7)
			old.Body.Close()
			r.body.Close()
			<-r.done
		})
	})
	t.Run("closed before the failure was read", func(t *testing.T) {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			ask := a.event(elicitation)
			resp := a.opens(openSSE(ask))
			a.stands(readN(t, resp.Body, len(ask)))
			a.reply = refuses
			a.answers(202)
			resp.Body.Close()
			_, got := a.replays(progress)
			failsOnce(t, got, stale7)
		})
	})
}

func readN(t *testing.T, r io.Reader, n int) string {
	t.Helper()
	p := make([]byte, n)
	if _, err := io.ReadFull(r, p); err != nil {
		t.Fatalf("reading %d bytes: %v", n, err)
	}
	return string(p)
}

// The standalone stream goes on: it belongs to no call.
func TestARefusedAnswerLeavesTheStandaloneStreamOpen(t *testing.T) {
	inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
		f := newFeed()
		f.first = a.event(elicitation)
		r := follow(a.opens(f.ServeHTTP), 4096)
		synctest.Wait()
		a.reply = refuses
		isStale(t, a.answers(202), "")
		next := a.event(progress)
		f.pieces <- next
		close(f.pieces)
		<-r.done
		if r.text() != f.first+next || r.ended() != io.EOF {
			t.Errorf("read %q and %v, want %q and a clean end", r.text(), r.ended(), f.first+next)
		}
		r.body.Close()
	})
}

// With other credentials, or at another place, the client sends it again.
func TestAnAnswerThatMayBeSentAgainChangesNothing(t *testing.T) {
	for _, code := range []int{401, 403, 407, 307} {
		forEachPlace(t, middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(elicitation)
			a.reply = status(code, "text/plain", "not yet")
			if err := a.answers(code); err != nil {
				t.Errorf("ErrorFrom(%d) = %v, want nil", code, err)
			}
			a.keepsBack("not answered yet")
			if n := a.pending(); n != 1 {
				t.Errorf("Pending = %d after %d, want 1", n, code)
			}
			a.reply = taken
			a.answers(202)
			a.keepsBack("answered")
			if n := a.transport.Stats().Stale; n != 0 {
				t.Errorf("Stale = %d, want 0", n)
			}
		})
	}
}

// A lost answer that the client sends again, and with success, is not lost.
func TestALostAnswerThatIsSentAgain(t *testing.T) {
	forEachPlace(t, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.loses()
		a.reply = taken
		a.answers(202)
		a.keepsBack("answered")
		a.keepsBack("answered")
		if n := a.transport.Stats().Stale; n != 0 {
			t.Errorf("Stale = %d, want 0", n)
		}
	})
}

// A client that gives its answer up does not know, and nobody does.
func TestAnAnswerThatTheClientGaveUpIsLost(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		a.reply = silent
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.transport.RoundTrip(a.world.request(ctx, "POST", "", answer12)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("RoundTrip = %v, want %v", err, context.DeadlineExceeded)
		}
		synctest.Wait()
		_, got := a.replays(elicitation)
		failsOnce(t, got, stale7)
	})
}

// A 404 or 410 is the session's end, not the request's.
func TestAnAnswerThatIsAnswered404EndsTheSession(t *testing.T) {
	for _, code := range []int{404, 410} {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(elicitation)
			a.reply = status(code, "text/plain", "gone")
			deadErr(t, a.answers(404))
			if n := a.kinds(middleware.Stale); n != 0 {
				t.Errorf("%d requests are stale, want none", n)
			}
		})
	}
}

// Answers as large as an event may be are understood, with GetBody and without.
func TestALargeAnswerIsUnderstood(t *testing.T) {
	for _, again := range []bool{true, false} {
		inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
			a.brings(elicitation)
			a.reply = refuses
			large := `{"jsonrpc":"2.0","result":{"text":"` + strings.Repeat("x", 1<<20) + `"},"id":12}`
			var body io.Reader = strings.NewReader(large)
			if !again {
				body = bodyOnly{body}
			}
			req, err := http.NewRequestWithContext(t.Context(), "POST", a.url, body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Mcp-Session-Id", sid)
			resp, err := a.transport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			read(t, resp)
			if n := a.transport.Stats().Stale; resp.StatusCode != 202 || n != 1 {
				t.Errorf("GetBody %v: %d, Stale = %d, want 202 and 1", again, resp.StatusCode, n)
			}
		})
	}
}

// The call of a stream is known whatever its body is, and of several calls in
// one POST none.
func TestTheCallOfAPostedStream(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, tc := range map[string]struct {
		body string
		call string
	}{
		"small":             {toolCall, "7"},
		"large":             {`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"text":"` + large + `"}}`, "7"},
		"a string":          {`{"jsonrpc":"2.0","id":"7","method":"tools/call"}`, `"7"`},
		"written otherwise": {`{"jsonrpc":"2.0","id":7.0,"method":"tools/call"}`, "7.0"},
		"an escape":         {`{"jsonrpc":"2.0","\u0069d":7,"method":"tools/call"}`, "7"},
		"a batch of one":    {`[` + toolCall + `]`, "7"},
		"one and an answer": {`[` + toolCall + `,{"jsonrpc":"2.0","id":99,"result":{}}]`, "7"},
		"two":               {`[` + toolCall + `,{"jsonrpc":"2.0","id":8,"method":"tools/call"}]`, ""},
		"an endless id":     {`{"jsonrpc":"2.0","id":"` + large[:2000] + `","method":"tools/call"}`, ""},
	} {
		for _, again := range []bool{true, false} {
			inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
				a.onTools(sseAnswer(a.event(elicitation)))
				var body io.Reader = strings.NewReader(tc.body)
				if !again {
					body = bodyOnly{body}
				}
				req, err := http.NewRequestWithContext(t.Context(), "POST", a.url, body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Mcp-Session-Id", sid)
				a.takes(must(t, func() (*http.Response, error) { return a.transport.RoundTrip(req) }))
				a.loses()
				sent, got := a.replays(elicitation)
				if tc.call == "" {
					if got != blank(sent) {
						t.Errorf("%s, GetBody %v: %q, want it kept back", name, again, got)
					}
					return
				}
				failsOnce(t, got, failedCall{tc.call, "stale", "elicitation/create", "12"})
			})
		}
	}
}
