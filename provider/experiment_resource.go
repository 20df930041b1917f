package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/journal"
)

// What becomes of an apply when the verdict is not upheld.
const (
	onDeviationFail   = "fail"
	onDeviationWarn   = "warn"
	onDeviationIgnore = "ignore"
)

// How long an apply may take where no timeout is given.
const (
	defaultRunTime    = 30 * time.Minute
	defaultDeleteTime = 2 * time.Minute
)

// experimentResource is revenant_experiment: an experiment and its latest run.
type experimentResource struct {
	connection *connection
}

var (
	_ resource.ResourceWithConfigure      = (*experimentResource)(nil)
	_ resource.ResourceWithImportState    = (*experimentResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*experimentResource)(nil)
	_ resource.ResourceWithValidateConfig = (*experimentResource)(nil)
)

func newExperiment() resource.Resource { return &experimentResource{} }

// experimentModel is its attributes.
type experimentModel struct {
	Name         types.String   `tfsdk:"name"`
	Definition   types.String   `tfsdk:"definition"`
	Server       types.String   `tfsdk:"server"`
	LoadBalancer types.String   `tfsdk:"load_balancer"`
	Arms         types.Set      `tfsdk:"arms"`
	Clients      types.Set      `tfsdk:"clients"`
	Seed         types.Int64    `tfsdk:"seed"`
	Repeat       types.Int64    `tfsdk:"repeat"`
	TimeScale    types.Float64  `tfsdk:"time_scale"`
	Triggers     types.Map      `tfsdk:"triggers"`
	OnDeviation  types.String   `tfsdk:"on_deviation"`
	Timeouts     timeouts.Value `tfsdk:"timeouts"`

	ID           types.String `tfsdk:"id"`
	RunID        types.String `tfsdk:"run_id"`
	Verdict      types.String `tfsdk:"verdict"`
	Reason       types.String `tfsdk:"reason"`
	Observations types.List   `tfsdk:"observations"`
	ReportPath   types.String `tfsdk:"report_path"`
	JournalPath  types.String `tfsdk:"journal_path"`
}

// inputs are the attributes that decide about a run: where one of them changes, it
// is run again.
func (m *experimentModel) inputs() []attr.Value {
	return []attr.Value{m.Name, m.Definition, m.Server, m.LoadBalancer, m.Arms, m.Clients, m.Seed, m.Repeat, m.TimeScale, m.Triggers}
}

// sameRun is whether two have the same inputs.
func (m *experimentModel) sameRun(o *experimentModel) bool {
	mine, theirs := m.inputs(), o.inputs()
	for i := range mine {
		if !mine[i].Equal(theirs[i]) {
			return false
		}
	}
	return true
}

// keepRun takes what is known of a run.
func (m *experimentModel) keepRun(o *experimentModel) {
	m.RunID, m.Verdict, m.Reason, m.Observations = o.RunID, o.Verdict, o.Reason, o.Observations
	m.ReportPath, m.JournalPath = o.ReportPath, o.JournalPath
}

// forgetRun is a state without a run.
func (m *experimentModel) forgetRun() {
	m.keepRun(&experimentModel{
		RunID: types.StringNull(), Verdict: types.StringNull(), Reason: types.StringNull(), Observations: types.ListNull(observationType),
		ReportPath: types.StringNull(), JournalPath: types.StringNull(),
	})
}

// awaitRun is a plan with one.
func (m *experimentModel) awaitRun() {
	m.keepRun(&experimentModel{
		RunID: types.StringUnknown(), Verdict: types.StringUnknown(), Reason: types.StringUnknown(), Observations: types.ListUnknown(observationType),
		ReportPath: types.StringUnknown(), JournalPath: types.StringUnknown(),
	})
}

// wants is whether an apply that left this state has not done what it was for, so
// that the next one runs the experiment again.
func (m *experimentModel) wants() bool {
	return m.RunID.IsNull() || m.OnDeviation.ValueString() == onDeviationFail && m.Verdict.ValueString() != string(journal.Upheld)
}

// Metadata implements resource.Resource.
func (r *experimentResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_experiment"
}

// Configure implements resource.ResourceWithConfigure.
func (r *experimentResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	resp.Diagnostics.Append(configured(req.ProviderData, &r.connection)...)
}

// ValidateConfig implements resource.ResourceWithValidateConfig.
func (r *experimentResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var m experimentModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(validateExperiment(ctx, &m)...)
	}
}

// ModifyPlan implements resource.ResourceWithModifyPlan: there is a run if one of
// its inputs changes, or the latest one was not what it had to be.
func (r *experimentResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() || req.State.Raw.IsNull() {
		return
	}
	var plan, state experimentModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.ID = state.ID
	last := state
	last.OnDeviation = plan.OnDeviation
	if plan.sameRun(&state) && !last.wants() {
		plan.keepRun(&state)
	} else {
		plan.awaitRun()
	}
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
}

// spec is what the daemon is to keep.
func (m *experimentModel) spec() ([]byte, error) {
	return json.Marshal(control.ExperimentSpec{
		Definition: m.Definition.ValueString(), Server: m.Server.ValueString(), LoadBalancer: m.LoadBalancer.ValueString(),
	})
}

// Create implements resource.Resource.
func (r *experimentResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan experimentModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	limit, diags := plan.Timeouts.Create(ctx, defaultRunTime)
	resp.Diagnostics.Append(diags...)
	r.apply(ctx, &plan, true, limit, &resp.State, &resp.Diagnostics)
}

