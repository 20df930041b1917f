package provider

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/stretchr/testify/mock"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/mocks"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// object is a resource with some attributes, the others being null.
func object(t *testing.T, s schema.Schema, with values) tftypes.Value {
	t.Helper()
	of, err := objectType(t.Context(), s.Type())
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]tftypes.Value)
	for name, attribute := range of.AttributeTypes {
		all[name] = tftypes.NewValue(attribute, nil)
		if v, ok := with[name]; ok {
			all[name] = v
		}
	}
	return tftypes.NewValue(of, all)
}

func text(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }

func unknown(s schema.Schema, t *testing.T, names ...string) values {
	v := make(values)
	for _, name := range names {
		v[name] = tftypes.NewValue(s.Attributes[name].GetType().TerraformType(t.Context()), tftypes.UnknownValue)
	}
	return v
}

// with lays attributes over others.
func with(v values, over values) values {
	all := make(values)
	for _, layer := range []values{v, over} {
		for name, value := range layer {
			all[name] = value
		}
	}
	return all
}

// server is a server as the daemon has it.
func server(generation int64, state control.State, reason, settings string) control.Resource {
	return control.Resource{
		Kind: control.Servers, Name: "one", ID: "abc", Generation: generation, Spec: json.RawMessage(`{"settings": ` + settings + `}`),
		Status: control.Status{State: state, Reason: reason, Addr: "127.0.0.1:7001", Addrs: []string{"127.0.0.1:7001"}, URL: "http://127.0.0.1:7001/mcp"},
	}
}

// serverState is the state of it.
func serverState(s schema.Schema, state control.State) values {
	return values{
		"name": text("one"), "id": text("abc"), "url": text("http://127.0.0.1:7001/mcp"), "state": text(string(state)),
		"generation": tftypes.NewValue(tftypes.Number, 3), "session_ttl": text("60s"),
		"addrs": tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, []tftypes.Value{text("127.0.0.1:7001")}),
	}
}

func TestReadOfWhatHasFailed(t *testing.T) {
	backend := mocks.NewBackend(t)
	backend.EXPECT().Get(mock.Anything, control.Servers, "one").Return(server(3, control.Failed, "it was killed", `{"session_ttl": "1m"}`), nil)
	r := &standing{variant: mcpServer{}, connection: &connection{Backend: backend}}
	s := schemaOf(t, r)
	state := tfsdk.State{Schema: s, Raw: object(t, s, serverState(s, control.Running))}
	resp := resource.ReadResponse{State: state}
	r.Read(t.Context(), resource.ReadRequest{State: state}, &resp)
	got, err := valuesOf(resp.State.Raw)
	if err != nil || got.text("state") != "failed" || got.text("session_ttl") != "1m" {
		t.Errorf("the state is %v, %v, want it failed", got, err)
	}
	if resp.Diagnostics.HasError() || !find(resp.Diagnostics, path.Empty(), "it was killed.") {
		t.Errorf("the diagnostics are %v, want a warning with the reason", resp.Diagnostics)
	}

	// The next plan puts it right, and changes nothing else.
	planned := with(serverState(s, control.Failed), unknown(s, t, "id", "url", "state", "generation", "addrs"))
	config := values{"name": text("one"), "session_ttl": text("60s")}
	plan := tfsdk.Plan{Schema: s, Raw: object(t, s, planned)}
	change := resource.ModifyPlanResponse{Plan: plan}
	r.ModifyPlan(t.Context(), resource.ModifyPlanRequest{
		Plan: plan, Config: tfsdk.Config{Schema: s, Raw: object(t, s, config)}, State: tfsdk.State{Schema: s, Raw: object(t, s, serverState(s, control.Failed))},
	}, &change)
	if want := object(t, s, serverState(s, control.Running)); change.Diagnostics.HasError() || !change.Plan.Raw.Equal(want) {
		t.Errorf("the plan is %v, %v, want %v", change.Plan.Raw, change.Diagnostics, want)
	}
}

func TestReadOfWhatIsGone(t *testing.T) {
	backend := mocks.NewBackend(t)
	backend.EXPECT().Get(mock.Anything, control.Servers, "one").Return(control.Resource{}, control.NewProblem(control.NotFound, "no"))
	r := &standing{variant: mcpServer{}, connection: &connection{Backend: backend}}
	s := schemaOf(t, r)
	state := tfsdk.State{Schema: s, Raw: object(t, s, serverState(s, control.Running))}
	resp := resource.ReadResponse{State: state}
	r.Read(t.Context(), resource.ReadRequest{State: state}, &resp)
	if !resp.State.Raw.IsNull() || len(resp.Diagnostics) > 0 {
		t.Errorf("the state is %v, %v, want none", resp.State.Raw, resp.Diagnostics)
	}
}

