package client

import (
	"io"
	"time"
)

// EventIDs is what an idScanner finds in a stream that comes in pieces.
func EventIDs(pieces ...string) []string {
	var ids []string
	s := &idScanner{found: func(id string) { ids = append(ids, id) }}
	for _, p := range pieces {
		s.scan([]byte(p))
	}
	return ids
}

// ReadStream is what the naive client makes of a stream: the data of its events,
// until there are as many as limit, and what it has kept after that.
func ReadStream(r io.Reader, limit int, cursor string, retry time.Duration) (data []string, cursorAfter string, retryAfter time.Duration, err error) {
	s := eventStream{cursor: cursor, retry: retry}
	err = s.read(r, func(d []byte) bool {
		data = append(data, string(d))
		return len(data) < limit
	})
	return data, s.cursor, s.retry, err
}

// NewSmallLog is NewLog with another bound.
func NewSmallLog(limit int) *Log {
	l := NewLog()
	l.limit = limit
	return l
}
