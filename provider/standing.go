package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// standing is a resource that stands and serves: the servers, and a load balancer.
// What they have in common is here; what one is, its variant says.
type standing struct {
	variant
	connection *connection
}

// variant is one of the standing resources.
type variant interface {
	// is is what it is called in Terraform, after the provider's name, and its kind.
	is() (name string, kind control.Kind)
	// words is what it is called in sentences, and what it is for.
	words() (noun, description string)
	// def is the definition in the experiments' schema that has its settings.
	def() string
	// attributes are those beside the settings and what all have.
	attributes() map[string]schema.Attribute
	// listens is the attribute with the addresses that it listens on.
	listens() string
	// validate checks what stands in a configuration, settings is its settings.
	validate(config values, settings []byte, unknown map[string]bool) diag.Diagnostics
	// spec is what is wanted, addresses being those of the configuration.
	spec(plan, config values, settings []byte) ([]byte, error)
	// from returns the settings in a spec, and the variant's own attributes; of t
	// for their types.
	from(spec []byte, status control.Status, t tftypes.Object) (settings []byte, own values, err error)
	// moved is whether a change of plan gives it other addresses than state has.
	moved(plan, state values) bool
}

var (
	_ resource.ResourceWithConfigure      = (*standing)(nil)
	_ resource.ResourceWithImportState    = (*standing)(nil)
	_ resource.ResourceWithModifyPlan     = (*standing)(nil)
	_ resource.ResourceWithValidateConfig = (*standing)(nil)
)

// Metadata implements resource.Resource.
func (r *standing) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	name, _ := r.is()
	resp.TypeName = req.ProviderTypeName + "_" + name
}

// Schema implements resource.Resource.
func (r *standing) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	noun, description := r.words()
	attributes := map[string]schema.Attribute{
		"name": nameAttribute(noun),
		"id": schema.StringAttribute{
			Computed: true, MarkdownDescription: "What the daemon knows it by: never used again, not for another one of the same name either.",
		},
		"url": schema.StringAttribute{
			Computed: true, MarkdownDescription: "The endpoint that clients use. It stays the same over restarts, and until the addresses change.",
		},
		"state": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "`running`, or `failed`: then the next apply starts it again.",
		},
		"generation": schema.Int64Attribute{
			Computed:            true,
			MarkdownDescription: "Grows with each change of the settings. Put it among the `triggers` of an experiment that is to be run again then.",
		},
	}
	maps.Copy(attributes, settings(r.def()))
	maps.Copy(attributes, r.attributes())
	resp.Schema = schema.Schema{MarkdownDescription: description, Attributes: attributes}
}

// nameAttribute is the name of a resource.
func nameAttribute(noun string) schema.Attribute {
	return schema.StringAttribute{
		Required:            true,
		MarkdownDescription: fmt.Sprintf("The name of the %s, its own among those of its kind with the daemon: %s. Another name is another %s.", noun, control.NameRule, noun),
		Validators:          []validator.String{nameValidator{}},
		PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
	}
}

// Configure implements resource.ResourceWithConfigure.
func (r *standing) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	resp.Diagnostics.Append(configured(req.ProviderData, &r.connection)...)
}

// keys are the names of the settings.
func (r *standing) keys() []string {
	return slices.Sorted(maps.Keys(definitions()[r.def()].Properties))
}

// inputs are the names of all attributes that are not computed alone.
func (r *standing) inputs() []string {
	return append(slices.Sorted(maps.Keys(r.attributes())), append(r.keys(), "name")...)
}

// ValidateConfig implements resource.ResourceWithValidateConfig: what can be known is
// held against what the daemon will say of it.
func (r *standing) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	config, err := valuesOf(req.Config.Raw)
	unknown := make(map[string]bool)
	var settings []byte
	if err == nil {
		settings, err = config.settingsJSON(r.keys(), unknown)
	}
	if err != nil {
		resp.Diagnostics.AddError("The configuration cannot be read", err.Error())
		return
	}
	resp.Diagnostics.Append(r.validate(config, settings, unknown)...)
}

// ModifyPlan implements resource.ResourceWithModifyPlan: it says what an apply will
// change of what the daemon decides.
func (r *standing) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return
	}
	plan, config, state, err := read(req.Plan.Raw, req.Config.Raw, req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The plan cannot be read", err.Error())
		return
	}
	// A plan in which it does not run would be none to agree to.
	plan["state"] = tftypes.NewValue(tftypes.String, string(control.Running))
	changed := req.State.Raw.IsNull() || !plan.same(state, append(r.keys(), "name")...)
	if !req.State.Raw.IsNull() {
		listens := r.listens()
		if given := config[listens]; given.IsNull() {
			if r.moved(plan, state) {
				plan[listens] = tftypes.NewValue(plan[listens].Type(), tftypes.UnknownValue)
			} else {
				plan[listens] = state[listens]
			}
		}
		own := slices.Sorted(maps.Keys(r.attributes()))
		changed = changed || !plan.same(state, own...)
		plan["id"] = state["id"]
		if plan.same(state, listens) && !r.moved(plan, state) {
			plan["url"] = state["url"]
		}
		if !changed {
			plan["generation"] = state["generation"]
		}
	}
	resp.Plan.Raw = plan.object(req.Plan.Raw.Type())
	if changed && r.connection != nil && r.connection.local {
		resp.Diagnostics.Append(missingEngine(plan)...)
	}
}

// read returns the attributes of some objects.
func read(plan, config, state tftypes.Value) (p, c, s values, err error) {
	if p, err = valuesOf(plan); err == nil {
		if c, err = valuesOf(config); err == nil {
			s, err = valuesOf(state)
		}
	}
	return p, c, s, err
}

