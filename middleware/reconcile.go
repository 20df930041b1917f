package middleware

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

// staleCode is the JSON-RPC error by which the middleware fails a call whose
// server no longer waits for what it has asked the client.
const staleCode = -32001

// passage is how some whole events come to a client.
type passage struct {
	s  *session
	st *stream // nil for what came with a probe's answer
	// replay: a reconnect has brought them, and cursor is where its client
	// stands.
	replay bool
	cursor string
	turn   uint64 // the same for all of a response
}

// reconciled is what is to be handed on in place of some events.
type reconciled struct {
	data   []byte     // the input itself if nothing had to change
	given  []delivery // of the requests in data
	kept   int        // events that the client does not get
	ends   bool       // a call was failed, and nothing more belongs on its stream
	owes   bool       // a call is to be failed on another stream
	events []Event    // for the hook
}

// delivery is a request that counts as delivered once end bytes have been read,
// or the failure of a call that counts as said then.
type delivery struct {
	id      rpcID // of the request, or of the call
	failure []byte
	end     int64

	// Of a request: which delivery it is, and what was before it.
	nth, before uint64
	prior       *firstMeta
}

// takeBack undoes deliveries that were not read.
func (l *ledger) takeBack(unread []delivery) {
	for _, d := range slices.Backward(unread) {
		if d.failure != nil {
			l.unsaid(d.id, d.failure)
		} else {
			l.undeliver(d)
		}
	}
}

// asks reports whether whole events have to be looked at: whether anything is
// pending, or one of them may be a request. It is asked of every byte of a
// stream.
func (s *session) asks(data []byte) bool {
	return s.ledger != nil && len(data) > 0 && (s.ledger.following.Load() || mayRequest(data))
}

// mayRequest reports whether there can be a server-to-client request in data:
// whether a string that is no notification's method stands behind `"method"`.
// The slash in it is what costs the least to look for.
func mayRequest(data []byte) bool {
	for at := 0; ; at++ {
		n := bytes.IndexByte(data[at:], '/')
		if n < 0 {
			return false
		}
		at += n
		if at >= len(notifications) && string(data[at-len(notifications):at]) == notifications {
			continue
		}
		start := at
		for start > 0 && at-start < maxMethodBytes && (isLetter(data[start-1]) || data[start-1] == '\\') {
			start--
		}
		if before, ok := bytes.CutSuffix(data[:start], []byte(`"`)); ok && mayBeMethod(before) {
			return true
		}
	}
}

// mayBeMethod reports whether a string that stands behind before can be the
// method of a message. Where a JSON text goes over several lines it may be,
// whatever stands on the line before.
func mayBeMethod(before []byte) bool {
	before, line := onLine(before)
	if line {
		return true
	}
	before, ok := bytes.CutSuffix(before, []byte(":"))
	if !ok {
		return false
	}
	before, line = onLine(before)
	return line || bytes.HasSuffix(before, memberMethod)
}

// onLine cuts off blanks, and reports whether nothing of a data line is before
// them.
func onLine(before []byte) (rest []byte, first bool) {
	rest = bytes.TrimRight(before, " \t")
	line, ok := bytes.CutSuffix(rest, []byte("data:"))
	if !ok {
		line = rest
	}
	return rest, len(line) == 0 || line[len(line)-1] == '\n' || line[len(line)-1] == '\r'
}

const (
	notifications  = "notifications"
	maxMethodBytes = 64 // up to the slash
)

var memberMethod = []byte(`"method"`)

func isLetter(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c == '$'
}

// block is one event with what it says.
type block struct {
	start, end int // in the data
	event      sse.Event
	batch      bool
	messages   []message
}

