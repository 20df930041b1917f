package sse_test

import (
	"testing"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

func TestLastEventID(t *testing.T) {
	tests := []struct {
		name   string
		stream string
		id     string
		seen   bool
	}{
		{"nothing", "", "", false},
		{"no id", "data: x\n\n", "", false},
		{"id", "id: 1\ndata: x\n\n", "1", true},
		{"id after data", "data: x\nid: 1\n\n", "1", true},
		{"id without data", "id: 1\n\n", "1", true},
		{"no space", "id:1\n\n", "1", true},
		{"one space goes", "id:  1 \n\n", " 1 ", true},
		{"colons", "id::1:\n\n", ":1:", true},
		{"not UTF-8", "id: \xFF\n\n", "\xFF", true},

		{"not before the event ends", "id: 1\ndata: x\n", "", false},
		{"nor after a comment", "id: 1\n: c\n", "", false},
		{"the one before stays until then", "id: 1\n\nid: 2\n", "1", true},
		{"sticky", "id: 1\n\ndata: x\n\n", "1", true},
		{"over comments", "id: 1\n\n: c\n\n\n", "1", true},
		{"the last of an event", "id: 1\nid: 22\nid: 3\n\n", "3", true},
		{"the next event's", "id: 1\n\nid: 22\n\n", "22", true},
		{"shorter than before", "id: 4444\n\nid: 1\n\n", "1", true},

		{"empty resets", "id: 1\n\nid:\n\n", "", true},
		{"a space resets", "id: 1\n\nid: \n\n", "", true},
		{"no colon resets", "id: 1\n\nid\n\n", "", true},
		{"empty as the first", "id\n\n", "", true},
		{"empty as the last of an event", "id: 1\nid\n\n", "", true},
		{"set again", "id: 1\n\nid\n\nid: 2\n\n", "2", true},

		{"NUL is ignored", "id: 1\n\nid: \x00\n\n", "1", true},
		{"NUL at the end", "id: 1\n\nid: 2\x00\n\n", "1", true},
		{"NUL as the first", "id: \x00\n\n", "", false},
		{"NUL after a good one", "id: 1\nid: 2\x00\n\n", "1", true},
		{"NUL before a good one", "id: 2\x00\nid: 1\n\n", "1", true},
		{"NUL after an empty one", "id: 1\n\nid\nid: \x002\n\n", "", true},

		{"upper case", "ID: 1\n\n", "", false},
		{"mixed case", "iD: 1\n\n", "", false},
		{"after a longer name", "idx: 1\nid: 2\n\n", "2", true},
		{"after a shorter name", "i: 1\nid: 2\n\n", "2", true},
		{"longer name", "idx: 1\n\n", "", false},
		{"longer name, no colon", "idx\n\n", "", false},
		{"shorter name", "i: 1\n\n", "", false},
		{"space before the colon", "id : 1\n\n", "", false},
		{"space before the name", " id: 1\n\n", "", false},
		{"in a comment", ":id: 1\n\n", "", false},
		{"in data", "data: id: 1\n\n", "", false},

		{"after a BOM", bom + "id: 1\n\n", "1", true},
		{"after two", bom + bom + "id: 1\n\n", "", false},
		{"after a BOM in the middle", "id: 1\n\n" + bom + "id: 2\n\n", "1", true},
		{"after part of one", "\xEF\xBBid: 1\n\n", "", false},
		{"CR LF", "id: 1\r\n\r\n", "1", true},
		{"CR", "id: 1\r\r", "1", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for size := range len(tt.stream) {
				var s sse.Splitter
				chunks := cut(tt.stream, size+1)
				piecesOf(t, &s, chunks)
				if id, seen := s.LastEventID(); id != tt.id || seen != tt.seen {
					t.Errorf("LastEventID() after %q = %q, %v, want %q, %v", chunks, id, seen, tt.id, tt.seen)
				}
			}
		})
	}
}
