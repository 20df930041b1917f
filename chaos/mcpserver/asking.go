package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// ErrStreamBroken: the server waits for the answer to its request no longer,
// because the stream of that broke and [Config.OnBreak] says so.
var ErrStreamBroken = errors.New("mcpserver: the request's stream broke")

// ClientError is a client's JSON-RPC error in answer to a server-to-client
// request. It is returned as a pointer.
type ClientError struct {
	Method  string          `json:"-"` // of the request
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"` // nil if there is none
}

// Error implements [error].
func (e *ClientError) Error() string {
	return fmt.Sprintf("mcpserver: the client answers %s with error %d: %s", e.Method, e.Code, e.Message)
}

// Elicitation is what a client's user answered.
type Elicitation struct {
	Action  string          `json:"action"`  // accept, decline or cancel
	Content json.RawMessage `json:"content"` // a JSON object; nil unless accepted
}

// Ask sends elicitation/create with the message on the session's standalone
// stream, as a server does that knows of no call of the client's that the
// question belongs to. The form has one boolean, `confirm`. Ask waits for the
// answer, also while no client reads the stream, for as long as ctx, the session
// and the server last and [Config.OnBreak] lets it.
//
// The errors are [ErrSessionGone], [ErrNoStream], [ErrStreamBroken],
// [ErrClosed], the cause of ctx, and a [*ClientError].
func (s *Server) Ask(ctx context.Context, sessionID, message string) (Elicitation, error) {
	e, err := Elicitation{}, ErrClosed
	if p := s.enter(); p != nil {
		defer p.leave()
		p.settle()
		e, err = p.askStandalone(ctx, sessionID, message)
	}
	if clientErr := (*ClientError)(nil); err != nil && !errors.As(err, &clientErr) {
		return e, fmt.Errorf("%w: %q", err, sessionID)
	}
	return e, err
}

func (s *process) askStandalone(ctx context.Context, session, message string) (Elicitation, error) {
	if !s.sessions.alive(session) {
		return Elicitation{}, ErrSessionGone
	}
	ch := s.inners.enterStandalone(session)
	if ch == nil {
		return Elicitation{}, ErrNoStream
	}
	defer s.drop(session)
	defer s.inners.leave(session)
	ctx, cancel := within(ctx, s.life)
	defer cancel()
	to := line{session: session, inner: session, ch: ch}
	reply, err := s.ask(ctx, to, string(mcp.MethodElicitationCreate), confirmForm(message))
	return elicitation(reply, err)
}

// AskOnCall sends a server-to-client request on the stream of a client's call,
// and waits for its result. ctx is the context that mcp-go gave to the call's
// tool handler, or one made from it. params become the request's; AskOnCall adds
// to their `_meta`. It asks whether or not the client has declared that it can
// answer.
//
// It does not end with the call's connection: the client may resume the stream
// and answer then. [Config.OnBreak] says otherwise; with [BreakCancels], and when
// the session dies, AskOnCall returns only when the client cancels the call or
// nobody can reach it any more, for what its caller does next would show.
//
// The errors are [ErrSessionGone], [ErrStreamBroken], [ErrClosed], the cause of
// ctx, and a [*ClientError].
func (s *Server) AskOnCall(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	c := callFrom(ctx)
	if c == nil {
		return nil, errors.New("mcpserver: AskOnCall was called outside a tool")
	}
	return c.process.askOnCall(ctx, c, method, params)
}

func (s *process) askOnCall(ctx context.Context, c *call, method string, params map[string]any) (json.RawMessage, error) {
	ctx, cancel := within(ctx, s.life)
	defer cancel()
	to := line{session: c.session, inner: c.inner, call: c, ch: server.ClientSessionFromContext(ctx).NotificationChannel()}
	return s.ask(ctx, to, method, params)
}

