package sse_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

// skimAgainstNext feeds two Splitters the same chunks and compares what they
// say: Skim is Next for who does not care where each event ends.
func skimAgainstNext(t *testing.T, limit int, chunks []string) {
	t.Helper()
	skimmed, stepped := sse.Splitter{Max: limit}, sse.Splitter{Max: limit}
	for i, chunk := range chunks {
		n, event, err := skimmed.Skim([]byte(chunk))
		want, at := 0, 0
		var wantErr error
		wantEvent := false
		for at < len(chunk) && wantErr == nil {
			var k int
			var kind sse.Kind
			k, kind, wantErr = stepped.Next([]byte(chunk[at:]))
			at += k
			if kind != sse.None {
				want = at
			}
			wantEvent = wantEvent || kind == sse.EventEnd
		}
		id, seen := skimmed.LastEventID()
		wantID, wantSeen := stepped.LastEventID()
		if n != want || (err == nil) != (wantErr == nil) || id != wantID || seen != wantSeen ||
			skimmed.Pending() != stepped.Pending() || skimmed.Torn() != stepped.Torn() {
			t.Fatalf("chunk %d, %q: Skim = %d, %v (id %q %v, pending %d, torn %v), want %d, %v (id %q %v, pending %d, torn %v)",
				i, chunk, n, err, id, seen, skimmed.Pending(), skimmed.Torn(),
				want, wantErr, wantID, wantSeen, stepped.Pending(), stepped.Torn())
		}
		if wantEvent && !event {
			t.Fatalf("chunk %d, %q: Skim saw no event, want one", i, chunk)
		}
		if err != nil {
			return
		}
	}
}

func TestSkimSeesNoEventInComments(t *testing.T) {
	var s sse.Splitter
	if n, event, err := s.Skim([]byte(": a\n\n: b\n")); n != 9 || event || err != nil {
		t.Errorf("Skim of comments = %d, %v, %v, want 9, false, nil", n, event, err)
	}
}

func TestSkimSaysWhatNextSays(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pieces := []string{
		"id: 1\n", "id:2\n", "id\n", "id: \n", "id: a\x00b\n", "id: 3\nid: 4\n", "idx: 5\n", "i: 6\n",
		"data: " + strings.Repeat("x", 200) + "\n", "data: y\n", "event: message\n", "retry: 5\n", ": comment\n",
		"\n", "\n", "\n", "\n\n", "\r\n", "\r", "data: z\r\n\r\n", "\uFEFF", "\uFEFFid: 7\n",
	}
	for range 3000 {
		plain := rng.IntN(2) == 0 // most streams have LF alone
		var b strings.Builder
		for b.Len() < 3000 {
			p := pieces[rng.IntN(len(pieces))]
			if !plain || !strings.ContainsAny(p, "\r\uFEFF") {
				b.WriteString(p)
			}
		}
		var chunks []string
		for rest := b.String(); rest != ""; {
			n := min(1+rng.IntN(2000), len(rest))
			chunks = append(chunks, rest[:n])
			rest = rest[n:]
		}
		skimAgainstNext(t, []int{0, 700, 5000}[rng.IntN(3)], chunks)
	}
}

func FuzzSkim(f *testing.F) {
	event := "id: 1\nevent: message\ndata: " + strings.Repeat("x", 220) + "\n\n"
	f.Add(strings.Repeat(event, 8), uint16(700), uint16(0))
	f.Add(strings.Repeat(event, 3)+"id\n\n"+strings.Repeat(": c\n\n", 200)+"data: torn", uint16(3000), uint16(600))
	f.Add(strings.Repeat("data: no id\n\n", 100), uint16(2000), uint16(0))
	f.Add("\uFEFF"+strings.Repeat("data: a\r\n\r\n", 100), uint16(513), uint16(64))
	f.Fuzz(func(t *testing.T, stream string, size, limit uint16) {
		stream = stream[:min(len(stream), 8<<10)] // each chunk compares the whole id
		var chunks []string
		for rest := stream; rest != ""; {
			n := min(1+int(size), len(rest))
			chunks = append(chunks, rest[:n])
			rest = rest[n:]
		}
		skimAgainstNext(t, int(limit), chunks)
	})
}

func BenchmarkSkim(b *testing.B) {
	for _, size := range []int{256, 4 << 10} {
		head := "id: 1000001\nevent: message\ndata: "
		event := head + strings.Repeat("x", size-len(head)-2) + "\n\n"
		chunk := []byte(strings.Repeat(event, 32<<10/size))
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			var s sse.Splitter
			b.SetBytes(int64(len(chunk)))
			for b.Loop() {
				if n, _, err := s.Skim(chunk); n != len(chunk) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
