package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
)

// answering is a transport of one answer.
type answering struct {
	answer func(*http.Request) (*http.Response, error)
}

func (a answering) RoundTrip(req *http.Request) (*http.Response, error) { return a.answer(req) }

// counting is a body that counts its closes.
type counting struct {
	io.Reader
	closed int
}

func (c *counting) Close() error {
	c.closed++
	return nil
}

func TestWireLeavesRequestsAsTheyAre(t *testing.T) {
	long := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`
	cases := []struct{ body, rpc string }{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "ping"},
		{`{"params":{"method":"no"},"method":"initialize"}`, "initialize"},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, "response"},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, "response"},
		{`[{"method":"ping"}]`, ""}, {`no JSON`, ""}, {``, ""}, {`{"id":1}`, ""}, {`{"method":`, ""},
		{long, "tools/call"},
	}
	for _, c := range cases {
		log := client.NewLog()
		body := &counting{Reader: strings.NewReader(c.body)}
		wire := log.Wire(answering{func(req *http.Request) (*http.Response, error) {
			got, err := io.ReadAll(req.Body)
			if string(got) != c.body || err != nil {
				t.Errorf("%.40q: the server reads %.40q, %v, want the same", c.body, got, err)
			}
			req.Body.Close()
			return &http.Response{StatusCode: 202, Body: http.NoBody, Header: http.Header{}}, nil
		}})
		req, err := http.NewRequest(http.MethodPost, "http://example.org/mcp", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Mcp-Session-Id", "S")
		before := req.Body
		resp, err := wire.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		r := log.Records()[0]
		if r.Method != c.rpc || r.SessionID != "S" || r.HTTPMethod != "POST" || r.Layer != client.Wire {
			t.Errorf("%.40q: logged as %+v, want a POST of %q", c.body, r, c.rpc)
		}
		if req.Body != before || body.closed != 1 {
			t.Errorf("%.40q: the request has changed, or its body was closed %d times, want once", c.body, body.closed)
		}
	}
}

var errBroken = errors.New("broken")

func TestWireReportsErrors(t *testing.T) {
	log := client.NewLog()
	wire := log.Wire(answering{func(*http.Request) (*http.Response, error) { return nil, errBroken }})
	req, err := http.NewRequest(http.MethodGet, "http://example.org/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wire.RoundTrip(req); !errors.Is(err, errBroken) {
		t.Errorf("RoundTrip = %v, want the error", err)
	}
	all := log.Records()
	if last := all[len(all)-1]; len(all) != 2 || last.Kind != client.Over || !errors.Is(last.Err, errBroken) {
		t.Errorf("records: %+v, want one that it is over with the error", all)
	}
}

// How a body ended, and how long it was.
func TestWireWatchesBodies(t *testing.T) {
	cases := []struct {
		name string
		body io.Reader
		read int64
		err  bool
	}{
		{"to its end", strings.NewReader("four"), 4, false},
		{"closed early", strings.NewReader("four"), 2, true},
		{"broken", io.MultiReader(strings.NewReader("four"), &failing{}), 4, true},
	}
	for _, c := range cases {
		log := client.NewLog()
		upstream := &counting{Reader: c.body}
		wire := log.Wire(answering{func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: upstream, Header: http.Header{"Content-Type": {"text/event-stream"}}}, nil
		}})
		req, err := http.NewRequest(http.MethodGet, "http://example.org/mcp", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := wire.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if c.name == "closed early" {
			_, _ = io.ReadFull(resp.Body, make([]byte, 2))
		} else {
			_, _ = io.ReadAll(resp.Body)
		}
		resp.Body.Close()
		resp.Body.Close()
		all := log.Records()
		if last := all[len(all)-1]; len(all) != 3 || last.Kind != client.Over || last.Bytes != c.read || (last.Err != nil) != c.err {
			t.Errorf("%s: %+v, want it over once, after %d bytes, an error: %v", c.name, all, c.read, c.err)
		}
		if upstream.closed == 0 {
			t.Errorf("%s: the body was not closed", c.name)
		}
	}
}

type failing struct{}

func (*failing) Read([]byte) (int, error) { return 0, errBroken }

// However a stream comes in pieces, the events that are delivered are those that
// are whole, and have data and an id of their own.
func TestDeliveredEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream strings.Builder
		var want []string
		end := rapid.SampledFrom([]string{"\n", "\r", "\r\n"}).Draw(t, "end")
		for i := range rapid.IntRange(0, 8).Draw(t, "events") {
			has, data := rapid.Bool().Draw(t, "id"), rapid.Bool().Draw(t, "data")
			if has {
				fmt.Fprintf(&stream, "id: %d%s", i, end)
			}
			if rapid.Bool().Draw(t, "comment") {
				stream.WriteString(": id: no" + end)
			}
			if data {
				stream.WriteString("data: " + strings.Repeat("x", rapid.IntRange(1, 600).Draw(t, "length")) + end)
			} else {
				stream.WriteString("data:" + end)
			}
			if has && data {
				want = append(want, fmt.Sprint(i))
			}
			stream.WriteString(end)
		}
		stream.WriteString("id: 99\ndata: torn")
		rest := stream.String()
		var pieces []string
		for rest != "" {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := client.EventIDs(pieces...); !slices.Equal(got, want) {
			t.Errorf("%q: events %q, want %q", pieces, got, want)
		}
	})
}
