package interop_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mark "github.com/mark3labs/mcp-go/mcp"
	markserver "github.com/mark3labs/mcp-go/server"
	gosdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/middleware"
)

// realServer is one SDK's own server, stateful and with its event store.
type realServer struct {
	handler http.Handler
	say     func(t *testing.T, text string) // on every session's standalone stream
	close   func()
}

type longArgs struct {
	Steps int `json:"steps"`
	Every int `json:"every"` // milliseconds
}

// newOfficialServer is go-sdk's. Make it inside the bubble.
func newOfficialServer() *realServer {
	server := gosdk.NewServer(&gosdk.Implementation{Name: "official", Version: "1"}, nil)
	gosdk.AddTool(server, &gosdk.Tool{Name: "long"}, func(ctx context.Context, r *gosdk.CallToolRequest, args longArgs) (*gosdk.CallToolResult, any, error) {
		for i := range args.Steps {
			time.Sleep(time.Duration(args.Every) * time.Millisecond)
			_ = r.Session.NotifyProgress(ctx, &gosdk.ProgressNotificationParams{
				ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Message: fmt.Sprint("step ", i+1),
			})
		}
		return &gosdk.CallToolResult{Content: []gosdk.Content{&gosdk.TextContent{Text: "done"}}}, nil, nil
	})
	handler := gosdk.NewStreamableHTTPHandler(func(*http.Request) *gosdk.Server { return server }, &gosdk.StreamableHTTPOptions{
		EventStore: gosdk.NewMemoryEventStore(nil),
	})
	return &realServer{
		handler: handler,
		say: func(t *testing.T, text string) {
			t.Helper()
			for session := range server.Sessions() {
				//lint:ignore SA1019 deprecated in the version that has no sessions
				if err := session.Log(context.Background(), &gosdk.LoggingMessageParams{Level: "info", Data: text}); err != nil {
					t.Errorf("Log(%q) = %v, want nil", text, err)
				}
			}
		},
		close: func() {
			for session := range server.Sessions() {
				session.Close()
			}
		},
	}
}

// newMarksServer is mcp-go's.
func newMarksServer() *realServer {
	server := markserver.NewMCPServer("marks", "1", markserver.WithLogging())
	server.AddTool(mark.NewTool("long", mark.WithNumber("steps"), mark.WithNumber("every")), func(ctx context.Context, r mark.CallToolRequest) (*mark.CallToolResult, error) {
		for i := range r.GetInt("steps", 0) {
			time.Sleep(time.Duration(r.GetInt("every", 0)) * time.Millisecond)
			token := any(nil)
			if r.Params.Meta != nil {
				token = r.Params.Meta.ProgressToken
			}
			_ = server.SendNotificationToClient(ctx, "notifications/progress", map[string]any{
				"progressToken": token, "progress": i + 1, "message": fmt.Sprint("step ", i+1),
			})
		}
		return mark.NewToolResultText("done"), nil
	})
	h := markserver.NewStreamableHTTPServer(server, markserver.WithStateful(true),
		markserver.WithEventStore(markserver.NewInMemoryEventStore()), markserver.WithStreamableHTTPLogger(slog.New(slog.DiscardHandler)))
	return &realServer{
		handler: h,
		say: func(t *testing.T, text string) {
			t.Helper()
			server.SendNotificationToAllClients("notifications/message", map[string]any{"level": "info", "data": text})
		},
		close: func() { _ = h.Shutdown(context.Background()) },
	}
}

// listenToAll asks a server for all log messages: go-sdk's sends none unasked.
func (c *official) listenToAll(t *testing.T) {
	t.Helper()
	//lint:ignore SA1019 deprecated in the version that has no sessions
	if err := c.SetLoggingLevel(t.Context(), &gosdk.SetLoggingLevelParams{Level: "debug"}); err != nil {
		t.Fatalf("SetLoggingLevel() = %v, want nil", err)
	}
}

func (c *marks) listenToAll(t *testing.T) {
	t.Helper()
	//lint:ignore SA1019 deprecated in the version that has no sessions
	if err := c.SetLevel(t.Context(), mark.SetLevelRequest{Params: mark.SetLevelParams{Level: "debug"}}); err != nil {
		t.Fatalf("SetLevel() = %v, want nil", err)
	}
}

