//lint:file-ignore SA1019 In the versions that have sessions, roots, sampling and logging are not deprecated.

package interop_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	mark "github.com/mark3labs/mcp-go/mcp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// person sits before a client and is asked things.
type person struct {
	// thinks is how long the n-th prompt, from 1, goes without an answer.
	thinks func(n int) time.Duration
	// answers is what the person does; "" is accept.
	answers string

	began time.Time

	mu        sync.Mutex
	prompts   []time.Duration // when each was shown
	dismissed []time.Duration // when one was taken away before it was answered
	completed int             // notifications/elicitation/complete
}

// always thinks the same time.
func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// awayAt thinks d at the first prompt, and then five seconds.
func awayAt(d time.Duration) func(int) time.Duration {
	return func(n int) time.Duration {
		if n == 1 {
			return d
		}
		return 5 * time.Second
	}
}

// prompt shows one, and returns the action.
func (p *person) prompt(ctx context.Context) (string, error) {
	p.mu.Lock()
	p.prompts = append(p.prompts, time.Since(p.began))
	n := len(p.prompts)
	p.mu.Unlock()
	if !pause(ctx, p.thinks(n)) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.dismissed = append(p.dismissed, time.Since(p.began))
		return "", ctx.Err()
	}
	if p.answers != "" {
		return p.answers, nil
	}
	return "accept", nil
}

func (p *person) prompted() int {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.prompts)
}

func (p *person) completions() int {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.completed
}

// checkPrompts checks how often the person was asked.
func (p *person) checkPrompts(t *testing.T, want int) {
	t.Helper()
	if n := p.prompted(); n != want {
		t.Errorf("%d prompts, at %v, want %d", n, p.prompts, want)
	}
}

// connectAsked connects a client that can be asked everything. The standalone
// stream is there unless a.quiet.
func (a *arm) connectAsked(sdk string, p *person) *sdkClient {
	a.t.Helper()
	p.began = a.tap.began
	if sdk == "go-sdk" {
		c := a.askedOfficial(p)
		return &sdkClient{c, &c.inbox, c.ID(), gosdk.ErrSessionMissing, c.alive, func() error { return c.err }}
	}
	c := a.askedMarks(p)
	session := c.GetSessionId()
	return &sdkClient{
		c, &c.inbox, session, transport.ErrSessionTerminated,
		func() bool { synctest.Wait(); return c.GetSessionId() == session },
		func() error { return transport.ErrSessionTerminated },
	}
}

func (a *arm) askedOfficial(p *person) *official {
	a.t.Helper()
	c := &official{ended: make(chan struct{})}
	impl := gosdk.NewClient(&gosdk.Implementation{Name: "official", Version: "1"}, &gosdk.ClientOptions{
		Capabilities: &gosdk.ClientCapabilities{Elicitation: &gosdk.ElicitationCapabilities{
			Form: &gosdk.FormElicitationCapabilities{}, URL: &gosdk.URLElicitationCapabilities{},
		}},
		LoggingMessageHandler: func(_ context.Context, r *gosdk.LoggingMessageRequest) { c.put(r.Params.Data) },
		ElicitationHandler: func(ctx context.Context, r *gosdk.ElicitRequest) (*gosdk.ElicitResult, error) {
			action, err := p.prompt(ctx)
			if err != nil {
				return nil, err
			}
			if action != "accept" || r.Params.Mode == "url" {
				return &gosdk.ElicitResult{Action: action}, nil
			}
			return &gosdk.ElicitResult{Action: action, Content: map[string]any{"confirm": true}}, nil
		},
		ElicitationCompleteHandler: func(context.Context, *gosdk.ElicitationCompleteNotificationRequest) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.completed++
		},
		CreateMessageHandler: func(ctx context.Context, _ *gosdk.CreateMessageRequest) (*gosdk.CreateMessageResult, error) {
			if _, err := p.prompt(ctx); err != nil {
				return nil, err
			}
			return &gosdk.CreateMessageResult{Role: "assistant", Model: "m", Content: &gosdk.TextContent{Text: "hello"}}, nil
		},
	})
	impl.AddRoots(&gosdk.Root{URI: "file:///a"})
	impl.AddReceivingMiddleware(func(next gosdk.MethodHandler) gosdk.MethodHandler {
		return func(ctx context.Context, method string, r gosdk.Request) (gosdk.Result, error) {
			if method == "roots/list" { // go-sdk answers it by itself
				if _, err := p.prompt(ctx); err != nil {
					return nil, err
				}
			}
			return next(ctx, method, r)
		}
	})
	session, err := impl.Connect(a.t.Context(), &gosdk.StreamableClientTransport{
		Endpoint: a.url, HTTPClient: a.http, DisableStandaloneSSE: a.quiet,
	}, &gosdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		a.t.Fatalf("Connect() = %v, want nil", err)
	}
	c.ClientSession = session
	go func() {
		defer close(c.ended)
		c.err = session.Wait()
		c.at = time.Since(a.tap.began)
	}()
	a.t.Cleanup(func() {
		session.Close()
		<-c.ended
	})
	return c
}

