package client

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"time"
)

// eventStream is what the naive client keeps of one stream of events from one
// connection to the next.
type eventStream struct {
	cursor string        // the id of the last whole event
	retry  time.Duration // how long a reconnect waits
}

// read reads events until the stream ends, or handle wants no more. An event
// that the end leaves unfinished is dropped, and so is its id. Of the three ends
// of a line that SSE has, a CR alone is left out.
func (s *eventStream) read(r io.Reader, handle func(data []byte) (more bool)) error {
	lines := bufio.NewReader(r)
	id := s.cursor
	var data []byte
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			s.cursor = id
			if len(data) > 0 && !handle(data) {
				return nil
			}
			data = nil
		case string(field) == "id":
			id = string(value)
		case string(field) == "data" && data != nil:
			data = append(append(data, '\n'), value...)
		case string(field) == "data":
			data = append(data, value...)
		case string(field) == "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				s.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}
