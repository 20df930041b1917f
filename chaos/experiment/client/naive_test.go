package client_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

func TestNaiveReadsEvents(t *testing.T) {
	cases := []struct {
		name, stream string
		limit        int
		data         []string
		cursor       string
		retry        time.Duration
	}{
		{"events", "id: 1\ndata: a\n\nid:2\ndata:b\n\n", 9, []string{"a", "b"}, "2", time.Second},
		{"data of several lines", "id: 1\ndata: a\ndata: b\ndata\n\n", 9, []string{"a\nb\n"}, "1", time.Second},
		{"an event without an id keeps the cursor", "data: a\n\n", 9, []string{"a"}, "0", time.Second},
		{"a torn event is none", "id: 1\ndata: a\n\nid: 2\ndata: b\n", 9, []string{"a"}, "1", time.Second},
		{"nor a torn line", "id: 1\ndata: a", 9, nil, "0", time.Second},
		{"CRLF", "id: 1\r\ndata: a\r\n\r\n", 9, []string{"a"}, "1", time.Second},
		{"retry", "retry: 250\n\n", 9, nil, "0", 250 * time.Millisecond},
		{"a retry that is none", "retry: soon\n\n", 9, nil, "0", time.Second},
		{"priming", "id: 7\ndata:\n\n", 9, nil, "7", time.Second},
		{"comments and other fields", ": id: 9\nevent: message\nfoo\ndata: a\n\n", 9, []string{"a"}, "0", time.Second},
		{"as much as is wanted", "id: 1\ndata: a\n\nid: 2\ndata: b\n\n", 1, []string{"a"}, "1", time.Second},
	}
	for _, c := range cases {
		data, cursor, retry, err := client.ReadStream(strings.NewReader(c.stream), c.limit, "0", time.Second)
		if !slices.Equal(data, c.data) || cursor != c.cursor || retry != c.retry || err != nil {
			t.Errorf("%s: %q, cursor %q, retry %v, %v, want %q, %q, %v", c.name, data, cursor, retry, err, c.data, c.cursor, c.retry)
		}
	}
	broken := io.MultiReader(strings.NewReader("id: 1\ndata: a\n\nid: 2\n"), &failing{})
	if data, cursor, _, err := client.ReadStream(broken, 9, "", 0); len(data) != 1 || cursor != "1" || !errors.Is(err, errBroken) {
		t.Errorf("a stream that breaks: %q, cursor %q, %v, want a, 1 and the error", data, cursor, err)
	}
}

// It comes back whatever it is answered but for 404 and 410, at the server's pace
// or its own, and with the cursor.
func TestNaiveComesBack(t *testing.T) {
	cases := []struct {
		name   string
		server mcpserver.Config
		retry  time.Duration
		gets   []float64 // when, in seconds, after a cut at T+5
	}{
		{"at the server's pace", mcpserver.Config{Retry: 2 * time.Second}, 0, []float64{7}},
		{"at its own", mcpserver.Config{}, 4 * time.Second, []float64{9}},
		{"by default", mcpserver.Config{}, 0, []float64{6}},
		{"after a 503", mcpserver.Config{Retry: time.Second, Rules: []mcpserver.Rule{{On: mcpserver.OnResume, To: 2, Status: 503}}}, 0, []float64{6, 7, 8}},
		{"after a page", mcpserver.Config{Retry: time.Second, Rules: []mcpserver.Rule{{On: mcpserver.OnResume, To: 1, Status: 200, ContentType: "text/html", Body: "<p>Log in</p>"}}}, 0, []float64{6, 7}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			virtual(t, setup{server: c.server, client: client.Config{Kind: client.Naive, Retry: c.retry}}, func(t *testing.T, b *bed) {
				session := b.connect()
				b.emit(session, 1)
				b.until(5 * time.Second)
				b.balancer.Cut(lb.RST)
				b.until(20 * time.Second)
				b.emit(session, 1)
				var at []float64
				for _, r := range b.asked(client.Edge, http.MethodGet, "")[1:] {
					at = append(at, r.At.Sub(b.began).Seconds())
					if r.Cursor != "1" {
						t.Errorf("GET: %+v, want it with the cursor 1", r)
					}
				}
				if !slices.Equal(at, c.gets) || len(b.of(client.Applied)) != 2 {
					t.Errorf("GETs at %v, %d events, want %v and 2", at, len(b.of(client.Applied)), c.gets)
				}
				if r := b.of(client.SessionOver); len(r) != 0 {
					t.Errorf("reports: %+v, want none", r)
				}
			})
		})
	}
}

// It makes a call three times more that is answered 404 or 410, and none that
// fails in another way: nobody knows what became of that.
func TestNaiveRetriesCalls(t *testing.T) {
	for status, want := range map[int]int{404: 4, 410: 4, 400: 1, 503: 1} {
		of := setup{client: client.Config{Kind: client.Naive}}
		of.server.Rules = []mcpserver.Rule{{On: mcpserver.OnPOST, RPC: "tools/call", Status: status}}
		virtual(t, of, func(t *testing.T, b *bed) {
			b.connect()
			r := b.call("echo", map[string]any{"text": "x"})
			if n := len(b.asked(client.Wire, http.MethodPost, "tools/call")); n != want || (r.How == client.SessionError) != (want > 1) {
				t.Errorf("%d: %d calls on the wire, %+v, want %d", status, n, r, want)
			}
		})
	}
}

// A call whose stream breaks before there is a cursor has no answer any more.
func TestNaiveCallWithoutACursor(t *testing.T) {
	of := setup{client: client.Config{Kind: client.Naive, CallsOnly: true}}
	virtual(t, of, func(t *testing.T, b *bed) {
		b.connect()
		remove, err := b.server.Inject(mcpserver.Rule{On: mcpserver.OnPOST, RPC: "tools/call", Status: 200, ContentType: "text/event-stream", Body: "retry: 10\n\n"})
		if err != nil {
			t.Fatal(err)
		}
		defer remove()
		if r := b.call("echo", nil); r.How != client.TransportError || len(b.asked(client.Edge, http.MethodGet, "")) != 0 {
			t.Errorf("call = %+v, want an error of the transport, without a GET", r)
		}
	})
}