// marksPerson is a person behind mcp-go's interfaces.
type marksPerson struct{ *person }

func (p marksPerson) Elicit(ctx context.Context, r mark.ElicitationRequest) (*mark.ElicitationResult, error) {
	action, err := p.prompt(ctx)
	if err != nil {
		return nil, err
	}
	result := &mark.ElicitationResult{ElicitationResponse: mark.ElicitationResponse{Action: mark.ElicitationResponseAction(action)}}
	if action == "accept" && r.Params.Mode != mark.ElicitationModeURL {
		result.Content = map[string]any{"confirm": true}
	}
	return result, nil
}

func (p marksPerson) CreateMessage(ctx context.Context, _ mark.CreateMessageRequest) (*mark.CreateMessageResult, error) {
	if _, err := p.prompt(ctx); err != nil {
		return nil, err
	}
	return &mark.CreateMessageResult{
		SamplingMessage: mark.SamplingMessage{Role: mark.RoleAssistant, Content: mark.NewTextContent("hello")}, Model: "m",
	}, nil
}

func (p marksPerson) ListRoots(ctx context.Context, _ mark.ListRootsRequest) (*mark.ListRootsResult, error) {
	if _, err := p.prompt(ctx); err != nil {
		return nil, err
	}
	return &mark.ListRootsResult{Roots: []mark.Root{{URI: "file:///a"}}}, nil
}

func (a *arm) askedMarks(p *person) *marks {
	a.t.Helper()
	options := []transport.StreamableHTTPCOption{
		transport.WithHTTPBasicClient(a.http), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)),
	}
	if !a.quiet {
		options = append(options, transport.WithContinuousListening())
	}
	tr, err := transport.NewStreamableHTTP(a.url, options...)
	if err != nil {
		a.t.Fatal(err)
	}
	who := marksPerson{p}
	c := &marks{Client: client.NewClient(tr, client.WithProtocolVersion(version),
		client.WithElicitationHandler(who), client.WithSamplingHandler(who), client.WithRootsHandler(who))}
	c.OnNotification(func(n mark.JSONRPCNotification) {
		if n.Method == string(mark.MethodNotificationElicitationComplete) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.completed++
			return
		}
		c.put(n.Params.AdditionalFields["data"])
	})
	if err := c.Start(context.Background()); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { c.Close() })
	if err := c.initialize(a.t.Context()); err != nil {
		a.t.Fatalf("Initialize() = %v, want nil", err)
	}
	return c
}

// checkStale checks that a call has failed because the server no longer waits,
// in the words of its SDK: go-sdk keeps the JSON-RPC error, mcp-go its text.
func checkStale(t *testing.T, sdk string, err error) {
	t.Helper()
	var rpc *jsonrpc.Error
	switch {
	case err == nil || !strings.Contains(err.Error(), middleware.ErrStaleElicitation.Error()):
		t.Errorf("%s: call = %v, want one that says %q", sdk, err, middleware.ErrStaleElicitation)
	case sdk == "go-sdk" && (!errors.As(err, &rpc) || rpc.Code != -32001 || !strings.Contains(string(rpc.Data), `"reason":"stale"`)):
		t.Errorf("%s: call = %#v, want a *jsonrpc.Error with code -32001 and the reason stale", sdk, err)
	}
}