// Create implements resource.Resource.
func (r *standing) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	r.put(ctx, 0, req.Plan, req.Config, &resp.State, &resp.Diagnostics)
}

// Update implements resource.Resource.
func (r *standing) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	state, err := valuesOf(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The state cannot be read", err.Error())
		return
	}
	r.put(ctx, state.integer("generation"), req.Plan, req.Config, &resp.State, &resp.Diagnostics)
}

// put writes what is planned, and what has become of it into the state.
func (r *standing) put(ctx context.Context, seen int64, plan tfsdk.Plan, config tfsdk.Config, state *tfsdk.State, diags *diag.Diagnostics) {
	noun, _ := r.words()
	_, kind := r.is()
	planned, given, _, err := read(plan.Raw, config.Raw, tftypes.Value{})
	var settings, spec []byte
	if err == nil {
		settings, err = planned.settingsJSON(r.keys(), map[string]bool{})
	}
	if err == nil {
		spec, err = r.spec(planned, given, settings)
	}
	if err != nil {
		diags.AddError("The plan cannot be read", err.Error())
		return
	}
	name := planned.text("name")
	doing := fmt.Sprintf("create the %s %q", noun, name)
	if seen > 0 {
		doing = fmt.Sprintf("change the %s %q", noun, name)
	}
	made, created, err := r.connection.Put(ctx, kind, name, seen, spec)
	if err != nil {
		diags.Append(apiProblem(doing, err, r.inputs())...)
		return
	}
	// Of the inputs the state has what is planned, to the letter.
	kept := maps.Clone(planned)
	if err := r.observe(ctx, made, kept, state.Schema.Type()); err != nil {
		diags.AddError("Cannot "+doing, err.Error())
		return
	}
	state.Raw = kept.object(plan.Raw.Type())
	if seen == 0 && !created {
		diags.AddAttributeWarning(path.Root("name"), "It was there already",
			fmt.Sprintf("The daemon had a %s %q with the same settings, and it is in this state now. If another configuration has it, too, give one of them another name.", noun, name))
	}
	if made.Status.State != control.Running {
		diags.AddError(fmt.Sprintf("The %s %q does not run", noun, name),
			sentence(made.Status.Reason)+"\n\nThe daemon goes on trying. Put right what is in its way and apply again.")
	}
}

// observe puts into attributes what the daemon has decided.
func (r *standing) observe(ctx context.Context, made control.Resource, into values, of attributeTypes) error {
	t, err := objectType(ctx, of)
	if err != nil {
		return err
	}
	_, own, err := r.from(made.Spec, made.Status, t)
	if err != nil {
		return err
	}
	into[r.listens()] = own[r.listens()]
	into["id"] = tftypes.NewValue(tftypes.String, made.ID)
	into["url"] = tftypes.NewValue(tftypes.String, made.Status.URL)
	into["state"] = tftypes.NewValue(tftypes.String, string(made.Status.State))
	into["generation"] = tftypes.NewValue(tftypes.Number, made.Generation)
	return nil
}

// Read implements resource.Resource.
func (r *standing) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	noun, _ := r.words()
	_, kind := r.is()
	state, err := valuesOf(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The state cannot be read", err.Error())
		return
	}
	name := state.text("name")
	made, err := r.connection.Get(ctx, kind, name)
	if control.Is(err, control.NotFound) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		resp.Diagnostics.Append(apiProblem(fmt.Sprintf("read the %s %q", noun, name), err, r.inputs())...)
		return
	}
	if err := r.refresh(ctx, made, state, resp.State.Schema.Type()); err != nil {
		resp.Diagnostics.AddError(fmt.Sprintf("Cannot read the %s %q", noun, name), err.Error())
		return
	}
	resp.State.Raw = state.object(req.State.Raw.Type())
	if made.Status.State != control.Running {
		resp.Diagnostics.AddWarning(fmt.Sprintf("The %s %q does not run", noun, name),
			sentence(made.Status.Reason)+"\n\nThe daemon goes on trying, and the next apply has it try at once.")
	}
}

// refresh puts all that the daemon has of a resource into attributes.
func (r *standing) refresh(ctx context.Context, made control.Resource, into values, of attributeTypes) error {
	t, err := objectType(ctx, of)
	if err != nil {
		return err
	}
	data, own, err := r.from(made.Spec, made.Status, t)
	if err != nil {
		return err
	}
	types := make(map[string]tftypes.Type)
	for _, key := range r.keys() {
		types[key] = t.AttributeTypes[key]
	}
	now, err := fromSettings(data, types)
	if err != nil {
		return err
	}
	maps.Copy(into, now)
	maps.Copy(into, own)
	return r.observe(ctx, made, into, of)
}

// attributeTypes is a schema's type.
type attributeTypes interface {
	TerraformType(context.Context) tftypes.Type
}

// Delete implements resource.Resource.
func (r *standing) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	noun, _ := r.words()
	_, kind := r.is()
	state, err := valuesOf(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The state cannot be read", err.Error())
		return
	}
	name := state.text("name")
	// Whatever it has become, it is to go.
	if err := r.connection.Delete(ctx, kind, name, -1); err != nil && !control.Is(err, control.NotFound) {
		resp.Diagnostics.Append(apiProblem(fmt.Sprintf("destroy the %s %q", noun, name), err, r.inputs())...)
	}
}

// ImportState implements resource.ResourceWithImportState.
func (r *standing) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	importName(ctx, req, resp)
}

// importName imports a resource by its name.
func importName(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if !control.ValidName(req.ID) {
		resp.Diagnostics.AddError("That is no name", fmt.Sprintf("The id to import is %q, want the name that the resource has with the daemon: %s.", req.ID, control.NameRule))
		return
	}
	resource.ImportStatePassthroughID(ctx, path.Root("name"), req, resp)
}