// Who changes it names the generation that the plan was made of, and no address that
// the configuration does not have.
func TestUpdateOfWhatSomebodyHasChanged(t *testing.T) {
	backend := mocks.NewBackend(t)
	backend.EXPECT().Put(mock.Anything, control.Servers, "one", int64(3), []byte(`{"settings":{"session_ttl":"2m"}}`)).
		Return(control.Resource{}, false, control.NewProblem(control.Stale, "its generation is 4"))
	r := &standing{variant: mcpServer{}, connection: &connection{Backend: backend}}
	s := schemaOf(t, r)
	state := tfsdk.State{Schema: s, Raw: object(t, s, serverState(s, control.Running))}
	planned := with(serverState(s, control.Running), values{"session_ttl": text("2m")})
	resp := resource.UpdateResponse{State: state}
	r.Update(t.Context(), resource.UpdateRequest{
		Plan: tfsdk.Plan{Schema: s, Raw: object(t, s, planned)}, Config: tfsdk.Config{Schema: s, Raw: object(t, s, values{"name": text("one"), "session_ttl": text("2m")})},
		State: state,
	}, &resp)
	if !find(resp.Diagnostics, path.Empty(), "Plan again") || !resp.State.Raw.Equal(state.Raw) {
		t.Errorf("the state is %v, %v, want it as it was and an error that says what to do", resp.State.Raw, resp.Diagnostics)
	}
}

func TestCreateOfWhatDoesNotStart(t *testing.T) {
	backend := mocks.NewBackend(t)
	backend.EXPECT().Put(mock.Anything, control.Servers, "one", int64(0), []byte(`{"settings":{}}`)).Return(server(1, control.Failed, "its port is taken", `{}`), false, nil)
	r := &standing{variant: mcpServer{}, connection: &connection{Backend: backend}}
	s := schemaOf(t, r)
	planned := with(values{"name": text("one")}, unknown(s, t, "id", "url", "generation", "addrs"))
	resp := resource.CreateResponse{State: tfsdk.State{Schema: s}}
	r.Create(t.Context(), resource.CreateRequest{
		Plan: tfsdk.Plan{Schema: s, Raw: object(t, s, planned)}, Config: tfsdk.Config{Schema: s, Raw: object(t, s, values{"name": text("one")})},
	}, &resp)
	got, err := valuesOf(resp.State.Raw)
	if err != nil || got.text("id") != "abc" || got.text("state") != "failed" || !resp.State.Raw.IsFullyKnown() {
		t.Errorf("the state is %v, %v, want it saved as failed", got, err)
	}
	if !find(resp.Diagnostics, path.Empty(), "its port is taken.") || !find(resp.Diagnostics, path.Root("name"), "It was there already") {
		t.Errorf("the diagnostics are %v, want the reason, and that it was there", resp.Diagnostics)
	}
}

func TestDeleteOfWhatIsReferredTo(t *testing.T) {
	for of, says := range map[control.ProblemType]string{control.Conflict: "replace_triggered_by", control.NotFound: ""} {
		backend := mocks.NewBackend(t)
		backend.EXPECT().Delete(mock.Anything, control.Servers, "one", int64(-1)).Return(control.NewProblem(of, "no"))
		r := &standing{variant: mcpServer{}, connection: &connection{Backend: backend}}
		s := schemaOf(t, r)
		var resp resource.DeleteResponse
		r.Delete(t.Context(), resource.DeleteRequest{State: tfsdk.State{Schema: s, Raw: object(t, s, serverState(s, control.Running))}}, &resp)
		if resp.Diagnostics.HasError() != (says != "") || says != "" && !find(resp.Diagnostics, path.Empty(), says) {
			t.Errorf("%s: %v, want %q", of, resp.Diagnostics, says)
		}
	}
}

// newExperimentModel is a plan of an experiment.
func newExperimentModel(t *testing.T, s schema.Schema) tfsdk.Plan {
	t.Helper()
	planned := with(values{"name": text("small"), "definition": text("name: small"), "on_deviation": text("fail")},
		unknown(s, t, "id", "run_id", "verdict", "reason", "observations", "report_path", "journal_path"))
	return tfsdk.Plan{Schema: s, Raw: object(t, s, planned)}
}