// checkStaleEvents checks that the hook and the counters told of n requests
// that nobody waits for; each is of the method, and of a call or of none.
func (a *arm) checkStaleEvents(t *testing.T, n int, method string, ofCall bool) {
	t.Helper()
	synctest.Wait()
	events := a.observed(middleware.Stale)
	if len(events) != n || a.guard.Stats().Stale != uint64(n) {
		t.Errorf("stale: %+v and %d in Stats, want %d", events, a.guard.Stats().Stale, n)
	}
	for _, e := range events {
		var stale *middleware.StaleElicitationError
		if !errors.As(e.Err, &stale) || stale.Method != method || (stale.OriginRequestID != "") != ofCall || stale.Reason == "" {
			t.Errorf("stale: %#v, want a *StaleElicitationError of %s, with a call: %v", e.Err, method, ofCall)
		}
	}
}

// checkLivesOn checks that a session can be used, and has not been found dead.
func (a *arm) checkLivesOn(t *testing.T, c *sdkClient) {
	t.Helper()
	if text, err := c.call(t.Context(), "echo", map[string]any{"text": "on"}); text != "on" || err != nil {
		t.Errorf("another call of the session = %q, %v, want on", text, err)
	}
	if !c.alive() {
		t.Errorf("the session is over: %v", c.end())
	}
	if a.guard != nil {
		if deaths := a.observed(middleware.SessionDead, middleware.Fenced); len(deaths) != 0 {
			t.Errorf("false deaths: %+v", deaths)
		}
	}
}

// reconnects counts the GETs of a session that reached the wire, but for the
// one by which a client that has just begun opens its standalone stream.
func (a *arm) reconnects(session string) int {
	return count(a.tap.of(session, 1), "GET", "")
}

// The load balancer of the second seed's record.
const sixty = 60 * time.Second

// balancerFor cuts a silent stream after a while in a way that the client comes
// back from: mcp-go resumes a call's stream only after a clean end.
func balancerFor(sdk string, idle time.Duration) lb.Config {
	if sdk == "mcp-go" {
		return lb.Config{IdleTimeout: idle, OnExpiry: lb.CleanEnd}
	}
	return lb.Config{IdleTimeout: idle, OnExpiry: lb.FIN}
}

// asked runs f against a chaos server, for one client.
func asked(t *testing.T, name, sdk string, quiet bool, server mcpserver.Config, balancer lb.Config, cfg middleware.Config, p *person, f func(t *testing.T, b *bed, a *arm, c *sdkClient)) {
	t.Helper()
	server.Retry = time.Second
	virtual(t, server, balancer, func(t *testing.T, b *bed) {
		a := b.arm(name, cfg)
		a.quiet = quiet
		f(t, b, a, a.connectAsked(sdk, p))
	})
}

// rows is what a test has measured, for people.
type rows struct {
	t    *testing.T
	list []string
}

func (r *rows) add(format string, args ...any) { r.list = append(r.list, fmt.Sprintf(format, args...)) }

func (r *rows) print() {
	slices.Sort(r.list)
	r.t.Log("\n" + strings.Join(r.list, "\n"))
}

// ending is an outcome for people.
func (o outcome) String() string {
	if o.err == nil {
		return fmt.Sprintf("%q after %v", o.text, o.at.Round(time.Millisecond))
	}
	text := o.err.Error()
	for _, known := range []string{middleware.ErrStaleElicitation.Error(), "exceeded 5 retries", "client is closing", "connection closed", "Bad Request"} {
		if strings.Contains(text, known) {
			text = known
		}
	}
	return fmt.Sprintf("error %q after %v", text, o.at.Round(time.Millisecond))
}
