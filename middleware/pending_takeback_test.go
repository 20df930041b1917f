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

// A client that closes inside the failure of its call comes back to the stream
// of that call, and is told.
func TestAFailureThatWasReadInPartIsSaidAgain(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		ask := a.event(elicitation)
		resp := a.opens(openSSE(ask))
		a.stands(readN(t, resp.Body, len(ask)))
		a.reply = refuses
		a.answers(202)
		synctest.Wait()
		readN(t, resp.Body, 10)
		resp.Body.Close()
		_, got := a.replays(progress)
		failsOnce(t, got, stale7)
	})
}

// What a late Close takes back is its own body's delivery, and not the one that
// another body has made since.
func TestALateCloseTakesNoOtherDeliveryBack(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(asserting("t1"))
		a.loses()
		a.get = openSSE(a.event(asserting("t2")))
		lags := a.resume(t, a.cursor)
		a.loses()
		if sent, got := a.replays(asserting("t3")); got != sent {
			t.Fatalf("%q, want the request, which asserts itself: %q", got, sent)
		}
		lags.Body.Close()
		if sent, got := a.replays(asserting("t3")); got != blank(sent) {
			t.Errorf("%q, want it kept back: the application is asking", got)
		}
	})
}

// A client acts on an event when the CR of its blank line has come.
func TestADeliveryDoesNotNeedTheLastLF(t *testing.T) {
	inBubble(t, places[0], middleware.Config{}, func(t *testing.T, a *asker) {
		ask := strings.ReplaceAll(a.event(elicitation), "\n", "\r\n")
		resp := a.opens(openSSE(ask))
		readN(t, resp.Body, 10) // so that the rest is read ahead
		readN(t, resp.Body, len(ask)-11)
		resp.Body.Close()
		if n := a.pending(); n != 1 {
			t.Errorf("Pending = %d, want 1", n)
		}
		a.cursor = "e-1"
		a.keepsBack("it was read")
	})
}

// An answer that cannot be read again is lost, too, where a Base fails before
// it has read it.
func TestAnAnswerThatWasNeverReadIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a *asker
		refused := errors.New("connection refused")
		cfg := middleware.Config{Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			if req.Header.Get("X-Unreachable") != "" {
				req.Body.Close()
				return nil, refused
			}
			return a.base.RoundTrip(req)
		})}
		a = newAsker(t, onCall, cfg)
		defer a.close()
		a.brings(elicitation)
		req := a.world.request(t.Context(), "POST", "", answer12)
		req.Header.Set("X-Unreachable", "yes")
		req.Body, req.GetBody = io.NopCloser(bodyOnly{strings.NewReader(answer12)}), nil
		if _, err := a.transport.RoundTrip(req); !errors.Is(err, refused) {
			t.Fatalf("RoundTrip = %v, want %v", err, refused)
		}
		_, got := a.replays(elicitation)
		failsOnce(t, got, stale7)
	})
}

// A body that is read before it is sent reaches the server whole, and one that
// fails fails as the client's own.
func TestABodyThatCannotBeReadAgainIsSentWhole(t *testing.T) {
	inBubble(t, onCall, middleware.Config{MaxEventBytes: 256}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		long := strings.Replace(answer12, `"accept"`, `"`+strings.Repeat("x", 4000)+`"`, 1)
		var got string
		a.reply = func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = string(body)
			rw.WriteHeader(http.StatusAccepted)
		}
		a.post = func(rw http.ResponseWriter, r *http.Request) { a.reply(rw, r) }
		req := a.world.request(t.Context(), "POST", "", long)
		req.Body, req.GetBody = io.NopCloser(bodyOnly{strings.NewReader(long)}), nil
		resp := must(t, func() (*http.Response, error) { return a.transport.RoundTrip(req) })
		resp.Body.Close()
		if got != long {
			t.Errorf("the server got %d bytes, want %d", len(got), len(long))
		}

		broken := errors.New("disk on fire")
		req = a.world.request(t.Context(), "POST", "", answer12)
		req.Body, req.GetBody, req.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(`{"json`), failing{broken})), nil, -1
		if _, err := a.transport.RoundTrip(req); !errors.Is(err, broken) {
			t.Errorf("RoundTrip = %v, want %v", err, broken)
		}
	})
}

// A body that hangs ends with the request's context.
func TestABodyThatHangsEndsWithItsRequest(t *testing.T) {
	inBubble(t, onCall, middleware.Config{}, func(t *testing.T, a *asker) {
		a.brings(elicitation)
		body, feeder := io.Pipe()
		defer feeder.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req := a.world.request(ctx, "POST", "", answer12)
		req.Body, req.GetBody, req.ContentLength = body, nil, -1
		if _, err := a.transport.RoundTrip(req); err == nil {
			t.Error("RoundTrip = nil, want an error")
		}
	})
}

// failing is a reader that fails.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