// create creates an experiment with a backend.
func create(t *testing.T, ctx context.Context, backend control.Backend) (experimentModel, resource.CreateResponse) {
	t.Helper()
	r := &experimentResource{connection: &connection{Backend: backend, dataDir: t.TempDir()}}
	s := schemaOf(t, r)
	resp := resource.CreateResponse{State: tfsdk.State{Schema: s, Raw: tftypes.NewValue(s.Type().TerraformType(t.Context()), nil)}}
	r.Create(ctx, resource.CreateRequest{Plan: newExperimentModel(t, s)}, &resp)
	var m experimentModel
	if !resp.State.Raw.IsFullyKnown() {
		t.Errorf("the state is %v, want all of it known", resp.State.Raw)
	}
	if d := resp.State.Get(t.Context(), &m); d.HasError() {
		t.Fatal(d)
	}
	return m, resp
}

var small = control.Resource{Kind: control.Experiments, Name: "small", ID: "abc", Generation: 1, Spec: json.RawMessage(`{"definition": "name: small"}`)}

// Of several repeats the report is that of the first with the worst verdict, and the
// state is saved though the apply fails.
func TestExperimentThatDeviatesIsSaved(t *testing.T) {
	run := control.Run{
		ID: "run1", Experiment: "small", State: control.Done, Verdict: journal.Deviated, Reason: "the protected arm did not hold", Journals: 3,
		Checks: control.Checks{
			{Arm: "protected", Client: "gosdk", Measure: "events_lost", Value: "3", Tolerance: "0"},
			{Arm: "control", Client: "gosdk", Measure: "events_lost", Value: "0", Tolerance: "0", Met: true},
			{Arm: "control", Client: "naive", Measure: "false_deaths", Tolerance: "0", Met: true, Problem: "nothing was counted"},
		},
	}
	backend := mocks.NewBackend(t)
	backend.EXPECT().Put(mock.Anything, control.Experiments, "small", int64(0), []byte(`{"definition":"name: small"}`)).Return(small, true, nil)
	backend.EXPECT().Start(mock.Anything, "small", mock.MatchedBy(func(key string) bool { return len(key) > 20 }), control.RunRequest{}).Return(control.Run{ID: "run1", State: control.Queued}, nil)
	backend.EXPECT().Events(mock.Anything, "run1", 0, mock.Anything).RunAndReturn(func(_ context.Context, _ string, _ int, f func(control.RunEvent) error) error {
		for i, verdict := range []journal.Verdict{journal.Upheld, journal.Deviated, journal.Deviated} {
			if err := f(control.RunEvent{N: i + 1, State: control.Active, Repeat: i + 1, Verdict: verdict}); err != nil {
				return err
			}
		}
		return f(control.RunEvent{N: 4, State: control.Done, Verdict: journal.Deviated})
	})
	backend.EXPECT().Run(mock.Anything, "run1").Return(run, nil)
	content := func(_ context.Context, _ string, n int, w io.Writer) error {
		_, err := io.WriteString(w, strings.Repeat("x", n))
		return err
	}
	backend.EXPECT().Report(mock.Anything, "run1", mock.Anything, mock.Anything).RunAndReturn(content).Times(3)
	backend.EXPECT().Journal(mock.Anything, "run1", mock.Anything, mock.Anything).RunAndReturn(content).Times(3)

	m, resp := create(t, t.Context(), backend)
	if m.Verdict.ValueString() != "deviated" || m.RunID.ValueString() != "run1" || len(m.Observations.Elements()) != 3 || !m.wants() {
		t.Errorf("the state is %+v, want the run that deviated", m)
	}
	for _, file := range []types.String{m.ReportPath, m.JournalPath} {
		if data, err := os.ReadFile(file.ValueString()); err != nil || string(data) != "xx" {
			t.Errorf("%v has %q, %v, want that of the second repeat", file, data, err)
		}
	}
	for _, said := range []string{
		`The experiment "small": deviated`, "the protected arm did not hold.", "protected gosdk: events_lost = 3, want 0",
		"control naive: false_deaths = , want 0 (nothing was counted)", m.ReportPath.ValueString(),
	} {
		if !find(resp.Diagnostics, path.Empty(), said) {
			t.Errorf("%q is not said: %v", said, resp.Diagnostics)
		}
	}
	if find(resp.Diagnostics, path.Empty(), "control gosdk") {
		t.Errorf("what was met is said, too: %v", resp.Diagnostics)
	}
}