// within is ctx, but ends with the others at the latest, with their cause.
func within(ctx context.Context, others ...context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stops := make([]func() bool, len(others))
	for i, other := range others {
		stops[i] = context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// line is where a server-to-client request goes.
type line struct {
	session string
	inner   string
	call    *call // nil: the standalone stream
	ch      chan<- mcp.JSONRPCNotification
}

// ask sends a request and waits for its result.
func (s *process) ask(ctx context.Context, to line, method string, params map[string]any) (json.RawMessage, error) {
	about := Ask{SessionID: to.session, Method: method, Stamp: s.oracle.stamp(to.session)}
	var broken <-chan struct{}
	if to.call != nil {
		about.CallID = to.call.rpc.callID()
		broken = to.call.ctx.Done()
	}
	p := s.asks.begin(about, to.inner, s.cfg.LivenessToken)
	defer s.asks.finish(p)
	request, err := wrap(p.request(params))
	if err != nil {
		return nil, fmt.Errorf("mcpserver: params of %s: %w", method, err)
	}
	if err := s.sendStamped(ctx, to.ch, p.Stamp, request); err != nil {
		return nil, err
	}
	if !s.sessions.alive(to.session) {
		s.asks.cancel(to.session, WhySession, all)
	} else if !s.inners.carried(to.inner) {
		s.broke(to.inner)
	}

	for {
		select {
		case <-p.settled:
			return s.settled(ctx, to, p)
		case <-broken:
			s.detached(to.call)
			broken = nil
		case <-p.gone:
			return nil, ErrSessionGone
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// settled is what an ask comes to that is settled.
func (s *process) settled(ctx context.Context, to line, p *ask) (json.RawMessage, error) {
	switch {
	case p.why == "":
		return resultOf(p.Method, p.reply)
	case p.why == WhyBroken && s.cfg.OnBreak == BreakCancelsNoted:
		n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
		n.Method = string(mcp.MethodNotificationCancelled)
		n.Params.AdditionalFields = map[string]any{"requestId": p.ID, "reason": "the stream broke"}
		if _, err := s.send(ctx, to.ch, to.session, n); err != nil {
			return nil, err
		}
		return nil, ErrStreamBroken
	case to.call == nil && p.why == WhyBroken:
		return nil, ErrStreamBroken
	case to.call == nil:
		return nil, ErrSessionGone
	}
	// Whatever the tool did now would come to the stream.
	select {
	case <-p.gone:
		return nil, ErrSessionGone
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// request is the message, with the oracle's marks in its `_meta`.
func (p *ask) request(params map[string]any) wireRequest {
	meta := map[string]any{StampKey: p.Stamp}
	if given, ok := params["_meta"].(map[string]any); ok {
		maps.Copy(meta, given)
	}
	if p.token != "" {
		meta[LivenessTokenKey] = p.token
	}
	params = maps.Clone(params)
	if params == nil {
		params = make(map[string]any)
	}
	params["_meta"] = meta
	return wireRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: p.ID, Method: p.Method, Params: params}
}

// resultOf reads a client's answer.
func resultOf(method string, reply json.RawMessage) (json.RawMessage, error) {
	var m struct {
		Result json.RawMessage `json:"result"`
		Error  *ClientError    `json:"error"`
	}
	if err := json.Unmarshal(reply, &m); err != nil {
		return nil, fmt.Errorf("mcpserver: the client's answer to %s: %w", method, err)
	}
	if m.Error != nil {
		m.Error.Method = method
		return nil, m.Error
	}
	return m.Result, nil
}

// confirmForm are the params of an elicitation in form mode.
func confirmForm(message string) map[string]any {
	return map[string]any{
		"mode":    mcp.ElicitationModeForm,
		"message": message,
		"requestedSchema": map[string]any{
			"type":       "object",
			"properties": map[string]any{"confirm": map[string]any{"type": "boolean"}},
			"required":   []string{"confirm"},
		},
	}
}

// elicitation reads the result of elicitation/create.
func elicitation(result json.RawMessage, err error) (Elicitation, error) {
	var e Elicitation
	if err == nil {
		err = readResult(mcp.MethodElicitationCreate, result, &e)
	}
	if err == nil && e.Action != "accept" && e.Action != "decline" && e.Action != "cancel" {
		err = fmt.Errorf("mcpserver: the client's action is %q: want accept, decline or cancel", e.Action)
	}
	return e, err
}

func readResult(method mcp.MCPMethod, result json.RawMessage, into any) error {
	if err := json.Unmarshal(result, into); err != nil {
		return fmt.Errorf("mcpserver: the client's result of %s: %w", method, err)
	}
	return nil
}
