package middleware

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Ids are compared by value, whatever way they are written, and a number is no
// string.
func TestReadIDComparesByValue(t *testing.T) {
	for _, same := range [][]string{
		{`7`, ` 7 `, `7.0`, `7.00`, `70e-1`, `0.7e1`, `7E0`},
		{`0`, `0.0`, `0e5`},
		{`-7`, `-7.0`},
		{`100`, `1e2`, `1E+2`},
		{`9007199254740993`},
		{`9007199254740992`, `9007199254740992.0`},
		{`7.5`},
		{`1e400`},
		{`"7"`, `"\u0037"`},
		{`"a/b"`, `"a\/b"`},
		{`""`},
		{`"n7"`}, {`"s7"`},
	} {
		for _, written := range same {
			id := readID([]byte(written))
			if id.key == "" || id.raw != strings.TrimSpace(written) {
				t.Errorf("readID(%q) = %+v, want an id as it was written", written, id)
			}
			if want := readID([]byte(same[0])).key; id.key != want {
				t.Errorf("readID(%q).key = %q, want %q as for %q", written, id.key, want, same[0])
			}
		}
	}
	keys := make(map[string]string)
	for _, written := range []string{`7`, `-7`, `0`, `100`, `9007199254740993`, `9007199254740992`, `7.5`, `"7"`, `"a/b"`, `""`, `"n7"`, `"s7"`, `1e400`} {
		key := readID([]byte(written)).key
		if other, ok := keys[key]; ok {
			t.Errorf("readID(%q) and readID(%q) have the key %q", written, other, key)
		}
		keys[key] = written
	}
	for _, none := range []string{``, ` `, `null`, `true`, `[7]`, `{"a":7}`} {
		if id := readID([]byte(none)); id != (rpcID{}) {
			t.Errorf("readID(%q) = %+v, want none", none, id)
		}
	}
}

// Long ids are kept by their hash, and endless ones not as they were written.
func TestReadIDIsBounded(t *testing.T) {
	quoted := func(n int) []byte { return []byte(`"` + strings.Repeat("x", n-2) + `"`) }
	for _, tc := range []struct {
		length int
		hashed bool
		raw    bool
	}{
		{maxKeyBytes + 1, false, true}, // the key has no quotes and one letter for its type
		{maxKeyBytes + 2, true, true},
		{maxIDBytes, true, true},
		{maxIDBytes + 1, true, false},
		{1 << 20, true, false},
	} {
		id := readID(quoted(tc.length))
		if (id.key[0] == 'h') != tc.hashed || len(id.key) > maxKeyBytes+1 || (id.raw != "") != tc.raw {
			t.Errorf("an id of %d bytes has a key of %d (%c) and is kept raw: %v", tc.length, len(id.key), id.key[0], id.raw != "")
		}
	}
	if a, b := readID(quoted(500)), readID(quoted(501)); a.key == b.key {
		t.Error("two long ids have one key")
	}
	if id := readID([]byte("1" + strings.Repeat("0", 500))); id.key == "" || len(id.key) > maxKeyBytes+1 {
		t.Errorf("the key of a long number has %d bytes", len(id.key))
	}
}

