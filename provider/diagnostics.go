package provider

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// attributePath is a path of settings, such as "rules[0].status", as Terraform's. Of
// a path that no attribute has it is the part that one has.
func attributePath(text string, attributes []string) (path.Path, bool) {
	first, _, _ := strings.Cut(text, ".")
	first, _, _ = strings.Cut(first, "[")
	if !slices.Contains(attributes, first) {
		return path.Empty(), false
	}
	var at path.Path
	for i, element := range strings.Split(text, ".") {
		name, index, indexed := strings.Cut(element, "[")
		if i == 0 {
			at = path.Root(name)
		} else {
			at = at.AtName(name)
		}
		if n, err := strconv.Atoi(strings.TrimSuffix(index, "]")); indexed && err == nil {
			at = at.AtListIndex(n)
		}
	}
	return at, true
}

// settingProblems are the problems of settings as diagnostics, but for those of
// what is not known yet.
func settingProblems(err error, attributes []string, unknown map[string]bool) diag.Diagnostics {
	var diags diag.Diagnostics
	var problems experiment.Problems
	if !errors.As(err, &problems) {
		if err != nil {
			diags.AddError("The settings cannot be read", err.Error())
		}
		return diags
	}
	for _, p := range problems {
		if unknown[p.Path] {
			continue
		}
		if at, ok := attributePath(p.Path, attributes); ok {
			diags.AddAttributeError(at, "The setting is not valid", sentence(p.Error()))
		} else {
			diags.AddError("The settings are not valid", sentence(p.Error()))
		}
	}
	return diags
}

// definitionProblems are the problems of a definition as diagnostics, each with its
// place in the text.
func definitionProblems(problems experiment.Problems) diag.Diagnostics {
	var diags diag.Diagnostics
	for _, p := range problems {
		text := p.Error()
		if p.Line > 0 {
			text = fmt.Sprintf("Line %d, column %d: %s\n\n%s", p.Line, p.Column, sentence(text), p.Source())
		}
		diags.AddAttributeError(path.Root("definition"), "The experiment's definition is not valid", text)
	}
	return diags
}

// sentence ends a text as one.
func sentence(text string) string {
	if text == "" || strings.HasSuffix(text, ".") || strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// advice is what to do about some kinds of problems.
var advice = map[control.ProblemType]string{
	control.Stale: "It was changed outside of this configuration after the plan was made. Plan again, and look at what would be changed.",
	control.Conflict: "If something that is not being replaced refers to what is, have it be replaced, too:\n" +
		"  lifecycle { replace_triggered_by = [...] }\nIf it belongs to another configuration, change that first.",
	control.Halted:       "Somebody has halted the daemon. When that is over: revenant resume, with the same data directory, and apply again.",
	control.Unauthorized: "Set the provider's token, or REVENANT_TOKEN, to the token of the daemon: revenant serve says where that is.",
	control.Forbidden:    "The daemon does not know the host in the provider's endpoint as its own: use 127.0.0.1, or start it with --allow-host.",
	control.Unavailable:  "The daemon is about to end. Apply again when it, or the next one, is there.",
}

// apiProblem is an error of the daemon's as diagnostics: what it says of a field
// stands at the attribute that has become that field.
func apiProblem(doing string, err error, attributes []string) diag.Diagnostics {
	var diags diag.Diagnostics
	var p *control.Problem
	if !errors.As(err, &p) {
		diags.AddError("Cannot "+doing, sentence(err.Error()))
		return diags
	}
	var rest []string
	for _, f := range p.Fields {
		if at, ok := attributePath(attributeOf(f.Field), attributes); ok {
			diags.AddAttributeError(at, "Cannot "+doing, sentence(strings.TrimSpace(f.Field+" "+f.Detail)))
		} else {
			rest = append(rest, strings.TrimSpace(f.Field+" "+f.Detail))
		}
	}
	if len(rest) > 0 || len(diags) == 0 {
		text := p.Title
		if p.Detail != "" {
			text += ": " + p.Detail
		}
		text = strings.Join(append([]string{sentence(text)}, rest...), "\n")
		if a := advice[p.Type]; a != "" {
			text += "\n\n" + a
		}
		diags.AddError("Cannot "+doing, text)
	}
	return diags
}

// attributeOf is the attribute that a field of the API is made of.
func attributeOf(field string) string {
	if field == "scale" {
		return "time_scale"
	}
	if strings.HasPrefix(field, "definition.") {
		return "definition"
	}
	return strings.TrimPrefix(field, "settings.")
}
