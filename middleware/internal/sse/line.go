package sse

import "bytes"

// lines cuts the lines off a piece of a stream, from its start to its end.
type lines struct {
	rest []byte
	noCR int // how many of the first bytes of rest are known not to be CR
}

// next returns the next line, and with its end. They are equal if the rest has
// no line end, and empty if there is no rest.
//
// The search for CR goes on past the line, once, because most streams have
// none; the search for LF stops at a CR. So nothing is searched twice.
func (l *lines) next() (line, ended []byte) {
	l.noCR = seekCR(l.rest, l.noCR)
	n := l.noCR
	if lf := bytes.IndexByte(l.rest[:n], '\n'); lf >= 0 {
		n = lf
	}
	line, ended = l.rest[:n], l.rest[:lineEnd(l.rest, n)]
	l.rest = l.rest[len(ended):]
	l.noCR = max(0, l.noCR-len(ended))
	return line, ended
}

// seekCR returns the index of the first CR in b that is not before from, or
// len(b).
func seekCR(b []byte, from int) int {
	if n := bytes.IndexByte(b[from:], '\r'); n >= 0 {
		return from + n
	}
	return len(b)
}

// lineEnd returns the index after the line end that begins at b[i], if one
// does.
func lineEnd(b []byte, i int) int {
	if i == len(b) {
		return i
	}
	if b[i] == '\r' && i+1 < len(b) && b[i+1] == '\n' {
		i++
	}
	return i + 1
}

// field returns the name and the value of a line. A comment has no name, which
// is no field that anybody knows. Of the spaces after the colon, one goes.
func field(line []byte) (name, value []byte) {
	name, value, _ = bytes.Cut(line, []byte{':'})
	return name, trimSpace(value)
}

func trimSpace(value []byte) []byte {
	if len(value) > 0 && value[0] == ' ' {
		return value[1:]
	}
	return value
}