// long calls the tool of that name and asks for its progress.
func (c *official) long(steps, every int) (string, error) {
	params := &gosdk.CallToolParams{Name: "long", Arguments: map[string]any{"steps": steps, "every": every}}
	params.SetProgressToken("progress")
	result, err := c.CallTool(context.Background(), params)
	if err != nil {
		return "", err
	}
	return result.Content[0].(*gosdk.TextContent).Text, nil
}

func (c *marks) long(steps, every int) (string, error) {
	result, err := c.CallTool(context.Background(), mark.CallToolRequest{Params: mark.CallToolParams{
		Name: "long", Arguments: map[string]any{"steps": steps, "every": every}, Meta: &mark.Meta{ProgressToken: "progress"},
	}})
	if err != nil {
		return "", err
	}
	return mark.GetTextFromContent(result.Content[0]), nil
}

var realServers = map[string]func() *realServer{"go-sdk": newOfficialServer, "mcp-go": newMarksServer}

// eachPair runs f for every client against every server, once per arm, and
// then compare on what the two got.
func eachPair(t *testing.T, quiet bool, f func(t *testing.T, b *bed, srv *realServer, a *arm, c *sdkClient), compare func(t *testing.T, control, protected []string)) {
	for server, start := range realServers {
		for _, sdk := range sdks {
			t.Run(sdk+" with "+server, func(t *testing.T) {
				got := map[string][]string{}
				for _, name := range arms {
					synctest.Test(t, func(t *testing.T) {
						srv := start()
						b := newHandlerBed(t, srv.handler, srv.close)
						a := b.arm(name, middleware.Config{})
						a.quiet = quiet
						c := a.connect(sdk)
						c.caller.(interface{ listenToAll(t *testing.T) }).listenToAll(t)
						synctest.Wait()
						f(t, b, srv, a, c)
						got[name] = c.all()
						if deaths := a.observed(middleware.SessionDead, middleware.Quarantined); len(deaths) != 0 {
							t.Errorf("protected: %d false deaths or quarantines on a healthy server, the first %+v", len(deaths), deaths[0])
						}
					})
				}
				compare(t, got["control"], got["protected"])
			})
		}
	}
}

// checkAgainst checks that protected has lost nothing that control has not,
// doubled nothing, and has everything in order.
func checkAgainst(t *testing.T, sent, control, protected []string) {
	t.Helper()
	at := -1
	for _, text := range protected {
		i := slices.Index(sent, text)
		switch {
		case i == at:
			t.Errorf("protected: %q came twice", text)
		case i < at:
			t.Errorf("protected: %q came after %q, want the order of %q", text, sent[at], sent)
		}
		at = max(at, i)
	}
	for _, text := range control {
		if !slices.Contains(protected, text) {
			t.Errorf("protected: %q was lost, control has it", text)
		}
	}
	t.Logf("sent %d, control got %d, protected got %d", len(sent), len(control), len(protected))
}

// A healthy server, whose standalone stream is cut 50 times.
func TestFiftyCutsOfAHealthyStandaloneStream(t *testing.T) {
	const cuts = 50
	var sent []string
	for i := range cuts {
		sent = append(sent, fmt.Sprintf("%d while it is up", i), fmt.Sprintf("%d while it is down", i))
	}
	sent = append(sent, "the last")
	eachPair(t, false, func(t *testing.T, b *bed, srv *realServer, a *arm, c *sdkClient) {
		say := func(text string) {
			srv.say(t, text)
			synctest.Wait()
		}
		for i := range cuts {
			say(sent[2*i])
			b.cut([]lb.Expiry{lb.FIN, lb.CleanEnd}[i%2])
			say(sent[2*i+1])
			b.until(time.Duration(i+1) * 5 * time.Second)
			if i%10 == 0 {
				// A cut of a stream on which nothing has come since: go-sdk loses
				// its cursor then.
				b.cut(lb.FIN)
			}
			b.until(time.Duration(i+1)*5*time.Second + 4*time.Second)
		}
		say("the last")
		if !c.alive() {
			t.Errorf("%d cuts ended the session: %v", cuts, c.end())
		}
		if text := c.all(); len(text) == 0 || text[len(text)-1] != "the last" {
			t.Errorf("the client has %q, want it to end with the last", text)
		}
	}, func(t *testing.T, control, protected []string) {
		checkAgainst(t, sent, control, protected)
		if len(protected) != len(sent) {
			t.Errorf("protected got %d of %d", len(protected), len(sent))
		}
	})
}

