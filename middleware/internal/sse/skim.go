package sse

import "bytes"

// Skim consumes all of b, which continues where the last call stopped, for a
// caller who does not care where each event ends. It returns how many bytes
// there are up to and including the last boundary in b, 0 if there is none:
// those may be handed on, and the rest is unfinished. It leaves the Splitter as
// [Splitter.Next] over all of b would, and costs less where most of b is whole
// events that have ids. event is false if all that ended in b were comments and
// blank lines; it may be true of those too.
//
// When an event outgrows the cap, n is the last boundary before that event.
func (s *Splitter) Skim(b []byte) (n int, event bool, err error) {
	for at, tried := 0, false; at < len(b); {
		if !tried && s.betweenEvents() {
			tried = true
			if k := s.leap(b[at:]); k > 0 {
				at += k
				n, event = at, true
				continue
			}
		}
		k, kind, err := s.Next(b[at:])
		if err != nil {
			return n, event, err
		}
		at += k
		if kind != None {
			n, event = at, event || kind == EventEnd
		}
	}
	return n, event, nil
}

// betweenEvents reports whether nothing of what comes next can belong to what
// came before.
func (s *Splitter) betweenEvents() bool {
	return s.pending == 0 && s.pos == lineStart && !s.afterCR && !s.fields && s.mark == markLen && !s.failed
}

const (
	minLeap  = 512 // less is not worth the searches
	maxLooks = 4   // events that are searched for an id, from the last
)

// leap looks for the last blank line in w, from its end, and commits the last
// id before it. It returns the index after that line, or 0, having done
// nothing, where that would take going through w line by line after all.
func (s *Splitter) leap(w []byte) int {
	if len(w) < minLeap || s.Max > 0 && len(w) > s.Max {
		return 0
	}
	if s.noCR = seekCR(w, s.noCR); s.noCR < len(w) {
		return 0
	}
	cut := afterBlankLine(w)
	for end, looks := cut, 0; end > 0; looks++ {
		if looks == maxLooks {
			return 0
		}
		start := afterBlankLine(w[:end-1])
		if id := lastID(w[start:end]); id != nil {
			s.commitID(id)
			break
		}
		end = start
	}
	s.noCR = len(w) - cut
	return cut
}

// afterBlankLine returns the index after the last two LFs in a row, or 0. It
// searches forwards in pieces from the end, since that is what is fast.
func afterBlankLine(w []byte) int {
	for end, size := len(w), 256; end > 0; size *= 2 {
		start, found := max(0, end-size), 0
		for i := start; i < end; i++ {
			lf := bytes.IndexByte(w[i:end], '\n')
			if lf < 0 {
				break
			}
			i += lf
			if i > 0 && w[i-1] == '\n' {
				found = i + 1
			}
		}
		if found > 0 {
			return found
		}
		end = start
	}
	return 0
}

// lastID returns the id in the last line of a block that has one, or nil. Lines
// end with LF alone.
func lastID(block []byte) (id []byte) {
	for len(block) > 0 {
		line := block
		if lf := bytes.IndexByte(block, '\n'); lf >= 0 {
			line = block[:lf]
			block = block[lf+1:]
		} else {
			block = nil
		}
		if len(line) > 1 && line[0] == 'i' {
			if v := idOf(line); v != nil {
				id = v
			}
		}
	}
	return id
}
