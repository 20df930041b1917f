package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The versions that are asked for. Left to itself, go-sdk asks for 2026-07-28,
// which has no sessions.
const (
	version20250326 = "2025-03-26"
	version20251125 = "2025-11-25"
)

// told is what the suite tells the client. Which fields are set depends on the
// scenario.
type told struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
}

// parseTold reads the suite's JSON object. Most scenarios tell nothing: "".
func parseTold(text string) (told, error) {
	var t told
	if text == "" {
		return t, nil
	}
	err := json.Unmarshal([]byte(text), &t)
	return t, err
}

// scenario is what the client does: it connects, asks for the list of tools,
// calls one, and closes the session. What is right on the wire is the suite's
// to say.
type scenario struct {
	version   string
	tool      string // the tool to call, "" for none
	arguments any    // a JSON object, nil for an empty one
	// authorize makes what obtains a token when a server asks for one. With nil
	// the client has no way to.
	authorize func(*http.Client, told) (auth.OAuthHandler, error)
	// refused is for a server that a client must give up on: an error is right
	// then, and none is wrong.
	refused bool
}

// scenarios are those of the suite that this client can play.
var scenarios = map[string]scenario{
	"initialize":                          {version: version20251125},
	"tools_call":                          {version: version20251125, tool: "add_numbers", arguments: map[string]any{"a": 5, "b": 3}},
	"elicitation-sep1034-client-defaults": {version: version20251125, tool: "test_client_elicitation_defaults"},
	"sse-retry":                           {version: version20251125, tool: "test_reconnection"},

	"auth/metadata-default":                     byUser,
	"auth/metadata-var1":                        byUser,
	"auth/metadata-var2":                        byUser,
	"auth/metadata-var3":                        byUser,
	"auth/basic-cimd":                           byUser,
	"auth/scope-from-www-authenticate":          byUser,
	"auth/scope-from-scopes-supported":          byUser,
	"auth/scope-omitted-when-undefined":         byUser,
	"auth/scope-step-up":                        byUser,
	"auth/token-endpoint-auth-basic":            byUser,
	"auth/token-endpoint-auth-post":             byUser,
	"auth/token-endpoint-auth-none":             byUser,
	"auth/pre-registration":                     byUser,
	"auth/offline-access-scope":                 byUser,
	"auth/offline-access-not-supported":         byUser,
	"auth/2025-03-26-oauth-metadata-backcompat": byUser.at(version20250326),
	"auth/2025-03-26-oauth-endpoint-fallback":   byUser.at(version20250326),
	"auth/scope-retry-limit":                    byUser.inVain(),
	"auth/resource-mismatch":                    byUser.inVain(),
	"auth/client-credentials-basic":             {version: version20251125, tool: "test-tool", authorize: clientCredentials},
}

// byUser is the scenario of most authorization servers: they send a user there
// and back with a code.
var byUser = scenario{version: version20251125, tool: "test-tool", authorize: authorizationCode}

func (s scenario) at(version string) scenario {
	s.version = version
	return s
}

func (s scenario) inVain() scenario {
	s.refused = true
	return s
}

// play does all of the scenario over client, also what authorization asks over
// HTTP. It is nil where the server took everything, or for a scenario that is
// to be refused, where it did not.
func (s scenario) play(ctx context.Context, endpoint string, client *http.Client, told told) error {
	defer client.CloseIdleConnections()
	err := s.call(ctx, endpoint, client, told)
	if s.refused {
		if err == nil {
			return errors.New("the server took everything from a client that should have given up on it")
		}
		// Only a deadline would be no refusal.
		return ctx.Err()
	}
	return err
}

func (s scenario) call(ctx context.Context, endpoint string, client *http.Client, told told) (err error) {
	transport := &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: client}
	if s.authorize != nil {
		if transport.OAuthHandler, err = s.authorize(client, told); err != nil {
			return err
		}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "revenant-conformance", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: acceptDefaults,
	}).Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: s.version})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() {
		if closeErr := session.Close(); closeErr != nil {
			err = errors.Join(err, fmt.Errorf("close: %w", closeErr))
		}
	}()

	if _, err := session.ListTools(ctx, nil); err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	if s.tool == "" {
		return nil
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: s.tool, Arguments: s.arguments})
	if err != nil {
		return fmt.Errorf("call %s: %w", s.tool, err)
	}
	if result.IsError {
		return fmt.Errorf("call %s: the tool reports an error", s.tool)
	}
	return nil
}

// acceptDefaults is the user who accepts a form as it is. go-sdk fills in the
// defaults of the form's schema.
func acceptDefaults(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
}