func TestReadMessage(t *testing.T) {
	names := map[messageKind]string{otherMessage: "other", requestMessage: "request", responseMessage: "response", cancelMessage: "cancel"}
	for _, tc := range []struct{ message, want, id string }{
		{`{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`, "request", "1"},
		{`{"id":"a","method":"sampling/createMessage"}`, "request", `"a"`},
		{`{"method":"roots/list","id":1.0}`, "request", "1.0"},
		{`{"\u0069d":1,"m\u0065thod":"roots/list"}`, "request", "1"},
		{`{"id":1,"method":"made/up"}`, "request", "1"},
		{`{"id":1,"method":"elicitation/create","result":{}}`, "request", "1"},
		{`{"id":1,"method":"ping"}`, "other", ""},
		{`{"id":1,"method":"made-up"}`, "other", ""},
		{`{"id":1,"method":"notifications/message"}`, "other", ""},
		{`{"id":1,"method":"elicitation\/create"}`, "request", "1"},
		{`{"id":1,"method":"elicitation\u002fcreate"}`, "request", "1"},
		{`{"id":1,"method":["a/b"]}`, "other", ""},
		{`{"id":1,"method":"p\u0069ng"}`, "other", ""},
		{`{"id":null,"method":"elicitation/create"}`, "other", ""},
		{`{"id":{},"method":"elicitation/create"}`, "other", ""},
		{`{"ID":1,"method":"elicitation/create"}`, "other", ""},
		{`{"id":1,"Method":"elicitation/create"}`, "other", ""},
		{`{"method":"notifications/message"}`, "other", ""},
		{`{"id":1,"result":{}}`, "response", "1"},
		{`{"id":1,"result":null}`, "response", "1"},
		{`{"id":1,"error":{"code":-1}}`, "response", "1"},
		{`{"id":1,"result":{},"error":{}}`, "other", ""},
		{`{"id":1}`, "other", ""},
		{`{"id":null,"error":{}}`, "other", ""},
		{`{"method":"notifications/cancelled","params":{"requestId":5}}`, "cancel", "5"},
		{`{"method":"notifications\/cancelled","params":{"requestId":"5"}}`, "cancel", `"5"`},
		{`{"method":"notifications/cancelled","params":{}}`, "other", ""},
		{`{"method":"notifications/cancelled","params":{"requestId":null}}`, "other", ""},
		{`{"method":"notifications/cancelled"}`, "other", ""},
		{`{"method":"notifications/cancelled","params":[5]}`, "other", ""},
		{`[]`, "other", ""}, {`1`, "other", ""}, {`null`, "other", ""}, {``, "other", ""}, {`{"id":1,"method":"x"`, "other", ""},
	} {
		m := readMessage([]byte(tc.message))
		id := m.id.raw
		if m.kind == otherMessage {
			id = ""
		}
		if names[m.kind] != tc.want || id != tc.id {
			t.Errorf("readMessage(%s) = %s of %s, want %s of %s", tc.message, names[m.kind], id, tc.want, tc.id)
		}
		if string(m.raw) != tc.message {
			t.Errorf("readMessage(%s) keeps %s", tc.message, m.raw)
		}
	}
	m := readMessage([]byte(`{"id":1,"method":"x/y","params":{"_meta":{"a": 1},"b":2}}`))
	if string(m.meta) != `{"a": 1}` {
		t.Errorf("meta = %s", m.meta)
	}
}

func TestMessagesOfABatch(t *testing.T) {
	for data, want := range map[string]int{
		`{"id":1}`: 1, `[{"id":1},{"id":2}]`: 2, " \t\r\n[1]": 1, `[]`: 0, `[1`: 0, `nonsense`: 1,
	} {
		if got := len(messages([]byte(data))); got != want {
			t.Errorf("messages(%q) has %d, want %d", data, got, want)
		}
	}
}

// What is no request must not cost a look, and no request may pass without one.
func TestMayRequest(t *testing.T) {
	for data, want := range map[string]bool{
		`data: {"id":1,"method":"elicitation/create"}`:                          true,
		`data: {"method":"roots/list","id":1}`:                                  true,
		`data: {"\u0069d":1,"method":"sampling/createMessage"}`:                 true,
		`data: {"id":1,"method":"roots\/list"}`:                                 true,
		`data: {"id":1,"method":"r\u006Fots/list"}`:                             true,
		`data: {"id":1,"method" : "roots/list"}`:                                true,
		"data: {\"id\":1,\ndata: \"method\"\ndata:  :\ndata: \"roots/list\"}":   true,
		`data: {"id":1,"method":"notifications2/x"}`:                            true,
		`data: {"method":"notifications/x","id":1}` + `{"method":"roots/list"}`: true,
		`data: [{"method":"notifications/x"},{"id":1,"method":"roots/list"}]`:   true,
		`data: {"params":{"a":"b/c","d":"//"},"id":1,"method":"roots/list"}`:    true,

		`data: {"id":1,"result":{}}`:                              false,
		`data: {"id":1,"result":{"uri":"file:///tmp/a"}}`:         false,
		`data: {"method":"notifications/x"}`:                      false,
		`data: {"method":"notifications/a/b","params":{"c":"d"}}`: false,
		`data: {"id":1,"method":"ping"}`:                          false,
		"id: 1/2\nevent: method":                                  false,
		`/`:                                                       false, ``: false,
	} {
		if got := mayRequest([]byte(data)); got != want {
			t.Errorf("mayRequest(%q) = %v, want %v", data, got, want)
		}
	}
}

