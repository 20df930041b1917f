package demo

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// protocolVersion is pinned: the newest version has no sessions.
const protocolVersion = "2025-11-25"

// application is what uses the client in an arm, and the person before it. It is
// the same in both: what an arm does differently, its http.Client does.
type application struct {
	// Immutable.
	endpoint  string
	callsOnly bool // no standalone stream
	client    *http.Client
	reason    func(sessionID string) error // what the middleware says; nil in the control arm
	rec       *recorder

	// Owned by the goroutine that runs the method.
	session *mcp.ClientSession // the latest one, nil before the first

	life    context.Context // of what goes on in the background
	giveUp  func()          // ends life
	decided chan struct{}   // closed by decide
	decide  func()          // from now on the person confirms whatever is asked, at once
	waiting sync.WaitGroup  // for the ends of all sessions and calls
}

func newApplication(endpoint string, callsOnly bool, base http.RoundTripper, rec *recorder) *application {
	a := &application{
		endpoint: endpoint, callsOnly: callsOnly, client: &http.Client{Transport: base}, rec: rec,
		decided: make(chan struct{}),
	}
	a.decide = sync.OnceFunc(func() { close(a.decided) })
	a.life, a.giveUp = context.WithCancel(context.Background())
	return a
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
		ElicitationHandler: a.prompt,
	})
	began := time.Now()
	session, err := client.Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: a.endpoint, HTTPClient: a.client, DisableStandaloneSSE: a.callsOnly},
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

// prompt shows the person what the server asks.
func (a *application) prompt(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	stamp, _ := mcpserver.StampOf(r.Params.Meta)
	a.rec.prompted(Prompt{Stamp: stamp, At: time.Now()})
	select {
	case <-a.decided:
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirm": true}}, nil
	case <-a.life.Done(): // The client waits for its handlers.
		return nil, a.life.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// call calls a tool and records what became of it. A call that is given up with
// its context has no end.
func (a *application) call(ctx context.Context, tool string, arguments map[string]any) error {
	return a.calling(tool, arguments)(ctx)
}

// begin calls a tool and does not wait for what becomes of it.
func (a *application) begin(tool string, arguments map[string]any) {
	finish := a.calling(tool, arguments)
	a.waiting.Go(func() { _ = finish(a.life) })
}

// calling begins a call. It returns what makes it.
func (a *application) calling(tool string, arguments map[string]any) func(context.Context) error {
	session := a.session
	n := a.rec.calling(Call{Tool: tool, SessionID: session.ID(), Start: time.Now()})
	return func(ctx context.Context) error {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil && result.IsError {
			err = errors.New(tool + " answers with an error")
		}
		a.rec.called(n, time.Now(), err, a.why(session.ID()))
		return err
	}
}

// leave closes the session. Where the client does not know it to be dead, that
// sends a DELETE.
func (a *application) leave() {
	if a.session != nil {
		_ = a.session.Close()
		a.session = nil
	}
}

// stop gives up what is under way, leaves the session and waits for all that
// have begun.
func (a *application) stop() {
	a.giveUp()
	a.leave()
	a.waiting.Wait()
}

func (a *application) why(sessionID string) error {
	if a.reason == nil {
		return nil
	}
	return a.reason(sessionID)
}