// Whoever interrupts Terraform stops the run, and waits until all is whole again.
func TestExperimentThatIsInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer interrupt(nil)
	backend := mocks.NewBackend(t)
	backend.EXPECT().Put(mock.Anything, control.Experiments, "small", int64(0), mock.Anything).Return(small, true, nil)
	backend.EXPECT().Start(mock.Anything, "small", mock.Anything, mock.Anything).Return(control.Run{ID: "run1", State: control.Queued}, nil)
	backend.EXPECT().Events(mock.Anything, "run1", 0, mock.Anything).RunAndReturn(func(ctx context.Context, _ string, _ int, _ func(control.RunEvent) error) error {
		interrupt(errors.New("enough"))
		return ctx.Err()
	}).Once()
	backend.EXPECT().Cancel(mock.MatchedBy(func(ctx context.Context) bool { return ctx.Err() == nil }), "run1").Return(control.Run{ID: "run1", State: control.Active}, nil)
	backend.EXPECT().Events(mock.MatchedBy(func(ctx context.Context) bool { return ctx.Err() == nil }), "run1", 0, mock.Anything).Return(nil).Once()
	backend.EXPECT().Run(mock.Anything, "run1").Return(control.Run{ID: "run1", State: control.Interrupted, Verdict: journal.AbortedVerdict, Reason: "it was cancelled"}, nil)
	m, resp := create(t, ctx, backend)
	if m.Verdict.ValueString() != "aborted" || !m.ReportPath.IsNull() || !find(resp.Diagnostics, path.Empty(), "whole again: enough") {
		t.Errorf("the state is %+v, %v, want the run as aborted, and why", m, resp.Diagnostics)
	}
}

// A daemon that is halted keeps the experiment and runs nothing: nor does the state
// say that it did.
func TestExperimentThatIsNotBegun(t *testing.T) {
	backend := mocks.NewBackend(t)
	backend.EXPECT().Put(mock.Anything, control.Experiments, "small", int64(0), mock.Anything).Return(small, true, nil)
	backend.EXPECT().Start(mock.Anything, "small", mock.Anything, mock.Anything).Return(control.Run{}, control.NewProblem(control.Halted, "the fire alarm"))
	m, resp := create(t, t.Context(), backend)
	if m.ID.ValueString() != "abc" || !m.RunID.IsNull() || !m.wants() || !find(resp.Diagnostics, path.Empty(), "revenant resume") {
		t.Errorf("the state is %+v, %v, want it without a run", m, resp.Diagnostics)
	}
}

// A daemon could name a path with what it calls an id.
func TestReportsStayInTheirFolder(t *testing.T) {
	c := &connection{Backend: mocks.NewBackend(t), dataDir: t.TempDir()}
	for _, ids := range [][2]string{{"../up", "run1"}, {"abc", "../../up"}} {
		if _, err := c.writeReports(t.Context(), ids[0], &control.Run{ID: ids[1], Journals: 1}); err == nil {
			t.Errorf("writeReports(%q, %q) writes", ids[0], ids[1])
		}
	}
}

func TestWhatRunsAgain(t *testing.T) {
	for _, c := range []struct {
		on, verdict string
		want        bool
	}{
		{onDeviationFail, "upheld", false}, {onDeviationFail, "deviated", true}, {onDeviationFail, "aborted", true},
		{onDeviationWarn, "deviated", false}, {onDeviationIgnore, "inconclusive", false},
	} {
		m := experimentModel{RunID: types.StringValue("x"), OnDeviation: types.StringValue(c.on), Verdict: types.StringValue(c.verdict)}
		if m.wants() != c.want {
			t.Errorf("with %q %q is run again: %v, want %v", c.on, c.verdict, m.wants(), c.want)
		}
	}
}

// What cannot be meant is said at once; nothing is connected to before it is asked,
// and then the version is looked at first.
func TestConnectionIsLazy(t *testing.T) {
	cfg := Config{Version: "v1 (x)", Args: []string{"daemon"}, Program: "/nonexistent", Getenv: func(name string) string { return map[string]string{"HOME": "/home"}[name] }}
	for _, c := range []struct{ endpoint, token, dataDir, at, says string }{
		{"", "", "", "", ""},
		{"unix:///tmp/x.sock", "", "", "", ""},
		{"http://127.0.0.1:8700/", "sixteen-characters", "", "", ""},
		{"unix:///tmp/x.sock", "token", "", "token", "wants none"},
		{"http://user:secret@127.0.0.1:8700", "", "", "endpoint", "has a user in it"},
		{"http://127.0.0.1:8700", "to ken", "", "endpoint", "cannot be sent"},
		{"", "", "/" + strings.Repeat("x", 200), "data_dir", "too long"},
	} {
		got, at, err := newConnection(cfg, c.endpoint, c.token, c.dataDir)
		if (err != nil) != (c.says != "") || at != c.at || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("newConnection(%q, %q, %q) = %v, %q, %v, want %q about %q", c.endpoint, c.token, c.dataDir, got, at, err, c.says, c.at)
		}
	}
	c, _, err := newConnection(cfg, "http://127.0.0.1:1", "", "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := c.Get(ctx, control.Servers, "one"); err == nil || !strings.Contains(err.Error(), "/v1/info") {
		t.Errorf("Get() = %v, want an error of the handshake", err)
	}
}
