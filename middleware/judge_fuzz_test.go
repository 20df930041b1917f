package middleware

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

const fuzzProbeID = "revenant-7Q2K"

// fuzzContentTypes are indexed by the fuzzed kind.
var fuzzContentTypes = []string{
	"application/json", "text/event-stream", "Application/JSON; charset=utf-8", "text/event-stream;charset=\"utf-8\"",
	"text/html", "", "text/plain", "application/json-rpc", ";", "text/event-stream, text/html",
}

// FuzzJudge: no answer to a probe makes the judge panic or read for ever, and
// none is Live without a response to that very probe in it.
func FuzzJudge(f *testing.F) {
	add := func(status uint16, kind uint8, body string) {
		f.Add(status, kind, uint8(0), uint16(len(body)), []byte(body))
		f.Add(status, kind, uint8(0), uint16(1), []byte(body))
	}
	shapes := []string{
		// C20: with the probe's id. P stands for it.
		`{"jsonrpc":"2.0","id":"P","result":{}}`,
		`{"jsonrpc":"2.0","id":"P","result":null}`,
		`{"jsonrpc":"2.0","id":"P","error":{"code":-32601,"message":"Method not found"}}`,
		`{"jsonrpc":"2.0","id":"P","error":{"code":-32600,"message":"Invalid session ID"}}`,
		`{"jsonrpc":"2.0","id":"P","error":{"code":-32603}}`,
		`{"jsonrpc":"2.0","id":"P","error":{"code":-32601.0}}`,
		`{"jsonrpc":"2.0","id":"P","error":{"code":"-32601"}}`,
		`{"jsonrpc":"2.0","id":"P","error":{"Code":-32601}}`,
		`{"jsonrpc":"2.0","id":"P","error":{"code":-32000,"CODE":-32601}}`,
		`{"jsonrpc":"2.0","id":"P","error":[{"code":-32601}]}`,
		`{"jsonrpc":"2.0","id":"P","error":{"message":"uncoded"}}`,
		`{"jsonrpc":"2.0","id":"P","error":"Session not found"}`,
		`{"jsonrpc":"2.0","id":"P","result":{},"error":{"code":-32000}}`,
		`{"jsonrpc":"2.0","id":"P"}`,
		`{"jsonrpc":"2.0","id":"P","method":"ping","result":{}}`,
		`{"id":"P","result":{}}`,
		`{"jsonrpc":"1.0","id":"P","result":{}}`,
		`{"JSONRPC":"2.0","ID":"P","RESULT":{}}`,
		`{"jsonrpc":"2.0","id":["P"],"result":{}}`,
		// C15: 200, and not found inside.
		`{"error":"Session not found"}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Session not found"}}`,
		`{"jsonrpc":"2.0","id":null,"result":{}}`,
		`{"jsonrpc":"2.0","id":"server-error","error":{"code":-32601}}`,
		`{"jsonrpc":"2.0","id":7,"result":{"id":"P"}}`,
		`{"jsonrpc":"2.0","result":{},"params":{"jsonrpc":"2.0","id":"P","result":{}}}`,
		`"{\"jsonrpc\":\"2.0\",\"id\":\"P\",\"result\":{}}"`,
		`[{"jsonrpc":"2.0","id":7,"result":{}},{"jsonrpc":"2.0","id":"P","result":{}}]`,
		`[[{"jsonrpc":"2.0","id":"P","result":{}}]]`,
		`[]`, `null`, `[null]`, ``, `ok`, `<html>P</html>`,
		`{"jsonrpc":"2.0","id":"P","result":{}`,
		`{"jsonrpc":"2.0","id":"P","result":{}}{"jsonrpc":"2.0","id":7,"result":{}}`,
		`{"jsonrpc":"2.0","id":"x","id":"P","result":{}}`,
		`{"jsonrpc":"2.0","id":"P","id":"x","result":{}}`,
	}
	for _, shape := range shapes {
		message := strings.ReplaceAll(shape, "P", fuzzProbeID)
		add(200, 0, message)
		add(200, 0, "\uFEFF"+message)
		add(200, 1, "event: message\ndata: "+message+"\n\n")
		add(200, 1, "id: 1\r\nretry: 10\r\ndata:\r\n\r\n: c\r\ndata: "+strings.Replace(message, ",", ",\r\ndata: ", 1)+"\r\n\r\n")
		add(200, 1, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\ndata: "+message+"\n\ndata: {}\n\n")
		add(200, 1, "data: "+message) // torn
		add(200, 1, "data: "+message+"\n")
		add(200, 1, "data: "+message+"\r\nid: 1\r\n")
		add(200, 4, message)
	}
	live := `{"jsonrpc":"2.0","id":"` + fuzzProbeID + `","result":{}}`
	for _, status := range []uint16{202, 204, 206, 302, 400, 401, 404, 410, 429, 500, 503, 0, 65535} {
		add(status, 0, live)
	}
	for kind := range fuzzContentTypes {
		add(200, uint8(kind), live)
	}
	// C22: in another session's name, and compressed.
	f.Add(uint16(200), uint8(0), uint8(1), uint16(99), []byte(live))
	f.Add(uint16(200), uint8(0), uint8(2), uint16(99), []byte(live))
	f.Add(uint16(200), uint8(0), uint8(4), uint16(99), []byte(live))
	f.Add(uint16(200), uint8(1), uint8(8), uint16(7), []byte("data: "+live+"\n\n"))

	transport, err := New(Config{MaxHeldBytes: 2 << 10, MaxEventBytes: 1 << 10})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status uint16, kind, headers uint8, chunk uint16, body []byte) {
		header := http.Header{}
		contentType := fuzzContentTypes[int(kind)%len(fuzzContentTypes)]
		if contentType != "" {
			header.Set("Content-Type", contentType)
		}
		named, encoded := "", false
		switch {
		case headers&1 != 0:
			named = "another session"
		case headers&2 != 0:
			named = "the session"
		}
		if named != "" {
			header.Set("Mcp-Session-Id", named)
		}
		if headers&4 != 0 {
			encoded = true
			header.Set("Content-Encoding", "gzip")
		}
		counted := &countingReader{r: bytes.NewReader(body), chunk: int(chunk)}
		var r io.Reader = counted
		if headers&8 != 0 {
			r = iotest.DataErrReader(r)
		}
		resp := &http.Response{StatusCode: int(status), Header: header, Body: io.NopCloser(r), ContentLength: -1}
		a := transport.judge(resp, "the session", fuzzProbeID)

		if most := 2*(2<<10) + 4<<10; counted.n > most {
			t.Errorf("judge read %d bytes, want at most %d", counted.n, most)
		}
		gone := status == 404 || status == 410
		replaced := status == 200 && named == "another session"
		if got := a.verdict == Dead; got != (gone || replaced) {
			t.Errorf("judge(%d %q, session %q, %q) = %v", status, contentType, named, body, a.verdict)
		}
		if a.verdict != Live {
			if len(a.detail) == 0 {
				t.Errorf("judge(%d %q, %q) = %v without a reason", status, contentType, body, a.verdict)
			}
			return
		}
		if status != 200 || encoded || !naivelyAnswered(contentType, body) {
			t.Errorf("judge(%d %q, %q) = %v, want no Live without the response to the probe", status, contentType, body, a.verdict)
		}
		if a.retry || a.err != nil {
			t.Errorf("judge(%d %q, %q) = live, and to be repeated: %v", status, contentType, body, a.err)
		}
	})
}