// A long call, whose stream is cut again and again. The clients have no
// standalone stream: mcp-go's server would send the call's notifications on
// either. It stops to take them when the stream breaks, so that go-sdk, which
// finds no id on the stream that it resumes, loses the call: guarded or not.
func TestCutsOfAHealthyCallsStream(t *testing.T) {
	const steps = 30
	sent := numbered("step ", steps)
	var ends []error
	eachPair(t, true, func(t *testing.T, b *bed, srv *realServer, a *arm, c *sdkClient) {
		done := startLong(c, steps)
		for i := range 5 {
			b.until(time.Duration(i*5)*time.Second + 4500*time.Millisecond)
			b.cut(lb.CleanEnd)
		}
		b.until(time.Minute)
		o, over := settled(t, done)
		if !over || o.err == nil && o.text != "done" {
			t.Errorf("call = %+v, over %v, want it over", o, over)
		}
		ends = append(ends, o.err)
		if !c.alive() {
			t.Errorf("cuts ended the session: %v", c.end())
		}
	}, func(t *testing.T, control, protected []string) {
		checkAgainst(t, sent, control, protected)
		last := ends[len(ends)-2:]
		t.Logf("the call ended with %v for control, %v for protected", last[0], last[1])
		if last[0] == nil && last[1] != nil {
			t.Errorf("protected: call = %v, want an answer: control got one", last[1])
		}
	})
}

func startLong(c *sdkClient, steps int) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		text, err := c.caller.(interface {
			long(steps, every int) (string, error)
		}).long(steps, 1000)
		done <- outcome{text: text, err: err}
	}()
	return done
}

// mcp-go's server hands what is queued to whichever POST comes next: the
// probe's answer is a stream then, with a notification of the call's on it.
func TestQueuedNotificationsInMcpGosAnswerToTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newMarksServer()
		b := newHandlerBed(t, srv.handler, srv.close)
		a := b.arm("protected", middleware.Config{})
		a.quiet = true
		c := a.connect("mcp-go")
		done := startLong(c, 9)
		b.until(3500 * time.Millisecond)
		b.cut(lb.CleanEnd)
		b.until(time.Minute)
		if o, over := settled(t, done); !over || o.text != "done" || o.err != nil {
			t.Errorf("call = %+v, over %v, want done", o, over)
		}
		if got, want := c.all(), numbered("step ", 9); !slices.Equal(got, want) {
			t.Errorf("the client has %q, want %q", got, want)
		}
		streamed := 0
		for _, w := range a.tap.of(c.session, 0) {
			if w.rpc == "ping" && strings.HasPrefix(w.contentType, "text/event-stream") {
				streamed++
			}
		}
		if streamed != 1 {
			t.Errorf("%d probes were answered with a stream, want 1: this test is about one", streamed)
		}
		checkProbe(t, a, 4500*time.Millisecond, middleware.Live)
	})
}

// go-sdk's server answers every ping with a stream, and primes it.
func TestGoSDKsAnswerToTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newOfficialServer()
		b := newHandlerBed(t, srv.handler, srv.close)
		a := b.arm("protected", middleware.Config{})
		c := a.connect("mcp-go")
		c.caller.(*marks).listenToAll(t)
		srv.say(t, "one")
		synctest.Wait()
		b.cut(lb.FIN)
		srv.say(t, "two")
		b.until(2 * time.Second)
		if got := c.all(); !slices.Equal(got, []string{"one", "two"}) {
			t.Errorf("the client has %q, want one and two", got)
		}
		for _, w := range a.tap.of(c.session, 0) {
			if w.rpc == "ping" && !strings.HasPrefix(w.contentType, "text/event-stream") {
				t.Errorf("the probe was answered with %q, want a stream: this test is about one", w.contentType)
			}
		}
		checkProbe(t, a, time.Second, middleware.Live)
	})
}
