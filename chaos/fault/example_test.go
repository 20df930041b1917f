package fault_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/revenant-mcp/revenant/chaos/fault"
)

// A client's first connection is cut in the middle of an event, the next is
// left alone.
func ExampleLink() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: one\n\ndata: two\n\n")
	}))
	defer server.Close()

	link, err := fault.NewLink(fault.LinkConfig{Upstream: server.Listener.Addr().String()})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- link.Run(ctx) }()
	defer func() { stop(); <-done }()

	faults := fault.NewStack(ctx)
	defer faults.Close() // undoes everything, also after a panic
	f, err := fault.Parse("cut_in_event event=2 offset=7 conn=1")
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := faults.Apply(ctx, f, link); err != nil {
		fmt.Println(err)
		return
	}

	for range 2 {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + link.Addr().String())
		if err != nil {
			fmt.Println(err)
			return
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		fmt.Printf("%q %v\n", body, err)
	}
	// Output:
	// "data: one\n\ndata: t" unexpected EOF
	// "data: one\n\ndata: two\n\n" <nil>
}
