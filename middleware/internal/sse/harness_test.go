package sse_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

// piece is what lies between two boundaries.
type piece struct {
	kind sse.Kind
	text string
}

func (p piece) String() string { return fmt.Sprintf("%v %q", p.kind, p.text) }

// feed gives s the chunks, calls found at each boundary, and returns what is
// unfinished after the last. It calls Next as a reader would, from a buffer
// that each chunk overwrites, and checks what Next promises of every call.
func feed(t testing.TB, s *sse.Splitter, chunks []string, found func(piece)) (rest string, err error) {
	t.Helper()
	var buf, unfinished []byte
	for _, chunk := range chunks {
		buf = append(buf[:0], chunk...)
		for b := buf; len(b) > 0; {
			n, k, err := s.Next(b)
			if err != nil {
				if n != 0 || k != sse.None {
					t.Fatalf("Next(%q) = %d, %v, %v, want 0, None with an error", b, n, k, err)
				}
				return string(unfinished), err
			}
			if n < 1 || n > len(b) || k == sse.None && n != len(b) {
				t.Fatalf("Next(%q) = %d, %v, %v", b, n, k, err)
			}
			unfinished = append(unfinished, b[:n]...)
			b = b[n:]
			if k != sse.None {
				found(piece{k, string(unfinished)})
				unfinished = unfinished[:0]
			}
			if got := s.Pending(); got != len(unfinished) {
				t.Fatalf("Pending() = %d after %q, want %d", got, unfinished, len(unfinished))
			}
		}
		for i := range buf {
			buf[i] = "id:9\n\r"[i%6]
		}
	}
	return string(unfinished), nil
}

// piecesOf returns the pieces that s finds in the chunks.
func piecesOf(t testing.TB, s *sse.Splitter, chunks []string) (pieces []piece, rest string, err error) {
	t.Helper()
	rest, err = feed(t, s, chunks, func(p piece) { pieces = append(pieces, p) })
	return pieces, rest, err
}

// outcomesOf returns what s and Parse together make of the chunks.
func outcomesOf(t testing.TB, s *sse.Splitter, chunks []string) (events []outcome, err error) {
	t.Helper()
	_, err = feed(t, s, chunks, func(p piece) {
		if p.kind == sse.EventEnd {
			id, seen := s.LastEventID()
			events = append(events, outcome{sse.Parse([]byte(p.text)), id, seen})
		}
	})
	return events, err
}

func equalOutcomes(a, b []outcome) bool {
	return slices.EqualFunc(a, b, func(a, b outcome) bool {
		return equalEvents(a.Event, b.Event) && a.LastID == b.LastID && a.Seen == b.Seen
	})
}

func equalEvents(a, b sse.Event) bool {
	return string(a.Data) == string(b.Data) && a.HasData == b.HasData &&
		a.Name == b.Name && a.ID == b.ID && a.HasID == b.HasID && a.Retry == b.Retry
}

// cut cuts stream into chunks of the given sizes, over and over.
func cut(stream string, sizes ...int) []string {
	var chunks []string
	for i := 0; stream != ""; i++ {
		n := min(sizes[i%len(sizes)], len(stream))
		chunks = append(chunks, stream[:n])
		stream = stream[n:]
	}
	return chunks
}
