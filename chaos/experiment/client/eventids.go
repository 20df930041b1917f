package client

import "bytes"

// maxField bounds what is kept of a line: no event id of a server's is longer.
const maxField = 256

// idScanner finds the ids of whole events that have data in an SSE stream, fed
// in any pieces. An event without an id of its own has none.
type idScanner struct {
	found func(id string)

	line      []byte // the beginning of the line under way, at most maxField
	afterCR   bool   // a LF now belongs to the CR before
	id        string
	has, data bool
}

func (s *idScanner) scan(p []byte) {
	for len(p) > 0 {
		if s.afterCR && p[0] == '\n' {
			s.afterCR = false
			p = p[1:]
			continue
		}
		s.afterCR = false
		end := bytes.IndexAny(p, "\r\n")
		if end < 0 {
			s.keep(p)
			return
		}
		s.keep(p[:end])
		s.afterCR = p[end] == '\r'
		s.endLine()
		p = p[end+1:]
	}
}

func (s *idScanner) keep(p []byte) {
	s.line = append(s.line, p[:min(len(p), maxField-len(s.line))]...)
}

func (s *idScanner) endLine() {
	line := s.line
	s.line = s.line[:0]
	if len(line) == 0 {
		if s.has && s.data {
			s.found(s.id)
		}
		s.has, s.data = false, false
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch string(name) {
	case "id":
		s.id, s.has = string(bytes.TrimPrefix(value, []byte(" "))), true
	case "data":
		s.data = s.data || len(bytes.TrimSpace(value)) > 0
	}
}