// countingReader hands out at most chunk bytes at a time.
type countingReader struct {
	r     io.Reader
	chunk int
	n     int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p[:min(len(p), max(1, c.chunk))])
	c.n += n
	return n, err
}

// naivelyAnswered looks for a response to the probe without the package's own
// decoders: it splits the text where any event may end, and decodes what is in
// there into plain values.
func naivelyAnswered(contentType string, body []byte) bool {
	contentType, _, _ = strings.Cut(strings.ToLower(contentType), ";")
	switch strings.TrimSpace(contentType) {
	case "application/json":
		return naivelyResponse(string(body))
	case "text/event-stream":
	default:
		return false
	}
	text := strings.TrimPrefix(string(body), "\uFEFF")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	blocks := strings.Split(text, "\n\n")
	for _, block := range blocks[:len(blocks)-1] { // the last has no end
		var data []string
		for line := range strings.SplitSeq(block, "\n") {
			if value, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(value, " "))
			} else if line == "data" {
				data = append(data, "")
			}
		}
		if naivelyResponse(strings.Join(data, "\n")) {
			return true
		}
	}
	return false
}

func naivelyResponse(text string) bool {
	var value any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return false
	}
	if _, err := d.Token(); err != io.EOF {
		return false // more than one value
	}
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	for _, one := range list {
		m, _ := one.(map[string]any)
		_, calls := m["method"]
		_, result := m["result"]
		failure, failed := m["error"]
		if m["id"] != fuzzProbeID || m["jsonrpc"] != "2.0" || calls || result == failed {
			continue
		}
		if result {
			return true
		}
		e, _ := failure.(map[string]any)
		if e["code"] == json.Number("-32601") {
			return true
		}
	}
	return false
}
