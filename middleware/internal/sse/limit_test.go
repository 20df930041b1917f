package sse_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

func TestMax(t *testing.T) {
	tests := []struct {
		name   string
		max    int
		stream string
		pieces int // before the error
		over   bool
	}{
		{"event at the cap", 9, "data: x\n\n", 1, false},
		{"event over the cap", 8, "data: x\n\n", 0, true},
		{"the LF after the end is not counted", 10, "data: x\r\n\r\n", 1, false},
		{"the LF within is", 9, "data: x\r\n\r\n", 0, true},
		{"each event has the whole cap", 9, "data: x\n\ndata: y\n\ndata: z\n\n", 3, false},
		{"the second is over", 9, "data: x\n\ndata: yy\n\n", 1, true},
		{"many short lines", 20, strings.Repeat("a\n", 11), 0, true},
		{"comments in an event count", 9, "data: x\n:\n\n", 0, true},
		{"comments between do not", 9, "data: x\n\n:\n:\n:\n:\n:\n:\ndata: x\n\n", 8, false},
		{"comment at the cap", 4, ":ab\n", 1, false},
		{"comment over the cap", 4, ":abc\n", 0, true},
		{"unfinished at the cap", 4, "data", 0, false},
		{"unfinished field", 4, "data:", 0, true},
		{"unfinished comment", 4, ":data", 0, true},
		{"unfinished id", 4, "id: 1", 0, true},
		{"BOM is no part of an event", 9, bom + "data: x\n\n", 2, false},
		{"BOM over the cap", 2, bom, 0, true},
		{"blank lines", 1, "\r\n\r\r\n\n", 0, false},
		{"no cap", 0, "data: " + strings.Repeat("x", 1<<16) + "\n\n", 1, false},
		{"less than none", -1, "data: x\n\n", 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 5, len(tt.stream)} {
				s := sse.Splitter{Max: tt.max}
				pieces, _, err := piecesOf(t, &s, cut(tt.stream, size))
				// However it is cut, a lone LF is a piece of its own or not.
				pieces = slices.DeleteFunc(pieces, func(p piece) bool { return strings.Trim(p.text, "\r\n") == "" })
				if errors.Is(err, sse.ErrTooLarge) != tt.over || len(pieces) != tt.pieces {
					t.Errorf("Max = %d, in chunks of %d: Next(%q) = %v, %v, want %d pieces, error %v", tt.max, size, tt.stream, pieces, err, tt.pieces, tt.over)
				}
			}
		})
	}
}

func TestTooLargeIsSticky(t *testing.T) {
	s := sse.Splitter{Max: 12}
	piecesOf(t, &s, []string{"id: 1\n\n", "data: 6"})
	for _, chunk := range []string{"789abcdef", "\n\n", "", "data\n\n"} {
		n, k, err := s.Next([]byte(chunk))
		if n != 0 || k != sse.None || !errors.Is(err, sse.ErrTooLarge) {
			t.Errorf("Next(%q) = %d, %v, %v, want 0, None, ErrTooLarge", chunk, n, k, err)
		}
		if got, want := err.Error(), "sse: event exceeds 12 bytes"; got != want {
			t.Errorf("Next(%q): error %q, want %q", chunk, got, want)
		}
	}
	if !s.Torn() {
		t.Error("Torn() = false after ErrTooLarge in a field, want true")
	}
	if id, _ := s.LastEventID(); id != "1" {
		t.Errorf("LastEventID() = %q after ErrTooLarge, want %q", id, "1")
	}
}

func TestSplitterSize(t *testing.T) {
	if got := unsafe.Sizeof(sse.Splitter{}); got >= 128 {
		t.Errorf("a Splitter has %d bytes, want fewer than 128", got)
	}
}

// TestAllocations feeds events of every shape, whole and in pieces: neither an
// event nor a line that goes on for chunks may cost memory.
func TestAllocations(t *testing.T) {
	tests := []struct {
		name   string
		stream string
		sizes  []int
	}{
		{"whole", streams[0], []int{1 << 20}},
		{"bytes", streams[0], []int{1}},
		{"CR LF", streams[1], []int{1, 7, 64}},
		{"CR", streams[2], []int{1, 7, 64}},
		{"long data", "id: 1\ndata: " + strings.Repeat("x", 1<<20) + "\n\n", []int{4096}},
		{"long name", "idx" + strings.Repeat("x", 1<<20) + "\n\n", []int{1, 4096}},
		{"long comment", ":" + strings.Repeat("id:", 1<<18) + "\n", []int{4096}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var chunks [][]byte
			for _, chunk := range cut(tt.stream, tt.sizes...) {
				chunks = append(chunks, []byte(chunk))
			}
			s := sse.Splitter{Max: 1 << 21}
			allocs := testing.AllocsPerRun(10, func() {
				for _, b := range chunks {
					for len(b) > 0 {
						n, _, err := s.Next(b)
						if err != nil {
							t.Fatal(err)
						}
						b = b[n:]
					}
				}
			})
			if allocs != 0 {
				t.Errorf("%v allocations for %d bytes, want 0", allocs, len(tt.stream))
			}
		})
	}
}

// TestRetainedMemory is about what an idle stream keeps: not the buffer that
// one long line has needed.
func TestRetainedMemory(t *testing.T) {
	const idle, long = 64, 64 << 10
	tests := []struct {
		name   string
		stream string
	}{
		{"long id, replaced", "id: " + strings.Repeat("1", long) + "\n\nid: 2\n\nid: 3\n\n"},
		{"long id, ignored", "id: " + strings.Repeat("1", long) + "\x00\n\n"},
		{"long data in progress", "data: " + strings.Repeat("1", long)},
		{"long field that begins like an id", "ident: " + strings.Repeat("1", long)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			chunks := cut(tt.stream, 1000)
			splitters := make([]sse.Splitter, idle)
			before := heap()
			for i := range splitters {
				piecesOf(t, &splitters[i], chunks)
			}
			if got := heap() - before; got > idle*1024 {
				t.Errorf("%d idle splitters keep %d bytes, want at most 1 KiB each", idle, got)
			}
			runtime.KeepAlive(splitters)
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
