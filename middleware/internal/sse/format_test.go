package sse_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

func TestFormat(t *testing.T) {
	for _, tc := range []struct {
		event sse.Event
		want  string
	}{
		{sse.Event{}, "data: \n\n"},
		{sse.Event{HasID: true}, "id: \ndata: \n\n"},
		{sse.Event{ID: "1", HasID: true}, "id: 1\ndata: \n\n"},
		{sse.Event{ID: "1"}, "data: \n\n"},
		{sse.Event{ID: " 1", HasID: true, Retry: "10"}, "id:  1\nretry: 10\ndata: \n\n"},
		{sse.Event{Name: "e", Data: []byte("x")}, "event: e\ndata: x\n\n"},
		{sse.Event{Data: []byte(" x\n\ny\n")}, "data:  x\ndata: \ndata: y\ndata: \n\n"},
		{sse.Event{Data: []byte("a\rb")}, "data: a b\n\n"},
		{sse.Event{ID: "1", HasID: true, Name: "e", Retry: "10", Data: []byte("x")}, "id: 1\nevent: e\nretry: 10\ndata: x\n\n"},
	} {
		if got := string(sse.Format(tc.event)); got != tc.want {
			t.Errorf("Format(%+v) = %q, want %q", tc.event, got, tc.want)
		}
	}
}

func TestParseLF(t *testing.T) {
	for block, want := range map[string]string{
		"data: x\n\n":                     "",
		"data: x\r\n\r\n":                 "",
		"data: x\ndata: y\r\n\n":          "",
		"data: a\rb\n\n":                  "a\rb",
		"data: a\rdata: b\n\n":            "a\rdata: b",
		"data: a\ndata: b\rc\n\n":         "a\nb\rc",
		"id: 1\rdata: {}\n\n":             "",
		"id: 1\r2\nevent: e\ndata: x\n\n": "x",
		"data: a\r\r":                     "a\r\r",
		"data:a\rb\ndata: c\n\n":          "a\rb\nc",
	} {
		if got := string(sse.ParseLF([]byte(block))); got != want {
			t.Errorf("ParseLF(%q) = %q, want %q", block, got, want)
		}
	}
	if got := sse.ParseLF([]byte("data: x\r\n\r\n")); got != nil {
		t.Errorf("ParseLF of a block without a lone CR = %q, want nil", got)
	}
}

// FuzzFormat writes what a stream said and reads it again: it says the same,
// whatever was between the fields, and is one event.
func FuzzFormat(f *testing.F) {
	for _, stream := range streams {
		f.Add([]byte(stream))
	}
	f.Add([]byte("id: 1\r\nevent: e\rretry: 5\ndata: a\ndata\n\n"))
	f.Add([]byte("id:\ndata:  a\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		_, _ = feed(t, new(sse.Splitter), []string{string(stream)}, func(p piece) {
			if p.kind != sse.EventEnd {
				return
			}
			want := sse.Parse([]byte(p.text))
			block := sse.Format(want)
			if strings.Contains(string(block), "\r") {
				t.Fatalf("Format(%+v) = %q, want no CR", want, block)
			}
			pieces, rest, err := piecesOf(t, new(sse.Splitter), []string{string(block)})
			if err != nil || rest != "" || len(pieces) != 1 || pieces[0].kind != sse.EventEnd {
				t.Fatalf("Format(%+v) = %q, which is %v and %q, %v, want one event", want, block, pieces, rest, err)
			}
			got := sse.Parse(block)
			want.HasData = true // for clients that remember an id only then
			if !equalEvents(got, want) {
				t.Fatalf("Parse(Format(%+v)) = %+v", want, got)
			}
			if !sse.HasData(block) && len(bytes.TrimSpace(want.Data)) > 0 {
				t.Fatalf("HasData(%q) = false", block)
			}
		})
	})
}

// FuzzParseLF compares the data of a block with and without CR as a line end:
// where no CR stands alone there is no other way to read it.
func FuzzParseLF(f *testing.F) {
	for _, stream := range streams {
		f.Add([]byte(stream))
	}
	f.Add([]byte("data: a\rb\n\n"))
	f.Fuzz(func(t *testing.T, block []byte) {
		loose := sse.ParseLF(block)
		alone := bytes.ContainsRune(bytes.ReplaceAll(block, []byte("\r\n"), []byte("\n")), '\r')
		if !alone && loose != nil {
			t.Fatalf("ParseLF(%q) = %q, want nil", block, loose)
		}
		if alone && bytes.HasSuffix(block, []byte("\n")) {
			want := reference(string(block))
			if string(loose) != want {
				t.Fatalf("ParseLF(%q) = %q, want %q", block, loose, want)
			}
		}
	})
}

// reference is the data of a block for a reader to whom LF alone ends a line.
func reference(block string) string {
	var data []string
	for _, line := range strings.Split(block, "\n") {
		if line == "data" {
			data = append(data, "")
		} else if value, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, strings.TrimPrefix(value, " "))
		}
	}
	return strings.Join(data, "\n")
}
