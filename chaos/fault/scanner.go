package fault

import (
	"bytes"
	"mime"
	"strconv"
	"strings"
)

// scanner follows the bytes that a server sends on one connection, HTTP/1.x
// responses one after another, and counts the server-sent events in them. It
// changes nothing and holds nothing back. What is not HTTP/1.x, as after a
// successful upgrade, or not an uncompressed text/event-stream, has no events.
// It does not see the requests, and so takes the answer to a HEAD with a
// Content-Length for one whose body is still to come.
//
// It has no goroutine of its own, and no lock.
type scanner struct {
	state     scanState
	line      []byte // the current line of a head or of chunk framing, up to maxLine
	remaining int64  // of the chunk, or of a body with a Content-Length

	// Of the response under way.
	status  int
	length  int64 // -1: not given
	chunked bool
	encoded bool // compressed, say
	sse     bool // its body is server-sent events that can be read

	events eventScanner
}

type scanState uint8

const (
	statusLine scanState = iota
	headerLine
	sizedBody
	chunkSize
	chunkBody
	chunkEnd
	trailerLine
	untilClose
	opaque // not HTTP/1.x: to the end of the connection
)

// maxLine is how much of a line is looked at. The headers that matter are short.
const maxLine = 4096

// stopFunc is asked before each byte of an event but the first: the event's number, how many
// of its bytes have passed, and whether this byte begins the blank line that
// completes it.
type stopFunc func(event, offset int64, complete bool) bool

// next follows p. It returns len(p), or, if stop reports true, how many bytes come
// before the one that stop was asked about; the scanner has then not seen that
// one. stop may be nil.
func (s *scanner) next(p []byte, stop stopFunc) int {
	for i := 0; i < len(p); {
		switch s.state {
		case opaque:
			return len(p)
		case untilClose, sizedBody, chunkBody:
			body := p[i:]
			if s.state != untilClose {
				body = body[:min(int64(len(body)), s.remaining)]
			}
			n := len(body)
			if s.sse {
				n = s.events.next(body, stop)
			}
			i += n
			s.remaining -= int64(n)
			if n < len(body) {
				return i
			}
			if s.remaining == 0 {
				switch s.state {
				case sizedBody:
					s.state = statusLine
				case chunkBody:
					s.state = chunkEnd
				}
			}
		default:
			end := bytes.IndexByte(p[i:], '\n')
			if end < 0 {
				s.keep(p[i:])
				return len(p)
			}
			s.keep(p[i : i+end])
			i += end + 1
			s.endLine(string(bytes.TrimSuffix(s.line, []byte("\r"))))
			s.line = s.line[:0]
		}
	}
	return len(p)
}

func (s *scanner) keep(part []byte) {
	s.line = append(s.line, part[:min(len(part), maxLine-len(s.line))]...)
	const prefix = "HTTP/1."
	if n := min(len(s.line), len(prefix)); s.state == statusLine && string(s.line[:n]) != prefix[:n] {
		s.state = opaque
	}
}

// endLine takes a whole line, without its end.
func (s *scanner) endLine(line string) {
	switch s.state {
	case statusLine:
		fields := strings.Fields(line)
		if len(fields) < 2 {
			s.state = opaque
			return
		}
		s.status, _ = strconv.Atoi(fields[1])
		s.length, s.chunked, s.encoded, s.sse = -1, false, false, false
		s.state = headerLine
	case headerLine:
		if line == "" {
			s.startBody()
			return
		}
		s.header(line)
	case chunkSize:
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseInt(strings.TrimSpace(size), 16, 64)
		switch {
		case err != nil || n < 0:
			s.state = opaque
		case n == 0:
			s.state = trailerLine
		default:
			s.state, s.remaining = chunkBody, n
		}
	case chunkEnd:
		s.state = chunkSize
	case trailerLine:
		if line == "" {
			s.state = statusLine
		}
	}
}

func (s *scanner) header(line string) {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch strings.ToLower(name) {
	case "content-type":
		mediaType, _, _ := mime.ParseMediaType(value)
		s.sse = mediaType == "text/event-stream"
	case "content-encoding":
		if !strings.EqualFold(value, "identity") {
			s.encoded = true
		}
	case "content-length":
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 {
			s.length = n
		}
	case "transfer-encoding":
		codings := strings.Split(value, ",")
		s.chunked = strings.EqualFold(strings.TrimSpace(codings[len(codings)-1]), "chunked")
		s.encoded = s.encoded || !s.chunked || len(codings) > 1
	}
}

// startBody is the end of a response's head. The order is that of RFC 9112,
// section 6.3.
func (s *scanner) startBody() {
	s.sse = s.sse && !s.encoded
	s.events.startStream()
	switch {
	case s.status == 101:
		s.state = opaque
	case s.status < 200, s.status == 204, s.status == 304:
		s.state = statusLine
	case s.chunked:
		s.state = chunkSize
	case s.length > 0:
		s.state, s.remaining = sizedBody, s.length
	case s.length == 0:
		s.state = statusLine
	default:
		s.state, s.remaining = untilClose, -1
	}
}

// eventScanner counts events in the bytes of a stream, after WHATWG HTML,
// #event-stream-interpretation. An event is what stands between two blank lines
// and has a line that is not a comment; it begins with the first such line.
type eventScanner struct {
	begun  int64 // events, in all streams
	offset int64 // bytes of the current event that have passed
	inside bool  // an event has begun and is not complete

	bom     int  // bytes of a leading byte order mark seen; len(byteOrderMark): no more expected
	midLine bool // the line has a byte
	afterCR bool // an LF now belongs to the CR before it
}

const byteOrderMark = "\xEF\xBB\xBF"

// startStream begins a new stream. An event under way is given up.
func (e *eventScanner) startStream() { *e = eventScanner{begun: e.begun} }

// next is as of scanner.
func (e *eventScanner) next(p []byte, stop stopFunc) int {
	for i, b := range p {
		if e.bom < len(byteOrderMark) {
			if b == byteOrderMark[e.bom] {
				e.bom++
				continue
			}
			e.bom = len(byteOrderMark)
		}
		isEnd := b == '\n' || b == '\r'
		switch {
		case b == '\n' && e.afterCR: // no line of its own
			e.afterCR = false
			if e.inside {
				if stop != nil && stop(e.begun, e.offset, false) {
					e.afterCR = true
					return i
				}
				e.offset++
			}
			continue
		case !e.midLine && isEnd:
			if e.inside && stop != nil && stop(e.begun, e.offset, true) {
				return i
			}
			e.inside = false
		case !e.midLine && !e.inside:
			if b != ':' {
				e.inside, e.offset = true, 0
				e.begun++
			}
		}
		if e.inside {
			if e.offset > 0 && stop != nil && stop(e.begun, e.offset, false) {
				return i
			}
			e.offset++
		}
		e.midLine = !isEnd
		e.afterCR = b == '\r'
	}
	return len(p)
}
