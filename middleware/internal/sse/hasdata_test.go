package sse_test

import (
	"testing"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

func TestHasDataIsParsesData(t *testing.T) {
	for _, block := range []string{
		"data: x\n\n", "id: 1\nevent: message\ndata: x\n\n", "id: 1\ndata\n\n", "id: 1\ndata:\n\n", "id: 1\ndata: \n\n",
		"retry: 5\n\n", ": c\ndata: x\r\n\r\n", "datax: y\n\n", "Data: y\n\n", "data: \rdata: z\r\r", "data:  \n\n", "d: 1\n\n", "", "data: x",
	} {
		if got, want := sse.HasData([]byte(block)), len(sse.Parse([]byte(block)).Data) > 0; got != want {
			t.Errorf("HasData(%q) = %v, want %v", block, got, want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { sse.HasData([]byte("id: 1\nevent: message\ndata: x\n\n")) }); n > 0 {
		t.Errorf("HasData allocates %v times, want never", n)
	}
}
