package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// experimentResult is the data source revenant_experiment_result: the latest run of
// an experiment, whoever has run it.
type experimentResult struct {
	connection *connection
}

var _ datasource.DataSourceWithConfigure = (*experimentResult)(nil)

func newExperimentResult() datasource.DataSource { return &experimentResult{} }

// resultModel is its attributes.
type resultModel struct {
	Experiment   types.String  `tfsdk:"experiment"`
	RunID        types.String  `tfsdk:"run_id"`
	State        types.String  `tfsdk:"state"`
	Verdict      types.String  `tfsdk:"verdict"`
	Reason       types.String  `tfsdk:"reason"`
	Seed         types.Int64   `tfsdk:"seed"`
	Repeat       types.Int64   `tfsdk:"repeat"`
	TimeScale    types.Float64 `tfsdk:"time_scale"`
	Observations types.List    `tfsdk:"observations"`
}

// Metadata implements datasource.DataSource.
func (d *experimentResult) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_experiment_result"
}

// Schema implements datasource.DataSource.
func (d *experimentResult) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "The latest run of an experiment that the daemon keeps, whoever has run it: Terraform, the command line, or another configuration. Where it was never run, all but `experiment` is null.",
		Attributes: map[string]schema.Attribute{
			"experiment": schema.StringAttribute{
				Required: true, MarkdownDescription: "The name of the experiment.", Validators: []validator.String{nameValidator{}},
			},
			"run_id":     text("The run."),
			"state":      text("How far it is: `queued`, `active`, `done` or `interrupted`."),
			"verdict":    text("`upheld`, `deviated`, `inconclusive` or `aborted`; null as long as there is none."),
			"reason":     text("Why that is the verdict."),
			"seed":       schema.Int64Attribute{Computed: true, MarkdownDescription: "The seed that was asked for; null for any."},
			"repeat":     schema.Int64Attribute{Computed: true, MarkdownDescription: "How often it was to be run; null for what the definition says."},
			"time_scale": schema.Float64Attribute{Computed: true, MarkdownDescription: "The scale that was asked for; null for the definition's."},
			"observations": schema.ListNestedAttribute{
				Computed:            true,
				MarkdownDescription: "What was held against the hypothesis, as in `revenant_experiment`.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"arm": text("`control` or `protected`."), "client": text("The client."), "measure": text("What was measured."),
					"value": text("What it was."), "tolerance": text("What it had to be."),
					"met":     schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether it was. It means nothing where there is a `problem`."},
					"problem": text("Why nothing can be said of it; empty where something can."),
				}},
			},
		},
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (d *experimentResult) Configure(_ context.Context, req datasource.ConfigureRequest, resp *datasource.ConfigureResponse) {
	resp.Diagnostics.Append(configured(req.ProviderData, &d.connection)...)
}

// Read implements datasource.DataSource.
func (d *experimentResult) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var name types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("experiment"), &name)...)
	if resp.Diagnostics.HasError() {
		return
	}
	m := resultModel{Experiment: name, Observations: types.ListNull(observationType)}
	made, err := d.connection.Get(ctx, control.Experiments, name.ValueString())
	if err == nil && made.Status.LastRun != "" {
		var run control.Run
		if run, err = d.connection.Run(ctx, made.Status.LastRun); err == nil {
			m.take(&run)
		}
	}
	if err != nil {
		resp.Diagnostics.Append(apiProblem(fmt.Sprintf("read the result of the experiment %q", name.ValueString()), err, nil)...)
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
}

// take takes what there is of a run.
func (m *resultModel) take(run *control.Run) {
	var e experimentModel
	e.take(run)
	e.asked(&run.Request)
	m.RunID, m.Verdict, m.Reason, m.Observations = e.RunID, e.Verdict, e.Reason, e.Observations
	m.State = types.StringValue(string(run.State))
	m.Seed, m.Repeat, m.TimeScale = e.Seed, e.Repeat, e.TimeScale
}
