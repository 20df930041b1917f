package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/float64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// The bounds of a definition's repeats and time_scale.
const (
	maxRepeats = 100
	maxScale   = 1000
)

const experimentText = `An experiment, which is run when it is created and when its inputs or its ` + "`triggers`" + ` change. Two arms of real clients, one of them protected by the middleware, go through the same faults, and what they make of it is held against a hypothesis.

The verdict is ` + "`upheld`, `deviated`, `inconclusive` or `aborted`" + `. Any but the first fails the apply, if ` + "`on_deviation`" + ` does not say otherwise, with what was seen and the path of the report; the state is saved before that, and the next apply runs the experiment again.`

// Schema implements resource.Resource.
func (r *experimentResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: experimentText,
		Attributes: map[string]schema.Attribute{
			"name": nameAttribute("experiment"),
			"definition": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "The definition, as YAML or JSON, such as `file(\"my.yaml\")`. It is read when Terraform plans, and faults are shown with line and column.",
				Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"server":        referenceAttribute("The name of a `revenant_mcp_server` whose settings take the place of `topology.servers`. Each arm still has servers of its own, so that nothing that stands is broken. Default: the definition's."),
			"load_balancer": referenceAttribute("The name of a `revenant_load_balancer` whose settings take the place of `topology.load_balancer`, as with `server`. Default: the definition's."),
			"arms": schema.SetAttribute{
				ElementType: types.StringType, Optional: true,
				MarkdownDescription: "The arms to run, of `control` and `protected`. With one of them nothing can be shown, and the verdict is `inconclusive`. Default: both.",
				Validators:          words(experiment.Arms()),
			},
			"clients": schema.SetAttribute{
				ElementType: types.StringType, Optional: true,
				MarkdownDescription: "The clients to run, of those that the definition has: `gosdk`, `mcpgo` or `naive`. Default: all of them.",
				Validators:          words(clientKinds()),
			},
			"seed": schema.Int64Attribute{
				Optional: true, MarkdownDescription: "The seed of the run, from 1. Default: one that the report names.",
				Validators: []validator.Int64{int64validator.AtLeast(1)},
			},
			"repeat": schema.Int64Attribute{
				Optional: true, MarkdownDescription: "How often it is run, from 1 to 100; the worst verdict counts. Default: the definition's.",
				Validators: []validator.Int64{int64validator.Between(1, maxRepeats)},
			},
			"time_scale": schema.Float64Attribute{
				Optional: true, MarkdownDescription: "How many times faster than its record it is run, from 1 to 1000. Default: the definition's.",
				Validators: []validator.Float64{float64validator.Between(1, maxScale)},
			},
			"triggers": schema.MapAttribute{
				ElementType: types.StringType, Optional: true,
				MarkdownDescription: "Whatever is to have the experiment run again when it changes, such as `{ server = revenant_mcp_server.this.generation }`, or the version of what you deploy.",
			},
			"on_deviation": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString(onDeviationFail),
				MarkdownDescription: "What a verdict other than `upheld` does to the apply: `fail`, `warn`, or `ignore`. Default: `fail`.",
				Validators:          oneOf([]string{onDeviationFail, onDeviationWarn, onDeviationIgnore}),
			},

			"id":      computedText("What the daemon knows the experiment by."),
			"run_id":  computedText("The run of the latest apply that has run it."),
			"verdict": computedText("Of that run: `upheld`, `deviated`, `inconclusive` or `aborted`."),
			"reason":  computedText("Why that is the verdict."),
			"observations": schema.ListNestedAttribute{
				Computed:            true,
				MarkdownDescription: "What was held against the hypothesis; with `repeat`, of the run with the worst verdict.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"arm":       computedText("`control` or `protected`."),
					"client":    computedText("The client."),
					"measure":   computedText("What was measured."),
					"value":     computedText("What it was."),
					"tolerance": computedText("What it had to be."),
					"met":       schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether it was. It means nothing where there is a `problem`."},
					"problem":   computedText("Why nothing can be said of it; empty where something can."),
				}},
			},
			"report_path":  computedText("The file with the report, a page for a browser, below `reports` in the provider's `data_dir`; with `repeat` of the run with the worst verdict, and the others beside it. It goes with the experiment."),
			"journal_path": computedText("The file with the journal, as JSON, beside the report."),
		},
		Blocks: map[string]schema.Block{
			"timeouts": timeouts.Block(ctx, timeouts.Opts{
				Create: true, Update: true, Delete: true,
				CreateDescription: "How long the creation may take, with the run in it, such as `10m`. A run that takes longer is stopped. Default: 30 minutes.",
				UpdateDescription: "How long a change may take, with the run in it. Default: 30 minutes.",
				DeleteDescription: "How long it may take to stop what runs and to delete it. Default: 2 minutes.",
			}),
		},
	}
}

func referenceAttribute(text string) schema.Attribute {
	return schema.StringAttribute{
		Optional: true, MarkdownDescription: text + " Another one is another experiment.",
		Validators:    []validator.String{nameValidator{}},
		PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
	}
}

func computedText(text string) schema.StringAttribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: text}
}

// words takes sets of some words that are not empty.
func words(all []string) []validator.Set {
	return []validator.Set{setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(stringvalidator.OneOf(all...))}
}

func clientKinds() []string {
	kinds := experiment.ClientKinds()
	all := make([]string, len(kinds))
	for i, kind := range kinds {
		all[i] = string(kind)
	}
	return all
}

// observationType is one of observations.
var observationType = types.ObjectType{AttrTypes: map[string]attr.Type{
	"arm": types.StringType, "client": types.StringType, "measure": types.StringType, "value": types.StringType,
	"tolerance": types.StringType, "met": types.BoolType, "problem": types.StringType,
}}

// experimentFields are the attributes that the daemon may find fault with.
func experimentFields() []string {
	return []string{"name", "definition", "server", "load_balancer", "arms", "clients", "repeat", "time_scale"}
}
