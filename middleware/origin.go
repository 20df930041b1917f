package middleware

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
)

// maxCallBytes bounds what is kept of a call whose body cannot be read again:
// its id stands near the beginning.
const maxCallBytes = 64 << 10

// sentBody reads the body of a request of the client's once it has been sent.
// As a rule net/http can give it again, which costs nothing until it is asked
// for; where it cannot, a copy is kept of what passes.
type sentBody struct {
	again func() (io.ReadCloser, error)

	up   io.ReadCloser
	max  int
	mu   sync.Mutex // guards everything below: a Base may still read when it has answered
	data []byte
}

// readBody has all of what the flight sends kept that limit allows, before it is
// sent: a Base that cannot connect reads nothing of a body, and an answer in it
// would be lost without a trace.
func (f *flight) readBody(limit int) {
	f.keepBody(limit)
	if f.req.Body != &f.said {
		return
	}
	stop := context.AfterFunc(f.req.Context(), func() { f.said.up.Close() })
	data, err := io.ReadAll(io.LimitReader(f.said.up, int64(limit)))
	stop()
	rest := io.Reader(f.said.up)
	if err != nil {
		rest = errReader{err}
	}
	f.said.data = data
	f.req.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(data), rest), f.said.up}
}

// errReader fails as the client's own body did.
type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// keepBody has what the flight sends kept, at most limit bytes of it.
func (f *flight) keepBody(limit int) {
	f.said.again, f.said.max = f.req.GetBody, limit
	if f.said.again == nil && f.req.Body != nil && f.req.Body != http.NoBody {
		f.said.up, f.req.Body = f.req.Body, &f.said
	}
}

func (b *sentBody) Read(p []byte) (int, error) {
	n, err := b.up.Read(p)
	b.mu.Lock()
	b.data = append(b.data, p[:min(n, b.max-len(b.data))]...)
	b.mu.Unlock()
	return n, err
}

func (b *sentBody) Close() error { return b.up.Close() }

// bytes returns what was sent, or the beginning of it, nil where nothing is
// kept.
func (b *sentBody) bytes() []byte {
	if b.again != nil {
		body, err := b.again()
		if err != nil {
			return nil
		}
		defer body.Close()
		data, err := io.ReadAll(io.LimitReader(body, int64(b.max)))
		if err != nil {
			return nil
		}
		return data
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.data)
}

// maxOriginBytes bounds the calls that are kept unread, for as long as their
// streams can be resumed. As a rule nobody asks for their ids.
const maxOriginBytes = 1 << 10

// origin is the POST that a stream is the answer to. It is safe for concurrent
// use; nil is the origin of a stream without one.
type origin struct {
	mu   sync.Mutex
	data []byte // nil once call is known
	call rpcID
}

// newOrigin is called before the client has the answer: from then on the
// memory of the body may be the client's again.
func newOrigin(sent *sentBody) *origin {
	o := &origin{data: sent.bytes()}
	if len(o.data) > maxOriginBytes {
		o.theCall()
	}
	return o
}

// theCall returns the one call of the POST, or no id. Of a batch of several
// nobody can tell which of them a server's request belongs to.
func (o *origin) theCall() rpcID {
	if o == nil {
		return rpcID{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.data != nil {
		if calls := callsIn(o.data); len(calls) == 1 {
			o.call = calls[0]
		}
		o.data = nil
	}
	return o.call
}

// callsIn returns the ids of the requests in a body of the client's, which may
// have lost its end.
func callsIn(data []byte) []rpcID {
	if isBatch(data) {
		var calls []rpcID
		for _, raw := range messages(data) {
			if m, ok := parseRPC(raw); ok && m.has("method") {
				if id := readID(m["id"]); id.key != "" {
					calls = append(calls, id)
				}
			}
		}
		return calls
	}
	var id json.RawMessage
	method := false
	eachMember(data, func(name string, value json.RawMessage) {
		switch name {
		case "id":
			id = value
		case "method":
			method = true
		}
	})
	if call := readID(id); method && call.key != "" {
		return []rpcID{call}
	}
	return nil
}

// eachMember calls f for the members of a JSON object, up to where it breaks
// off.
func eachMember(data []byte, f func(name string, value json.RawMessage)) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return
		}
		name, _ := t.(string)
		var value json.RawMessage
		if d.Decode(&value) != nil || d.InputOffset() == int64(len(data)) {
			// A number, too, may have lost its end. Of a method it is enough that
			// there is one.
			if name == "method" {
				f(name, nil)
			}
			return
		}
		f(name, value)
	}
}
