package sse_test

import (
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

func TestParse(t *testing.T) {
	data := func(s string) sse.Event { return sse.Event{Data: []byte(s), HasData: true} }
	tests := []struct {
		block string
		want  sse.Event
	}{
		{"", sse.Event{}},
		{"\n", sse.Event{}},
		{"id: 1\nevent: e\nretry: 10\ndata: x\n\n", sse.Event{ID: "1", HasID: true, Name: "e", Data: []byte("x"), HasData: true, Retry: "10"}},
		{"id: 1\r\nevent: e\r\nretry: 10\r\ndata: x\r\n\r\n", sse.Event{ID: "1", HasID: true, Name: "e", Data: []byte("x"), HasData: true, Retry: "10"}},
		{"id: 1\revent: e\rretry: 10\rdata: x\r\r", sse.Event{ID: "1", HasID: true, Name: "e", Data: []byte("x"), HasData: true, Retry: "10"}},

		{"data: a\ndata: b\n\n", data("a\nb")},
		{"data: a\r\ndata: b\rdata: c\n\n", data("a\nb\nc")},
		{"data:a\n\n", data("a")},
		{"data:  a \n\n", data(" a ")},
		{"data:\ta\n\n", data("\ta")},
		{"data: a: b\n\n", data("a: b")},
		{"data\n\n", data("")},
		{"data:\n\n", data("")},
		{"data\ndata\n\n", data("\n")},
		{"data: a\ndata\n\n", data("a\n")},
		{"data: a\n: c\nx: y\ndata: b\n\n", data("a\nb")},
		{"data: \xFF\x00\n\n", data("\xFF\x00")},
		{"DATA: a\n\n", sse.Event{}},
		{"data : a\n\n", sse.Event{}},
		{"datax: a\n\n", sse.Event{}},
		{" data: a\n\n", sse.Event{}},
		{":data: a\n\n", sse.Event{}},
		{bom + "data: a\n\n", sse.Event{}},

		{"event: a\nevent: b\n\n", sse.Event{Name: "b"}},
		{"event: message\n\n", sse.Event{Name: "message"}},
		{"event: massage\n\n", sse.Event{Name: "massage"}},
		{"event: a\nevent\n\n", sse.Event{}},

		{"id\n\n", sse.Event{HasID: true}},
		{"id: 1\nid:\n\n", sse.Event{HasID: true}},
		{"id: 1\nid: 2\n\n", sse.Event{ID: "2", HasID: true}},
		{"id: \x00\n\n", sse.Event{}},
		{"id: 1\nid: 2\x00\n\n", sse.Event{ID: "1", HasID: true}},

		{"retry: 0\n\n", sse.Event{Retry: "0"}},
		{"retry:\n\n", sse.Event{}},
		{"retry: 10\nretry:\n\n", sse.Event{Retry: "10"}},
		{"retry: 10\nretry: -1\n\n", sse.Event{Retry: "10"}},
		{"retry: 1.5\n\n", sse.Event{}},
		{"retry:  1\n\n", sse.Event{}},

		{"data: a\n\ndata: b\n\n", data("a")},
		{"data: a\r\rdata: b\r\r", data("a")},
		{"data: a\ndata: b", data("a")},
	}
	for _, tt := range tests {
		if got := sse.Parse([]byte(tt.block)); !equalEvents(got, tt.want) {
			t.Errorf("Parse(%q) = %+v, want %+v", tt.block, got, tt.want)
		}
	}
}

func TestParseCopies(t *testing.T) {
	block := []byte("id: 1\nevent: e\nretry: 10\ndata: x\n\n")
	got := sse.Parse(block)
	want := sse.Parse([]byte(string(block)))
	clear(block)
	if !equalEvents(got, want) {
		t.Errorf("Parse = %+v after its block was overwritten, want %+v", got, want)
	}
}

func TestStrip(t *testing.T) {
	tests := []struct{ block, want string }{
		{"", ""},
		{"data: x\n\n", "data: x\n\n"},
		{"id: 1\ndata: x\n\n", "data: x\n\n"},
		{"data: x\nid: 1\n\n", "data: x\n\n"},
		{"id: 1\n: c\nretry: 10\nevent: e\ndata: x\nid\ndata: y\n\n", ": c\nevent: e\ndata: x\ndata: y\n\n"},
		{"id: 1\r\ndata: x\r\nretry: 10\r\n\r\n", "data: x\r\n\r\n"},
		{"id: 1\rdata: x\rretry: 10\r\r", "data: x\r\r"},
		{"id: 1\nretry: 10\n\n", "\n"},
		{"id: 1", ""},

		// Also what a client would ignore.
		{"id: 1\x00\nretry: x\ndata: x\n\n", "data: x\n\n"},
		{"id:\nretry\ndata: x\n\n", "data: x\n\n"},

		{"ID: 1\nidx: 1\n:id: 1\nid : 1\nretry-after: 1\n\n", "ID: 1\nidx: 1\n:id: 1\nid : 1\nretry-after: 1\n\n"},
		{"data: x \xFF\x00:\n:\nx\n\n", "data: x \xFF\x00:\n:\nx\n\n"},
		{bom + "id: 1\n\n", bom + "id: 1\n\n"},

		// The line ends around a stripped line must not become one.
		{"data: x\rid: 1\n\n", "data: x\r\n\n"},
		{"data: x\rid: 1\r\n\n", "data: x\r\n\n"},
		{"data: x\rid: 1\nretry: 10\n\n", "data: x\r\n\n"},
		{"data: x\rid: 1\rretry: 10\n\n", "data: x\r\n\n"},
		{"data: x\rid: 1\r\r\n", "data: x\r\r\n"},
		{"data: x\rid: 1\ndata: y\n\n", "data: x\rdata: y\n\n"},
		{"data: x\r\nid: 1\n\n", "data: x\r\n\n"},
	}
	for _, tt := range tests {
		block := []byte(tt.block)
		if got := sse.Strip(block); string(got) != tt.want {
			t.Errorf("Strip(%q) = %q, want %q", tt.block, got, tt.want)
		}
		if string(block) != tt.block {
			t.Errorf("Strip(%q) changed its argument to %q", tt.block, block)
		}
	}
}

func TestStripReturnsWhatHasNoCursor(t *testing.T) {
	block := eventOfSize(4096, 1, "\n")
	block = block[1:] // not an id any more
	if allocs := testing.AllocsPerRun(10, func() { sse.Strip(block) }); allocs != 0 {
		t.Errorf("Strip of a block without a cursor: %v allocations, want 0", allocs)
	}
}

func TestCursor(t *testing.T) {
	tests := []struct {
		id    string
		retry time.Duration
		want  string
	}{
		{"1", 1500 * time.Millisecond, "id: 1\nretry: 1500\ndata: \n\n"},
		{"1", 0, "id: 1\ndata: \n\n"},
		{"", time.Second, "retry: 1000\ndata: \n\n"},
		{"", 0, "data: \n\n"},
		{"1", -time.Second, "id: 1\ndata: \n\n"},
		{"1", time.Nanosecond, "id: 1\nretry: 1\ndata: \n\n"},
		{"1", time.Second + time.Nanosecond, "id: 1\nretry: 1001\ndata: \n\n"},
		{"1", time.Duration(1<<63 - 1), "id: 1\nretry: 9223372036855\ndata: \n\n"},
		{" 1: ", time.Second, "id:  1: \nretry: 1000\ndata: \n\n"},
		{"a\nb", time.Second, "retry: 1000\ndata: \n\n"},
		{"a\r", time.Second, "retry: 1000\ndata: \n\n"},
		{"\x00", time.Second, "retry: 1000\ndata: \n\n"},
	}
	for _, tt := range tests {
		got := string(sse.Cursor(tt.id, tt.retry))
		if got != tt.want {
			t.Errorf("Cursor(%q, %v) = %q, want %q", tt.id, tt.retry, got, tt.want)
		}
		var s sse.Splitter
		if pieces, rest, err := piecesOf(t, &s, []string{got}); err != nil || len(pieces) != 1 || pieces[0].kind != sse.EventEnd || rest != "" {
			t.Errorf("Next(Cursor(%q, %v)) = %v, rest %q, %v, want one event", tt.id, tt.retry, pieces, rest, err)
		}
	}
}
