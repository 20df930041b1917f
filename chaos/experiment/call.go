package experiment

import (
	"fmt"
	"time"
)

// Tool names a tool of the test server.
type Tool string

// The tools.
const (
	ToolEcho       Tool = "echo"        // answers its text
	ToolEmit       Tool = "emit"        // sends events on the stream of its call, then answers
	ToolWork       Tool = "work"        // the same, one per interval
	ToolConfirm    Tool = "confirm"     // asks the person, times times, then works
	ToolConfirmURL Tool = "confirm_url" // asks the person to open an address
	ToolSample     Tool = "sample"      // asks the client's model
	ToolRoots      Tool = "roots"       // asks for the client's roots
	ToolPingClient Tool = "ping_client" // pings the client
)

// Tools returns all tools.
func Tools() []Tool {
	return []Tool{ToolEcho, ToolEmit, ToolWork, ToolConfirm, ToolConfirmURL, ToolSample, ToolRoots, ToolPingClient}
}

// Call is the call of a tool by each client.
type Call struct {
	_ struct{}

	// Name is what a hypothesis calls it, under calls. Lower-case letters, digits
	// and underscores. Default: it has none.
	Name string `json:"name,omitzero" check:"max=40,pattern=^[a-z][a-z0-9_]*$"`

	// Tool is which: echo, answers its text; emit, sends events on the stream of
	// its call, then answers; work, the same with an interval; confirm, asks the
	// person, then works; confirm_url, asks the person to open an address; sample,
	// asks the client's model; roots, asks for its roots; ping_client, pings it.
	Tool Tool `json:"tool" check:"required"`

	// Text is what echo answers. Default: hello.
	Text string `json:"text,omitzero" check:"max=1048576"`

	// Events is how many events emit, work and confirm send. Default: 0.
	Events int `json:"events,omitzero" check:"min=0,max=100000"`

	// Interval is the time between two events of work and of confirm. Default:
	// none.
	Interval Duration `json:"interval,omitzero" check:"real=1ms"`

	// Detached has work go on when its connection breaks.
	Detached bool `json:"detached,omitzero"`

	// Message is what the person reads whom confirm and confirm_url ask.
	Message string `json:"message,omitzero" check:"max=1000"`

	// Times is how often confirm asks. Default: 1.
	Times int `json:"times,omitzero" check:"min=1,max=100"`

	// URL is the address of confirm_url.
	URL string `json:"url,omitzero" check:"max=1000"`

	// Prompt is what sample asks the client's model.
	Prompt string `json:"prompt,omitzero" check:"max=1000"`

	// Background has the method go on without waiting for the answer.
	Background bool `json:"background,omitzero"`

	// Retries is how often an application makes a call anew that failed, at once
	// and in the session that it has then. Default: 0.
	Retries int `json:"retries,omitzero" check:"min=0,max=100"`

	// Timeout is after how long an application gives the call up, which then
	// counts as hanging. Default: what is left of the experiment, and at least 10 s
	// in real time.
	Timeout Duration `json:"timeout,omitzero" check:"real=50ms"`
}

// toolArgs are the arguments of each tool by their keys; those that are required
// come first, up to the "|".
var toolArgs = map[Tool][]string{
	ToolEcho:       {"|", "text"},
	ToolEmit:       {"|", "events"},
	ToolWork:       {"|", "events", "interval", "detached"},
	ToolConfirm:    {"message", "|", "times", "events", "interval"},
	ToolConfirmURL: {"message", "url", "|"},
	ToolSample:     {"prompt", "|"},
	ToolRoots:      {"|"},
	ToolPingClient: {"|"},
}

// asksPerson is whether the tool shows a person a prompt.
func (t Tool) asksPerson() bool { return t == ToolConfirm || t == ToolConfirmURL }

// Arguments returns what to call the tool of c with, in real time.
func (d *Definition) Arguments(c *Call) map[string]any {
	ms := d.Real(c.Interval).Round(time.Millisecond).Milliseconds()
	switch c.Tool {
	case ToolEcho:
		return map[string]any{"text": orDefault(c.Text, "hello")}
	case ToolEmit:
		return map[string]any{"count": c.Events}
	case ToolWork:
		return map[string]any{"events": c.Events, "interval_ms": ms, "detached": c.Detached}
	case ToolConfirm:
		return map[string]any{"message": c.Message, "times": max(1, c.Times), "work_events": c.Events, "interval_ms": ms}
	case ToolConfirmURL:
		return map[string]any{"message": c.Message, "url": c.URL}
	case ToolSample:
		return map[string]any{"prompt": c.Prompt}
	case ToolRoots, ToolPingClient:
		return map[string]any{}
	}
	panic(fmt.Sprintf("experiment: no tool %q", c.Tool)) // Validate refuses it
}

func orDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