func TestFreshToken(t *testing.T) {
	const key = `"revenant/livenessToken"`
	for _, tc := range []struct {
		first, now string
		want       bool
	}{
		{``, ``, false},
		{`{}`, `{}`, false},
		{``, `{` + key + `:"b"}`, true},
		{`{}`, `{` + key + `:"b"}`, true},
		{`{` + key + `:"a"}`, `{` + key + `:"b"}`, true},
		{`{` + key + `:"a"}`, `{` + key + `:"a"}`, false},
		{`{` + key + `:"a"}`, `{` + key + `: "a" }`, false},
		{`{` + key + `:"a"}`, `{}`, false},
		{`{` + key + `:"a"}`, `{` + key + `:null}`, false},
		{`{` + key + `:1}`, `{` + key + `:2}`, true},
		{`{` + key + `:"a"}`, `nonsense`, false},
		{`{"Revenant/livenessToken":"a"}`, `{"Revenant/livenessToken":"b"}`, false},
		{`{"progressToken":1}`, `{"progressToken":2}`, false},
	} {
		if got := freshToken(ReplayedRequest{FirstMeta: []byte(tc.first), Meta: []byte(tc.now)}); got != tc.want {
			t.Errorf("freshToken(%s, %s) = %v, want %v", tc.first, tc.now, got, tc.want)
		}
	}
}

func TestCallsIn(t *testing.T) {
	params := `"params":{"arguments":{"id":99,"method":"decoy","text":"` + strings.Repeat("x", 200) + `"}}`
	whole := `{"jsonrpc":"2.0","id":7,"method":"tools/call",` + params + `}`
	for body, want := range map[string]string{
		whole:                                  "7",
		`{"id":"seven","method":"tools/call"}`: `"seven"`,
		`{"\u0069d":7,"m\u0065thod":"tools/call"}`:            "7",
		`{"method":"tools/call",` + params + `,"id":7.0}`:     "7.0",
		`{"id":7,"result":{"method":"x"}}`:                    "",
		`{"method":"notifications/initialized"}`:              "",
		`{"id":null,"method":"x"}`:                            "",
		`[` + whole + `]`:                                     "7",
		`[` + whole + `,{"id":8,"method":"x"}]`:               "7 8",
		`[` + whole + `,{"id":3,"result":{}},{"method":"n"}]`: "7",
		`[]`: "", ``: "", `nonsense`: "", `7`: "", `"id"`: "",

		// The end is lost.
		whole[:len(whole)-20]:                    "7",
		`{"id":7,"method":"tools/ca`:             "7",
		`{"id":7,"method"`:                       "7",
		`{"id":7`:                                "",
		`{"id":7,"met`:                           "",
		`{"method":"tools/call","id":7`:          "",
		`{"method":"tools/call","id":"sev`:       "",
		`{"method":"tools/call",` + params[:100]: "",
		`[` + whole[:50]:                         "",
	} {
		var got []string
		for _, id := range callsIn([]byte(body)) {
			got = append(got, id.raw)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("callsIn(%.80s) = %q, want %q", body, got, want)
		}
	}
}

func TestTheCallOfAnOrigin(t *testing.T) {
	var none *origin
	if got := none.theCall(); got.key != "" {
		t.Errorf("the call of no origin = %+v", got)
	}
	small := `{"id":7,"method":"x"}`
	large := `{"id":7,"method":"x","params":{"a":"` + strings.Repeat("x", maxOriginBytes) + `"}}`
	for body, want := range map[string]string{small: "7", large: "7", `[` + small + `,{"id":8,"method":"x"}]`: "", ``: ""} {
		o := newOrigin(&sentBody{data: []byte(body)})
		if len(o.data) > maxOriginBytes {
			t.Errorf("%d bytes are kept of a call of %d", len(o.data), len(body))
		}
		for range 2 {
			if got := o.theCall().raw; got != want || o.data != nil {
				t.Errorf("the call of %.60s = %q with %d bytes kept, want %q and none", body, got, len(o.data), want)
			}
		}
	}
}

// closeCounter is a body that counts how often it is closed.
type closeCounter struct {
	io.Reader
	closes int
}

func (c *closeCounter) Close() error { c.closes++; return nil }

