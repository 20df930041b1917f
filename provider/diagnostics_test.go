package provider

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// find returns the diagnostic at a path, with some text.
func find(diags diag.Diagnostics, at path.Path, text string) bool {
	for _, d := range diags {
		where := path.Empty()
		if with, ok := d.(diag.DiagnosticWithPath); ok {
			where = with.Path()
		}
		if where.Equal(at) && strings.Contains(d.Summary()+"\n"+d.Detail(), text) {
			return true
		}
	}
	return false
}

func TestAttributePath(t *testing.T) {
	known := []string{"rules", "session_ttl", "addrs"}
	for text, want := range map[string]path.Path{
		"session_ttl":     path.Root("session_ttl"),
		"rules[2].status": path.Root("rules").AtListIndex(2).AtName("status"),
		"addrs[0]":        path.Root("addrs").AtListIndex(0),
	} {
		if got, ok := attributePath(text, known); !ok || !got.Equal(want) {
			t.Errorf("attributePath(%q) = %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "other", "other.rules", "rule[0]"} {
		if got, ok := attributePath(text, known); ok {
			t.Errorf("attributePath(%q) = %v, want none", text, got)
		}
	}
}

func TestAPIProblems(t *testing.T) {
	p := control.NewProblem(control.Invalid, "")
	p.Fields = []control.FieldError{
		{Field: "settings.rules[0].status", Detail: "is 1, want from 200 to 599"},
		{Field: "addrs[1]", Detail: "is wrong"},
		{Field: "definition.method[0].at", Detail: "is late"},
		{Field: "scale", Detail: "is 2000"},
		{Field: "settings.new_key", Detail: "is no key here"},
	}
	diags := apiProblem("do it", p, []string{"rules", "addrs", "definition", "time_scale"})
	for _, want := range []struct {
		at   path.Path
		text string
	}{
		{path.Root("rules").AtListIndex(0).AtName("status"), "is 1, want from 200 to 599."},
		{path.Root("addrs").AtListIndex(1), "is wrong."},
		{path.Root("definition"), "definition.method[0].at is late."},
		{path.Root("time_scale"), "is 2000."},
		{path.Empty(), "settings.new_key is no key here"},
	} {
		if !find(diags, want.at, want.text) {
			t.Errorf("%q is not said at %v, but\n%v", want.text, want.at, diags)
		}
	}
	if len(diags) != 5 {
		t.Errorf("there are %d diagnostics, want 5: %v", len(diags), diags)
	}
	for of, text := range advice {
		if diags := apiProblem("do it", control.NewProblem(of, "no"), nil); !find(diags, path.Empty(), text) || !find(diags, path.Empty(), "Cannot do it") {
			t.Errorf("%s: %v, want what to do: %s", of, diags, text)
		}
	}
	if diags := apiProblem("do it", errors.New("no way there"), nil); !find(diags, path.Empty(), "no way there.") {
		t.Errorf("an error that is no problem: %v", diags)
	}
}

func TestDefinitionProblems(t *testing.T) {
	_, err := experiment.Parse("definition", []byte("name: x\nlengthy: 3\n"))
	var problems experiment.Problems
	if !errors.As(err, &problems) {
		t.Fatal(err)
	}
	diags := definitionProblems(problems)
	for _, text := range []string{"Line 2, column 1", "2 | lengthy: 3", "did you mean length?"} {
		if !find(diags, path.Root("definition"), text) {
			t.Errorf("%q is not said: %v", text, diags)
		}
	}
}

// What depends on what is not known is not held against anybody.
func TestSettingProblems(t *testing.T) {
	_, err := experiment.ParseServers([]byte(`{"replicas": {}, "shared_sessions": true, "refresh": "evry"}`))
	diags := settingProblems(err, []string{"replicas", "shared_sessions", "refresh"}, map[string]bool{"replicas": true})
	if len(diags) != 1 || !find(diags, path.Root("refresh"), "evry") {
		t.Errorf("the problems are %v, want that of refresh alone", diags)
	}
}

func TestDefinitionWithWhatIsNotKnown(t *testing.T) {
	const text = `
name: x
title: Two replicas without a load balancer
description: None.
length: 10s
topology: {servers: {replicas: 2}}
clients: {gosdk: {}}
method: [{name: a call, at: 1s, call: {tool: echo}}]
hypothesis: {protected: {false_deaths: 0}, control: {false_deaths: ">= 1"}}
`
	if _, problems := parseWith([]byte(text), false, false); len(problems) == 0 {
		t.Fatal("the definition is right by itself, and shows nothing here")
	}
	if _, problems := parseWith([]byte(text), false, true); len(problems) > 0 {
		t.Errorf("with a load balancer of somebody's it is wrong: %v", problems)
	}
	wrong := strings.Replace(text, "at: 1s", "at: 1", 1)
	if _, problems := parseWith([]byte(wrong), true, true); len(problems) != 1 {
		t.Errorf("what is wrong with any server is %v, want one problem", problems)
	}
}
