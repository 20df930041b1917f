package interop_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// This file is how the model server answers POST and DELETE: the middleware's
// probes and the client's calls.

// probeKind is how one attempt of a probe is answered.
type probeKind int

const (
	honest      probeKind = iota // a result as JSON, where the record is there
	honestSSE                    // the same as SSE, with the notes that are queued
	honestError                  // the same with the error −32601
	otherError                   // −32000
	errorSSE                     // notes and then −32000
	foreignID
	nullID
	accepted // 202
	oddStatus
	deadStatus // whether the record is there or not
	replaced   // a result in another session's name
	brokenJSON
	brokenSSE // notes, and then the connection breaks
	flooding  // many notes, and no response
	hanging
)

var probeNames = [...]string{
	"honest", "honest SSE", "honest −32601", "error", "error SSE", "foreign id", "null id", "202", "status",
	"dead", "replaced", "broken JSON", "broken SSE", "flooding", "hanging",
}

func (k probeKind) String() string { return probeNames[k] }

type probeAnswer struct {
	kind       probeKind
	delay      time.Duration
	status     int // of oddStatus and deadStatus
	retryAfter int
	chunks     []int
	lingers    bool // the SSE answer does not end after the response
	flood      []*event
}

func (a probeAnswer) String() string {
	return strings.TrimSpace(fmt.Sprintf("%v %d after %v retry %d", a.kind, a.status, a.delay, a.retryAfter))
}

func (w *world) probe(rw http.ResponseWriter, r *http.Request, ex *exchange, id json.RawMessage) {
	w.mu.Lock()
	var a probeAnswer
	if len(ex.s.probes) > 0 && !ex.s.plain {
		a, ex.s.probes = ex.s.probes[0], ex.s.probes[1:]
	}
	w.mu.Unlock()
	if !w.pause(r, ex.s, a.delay, w.cfg.timeout*4/10) {
		return
	}

	honestly := a.kind == honest || a.kind == honestSSE || a.kind == honestError
	if honestly && !ex.alive {
		w.lost(rw, ex.s, ex.s.gone)
		return
	}
	w.mu.Lock()
	if honestly {
		w.tock()
		ex.live = true
		ex.s.proofs = append(ex.s.proofs, ex.arrivedAt)
	} else {
		ex.s.faulty = true
	}
	if a.kind == replaced {
		ex.s.condemned = true
	}
	var notes []*event
	switch a.kind {
	case honestSSE, errorSSE, brokenSSE:
		notes, ex.s.notes = ex.s.notes, nil
	case flooding:
		notes = a.flood
	}
	for _, e := range notes {
		e.from = ex
	}
	w.notef("  server: probe of trip %d is answered: %v", ex.trip.n, a)
	w.mu.Unlock()

	result := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id)
	failure := func(code int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"no"}}`, id, code)
	}
	reply := func(s string) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, s)
	}
	switch a.kind {
	case honest:
		reply(result)
	case honestError:
		reply(failure(-32601))
	case otherError:
		reply(failure(-32000))
	case foreignID:
		reply(`{"jsonrpc":"2.0","id":"somebody else's","result":{}}`)
	case nullID:
		reply(`{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}`)
	case accepted:
		rw.WriteHeader(http.StatusAccepted)
	case oddStatus:
		w.odd(rw, ex.s, a.status, a.retryAfter)
	case deadStatus:
		w.lost(rw, ex.s, a.status)
	case replaced:
		rw.Header().Set(sessionHeader, "another-session")
		reply(result)
	case brokenJSON:
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, result[:len(result)-3])
		_ = http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	case hanging:
		wait(r.Context(), 24*time.Hour)
	case honestSSE, errorSSE, brokenSSE, flooding:
		blob := []byte("id: probe-1\nretry: 10\ndata: \n\n")
		for _, e := range notes {
			blob = append(blob, e.raw...)
		}
		switch a.kind {
		case honestSSE:
			blob = append(blob, "id: probe-9\nevent: message\ndata: "+result+"\n\n"...)
		case errorSSE:
			blob = append(blob, "data: "+failure(-32000)+"\n\n"...)
		}
		w.mu.Lock()
		if len(blob) > w.cfg.maxHeld {
			ex.s.faulty = true // more than Config allows to look at
		}
		w.mu.Unlock()
		rw.Header().Set("Content-Type", "text/event-stream")
		for _, p := range chunked(blob, a.chunks, 0) {
			if _, err := rw.Write(p.data); err != nil || http.NewResponseController(rw).Flush() != nil {
				return
			}
		}
		if a.kind == brokenSSE {
			panic(http.ErrAbortHandler)
		}
		if a.lingers {
			wait(r.Context(), 24*time.Hour)
		}
	}
}

func (w *world) del(rw http.ResponseWriter, ex *exchange) {
	w.mu.Lock()
	alive := ex.s.alive
	if alive {
		w.kill(ex.s)
		ex.s.ended = true
	}
	w.mu.Unlock()
	if !alive {
		w.lost(rw, ex.s, ex.s.gone)
		return
	}
	rw.WriteHeader(http.StatusNoContent)
}

// callAnswer is how a POST of the client's is answered. Where the record is not
// there, only the odd ones are given.
type callAnswer struct {
	status int // 0: see sse; 404, 410, or an odd one
	sse    bool
	delay  time.Duration
	hang   bool
	first  []piece // of the stream
}

func (w *world) call(rw http.ResponseWriter, r *http.Request, ex *exchange, id json.RawMessage) {
	a := ex.trip.call
	w.mu.Lock()
	if ex.s.plain {
		a = callAnswer{}
	}
	w.mu.Unlock()
	switch {
	case a.hang:
		wait(r.Context(), 24*time.Hour)
		return
	case !wait(r.Context(), a.delay):
		return
	case a.status == http.StatusAccepted:
		rw.WriteHeader(http.StatusAccepted)
		return
	case a.status == http.StatusNotFound || a.status == http.StatusGone:
		w.lost(rw, ex.s, a.status)
		return
	case a.status == http.StatusOK: // what some servers say of a record that is gone
		rw.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"Session not found"}}`, id)
		return
	case a.status != 0:
		plainText(rw, a.status, "not now")
		return
	case !ex.alive:
		w.lost(rw, ex.s, ex.s.gone)
		return
	}
	w.mu.Lock()
	st := ex.trip.st
	ex.s.proofs = append(ex.s.proofs, ex.arrivedAt)
	if a.sse {
		ex.st, st.born, st.attached = st, true, ex
		ex.trip.ex = ex
		ex.push(a.first...)
	}
	w.mu.Unlock()
	if a.sse {
		rw.Header().Set("Content-Type", "text/event-stream")
		w.stream(rw, r, ex)
		return
	}
	rw.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"result":{"padding":%q}}`, id, strings.Repeat("x", ex.trip.n*97%9000))
}
