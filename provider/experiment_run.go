package provider

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-log/tflog"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// cancelTime is how long the daemon has to end a run when Terraform is interrupted,
// or a timeout has passed.
const cancelTime = 30 * time.Second

// request is what is different from the definition.
func (m *experimentModel) request(ctx context.Context) (r control.RunRequest, err error) {
	var arms, clients []string
	diags := m.Arms.ElementsAs(ctx, &arms, false)
	diags.Append(m.Clients.ElementsAs(ctx, &clients, false)...)
	if diags.HasError() {
		return r, fmt.Errorf("the arms and clients cannot be read: %v", diags)
	}
	r = control.RunRequest{
		Arms: arms, Seed: uint64(m.Seed.ValueInt64()), Repeat: int(m.Repeat.ValueInt64()), Scale: m.TimeScale.ValueFloat64(),
	}
	for _, client := range clients {
		r.Clients = append(r.Clients, experiment.ClientKind(client))
	}
	return r, nil
}

// asked is the reverse of request.
func (m *experimentModel) asked(r *control.RunRequest) {
	set := func(all []string) types.Set {
		if len(all) == 0 {
			return types.SetNull(types.StringType)
		}
		texts := make([]attr.Value, len(all))
		for i, s := range all {
			texts[i] = types.StringValue(s)
		}
		return types.SetValueMust(types.StringType, texts)
	}
	clients := make([]string, len(r.Clients))
	for i, client := range r.Clients {
		clients[i] = string(client)
	}
	m.Arms, m.Clients = set(r.Arms), set(clients)
	if r.Seed > 0 {
		m.Seed = types.Int64Value(int64(r.Seed))
	}
	if r.Repeat > 0 {
		m.Repeat = types.Int64Value(int64(r.Repeat))
	}
	if r.Scale > 0 {
		m.TimeScale = types.Float64Value(r.Scale)
	}
}

// take takes what there is of a run.
func (m *experimentModel) take(run *control.Run) {
	m.RunID = types.StringValue(run.ID)
	m.Verdict, m.Reason = textOrNull(string(run.Verdict)), textOrNull(run.Reason)
	m.Observations = observations(run.Checks)
}

// observations are a run's checks.
func observations(checks control.Checks) types.List {
	all := make([]attr.Value, len(checks))
	for i, c := range checks {
		all[i] = types.ObjectValueMust(observationType.AttrTypes, map[string]attr.Value{
			"arm": types.StringValue(c.Arm), "client": types.StringValue(c.Client), "measure": types.StringValue(c.Measure),
			"value": types.StringValue(c.Value), "tolerance": types.StringValue(c.Tolerance), "met": types.BoolValue(c.Met),
			"problem": types.StringValue(c.Problem),
		})
	}
	return types.ListValueMust(observationType, all)
}

// run runs the experiment to its end, or until ctx ends; then it is stopped, and
// what it has broken is whole again. The run is as far as it came, empty if it did
// not begin.
func (r *experimentResource) run(ctx context.Context, m *experimentModel, name string) (control.Run, error) {
	request, err := m.request(ctx)
	if err != nil {
		return control.Run{}, err
	}
	run, err := r.connection.Start(ctx, name, rand.Text(), request)
	if err != nil {
		return control.Run{}, err
	}
	ctx = tflog.SetField(ctx, "run", run.ID)
	tflog.Info(ctx, "the experiment was begun", map[string]any{"experiment": name})
	err = r.connection.Events(ctx, run.ID, 0, func(e control.RunEvent) error {
		logEvent(ctx, e)
		return nil
	})
	if cause := context.Cause(ctx); cause != nil {
		after, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer stop()
		ended, failed := r.stop(after, run.ID)
		if failed != nil {
			return run, fmt.Errorf("it was to be stopped, because %w, and that failed: %v", cause, failed)
		}
		return ended, fmt.Errorf("it was stopped, and what it had broken is whole again: %w", cause)
	}
	// What the stream could not say, the run can.
	ended, failed := r.connection.Run(ctx, run.ID)
	switch {
	case failed != nil:
		return run, failed
	case !ended.State.Final() && err != nil:
		return ended, err
	case !ended.State.Final():
		return ended, fmt.Errorf("the daemon ended its report of run %s, which is %s", ended.ID, ended.State)
	}
	return ended, nil
}

// stop cancels a run and returns it when it is over.
func (r *experimentResource) stop(ctx context.Context, id string) (control.Run, error) {
	if _, err := r.connection.Cancel(ctx, id); err != nil {
		return control.Run{}, err
	}
	if err := r.connection.Events(ctx, id, 0, func(control.RunEvent) error { return nil }); err != nil {
		return control.Run{}, err
	}
	return r.connection.Run(ctx, id)
}

// logEvent is the progress of a run in Terraform's log.
func logEvent(ctx context.Context, e control.RunEvent) {
	fields := map[string]any{"state": string(e.State)}
	if e.Repeat > 0 {
		fields["repeat"] = e.Repeat
	}
	if e.Phase != "" {
		fields["phase"], fields["clock"] = e.Phase, fmt.Sprintf("T+%v", experiment.Duration(e.Clock*float64(time.Second)))
	}
	if e.Step != "" {
		fields["step"] = e.Step
	}
	if e.Verdict != "" {
		fields["verdict"], fields["reason"] = string(e.Verdict), e.Reason
	}
	tflog.Info(ctx, "the experiment goes on", fields)
}

// judge says what is to be said of a verdict.
func (m *experimentModel) judge(run *control.Run) (diags diag.Diagnostics) {
	if run.State == control.Done && run.Verdict == journal.Upheld || m.OnDeviation.ValueString() == onDeviationIgnore {
		return nil
	}
	verdict := string(run.Verdict)
	if verdict == "" {
		verdict = string(run.State)
	}
	title := fmt.Sprintf("The experiment %q: %s", run.Experiment, verdict)
	text := m.account(run)
	if m.OnDeviation.ValueString() == onDeviationWarn {
		diags.AddWarning(title, text)
		return diags
	}
	diags.AddError(title, text+"\nThe next apply runs it again. An apply goes on whatever the verdict is with on_deviation = \"warn\".")
	return diags
}

// maxUnmet is how many checks are shown that were not met.
const maxUnmet = 20

// account is a run for people: why, what was not as it had to be, and where more is.
func (m *experimentModel) account(run *control.Run) string {
	var b strings.Builder
	b.WriteString(sentence(run.Reason) + "\n")
	unmet := 0
	for _, c := range run.Checks {
		if c.Met && c.Problem == "" {
			continue
		}
		if unmet++; unmet == 1 {
			b.WriteString("\nNot as the hypothesis says:\n")
		}
		if unmet > maxUnmet {
			continue
		}
		fmt.Fprintf(&b, "  %s %s: %s = %s, want %s", c.Arm, c.Client, c.Measure, c.Value, c.Tolerance)
		if c.Problem != "" {
			fmt.Fprintf(&b, " (%s)", c.Problem)
		}
		b.WriteByte('\n')
	}
	if unmet > maxUnmet {
		fmt.Fprintf(&b, "  and %d more\n", unmet-maxUnmet)
	}
	if path := m.ReportPath.ValueString(); path != "" {
		fmt.Fprintf(&b, "\n  Report:  %s\n  Journal: %s\n", path, m.JournalPath.ValueString())
	}
	return b.String()
}
