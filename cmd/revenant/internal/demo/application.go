package demo

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// application is what uses the client in an arm. It is the same in both: what
// an arm does differently, its http.Client does.
type application struct {
	// Immutable.
	endpoint string
	client   *http.Client
	reason   func(sessionID string) error // what the middleware says; nil in the control arm
	rec      *recorder

	// Owned by the goroutine that runs the method.
	session *mcp.ClientSession // the latest one, nil before the first

	waiting sync.WaitGroup // for the ends of all sessions
}

// initialize begins a session and leaves the one before, if there is one.
func (a *application) initialize(ctx context.Context) error {
	a.leave()
	client := mcp.NewClient(&mcp.Implementation{Name: "revenant-demo", Version: "1"}, &mcp.ClientOptions{
		//lint:ignore SA1019 deprecated in the version of MCP that has no sessions
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			stamp, _ := mcpserver.StampOf(r.Params.Meta)
			a.rec.applied(Applied{Stamp: stamp, At: time.Now()})
		},
	})
	began := time.Now()
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: a.endpoint, HTTPClient: a.client},
		&mcp.ClientSessionOptions{ProtocolVersion: protocolVersion})
	if err != nil {
		return err
	}
	a.session = session
	id := session.ID()
	a.rec.began(Session{ID: id, Began: began})
	a.waiting.Go(func() {
		// A session that the application leaves itself ends without an error.
		if err := session.Wait(); err != nil {
			a.rec.ended(id, Session{Ended: time.Now(), Err: err, Reason: a.why(id)})
		}
	})
	return nil
}

// call calls a tool and records what became of it.
func (a *application) call(ctx context.Context) error {
	c := Call{SessionID: a.session.ID(), Start: time.Now()}
	_, c.Err = a.session.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}})
	c.End = time.Now()
	c.Reason = a.why(c.SessionID)
	a.rec.called(c)
	return c.Err
}

// leave closes the session. Where the client does not know it to be dead, that
// sends a DELETE.
func (a *application) leave() {
	if a.session != nil {
		_ = a.session.Close()
		a.session = nil
	}
}

// stop leaves the session and waits for all that have begun.
func (a *application) stop() {
	a.leave()
	a.waiting.Wait()
}

func (a *application) why(sessionID string) error {
	if a.reason == nil {
		return nil
	}
	return a.reason(sessionID)
}
