package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// resumptionGap is the function resumption_gap.
type resumptionGap struct{}

func newResumptionGap() function.Function { return resumptionGap{} }

// Metadata implements function.Function.
func (resumptionGap) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "resumption_gap"
}

const gapText = `Says whether a client of an MCP server can come back to a session that is dead and be answered as if it lived.

That takes two things. The event log outlives the session: the time in between is the *gap*, in which a reconnect with a cursor is answered 200 by a log that knows nothing of sessions. And an idle timeout, of a load balancer or of anything else on the way, that makes clients come back before the log has forgotten, too.

The result is an object: ` + "`dangerous`" + `, whether both are so; ` + "`gap`" + `, a duration, ` + "`\"0s\"`" + ` if there is none and ` + "`\"unlimited\"`" + ` if the log keeps everything; and ` + "`explanation`" + `, the same in words, with what to do. What it says is arithmetic: to see what a client makes of it, run an experiment. A server whose GETs check the session (` + "`get_checks_session`" + `) has no gap, whatever its times are.`

// gapTypes are the attributes of the result.
var gapTypes = map[string]attr.Type{"dangerous": types.BoolType, "gap": types.StringType, "explanation": types.StringType}

// Definition implements function.Function.
func (resumptionGap) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	parameter := func(name, text string) function.Parameter {
		return function.StringParameter{Name: name, MarkdownDescription: text, AllowNullValue: true}
	}
	resp.Definition = function.Definition{
		Summary:             "Whether a session can be resumed after its death",
		MarkdownDescription: gapText,
		Parameters: []function.Parameter{
			parameter("session_ttl", "How long a session lives after its last request, such as `30m`. `null` or `none`: for ever."),
			parameter("event_retention", "How long the log keeps an event, such as `60m`. `null` or `none`: for ever."),
			parameter("idle_timeout", "After how long without a byte a stream is cut, such as `60s`. `null` or `none`: never."),
		},
		Return: function.ObjectReturn{AttributeTypes: gapTypes},
	}
}

// Run implements function.Function.
func (resumptionGap) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var texts [3]types.String
	if resp.Error = req.Arguments.Get(ctx, &texts[0], &texts[1], &texts[2]); resp.Error != nil {
		return
	}
	var times [3]experiment.Limit
	for i, text := range texts {
		times[i] = experiment.NoLimit
		if text.IsNull() {
			continue
		}
		if err := times[i].UnmarshalText([]byte(text.ValueString())); err != nil {
			resp.Error = function.ConcatFuncErrors(resp.Error, function.NewArgumentFuncError(int64(i), err.Error()))
		}
	}
	if resp.Error != nil {
		return
	}
	g := gapOf(times[0], times[1], times[2])
	resp.Error = resp.Result.Set(ctx, types.ObjectValueMust(gapTypes, map[string]attr.Value{
		"dangerous": types.BoolValue(g.dangerous), "gap": types.StringValue(g.length), "explanation": types.StringValue(g.explanation),
	}))
}

// gap is what times make of a resumption.
type gap struct {
	dangerous           bool
	length, explanation string
}

// unlimited is a gap without end.
const unlimited = "unlimited"

// gapOf holds three times against each other, each of which may be NoLimit.
func gapOf(ttl, retention, idle experiment.Limit) gap {
	forever := retention == experiment.NoLimit
	switch {
	case ttl == experiment.NoLimit:
		return gap{false, "0s", "No session expires, so that the log outlives none. A session that is lost otherwise, in a restart for example, is another matter."}
	case !forever && retention <= ttl:
		return gap{false, "0s", fmt.Sprintf("The log forgets an event after %v, and the session lives %v after its last request: who comes back to a dead session asks for what the log has forgotten.", retention, ttl)}
	}
	g := gap{length: unlimited}
	until := "for ever"
	if !forever {
		g.length = experiment.Duration(retention - ttl).String()
		until = fmt.Sprintf("for %v more", g.length)
	}
	g.explanation = fmt.Sprintf("A session dies %v after its last request, and the log answers in its name %s.", ttl, until)
	switch {
	case idle == experiment.NoLimit:
		g.explanation += " Nothing cuts an idle stream, so that clients have no reason to come back just then; a deployment or a network that breaks would be one."
	case !forever && idle >= retention:
		g.explanation += fmt.Sprintf(" An idle stream is cut after %v, when the log has forgotten everything.", idle)
	default:
		g.dangerous = true
		g.explanation += fmt.Sprintf(" An idle stream is cut after %v, so that clients come back in between, are answered 200 with a cursor of a dead session, and take it for a living one. "+
			"Keep events no longer than sessions, have the server check the session on GET, or protect the client with the middleware.", idle)
	}
	return g
}