// What is sent can be read afterwards, by way of GetBody, or a bounded copy.
func TestSentBody(t *testing.T) {
	const text = "0123456789"
	for name, tc := range map[string]struct {
		again func() (io.ReadCloser, error)
		limit int
		want  string
	}{
		"again":          {func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, 100, text},
		"again, bounded": {func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }, 4, "0123"},
		"not again":      {func() (io.ReadCloser, error) { return nil, errors.New("gone") }, 100, ""},
		"broken again":   {func() (io.ReadCloser, error) { return io.NopCloser(errorReader{}), nil }, 100, ""},
		"a copy":         {nil, 100, text},
		"a part":         {nil, 4, "0123"},
	} {
		up := &closeCounter{Reader: strings.NewReader(text)}
		f := &flight{req: &http.Request{Body: up, GetBody: tc.again}}
		f.keepBody(tc.limit)
		if copied := f.req.Body != io.ReadCloser(up); copied != (tc.again == nil) {
			t.Errorf("%s: a copy is kept: %v", name, copied)
		}
		sent, err := io.ReadAll(onebyte{f.req.Body})
		if string(sent) != text || err != nil {
			t.Errorf("%s: sent %q, %v, want %q", name, sent, err, text)
		}
		f.req.Body.Close()
		if up.closes != 1 {
			t.Errorf("%s: the body was closed %d times, want 1", name, up.closes)
		}
		for range 2 {
			if got := f.said.bytes(); string(got) != tc.want {
				t.Errorf("%s: bytes() = %q, want %q", name, got, tc.want)
			}
		}
	}
	for _, body := range []io.ReadCloser{nil, http.NoBody} {
		f := &flight{req: &http.Request{Body: body}}
		f.keepBody(100)
		if f.req.Body != body || len(f.said.bytes()) != 0 {
			t.Errorf("a request without a body gets %v", f.req.Body)
		}
	}
}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

// onebyte reads one byte at a time.
type onebyte struct{ io.Reader }

func (r onebyte) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(1, len(p))]) }

func TestOutcomeOfAnAnswer(t *testing.T) {
	for status, want := range map[int]outcome{
		200: accepted, 202: accepted, 204: accepted, 299: accepted,
		301: deferred, 302: deferred, 307: deferred, 308: deferred, 401: deferred, 403: deferred, 407: deferred,
		408: unanswered, 409: unanswered, 425: unanswered, 429: unanswered, 500: unanswered, 502: unanswered, 503: unanswered, 504: unanswered,
		400: refused, 402: refused, 405: refused, 406: refused, 411: refused, 413: refused, 415: refused, 422: refused, 451: refused,
	} {
		if got := outcomeOf(&http.Response{StatusCode: status}, nil); got != want {
			t.Errorf("outcomeOf(%d) = %d, want %d", status, got, want)
		}
	}
	if got := outcomeOf(nil, io.EOF); got != unanswered {
		t.Errorf("outcomeOf(no answer) = %d, want %d", got, unanswered)
	}
}

func TestReadReply(t *testing.T) {
	const (
		answer   = `{"jsonrpc":"2.0","id":12,"result":{}}`
		failure  = `{"jsonrpc":"2.0","id":"13","error":{"code":-1,"message":"no"}}`
		withdraw = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`
		call     = `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`
	)
	for body, want := range map[string]string{
		answer:                                   "12",
		failure:                                  `"13"`,
		`[` + answer + `,` + failure + `]`:       `12 "13"`,
		withdraw:                                 "-7",
		call:                                     "other",
		`[` + answer + `,` + call + `]`:          "12 other",
		`[` + answer + `,` + withdraw + `]`:      "12 -7",
		`{"method":"notifications/initialized"}`: "other",
		`{"id":1,"method":"ping"}`:               "other",
		``:                                       "other",
		answer[:20]:                              "other",
	} {
		r := readReply([]byte(body))
		var got []string
		for _, id := range r.answers {
			got = append(got, id.raw)
		}
		for _, id := range r.withdrawn {
			got = append(got, "-"+id.raw)
		}
		if r.others {
			got = append(got, "other")
		}
		if strings.Join(got, " ") != want {
			t.Errorf("readReply(%s) = %q, want %q", body, got, want)
		}
	}
}

// Events are taken apart where the stream is, and what is between them is no
// event.
func TestBlocksOf(t *testing.T) {
	data := ": c\n\nid: 1\ndata: {\"id\":1,\"method\":\"x\"}\n\n\r\n: c\rdata: [{\"id\":2,\"result\":{}},\rdata: 5]\r\rid: 3\n\ndata: torn"
	var got []string
	for _, b := range blocksOf([]byte(data)) {
		got = append(got, data[b.start:b.end])
		for _, m := range b.messages {
			if !bytes.Contains([]byte(data[b.start:b.end]), m.raw) {
				t.Errorf("message %s is not in %q", m.raw, data[b.start:b.end])
			}
		}
	}
	want := []string{"id: 1\ndata: {\"id\":1,\"method\":\"x\"}\n\n", "data: [{\"id\":2,\"result\":{}},\rdata: 5]\r\r", "id: 3\n\n"}
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("blocksOf = %q, want %q", got, want)
	}
}
