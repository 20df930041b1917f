package fault_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/revenant-mcp/revenant/chaos/fault"
	"pgregory.net/rapid"
)

// chunked is s in chunks of that size.
func chunked(s string, size int) string {
	var b strings.Builder
	for len(s) > 0 {
		n := min(size, len(s))
		fmt.Fprintf(&b, "%x;ext=1\r\n%s\r\n", n, s[:n])
		s = s[n:]
	}
	return b.String()
}

const (
	plainHead   = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n"
	chunkedHead = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
	jsonAnswer  = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\ndata: {}\n\n\n"
)

func TestCutInEvent(t *testing.T) {
	for _, test := range []struct {
		name   string
		event  int
		offset int64
		before string // what passes
		after  string // what does not
	}{
		{"before the blank line", 2, 0, plainHead + "id: 1\ndata: a\n\nid: 2\ndata: b\n", "\nid: 3\n"},
		{"after its first byte", 2, 1, plainHead + "id: 1\ndata: a\n\ni", "d: 2\ndata: b\n\n"},
		{"in the middle", 1, 8, plainHead + "id: 1\nda", "ta: a\n\n"},
		{"offset past its end", 1, 99, plainHead + "data: a\n", "\ndata: b\n\n"},
		{"CRLF", 2, 0, plainHead + "data: a\r\n\r\ndata: b\r\n", "\r\ndata: c"},
		{"CR", 2, 0, plainHead + "data: a\r\rdata: b\r", "\rdata: c"},
		{"between CR and LF", 1, 8, plainHead + "data: a\r", "\n\r\n"},
		{"comments are no events", 1, 0, plainHead + ": ping\n\n:\n\n\n: data\ndata: a\n", "\n"},
		{"a comment inside an event", 1, 3, plainHead + "id\n", ": ping\n\n"},
		{"byte order mark", 1, 2, plainHead + "\xEF\xBB\xBF: ping\n\nda", "ta: a\n\n"},
		{"framing does not count", 1, 9, chunkedHead + "4;x\r\ndata\r\n4\r\n: 12\r\n1\r\n3\r\n2\r\n", "\n\n\r\n"},
		{"an event over chunks", 2, 0, chunkedHead + "9\r\ndata: a\n\n\r\n3\r\ndat\r\n6\r\na: b\n", "\n\r\n"},
		{"other responses before it", 1, 4, jsonAnswer + "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n" + jsonAnswer + plainHead + "data", ": a\n\n"},
		{"an informational response", 1, 4, "HTTP/1.1 100 Continue\r\n\r\n" + plainHead + "data", ": a\n\n"},
		{"over two streams", 3, 4, chunkedHead + chunked("data: a\n\nda", 3) + "0\r\nTrailer: x\r\n\r\n" + chunkedHead + "4\r\ndata\r\n1\r\n", ":\r\n"},
		{"a sized stream", 1, 0, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n", "\n" + jsonAnswer},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := []byte(test.before + test.after)
			passed, _ := fault.ScanEvents([][]byte{all}, int64(test.event), test.offset)
			if got := string(all[:passed]); got != test.before {
				t.Errorf("passed %q, want %q", got, test.before)
			}
			synctest.Test(t, func(t *testing.T) { // and through a link
				m := newMemory(t, fault.LinkConfig{})
				defer m.stop()
				apply(t, fault.Fault{Kind: fault.CutInEvent, Event: test.event, Offset: test.offset}, m)
				client, server := m.connect(t)
				go server.Write(all)
				expect(t, client, test.before)
				end(t, client)
				m.wait(t, fault.Cut)
			})
		})
	}
}

func TestNoEvents(t *testing.T) {
	for name, all := range map[string]string{
		"not HTTP":   "data: a\n\ndata: b\n\n",
		"JSON":       jsonAnswer + jsonAnswer,
		"compressed": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\ndata: a\n\n",
		"upgraded":   "HTTP/1.1 101 Switching Protocols\r\n\r\n" + plainHead + "data: a\n\n",
		"broken":     "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\ndata: a\n\n",
	} {
		if passed, begun := fault.ScanEvents([][]byte{[]byte(all)}, 1, 1); passed != len(all) || begun != 0 {
			t.Errorf("%s: %d of %d bytes passed, %d events, want all and none", name, passed, len(all), begun)
		}
	}
}

// Only events that begin after the fault count, on a stream that is open already.
func TestCutInEventOfAnOpenStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, fault.LinkConfig{})
		defer m.stop()
		client, server := m.connect(t)
		write(t, server, plainHead+"data: a\n\ndata: b")
		expect(t, client, plainHead+"data: a\n\ndata: b")
		apply(t, fault.Fault{Kind: fault.CutInEvent, Event: 1, Offset: 6}, m)
		go io.WriteString(server, "bb\n\ndata: c\n\n")
		expect(t, client, "bb\n\ndata: ")
		end(t, client)
		if e := m.wait(t, fault.Cut); e.Events != 3 {
			t.Errorf("event is %+v, want 3 events begun", e)
		}
	})
}

// However the bytes arrive, the cut is in the same place.
func TestCutInEventWhateverThePieces(t *testing.T) {
	line := rapid.SampledFrom([]string{"", "", ":", ": ping", "data: x", "id: 1", "data", "event: \xEF\xBB\xBF"})
	ending := rapid.SampledFrom([]string{"\n", "\r\n", "\r"})
	rapid.Check(t, func(t *rapid.T) {
		var body strings.Builder
		for range rapid.IntRange(0, 30).Draw(t, "lines") {
			body.WriteString(line.Draw(t, "line") + ending.Draw(t, "ending"))
		}
		all := plainHead + body.String()
		if rapid.Bool().Draw(t, "chunked") {
			all = jsonAnswer + chunkedHead + chunked(body.String(), rapid.IntRange(1, 20).Draw(t, "chunk")) + "0\r\n\r\n" + jsonAnswer
		}
		event := int64(rapid.IntRange(1, 5).Draw(t, "event"))
		offset := int64(rapid.IntRange(0, 12).Draw(t, "offset"))
		want, wantBegun := fault.ScanEvents([][]byte{[]byte(all)}, event, offset)
		var pieces [][]byte
		for rest := []byte(all); len(rest) > 0; {
			n := rapid.IntRange(1, min(10, len(rest))).Draw(t, "piece")
			pieces = append(pieces, bytes.Clone(rest[:n]))
			rest = rest[n:]
		}
		if got, begun := fault.ScanEvents(pieces, event, offset); got != want || begun != wantBegun {
			t.Errorf("%q: in pieces %d bytes and %d events pass, at once %d and %d", all, got, begun, want, wantBegun)
		}
	})
}

// A Go server's events, to a Go client.
func TestCutInEventOfAGoServer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			fmt.Fprintf(w, "id: %d\n", i)
			http.NewResponseController(w).Flush()
			fmt.Fprintf(w, "data: %d\n\n", i)
			http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	link, stop := startLink(t, fault.LinkConfig{Upstream: server.Listener.Addr().String()})
	defer stop()
	apply(t, fault.Fault{Kind: fault.CutInEvent, Event: 2, Limit: 1}, link)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get("http://" + link.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	const want = "id: 0\ndata: 0\n\nid: 1\ndata: 1\n"
	if got, err := io.ReadAll(res.Body); string(got) != want || err != io.ErrUnexpectedEOF {
		t.Errorf("read %q, %v, want %q, %v", got, err, want, io.ErrUnexpectedEOF)
	}
}