// Update implements resource.Resource.
func (r *experimentResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan experimentModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	limit, diags := plan.Timeouts.Update(ctx, defaultRunTime)
	resp.Diagnostics.Append(diags...)
	r.apply(ctx, &plan, false, limit, &resp.State, &resp.Diagnostics)
}

// apply writes the experiment, which may be a fresh one, and runs it, if that is
// planned. Whatever becomes of it is in the state.
func (r *experimentResource) apply(ctx context.Context, plan *experimentModel, fresh bool, limit time.Duration, state *tfsdk.State, diags *diag.Diagnostics) {
	if diags.HasError() {
		return
	}
	name := plan.Name.ValueString()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the timeout of %v has passed", limit))
	defer cancel()
	spec, err := plan.spec()
	if err != nil {
		diags.AddError("The plan cannot be read", err.Error())
		return
	}
	seen := int64(0)
	if !fresh {
		seen = -1 // it is written as a whole, whatever somebody has made of it
	}
	made, created, err := r.connection.Put(ctx, control.Experiments, name, seen, spec)
	if err != nil {
		diags.Append(apiProblem(fmt.Sprintf("write the experiment %q", name), err, experimentFields())...)
		return
	}
	if fresh && !created {
		diags.AddAttributeWarning(path.Root("name"), "It was there already",
			fmt.Sprintf("The daemon had an experiment %q with the same definition, and it is in this state now. If another configuration has it, too, give one of them another name.", name))
	}
	plan.ID = types.StringValue(made.ID)
	if !plan.RunID.IsUnknown() {
		diags.Append(state.Set(ctx, plan)...)
		return
	}
	plan.forgetRun()
	run, err := r.run(ctx, plan, name)
	if run.ID != "" {
		plan.take(&run)
		if files, failed := r.connection.writeReports(context.WithoutCancel(ctx), made.ID, &run); failed != nil {
			diags.AddWarning("The report cannot be written", sentence(failed.Error())+" The daemon has it all the same.")
		} else {
			plan.ReportPath, plan.JournalPath = files.paths()
		}
	}
	diags.Append(state.Set(ctx, plan)...)
	if err != nil {
		diags.Append(apiProblem(fmt.Sprintf("run the experiment %q", name), err, experimentFields())...)
		return
	}
	diags.Append(plan.judge(&run)...)
}

// Read implements resource.Resource.
func (r *experimentResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m experimentModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	name := m.Name.ValueString()
	made, err := r.connection.Get(ctx, control.Experiments, name)
	gone := control.Is(err, control.NotFound)
	if gone || err == nil && made.ID != m.ID.ValueString() {
		// The reports of what is not there any more: nobody will destroy it.
		resp.Diagnostics.Append(r.connection.removeReports(m.ID.ValueString())...)
	}
	if gone {
		resp.State.RemoveResource(ctx)
		return
	}
	if err == nil {
		err = r.refresh(ctx, &m, &made)
	}
	if err != nil {
		resp.Diagnostics.Append(apiProblem(fmt.Sprintf("read the experiment %q", name), err, experimentFields())...)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// refresh takes what the daemon has: of an imported experiment also what its latest
// run was asked for.
func (r *experimentResource) refresh(ctx context.Context, m *experimentModel, made *control.Resource) error {
	var spec control.ExperimentSpec
	if err := json.Unmarshal(made.Spec, &spec); err != nil {
		return fmt.Errorf("the spec that the daemon has: %w", err)
	}
	imported := m.ID.IsNull()
	m.ID = types.StringValue(made.ID)
	m.Definition = types.StringValue(spec.Definition)
	m.Server, m.LoadBalancer = textOrNull(spec.Server), textOrNull(spec.LoadBalancer)
	if imported {
		m.OnDeviation = types.StringValue(onDeviationFail)
		m.forgetRun()
		if made.Status.LastRun == "" {
			return nil
		}
		m.RunID = types.StringValue(made.Status.LastRun)
	}
	if m.RunID.IsNull() {
		return nil
	}
	run, err := r.connection.Run(ctx, m.RunID.ValueString())
	if control.Is(err, control.NotFound) { // the daemon keeps only so many
		return nil
	}
	if err != nil {
		return err
	}
	m.take(&run)
	if imported {
		m.asked(&run.Request)
	}
	files, err := r.connection.writeReports(ctx, made.ID, &run)
	if err == nil {
		m.ReportPath, m.JournalPath = files.paths()
	}
	return err
}

// Delete implements resource.Resource.
func (r *experimentResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m experimentModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	limit, diags := m.Timeouts.Delete(ctx, defaultDeleteTime)
	resp.Diagnostics.Append(diags...)
	if resp.Diagnostics.HasError() {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the timeout of %v has passed", limit))
	defer cancel()
	name := m.Name.ValueString()
	if err := r.connection.Delete(ctx, control.Experiments, name, -1); err != nil && !control.Is(err, control.NotFound) {
		resp.Diagnostics.Append(apiProblem(fmt.Sprintf("destroy the experiment %q", name), err, experimentFields())...)
		return
	}
	resp.Diagnostics.Append(r.connection.removeReports(m.ID.ValueString())...)
}

// ImportState implements resource.ResourceWithImportState.
func (r *experimentResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importName(ctx, req, resp)
}

func textOrNull(s string) types.String {
	if s == "" {
		return types.StringNull()
	}
	return types.StringValue(s)
}
