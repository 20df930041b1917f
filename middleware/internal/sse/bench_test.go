package sse_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

// eventOfSize returns an event of three lines and size bytes, each line ended by end.
func eventOfSize(size, serial int, end string) []byte {
	head := fmt.Sprintf("id: stream-7_%08d%sevent: message%sdata: ", serial, end, end)
	fill := size - len(head) - 2*len(end)
	return append([]byte(head), string(bytes.Repeat([]byte("x"), fill))+end+end...)
}

// benchmarkSplitter splits events of size bytes; one operation is one event.
// The chunks do not end where the events end.
func benchmarkSplitter(b *testing.B, size, chunk int, end string) {
	var stream []byte
	for serial := 0; len(stream) < chunk || len(stream)%chunk != 0; serial++ {
		stream = append(stream, eventOfSize(size, serial, end)...)
	}
	shift := size / 2
	s := sse.Splitter{Max: 1 << 20}
	s.Next(stream[:shift])
	stream = append(stream[shift:len(stream):len(stream)], stream[:shift]...)

	b.SetBytes(int64(size))
	b.ReportAllocs()
	events, at := 0, 0
	b.ResetTimer()
	for events < b.N {
		for p := stream[at : at+chunk]; len(p) > 0; {
			n, k, err := s.Next(p)
			if err != nil {
				b.Fatal(err)
			}
			if k == sse.EventEnd {
				events++
			}
			p = p[n:]
		}
		at = (at + chunk) % len(stream)
	}
}

func BenchmarkSplitter256(b *testing.B) {
	for _, chunk := range []int{4 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("chunk=%d", chunk), func(b *testing.B) { benchmarkSplitter(b, 256, chunk, "\n") })
	}
	b.Run("crlf", func(b *testing.B) { benchmarkSplitter(b, 256, 32<<10, "\r\n") })
	b.Run("cr", func(b *testing.B) { benchmarkSplitter(b, 256, 32<<10, "\r") })
}

func BenchmarkSplitter4KiB(b *testing.B) {
	for _, chunk := range []int{4 << 10, 32 << 10} {
		b.Run(fmt.Sprintf("chunk=%d", chunk), func(b *testing.B) { benchmarkSplitter(b, 4<<10, chunk, "\n") })
	}
}

// BenchmarkSplitterShortLines is the worst that a server can do: many events
// of few bytes, with the line end that is looked for last.
func BenchmarkSplitterShortLines(b *testing.B) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		b.Run(fmt.Sprintf("%q", end), func(b *testing.B) {
			stream := bytes.Repeat([]byte("x"+end+end), 4096)
			var s sse.Splitter
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				for p := stream; len(p) > 0; {
					n, _, _ := s.Next(p)
					p = p[n:]
				}
			}
		})
	}
}

// BenchmarkSearch256 is what BenchmarkSplitter256 cannot go below: the searches
// for the line ends alone.
func BenchmarkSearch256(b *testing.B) {
	var stream []byte
	for serial := range 128 {
		stream = append(stream, eventOfSize(256, serial, "\n")...)
	}
	b.SetBytes(256)
	for events := 0; events < b.N; {
		if bytes.IndexByte(stream, '\r') >= 0 {
			b.Fatal("a CR in the stream")
		}
		for p := stream; len(p) > 0; p = p[1:] {
			for p[0] != '\n' {
				p = p[bytes.IndexByte(p, '\n')+1:]
			}
			events++
		}
	}
}

func BenchmarkParse256(b *testing.B) {
	block := eventOfSize(256, 1, "\n")
	b.SetBytes(int64(len(block)))
	b.ReportAllocs()
	for b.Loop() {
		sse.Parse(block)
	}
}