// reconcile rules on the server-to-client requests among whole events, which
// begin after a boundary and end with one.
func (t *Transport) reconcile(p passage, data []byte) reconciled {
	l := p.s.ledger
	blocks := blocksOf(data)
	var call rpcID
	if p.st != nil {
		call = p.st.origin.theCall()
	}
	moot := make(map[string]bool) // by key, of requests and of calls
	fresh := len(blocks)
	for i, b := range blocks {
		if p.replay && p.cursor != "" && b.event.HasID && b.event.ID == p.cursor {
			fresh = len(blocks) - i - 1 // this one the client has
		}
		for _, m := range b.messages {
			switch {
			case m.kind == cancelMessage && p.replay:
				moot["request "+m.id.key] = true
			case m.kind == responseMessage && p.replay:
				moot["call "+m.id.key] = true
			}
		}
	}
	for _, b := range blocks[len(blocks)-fresh:] {
		if p.st != nil && !l.repeats(b) {
			p.st.passed.Add(1)
			break
		}
	}

	r := reconciled{data: data}
	now := time.Now()
	out, at := []byte(nil), 0
	for _, b := range blocks {
		var keep []json.RawMessage
		changed := false
		for _, m := range b.messages {
			var given delivery // its end is not known yet
			rules, instead := t.rule(p, m, sighting{
				given: &given,
				call:  call, st: p.st, replay: p.replay, turn: p.turn, now: now,
				moot: moot["request "+m.id.key] || call.key != "" && moot["call "+call.key],
			}, &r)
			changed = changed || rules != pass
			switch {
			case rules == pass:
				keep = append(keep, m.raw)
				if m.kind == requestMessage {
					r.given = append(r.given, given)
				}
			case rules == fail:
				keep = append(keep, instead)
				r.given = append(r.given, delivery{id: call, failure: sse.Format(sse.Event{Data: instead})})
				r.ends = true
			}
		}
		if changed {
			out = append(append(out, data[at:b.start]...), rewrite(b, keep)...)
			at = b.end
			if len(keep) == 0 {
				r.kept++
			}
		}
		end := int64(len(out) + b.end - at)
		if !changed && bytes.HasSuffix(data[b.start:b.end], []byte("\r\n")) {
			end-- // a client acts on the CR
		}
		for i := len(r.given) - 1; i >= 0 && r.given[i].end == 0; i-- {
			r.given[i].end = end
		}
	}
	if at > 0 {
		r.data = append(out, data[at:]...)
	}
	return r
}

// reconcileExtra rules on what came with a probe's answer, whose stream nobody
// knows.
func (t *Transport) reconcileExtra(s *session, extra []byte) reconciled {
	if !s.asks(extra) {
		return reconciled{data: extra}
	}
	return t.reconcile(passage{s: s}, extra)
}

// rule asks the ledger about one message.
func (t *Transport) rule(p passage, m message, at sighting, r *reconciled) (rules ruling, instead json.RawMessage) {
	l := p.s.ledger
	switch m.kind {
	case responseMessage:
		if rules = l.response(m.id); rules == suppress {
			t.report(r, p, m, Event{Kind: DuplicateSuppressed, OriginRequestID: m.id.raw})
		}
		return rules, nil
	case cancelMessage:
		l.cancelled(m.id)
		return pass, nil
	case otherMessage:
		return pass, nil
	}
	known, asks, call, first := l.recall(m.id)
	if call.key == "" {
		call = at.call
	}
	if known && asks {
		at.asserted = t.cfg.LivenessAssertion(ReplayedRequest{
			SessionID: p.s.key.id, RequestID: m.id.raw, Method: m.method,
			FirstMeta: first, Meta: m.meta, Message: m.raw,
		})
	}
	rules, err := l.request(m, at)
	switch {
	case err != nil:
		t.report(r, p, m, Event{Kind: Stale, OriginRequestID: originOf(err), Err: err})
	case rules == suppress:
		t.report(r, p, m, Event{Kind: DuplicateSuppressed, OriginRequestID: clip(call.raw)})
	}
	switch rules {
	case fail:
		instead = failureMessage(at.call, err)
	case owe:
		r.owes = true
	}
	return rules, instead
}

