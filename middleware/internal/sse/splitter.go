package sse

import (
	"bytes"
	"errors"
	"strconv"
)

// ErrTooLarge is what the error of [Splitter.Next] wraps when an event has
// outgrown [Splitter.Max].
var ErrTooLarge = errors.New("sse: event too large")

// tooLargeError is the cap that was exceeded, in bytes.
type tooLargeError int

func (e tooLargeError) Error() string {
	return "sse: event exceeds " + strconv.Itoa(int(e)) + " bytes"
}

func (e tooLargeError) Unwrap() error { return ErrTooLarge }

// Kind says what a boundary closes.
type Kind uint8

const (
	// None is no boundary: all the bytes given belong to an unfinished event
	// or line.
	None Kind = iota

	// Pass closes bytes that no application could act on, and that may be
	// handed on at once: a comment line or a blank line between events, the
	// byte order mark that a stream may begin with, or the LF of a CR LF pair
	// whose CR has closed the boundary before.
	Pass

	// EventEnd closes an event: a block with at least one field line, known
	// or not, with data or without, up to and including its blank line.
	EventEnd
)

// String returns the name of the constant.
func (k Kind) String() string {
	switch k {
	case None:
		return "None"
	case Pass:
		return "Pass"
	case EventEnd:
		return "EventEnd"
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// byteOrderMark is U+FEFF in UTF-8. One may begin a stream; anywhere else it
// is part of a field's name.
const (
	byteOrderMark = "\uFEFF"
	markLen       = uint8(len(byteOrderMark))
)

// maxSpareID bounds the buffers that are kept for the ids to come. One that a
// rare long id has grown is let go, so that idle streams stay small.
const maxSpareID = 512

// position is where in a line a Splitter stands.
type position uint8

const (
	lineStart position = iota
	inComment
	inField // a field that is not an id
	inID    // a field that is an id, or can still turn out to be one
)

// Splitter finds where the events of one stream end. The zero value stands at
// the start of a stream and has no cap.
//
// A Splitter keeps no bytes of the stream but the ids, and of a line that is
// split over calls only what may be an id. It must not be used concurrently.
type Splitter struct {
	// Max caps the bytes of one unfinished event: its field lines, their
	// ends, the comments among them, and any line that has not ended yet,
	// also a comment. Zero or less: no cap. It must not change once Next has
	// been called.
	Max int

	pending int // bytes since the last boundary
	noCR    int // how many of the next bytes are known not to be CR

	id     []byte // committed by the last event that had one
	next   []byte // next[:nextID] is of the unfinished event; the rest is the start of a line that may be an id
	nextID int

	pos     position
	mark    uint8 // how much of a byte order mark has been seen; markLen: nothing is left to look for
	afterCR bool  // the last byte was a CR that ended a line; an LF now is its second half
	fields  bool  // the unfinished event has a byte of a field
	hasNext bool  // the unfinished event has an id, namely next[:nextID]
	seen    bool  // an id has been committed
	failed  bool  // the cap has been exceeded
}

// Next scans b, which continues where the last call stopped, and returns how
// many bytes there are up to and including the next boundary, and what kind it
// is. With [None] n is len(b): all of b belongs to what is unfinished. The
// caller calls again with b[n:] until that is empty. Next does not keep b.
//
// A line ends as soon as its CR has been seen, so that no event waits for a
// byte that may never come; when the LF of that CR turns up in a later call,
// it belongs to the unfinished event, or is a boundary of its own if there is
// none.
//
// An event of exactly Max bytes is in order. When more than Max bytes have no
// boundary among them, Next returns 0, None and an error that wraps
// [ErrTooLarge], then and ever after. The LF of a CR LF that ends an event
// does not count against its event.
func (s *Splitter) Next(b []byte) (n int, k Kind, err error) {
	if s.failed {
		return 0, None, tooLargeError(s.Max)
	}
	// What is past the cap need not be looked at: a boundary there is too
	// late. This also keeps the outcome independent of how b was cut.
	w := b
	if s.Max > 0 && len(b) > s.Max-s.pending {
		w = b[:max(0, s.Max-s.pending)]
	}
	n, k = s.scan(w)
	if k != None {
		s.pending = 0
		s.noCR = max(0, s.noCR-n)
		return n, k, nil
	}
	s.noCR = 0
	if len(w) < len(b) {
		s.failed = true
		return 0, None, tooLargeError(s.Max)
	}
	s.pending += n
	return n, None, nil
}

// Pending returns the number of bytes of the unfinished event or line: those
// since the last boundary. The stream may end cleanly where it is 0.
func (s *Splitter) Pending() int { return s.pending }

// Torn reports whether a stream that ended here would tear an event: whether
// the unfinished part has a byte of a field. An unfinished comment alone is no
// event. Part of a byte order mark is not one yet, and counts as a field.
func (s *Splitter) Torn() bool {
	return s.fields || s.mark > 0 && s.mark < markLen
}

// LastEventID returns the last event ID of the stream, as of the last event
// that has ended. seen is false until one with an id has. An event without an
// id leaves it as it is, one with an empty id resets it to "", with seen still
// true, and an id that contains NUL is ignored. Each call makes a new string.
func (s *Splitter) LastEventID() (id string, seen bool) {
	return string(s.id), s.seen
}

// scan does the work of Next, but for the cap and the count.
func (s *Splitter) scan(w []byte) (int, Kind) {
	i := 0
	if s.mark < markLen {
		var found bool
		if i, found = s.scanMark(w); found {
			return i, Pass
		}
	}
	if s.afterCR && len(w) > 0 {
		s.afterCR = false
		if w[0] == '\n' {
			i = 1
			if !s.fields {
				return i, Pass
			}
		}
	}
	var id []byte // the id that this call has found, if not nil
	for i < len(w) {
		if s.pos == lineStart {
			switch w[i] {
			case '\n', '\r':
				i = s.endLine(w, i)
				if !s.fields {
					return i, Pass
				}
				s.endEvent(id)
				return i, EventEnd
			case ':':
				s.pos = inComment
			case 'i':
				s.pos = inID
				s.fields = true
			default:
				s.pos = inField
				s.fields = true
			}
		}
		// The search for CR goes on past the line, once, because most streams
		// have none; the search for LF stops at a CR. So nothing is searched
		// twice.
		if s.noCR = max(s.noCR, i); s.noCR < len(w) && w[s.noCR] != '\r' {
			s.noCR = seekCR(w, s.noCR)
		}
		end := min(s.noCR, len(w))
		if n := bytes.IndexByte(w[i:end], '\n'); n >= 0 {
			end = i + n
		}
		if end == len(w) {
			s.keepID(id)
			if s.pos == inID {
				s.carry(w[i:])
			}
			return len(w), None
		}
		if s.pos == inID {
			line := w[i:end]
			if len(s.next) > s.nextID {
				line = s.takeCarried(line)
			}
			if v := idOf(line); v != nil {
				id = v
			}
		}
		i = s.endLine(w, end)
		s.pos = lineStart
		if !s.fields {
			return i, Pass // a comment between events
		}
	}
	s.keepID(id)
	return len(w), None
}

// scanMark looks for the byte order mark at the start of the stream. It returns
// how much of w can be part of it, and whether it ends there. If less than a
// mark turns out to be none, that was the start of a field.
func (s *Splitter) scanMark(w []byte) (n int, found bool) {
	for n < len(w) {
		if w[n] != byteOrderMark[s.mark] {
			if s.mark > 0 {
				s.pos = inField
				s.fields = true
			}
			s.mark = markLen
			return n, false
		}
		n++
		s.mark++
		if s.mark == markLen {
			return n, true
		}
	}
	return n, false
}

// endLine returns the index after the line end that begins at w[i], and
// remembers whether an LF that completes it may be still to come.
func (s *Splitter) endLine(w []byte, i int) int {
	if w[i] == '\n' {
		return i + 1
	}
	s.afterCR = i+1 == len(w)
	return lineEnd(w, i)
}

// endEvent ends an event and commits its id: id or, if that is nil, the one
// that has been kept.
func (s *Splitter) endEvent(id []byte) {
	s.fields = false
	switch {
	case id != nil:
		s.commitID(id)
	case s.hasNext:
		s.commitID(s.next[:s.nextID])
	}
	if s.hasNext {
		s.next, s.nextID, s.hasNext = s.next[:0], 0, false
	}
	if cap(s.next) > maxSpareID {
		s.next = nil
	}
}

// commitID makes id the last event ID.
func (s *Splitter) commitID(id []byte) {
	if cap(s.id) > maxSpareID && len(id) <= maxSpareID {
		s.id = nil
	}
	s.id = append(s.id[:0], id...)
	s.seen = true
}

// keepID keeps id, unless it is nil, as the id of the unfinished event.
func (s *Splitter) keepID(id []byte) {
	if id == nil {
		return
	}
	s.next = append(s.next[:0], id...) // id may lie further on in s.next
	s.nextID = len(s.next)
	s.hasNext = true
}

// carry keeps part, the start of a line or more of one, for as long as the
// line may be an id.
func (s *Splitter) carry(part []byte) {
	const id = "id:"
	at := len(s.next) - s.nextID
	for i := 0; i < len(part) && at+i < len(id); i++ {
		if part[i] != id[at+i] {
			s.next = s.next[:s.nextID]
			s.pos = inField
			return
		}
	}
	s.next = append(s.next, part...)
}

// takeCarried returns the line of which rest is what has not been carried. The
// result is valid until s.next is appended to.
func (s *Splitter) takeCarried(rest []byte) []byte {
	s.next = append(s.next, rest...)
	line := s.next[s.nextID:]
	s.next = s.next[:s.nextID]
	return line
}

// idOf returns the id in line, or nil if there is none, or one to ignore. line
// begins with i.
func idOf(line []byte) []byte {
	if string(line) == "id" {
		return line[2:]
	}
	if len(line) < 3 || string(line[:3]) != "id:" {
		return nil
	}
	id := trimSpace(line[3:])
	if bytes.IndexByte(id, 0) >= 0 {
		return nil
	}
	return id
}
