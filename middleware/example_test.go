package middleware_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/revenant-mcp/revenant/middleware"
)

// forgetful is a server whose event log outlives its sessions: it replays to
// whoever has a cursor, and knows no session when it is asked.
func forgetful() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "id: 4472\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n")
			return
		}
		http.Error(w, "session expired", http.StatusNotFound)
	}))
}

func reconnect(client *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Mcp-Session-Id", "1868a90c-7d1f")
	req.Header.Set("Last-Event-ID", "4471")
	return client.Do(req)
}

// The reconnect of a dead session is answered 404, not with its events.
func ExampleNew() {
	server := forgetful()
	defer server.Close()

	transport, err := middleware.New(middleware.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport}
	resp, err := reconnect(client, server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)

	var dead *middleware.SessionResumptionError
	if errors.As(middleware.ErrorFrom(resp), &dead) {
		fmt.Println(dead.Verdict, dead.Phase, dead.StatusCode)
	}
	fmt.Println(errors.Is(transport.SessionErr("1868a90c-7d1f"), middleware.ErrSessionDead))
	// Output:
	// 404 Not Found
	// dead probe 404
	// true
}

// The likely mistake: a status of 200 is taken for a living session. Without
// the middleware the same reconnect hands a dead session's event on.
func ExampleNew_without() {
	server := forgetful()
	defer server.Close()

	resp, err := reconnect(http.DefaultClient, server.URL)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, err)
	fmt.Printf("%q\n", body)
	// Output:
	// 200 OK <nil>
	// "id: 4472\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n"
}

// Every fault of a Config is named at once.
func ExampleNew_faults() {
	_, err := middleware.New(middleware.Config{AmbiguousRounds: -1, MaxHeldBytes: 10})
	fmt.Println(err)
	// Output:
	// middleware: Config.AmbiguousRounds is -1, want 0 for 3, or 1 to 1000
	// middleware: Config.MaxHeldBytes is 10, want 0 for 1048576, or 256 to 1073741824
}
