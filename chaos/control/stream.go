package control

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// MaxEvent is the most bytes of one event of a stream that a Client reads.
const MaxEvent = 1 << 20

// event is one of an event stream.
type event struct{ name, data string }

// eventReader reads an event stream as WHATWG HTML #event-stream-interpretation
// has it, without ids, which a RunEvent has itself.
type eventReader struct {
	r       *bufio.Reader
	begun   bool // the byte order mark is past
	afterCR bool // a line feed here belongs to the end of the line before
}

func newEventReader(r io.Reader) *eventReader { return &eventReader{r: bufio.NewReader(r)} }

// next returns the next event that has data. An event that the end of the stream
// cuts is none.
func (e *eventReader) next() (event, error) {
	var name string
	var data strings.Builder
	some, left := false, MaxEvent
	for {
		line, err := e.line(&left)
		if err != nil {
			return event{}, err
		}
		if line == "" {
			if some {
				return event{name, strings.TrimSuffix(data.String(), "\n")}, nil
			}
			name, left = "", MaxEvent
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
		case "data":
			some = true
			data.WriteString(value)
			data.WriteByte('\n')
		case "": // a comment: it is no part of an event that may be long
			left += len(line)
		}
	}
}

// line returns the next line, without its end, and takes its length off left.
func (e *eventReader) line(left *int) (string, error) {
	var line []byte
	for {
		if _, err := e.r.Peek(1); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
		chunk, _ := e.r.Peek(e.r.Buffered())
		if e.afterCR && chunk[0] == '\n' {
			e.afterCR = false
			e.r.Discard(1)
			continue
		}
		e.afterCR = false
		end := bytes.IndexAny(chunk, "\r\n")
		part := chunk
		if end >= 0 {
			part = chunk[:end]
		}
		if *left -= len(part); *left < 0 {
			return "", fmt.Errorf("an event longer than %d bytes", MaxEvent)
		}
		line = append(line, part...)
		if end < 0 {
			e.r.Discard(len(chunk))
			continue
		}
		e.afterCR = chunk[end] == '\r'
		e.r.Discard(end + 1)
		return e.clean(line), nil
	}
}

func (e *eventReader) clean(line []byte) string {
	text := string(line)
	if !e.begun {
		e.begun = true
		text = strings.TrimPrefix(text, "\ufeff")
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\ufffd")
	}
	return text
}
