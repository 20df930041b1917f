package middleware_test

import (
	"net/http"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/revenant-mcp/revenant/middleware"
)

const replayed = "id: 8\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n" +
	"id: 9\r\nevent: message\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"method\":\"x\"}\r\n\r\n"

func TestLiveReleasesTheReplayByteForByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = sseAnswer(replayed), alive
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
		w.get, w.post = openSSE(replayed), gone
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
