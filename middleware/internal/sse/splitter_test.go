package sse_test

import (
	"slices"
	"testing"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

const bom = "\uFEFF"

func TestBoundaries(t *testing.T) {
	pass := func(text string) piece { return piece{sse.Pass, text} }
	event := func(text string) piece { return piece{sse.EventEnd, text} }
	tests := []struct {
		name   string
		chunks []string
		want   []piece
		rest   string
		torn   bool
	}{
		{"nothing", nil, nil, "", false},
		{"LF", []string{"data: x\n\n"}, []piece{event("data: x\n\n")}, "", false},
		{"CR LF", []string{"data: x\r\n\r\n"}, []piece{event("data: x\r\n\r\n")}, "", false},
		{"CR", []string{"data: x\r\r"}, []piece{event("data: x\r\r")}, "", false},
		{"CR before the next event", []string{"data: x\r\rdata: y\r\r"}, []piece{event("data: x\r\r"), event("data: y\r\r")}, "", false},
		{"mixed line ends", []string{"event: e\rdata: x\r\ndata: y\n\r"}, []piece{event("event: e\rdata: x\r\ndata: y\n\r")}, "", false},
		{"LF CR is two line ends", []string{"data: x\n\r\n"}, []piece{event("data: x\n\r\n")}, "", false},
		{"two events", []string{"data: x\n\ndata: y\n\n"}, []piece{event("data: x\n\n"), event("data: y\n\n")}, "", false},

		{"event end at the CR", []string{"data: x\r\n\r"}, []piece{event("data: x\r\n\r")}, "", false},
		{"its LF alone", []string{"data: x\r\n\r", "\n"}, []piece{event("data: x\r\n\r"), pass("\n")}, "", false},
		{"its LF before the next event", []string{"data: x\r\n\r", "\ndata: y\r\n\r\n"}, []piece{event("data: x\r\n\r"), pass("\n"), event("data: y\r\n\r\n")}, "", false},
		{"its LF, then a blank line", []string{"data: x\r\r", "\n\n"}, []piece{event("data: x\r\r"), pass("\n"), pass("\n")}, "", false},
		{"no LF after the CR", []string{"data: x\r\r", "data: y\r\r"}, []piece{event("data: x\r\r"), event("data: y\r\r")}, "", false},
		{"nothing between CR and LF", []string{"data: x\r\n\r", "", "\n"}, []piece{event("data: x\r\n\r"), pass("\n")}, "", false},
		{"CR LF split after a field", []string{"data: x\r", "\n", "\r\n"}, []piece{event("data: x\r\n\r\n")}, "", false},
		{"CR LF split after a field, no blank line", []string{"data: x\r", "\ndata: y\n"}, nil, "data: x\r\ndata: y\n", true},
		{"CR LF split after a comment in an event", []string{"data\n:c\r", "\n\n"}, []piece{event("data\n:c\r\n\n")}, "", false},
		{"CR LF split after a comment", []string{":c\r", "\n\n"}, []piece{pass(":c\r"), pass("\n"), pass("\n")}, "", false},
		{"CR LF split after a blank line", []string{"\r", "\n"}, []piece{pass("\r"), pass("\n")}, "", false},

		{"blank lines", []string{"\n\r\r\n\n"}, []piece{pass("\n"), pass("\r"), pass("\r\n"), pass("\n")}, "", false},
		{"comment", []string{": keepalive\n\n"}, []piece{pass(": keepalive\n"), pass("\n")}, "", false},
		{"empty comment", []string{":\n"}, []piece{pass(":\n")}, "", false},
		{"comment in two", []string{": keep", "alive\n"}, []piece{pass(": keepalive\n")}, "", false},
		{"unfinished comment", []string{": keep"}, nil, ": keep", false},
		{"comment before an event", []string{": c\ndata: x\n\n"}, []piece{pass(": c\n"), event("data: x\n\n")}, "", false},
		{"comment in an event", []string{"data: x\n: c\n\n"}, []piece{event("data: x\n: c\n\n")}, "", false},
		{"comment ends an unfinished event", []string{"data: x\n: c\n"}, nil, "data: x\n: c\n", true},
		{"comment between events", []string{"data: x\n\n: c\n\ndata: y\n\n"}, []piece{event("data: x\n\n"), pass(": c\n"), pass("\n"), event("data: y\n\n")}, "", false},

		{"id alone is an event", []string{"id: 1\n\n"}, []piece{event("id: 1\n\n")}, "", false},
		{"retry alone is an event", []string{"retry: 1\n\n"}, []piece{event("retry: 1\n\n")}, "", false},
		{"unknown field is an event", []string{"x: 1\n\n"}, []piece{event("x: 1\n\n")}, "", false},
		{"field without a colon is an event", []string{"x\n\n"}, []piece{event("x\n\n")}, "", false},
		{"a space is a field", []string{" \n\n"}, []piece{event(" \n\n")}, "", false},
		{"NUL is a field", []string{"\x00\n\n"}, []piece{event("\x00\n\n")}, "", false},

		{"one byte of a field", []string{"d"}, nil, "d", true},
		{"field line without a blank line", []string{"data: x\n"}, nil, "data: x\n", true},
		{"unfinished after an event", []string{"data: x\n\nda"}, []piece{event("data: x\n\n")}, "da", true},

		{"BOM", []string{bom}, []piece{pass(bom)}, "", false},
		{"BOM, event", []string{bom + "data: x\n\n"}, []piece{pass(bom), event("data: x\n\n")}, "", false},
		{"BOM, comment", []string{bom + ": c\n"}, []piece{pass(bom), pass(": c\n")}, "", false},
		{"BOM, blank line", []string{bom + "\r\n"}, []piece{pass(bom), pass("\r\n")}, "", false},
		{"BOM, LF", []string{bom, "\n"}, []piece{pass(bom), pass("\n")}, "", false},
		{"BOM in three", []string{"\xEF", "\xBB", "\xBF", "data: x\n\n"}, []piece{pass(bom), event("data: x\n\n")}, "", false},
		{"BOM in two", []string{"\xEF\xBB", "\xBF: c\n"}, []piece{pass(bom), pass(": c\n")}, "", false},
		{"part of a BOM", []string{"\xEF\xBB"}, nil, "\xEF\xBB", true},
		{"part of a BOM is a field", []string{"\xEF", "\xBB\n", "\n"}, []piece{event("\xEF\xBB\n\n")}, "", false},
		{"part of a BOM before a colon", []string{"\xEF", ": c\n"}, nil, "\xEF: c\n", true},
		{"two BOMs", []string{bom + bom + ": c\n\n"}, []piece{pass(bom), event(bom + ": c\n\n")}, "", false},
		{"BOM after a blank line", []string{"\n" + bom + "\n\n"}, []piece{pass("\n"), event(bom + "\n\n")}, "", false},
		{"BOM after an event", []string{"data: x\n\n", bom + "\n\n"}, []piece{event("data: x\n\n"), event(bom + "\n\n")}, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s sse.Splitter
			got, rest, err := piecesOf(t, &s, tt.chunks)
			if err != nil || !slices.Equal(got, tt.want) || rest != tt.rest {
				t.Errorf("Next(%q) = %v, rest %q, %v, want %v, rest %q", tt.chunks, got, rest, err, tt.want, tt.rest)
			}
			if got := s.Torn(); got != tt.torn {
				t.Errorf("Torn() = %v after %q, want %v", got, tt.chunks, tt.torn)
			}
		})
	}
}