// report keeps an event for the hook, which is never called under a lock.
func (t *Transport) report(r *reconciled, p passage, m message, e Event) {
	if e.Kind == Stale {
		t.counters.stale.Add(1)
	} else {
		t.counters.suppressed.Add(1)
	}
	e.SessionID, e.LastEventID = p.s.key.id, p.cursor
	e.RequestID, e.RPCMethod = clip(m.id.raw), clip(m.method)
	if m.kind == responseMessage {
		e.RequestID = ""
	}
	r.events = append(r.events, e)
}

// repeats reports whether an event says nothing new: it has no data, or is a
// request that has come before.
func (l *ledger) repeats(b block) bool {
	for _, m := range b.messages {
		if m.kind != requestMessage {
			return false
		}
		if known, _, _, _ := l.recall(m.id); !known {
			return false
		}
	}
	return true
}

// blocksOf takes whole events apart.
func blocksOf(data []byte) []block {
	var blocks []block
	var splitter sse.Splitter
	for start, at := 0, 0; at < len(data); {
		n, kind, _ := splitter.Next(data[at:])
		at += n
		if kind == sse.EventEnd {
			b := block{start: start, end: at, event: sse.Parse(data[start:at])}
			b.read(data[start:at])
			blocks = append(blocks, b)
		}
		start = at
	}
	return blocks
}

// read reads the messages of an event. Where a CR stands alone, clients
// disagree on whether it ends a line, as it must (WHATWG HTML, parsing an event
// stream), or is part of the data: what any of them would take for a request
// is one.
func (b *block) read(raw []byte) {
	data := b.event.Data
	if loose := sse.ParseLF(raw); loose != nil && !json.Valid(data) {
		data = loose
	}
	if len(data) == 0 {
		return
	}
	b.batch = isBatch(data)
	for _, m := range messages(data) {
		b.messages = append(b.messages, readMessage(m))
	}
}

// rewrite returns an event that has the same id and these messages.
func rewrite(b block, messages []json.RawMessage) []byte {
	e := b.event
	switch {
	case len(messages) == 0:
		e.Data, e.Name = nil, ""
		if !e.HasID && e.Retry == "" {
			return nil
		}
	case b.batch:
		e.Data = append(append([]byte{'['}, bytes.Join(rawBytes(messages), []byte{','})...), ']')
	default:
		e.Data = messages[0]
	}
	return sse.Format(e)
}

func rawBytes(messages []json.RawMessage) [][]byte {
	all := make([][]byte, len(messages))
	for i, m := range messages {
		all[i] = m
	}
	return all
}

// failure is the event that fails a call.
func failure(call rpcID, err error) []byte {
	return sse.Format(sse.Event{Data: failureMessage(call, err)})
}

func failureMessage(call rpcID, err error) json.RawMessage {
	type details struct {
		Reason    string          `json:"reason"`
		Method    string          `json:"method"`
		RequestID json.RawMessage `json:"requestId,omitempty"`
		Outcome   string          `json:"outcome"`
	}
	var d details
	var stale *StaleElicitationError
	var unknown *UnknownPendingRequestError
	switch {
	case errors.As(err, &stale):
		d = details{"stale", stale.Method, rawID(stale.RequestID), "unknown"}
	case errors.As(err, &unknown):
		d = details{"unknown", unknown.Method, rawID(unknown.RequestID), "unknown"}
	}
	message, _ := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   any             `json:"error"`
	}{"2.0", json.RawMessage(call.raw), struct {
		Code    int     `json:"code"`
		Message string  `json:"message"`
		Data    details `json:"data"`
	}{staleCode, err.Error(), d}})
	return message
}

// rawID is an id of a record as JSON, nil if it was clipped.
func rawID(id string) json.RawMessage {
	if !json.Valid([]byte(id)) {
		return nil
	}
	return json.RawMessage(id)
}

func originOf(err error) string {
	var stale *StaleElicitationError
	var unknown *UnknownPendingRequestError
	switch {
	case errors.As(err, &stale):
		return stale.OriginRequestID
	case errors.As(err, &unknown):
		return unknown.OriginRequestID
	}
	return ""
}

func (b *body) passage(replay bool) passage {
	return passage{s: b.f.s, st: b.st, replay: replay, cursor: b.cursor, turn: b.turn}
}

