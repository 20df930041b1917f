package sse_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

// FuzzSplitter cuts any stream in any way, with any cap, and compares what
// comes of it with the oracle and with the same stream in single bytes.
func FuzzSplitter(f *testing.F) {
	for i, stream := range streams {
		f.Add([]byte(stream), []byte{byte(i)}, uint16(0))
		f.Add([]byte(stream), []byte{0, 2, 1}, uint16(10+i))
	}
	f.Add([]byte("data: x\r\n\r\n"), []byte{8, 0, 0}, uint16(10))
	f.Fuzz(func(t *testing.T, stream, cuts []byte, limit uint16) {
		text := string(stream)
		sizes := []int{len(text) + 1}
		if len(cuts) > 0 {
			sizes = sizes[:0]
			for _, c := range cuts {
				sizes = append(sizes, int(c)+1)
			}
		}
		chunks := cut(text, sizes...)

		var s sse.Splitter
		pieces, rest, err := piecesOf(t, &s, chunks)
		if err != nil {
			t.Fatalf("Next(%q): %v", chunks, err)
		}
		if got := join(pieces) + rest; got != text {
			t.Fatalf("Next(%q) = %q", chunks, got)
		}
		checkPieces(t, pieces, rest)

		want, torn := interpret(text)
		got, _ := outcomesOf(t, new(sse.Splitter), chunks)
		if !equalOutcomes(got, want) {
			t.Fatalf("Next(%q), Parse = %+v, want %+v", chunks, got, want)
		}
		if s.Torn() != torn {
			t.Fatalf("Torn() = %v after %q, want %v", s.Torn(), chunks, torn)
		}
		checkMax(t, text, chunks, int(limit))
	})
}

// checkPieces checks that every piece is what it was said to be, and that rest
// is the start of one.
func checkPieces(t *testing.T, pieces []piece, rest string) {
	t.Helper()
	for i, p := range pieces {
		lines := linesOf(p.text)
		blank := len(lines) == 2 && lines[0] == "" && lines[1] == ""
		comment := len(lines) == 2 && p.text[0] == ':' && lines[1] == ""
		mark := i == 0 && p.text == bom
		event := len(lines) > 2 && !strings.ContainsRune(":\r\n", rune(p.text[0]))
		if event != (p.kind == sse.EventEnd) || !event && !blank && !comment && !mark {
			t.Fatalf("%v is no such piece", p)
		}
	}
	if rest != "" && strings.ContainsRune("\r\n", rune(rest[0])) {
		t.Fatalf("the unfinished %q begins with a line end", rest)
	}
}

// checkMax checks that with a cap there are the same pieces up to the first
// that is too large, however the stream is cut, and then an error.
func checkMax(t *testing.T, text string, chunks []string, limit int) {
	t.Helper()
	if limit == 0 {
		return
	}
	// Byte by byte no LF is ever counted that need not be.
	single, rest, _ := piecesOf(t, new(sse.Splitter), cut(text, 1))
	end := slices.IndexFunc(single, func(p piece) bool { return len(p.text) > limit })
	over := end >= 0 || len(rest) > limit
	if end < 0 {
		end = len(single)
	}

	s := sse.Splitter{Max: limit}
	pieces, _, err := piecesOf(t, &s, chunks)
	if errors.Is(err, sse.ErrTooLarge) != over {
		t.Fatalf("Max = %d: Next(%q): %v, want an error: %v", limit, chunks, err, over)
	}
	if got, want := join(pieces), join(single[:end]); got != want {
		t.Fatalf("Max = %d: Next(%q) = %q, want %q", limit, chunks, got, want)
	}
	for _, p := range pieces {
		if len(p.text) > limit {
			t.Fatalf("Max = %d: Next(%q) = %v, of %d bytes", limit, chunks, p, len(p.text))
		}
	}
	if s.Pending() > limit {
		t.Fatalf("Max = %d: Pending() = %d after %q", limit, s.Pending(), chunks)
	}
}

func join(pieces []piece) string {
	var all strings.Builder
	for _, p := range pieces {
		all.WriteString(p.text)
	}
	return all.String()
}

// FuzzStrip gives Parse and Strip anything that ends in a line end.
func FuzzStrip(f *testing.F) {
	for _, stream := range streams {
		f.Add([]byte(stream))
	}
	f.Add([]byte("data: x\rid: 1\rretry: 10\n\n"))
	f.Fuzz(func(t *testing.T, block []byte) {
		text := string(block) + "\n"
		block = []byte(text)

		parsed := sse.Parse(block)
		if want := firstEvent(text); !equalEvents(parsed, want) {
			t.Fatalf("Parse(%q) = %+v, want %+v", text, parsed, want)
		}
		stripped := string(sse.Strip(block))
		if string(block) != text {
			t.Fatalf("Strip(%q) changed its argument to %q", text, block)
		}
		want := slices.DeleteFunc(linesOf(text), func(line string) bool {
			name, _, _ := strings.Cut(line, ":")
			return name == "id" || name == "retry"
		})
		if got := linesOf(stripped); !slices.Equal(got, want) {
			t.Fatalf("Strip(%q) = %q, of the lines %q, want %q", text, stripped, got, want)
		}
		if again := string(sse.Strip([]byte(stripped))); again != stripped {
			t.Fatalf("Strip(%q) = %q, want no change", stripped, again)
		}
		// Parse stops at the first blank line, which in an event is never
		// the first line.
		e := sse.Parse([]byte(stripped))
		if bare := (sse.Event{Name: parsed.Name, Data: parsed.Data, HasData: parsed.HasData}); !equalEvents(e, bare) {
			t.Fatalf("Parse(%q) = %+v, want %+v", stripped, e, bare)
		}
	})
}

// firstEvent returns what the fields before the first blank line say.
func firstEvent(text string) (e sse.Event) {
	lines := linesOf(text)
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			break
		}
		if line[0] != ':' {
			interpretField(&e, line)
		}
	}
	return e
}
