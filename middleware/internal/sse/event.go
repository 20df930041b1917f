package sse

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// Event is what one block of fields says. It shares no memory with the block.
type Event struct {
	ID    string // the last `id` that has no NUL
	HasID bool   // false: the block leaves the last event ID as it is

	Name string // the last `event`; empty is the same as none, and means "message"

	Data    []byte // all `data` values, joined by LF
	HasData bool   // false: a client remembers the ID and dispatches nothing

	Retry string // the last `retry` of ASCII digits only, in milliseconds; empty if there is none
}

// Parse reads one event, in the bytes from after one boundary of a [Splitter]
// up to and including an [EventEnd]. Comments and unknown fields are skipped.
//
// Parse stops at the first blank line. A line that does not end is ignored, as
// at the end of a stream. A byte order mark gets no special treatment: that of
// the stream is no part of a block, because a Splitter sets it apart, and any
// other is part of a field's name.
func Parse(block []byte) Event {
	var e Event
	l := lines{rest: block}
	for {
		line, ended := l.next()
		if len(line) == 0 || len(line) == len(ended) {
			return e
		}
		name, value := field(line)
		switch string(name) {
		case "data":
			if e.HasData {
				e.Data = append(e.Data, '\n')
			}
			e.Data = append(e.Data, value...)
			e.HasData = true
		case "event":
			if e.Name = "message"; string(value) != "message" { // the common case allocates nothing
				e.Name = string(value)
			}
		case "id":
			if bytes.IndexByte(value, 0) < 0 {
				e.ID = string(value)
				e.HasID = true
			}
		case "retry":
			if isDigits(value) {
				e.Retry = string(value)
			}
		}
	}
}

// HasData reports whether a block has data that is not empty: whether there is
// anything in it for an application. It allocates nothing.
func HasData(block []byte) bool {
	for l := (lines{rest: block}); ; {
		line, ended := l.next()
		if len(line) == 0 || len(line) == len(ended) {
			return false
		}
		if line[0] == 'd' {
			if name, value := field(line); string(name) == "data" && len(value) > 0 {
				return true
			}
		}
	}
}

func isDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

// Strip returns block without its `id` and `retry` lines, also those that a
// client would ignore, and every other byte kept. It is for passing on a
// message whose cursor belongs to another stream. Where there is nothing to
// strip, it returns block itself; it never modifies it.
//
// The end of a stripped line goes with it, unless that would bring a CR and an
// LF together that were two line ends and would then be one: then the LF of
// the stripped line stays.
func Strip(block []byte) []byte {
	var out []byte
	l := lines{rest: block}
	start := 0 // block[start:] has not been dealt with
	for len(l.rest) > 0 {
		at := len(block) - len(l.rest)
		line, _ := l.next()
		if !isCursor(line) {
			continue
		}
		if out == nil {
			out = make([]byte, 0, len(block))
		}
		out = append(out, block[start:at]...)
		start = len(block) - len(l.rest)
		if bytes.HasSuffix(out, []byte{'\r'}) && bytes.HasPrefix(l.rest, []byte{'\n'}) {
			start-- // line ended with LF: had it been CR, the next LF would be of the same end
		}
	}
	if out == nil {
		return block
	}
	return append(out, block[start:]...)
}

// isCursor reports whether line is an `id` or `retry` field.
func isCursor(line []byte) bool {
	name, _ := field(line)
	return string(name) == "id" || string(name) == "retry"
}

// Cursor returns an event that does nothing but set the last event ID to id and
// the reconnection time to retry, rounded up to a millisecond. Its data is
// empty. An id that is empty, or that no field can carry because it contains
// CR, LF or NUL, is left out, and so is a retry that is not above zero.
func Cursor(id string, retry time.Duration) []byte {
	var b []byte
	if id != "" && !strings.ContainsAny(id, "\r\n\x00") {
		b = append(b, "id: "...)
		b = append(b, id...)
		b = append(b, '\n')
	}
	if retry > 0 {
		ms := int64(retry / time.Millisecond)
		if retry%time.Millisecond > 0 {
			ms++
		}
		b = append(b, "retry: "...)
		b = strconv.AppendInt(b, ms, 10)
		b = append(b, '\n')
	}
	return append(b, "data: \n\n"...)
}

// Format is the inverse of [Parse]. Where there is no data it writes an empty
// line of it, for clients that remember an id only then.
func Format(e Event) []byte {
	var b []byte
	line := func(name, value string) {
		b = append(append(append(b, name...), ": "...), value...)
		b = append(b, '\n')
	}
	if e.HasID {
		line("id", e.ID)
	}
	if e.Name != "" {
		line("event", e.Name)
	}
	if e.Retry != "" {
		line("retry", e.Retry)
	}
	for data := range bytes.SplitSeq(e.Data, []byte{'\n'}) {
		line("data", string(bytes.ReplaceAll(data, []byte{'\r'}, []byte{' '})))
	}
	return append(b, '\n')
}

// ParseLF returns the data of a block for a reader to whom a CR that stands
// alone is part of the line, nil if there is none in it.
func ParseLF(block []byte) []byte {
	lone := false
	for rest := block; ; {
		i := bytes.IndexByte(rest, '\r')
		if i < 0 {
			break
		}
		if lone = i+1 < len(rest) && rest[i+1] != '\n'; lone {
			break
		}
		rest = rest[i+1:]
	}
	if !lone {
		return nil
	}
	var data []byte
	for line := range bytes.SplitSeq(block, []byte{'\n'}) {
		if name, value := field(line); string(name) == "data" {
			data = append(append(data, value...), '\n')
		}
	}
	return bytes.TrimSuffix(data, []byte{'\n'})
}