// reconcile rules on the requests in buf[from:whole], and puts extra behind
// it. It is called by the reader, and returns how many events were kept back.
func (b *body) reconcile(from int, extra []byte) (kept int) {
	t, s := b.f.t, b.f.s
	region := b.buf[from:b.whole]
	asks := s.asks(region)
	if !asks && len(extra) == 0 {
		return 0
	}
	var said []Event
	owes := false
	if asks {
		r := t.reconcile(b.passage(time.Now().Before(b.replayUntil)), region)
		b.mu.Lock()
		b.replaceLocked(from, len(region), r)
		b.mu.Unlock()
		said, owes, kept = r.events, r.owes, r.kept
	}
	if len(extra) > 0 {
		r := t.reconcileExtra(s, extra)
		b.mu.Lock()
		b.insertLocked(r)
		b.mu.Unlock()
		said, owes = append(said, r.events...), owes || r.owes
	}
	t.observeAll(said)
	b.settle()
	if owes {
		s.settleAll()
	}
	return kept
}

// replaceLocked puts what was ruled in place of n bytes of whole events.
func (b *body) replaceLocked(from, n int, r reconciled) {
	if r.kept > 0 || r.ends || len(r.data) != n {
		b.buf = slices.Replace(b.buf, from, from+n, r.data...)
		b.whole += len(r.data) - n
	}
	b.events -= r.kept
	b.cut = b.cut || r.ends
	b.noteLocked(from, r)
}

// noteLocked notes the deliveries in what stands at buf[from:].
func (b *body) noteLocked(from int, r reconciled) {
	read := b.base + int64(b.off)
	b.deliveries = slices.DeleteFunc(b.deliveries, func(d delivery) bool { return d.end <= read })
	for _, d := range r.given {
		d.end += b.base + int64(from)
		b.deliveries = append(b.deliveries, d)
	}
}

// unreadLocked returns what counts as delivered and was never read to its end.
func (b *body) unreadLocked() []delivery {
	read := b.base + int64(b.off)
	unread := slices.DeleteFunc(b.deliveries, func(d delivery) bool { return d.end <= read })
	if b.tail != nil {
		unread = append(unread, delivery{id: b.st.origin.theCall(), failure: b.tail})
	}
	b.deliveries, b.tail = nil, nil
	return unread
}

// endLastLocked ends the stream in order, after what is to be said last.
func (b *body) endLastLocked() {
	// All of buf has been handed on: a cursor that is asked for now is that of
	// the last event, and not the one in front of buf.
	b.base += int64(b.whole)
	b.before, b.seen = b.splitter.LastEventID()
	b.off, b.whole = 0, 0
	b.buf = append(b.buf[:0], b.tail...)
	if b.tail != nil {
		end := int64(len(b.tail))
		b.noteLocked(b.whole, reconciled{given: []delivery{{id: b.st.origin.theCall(), failure: b.tail, end: end}}})
	}
	b.whole = len(b.buf)
	b.cut, b.tail, b.tooLarge, b.end = false, nil, false, io.EOF
}

// settle ends the stream where its call has been failed, after telling the call
// if nothing has told it yet.
func (b *body) settle() {
	l := b.f.s.ledger
	if l == nil {
		return
	}
	call := rpcID{}
	if l.following.Load() {
		call = b.st.origin.theCall()
	}
	b.mu.Lock()
	over := b.surfaced || b.finished || b.failed != nil || b.cond != nil && !b.released
	if !over && !b.cut && call.key != "" {
		if b.tail = l.owed(call); b.tail != nil {
			b.cut = true
		}
	}
	cut := b.cut && !over && !b.renewing // who renews the lease comes here afterwards
	if cut && b.cond != nil {
		b.cond.Broadcast()
	}
	b.mu.Unlock()
	if cut {
		b.closeUpstream()
	}
}

// whatIsHeld returns the events that are held so far, which nobody changes.
func (b *body) whatIsHeld() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf[:b.whole:b.whole]
}