// streams is one stream of each kind, for what has to hold for all of them.
var streams = []string{
	"id: 1\nevent: message\ndata: {\"jsonrpc\":\"2.0\"}\n\n: ping\n\nid: 2\ndata: x\n\n",
	"id: 1\r\nevent: message\r\ndata: {}\r\n\r\n: ping\r\n\r\nid: 2\r\ndata: x\r\n\r\n",
	"id: 1\revent: message\rdata: {}\r\r: ping\r\rid: 2\rdata: x\r\r",
	bom + "id: 1\ndata: x\r\rid\r\n\r\nid:\x00\ndata\n\n",
	bom + ": c\r\n\r\nretry: 10\r\ndata: a\rdata: b\n: in\r\ndata:  c\n\r\n",
	"id: a\ndata: 1\n\ndata: 2\n\nid\ndata: 3\n\n",
	"id: ok\nid: bad\x00id\ndata: {}\n\nid: b\nid:c\nid:  d\n\n",
	"\xEF\xBBid: 1\n\nidx: 2\n\nid : 3\n\n id: 4\n\nID: 5\n\ni: 6\n\n",
	"data\n\ndata\ndata\n\ndata:\n\nevent: e\n\nevent\n\nretry: 1x\nretry: 7\nretry:\n\n",
	"data: torn\nid: 9",
	"data: x\n\n: torn",
}

// TestChunking cuts every stream in two places, in every way, and into bytes.
func TestChunking(t *testing.T) {
	for _, stream := range streams {
		want, torn := interpret(stream)
		check := func(chunks []string) {
			t.Helper()
			var s sse.Splitter
			got, err := outcomesOf(t, &s, chunks)
			if err != nil || !equalOutcomes(got, want) {
				t.Fatalf("Next(%q), Parse = %+v, %v, want %+v", chunks, got, err, want)
			}
			if s.Torn() != torn {
				t.Fatalf("Torn() = %v after %q, want %v", s.Torn(), chunks, torn)
			}
		}
		for i := range len(stream) + 1 {
			for j := i; j <= len(stream); j++ {
				check([]string{stream[:i], stream[i:j], stream[j:]})
			}
		}
		check(cut(stream, 1))
	}
}

func TestNextOfNothing(t *testing.T) {
	var s sse.Splitter
	for _, stream := range []string{"", "\xEF", "\xBB\xBF", "id: 1\r", "\n\r", "\n: c\r"} {
		piecesOf(t, &s, []string{stream})
		pending, torn := s.Pending(), s.Torn()
		if n, k, err := s.Next(nil); n != 0 || k != sse.None || err != nil {
			t.Errorf("Next(nil) after %q = %d, %v, %v, want 0, None, nil", stream, n, k, err)
		}
		if s.Pending() != pending || s.Torn() != torn {
			t.Errorf("Next(nil) after %q: Pending() = %d, Torn() = %v, want %d, %v", stream, s.Pending(), s.Torn(), pending, torn)
		}
	}
}

func TestKindString(t *testing.T) {
	for k, want := range map[sse.Kind]string{sse.None: "None", sse.Pass: "Pass", sse.EventEnd: "EventEnd", 9: "Kind(9)"} {
		if got := k.String(); got != want {
			t.Errorf("Kind(%d).String() = %q, want %q", uint8(k), got, want)
		}
	}
}
