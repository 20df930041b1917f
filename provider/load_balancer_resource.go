package provider

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/experiment"
)

func newLoadBalancer() resource.Resource { return &standing{variant: loadBalancer{}} }

// loadBalancer is revenant_load_balancer.
type loadBalancer struct{}

func (loadBalancer) is() (string, control.Kind) { return "load_balancer", control.LoadBalancers }

func (loadBalancer) words() (noun, description string) {
	return "load balancer", "A load balancer on this machine, before a `revenant_mcp_server` or before servers of yours: with the timeouts, and the ways to end a stream, that real ones have. " +
		"Its settings are the keys of `topology.load_balancer` in the definition of an experiment, in real time."
}

func (loadBalancer) def() string     { return balancerDef }
func (loadBalancer) listens() string { return "addr" }

func (loadBalancer) attributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"addr": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "The address to listen on, as an address of this machine's loopback and a port. Default: a free port, which is then kept.",
			Validators:          []validator.String{listenValidator{}},
		},
		"server": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "The name of the `revenant_mcp_server` that it stands before. This, or `upstreams`. Another server is another load balancer.",
			Validators:          []validator.String{nameValidator{}},
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"upstreams": schema.ListAttribute{
			ElementType: types.StringType, Optional: true,
			MarkdownDescription: "The servers that it stands before, each as a host and a port. This, or `server`.",
			Validators:          []validator.List{listvalidator.SizeAtLeast(1), listvalidator.UniqueValues(), listvalidator.ValueStringsAre(upstreamValidator{})},
		},
	}
}

func (loadBalancer) validate(config values, settings []byte, unknown map[string]bool) (diags diag.Diagnostics) {
	_, err := experiment.ParseLoadBalancer(settings)
	diags.Append(settingProblems(err, loadBalancerKeys(), unknown)...)
	server, upstreams := config["server"], config["upstreams"]
	switch {
	case server.IsNull() && upstreams.IsNull():
		diags.AddError("A load balancer needs something to stand before", "Neither server nor upstreams is given, want one of the two: server = revenant_mcp_server.NAME.name, or upstreams = [\"host:port\"].")
	case !server.IsNull() && !upstreams.IsNull() && server.IsKnown() && upstreams.IsKnown():
		diags.AddAttributeError(path.Root("upstreams"), "Upstreams beside a server", fmt.Sprintf("upstreams are given beside server, which is %q, want one of the two.", config.text("server")))
	}
	for i, upstream := range config.texts("upstreams") {
		if upstream == config.text("addr") {
			diags.AddAttributeError(path.Root("upstreams").AtListIndex(i), "It would stand before itself", fmt.Sprintf("upstreams[%d] is %q, which is its own addr.", i, upstream))
		}
	}
	return diags
}

func loadBalancerKeys() []string { return (&standing{variant: loadBalancer{}}).keys() }

func (loadBalancer) spec(plan, config values, settings []byte) ([]byte, error) {
	return json.Marshal(control.LoadBalancerSpec{
		Addr: config.text("addr"), Server: plan.text("server"), Upstreams: plan.texts("upstreams"), Settings: settings,
	})
}

func (loadBalancer) from(spec []byte, status control.Status, t tftypes.Object) ([]byte, values, error) {
	var s control.LoadBalancerSpec
	if err := json.Unmarshal(spec, &s); err != nil {
		return nil, nil, fmt.Errorf("the spec that the daemon has: %w", err)
	}
	own := values{
		"addr":      tftypes.NewValue(tftypes.String, status.Addr),
		"server":    tftypes.NewValue(tftypes.String, nil),
		"upstreams": tftypes.NewValue(t.AttributeTypes["upstreams"], nil),
	}
	if s.Server != "" {
		own["server"] = tftypes.NewValue(tftypes.String, s.Server)
	}
	if len(s.Upstreams) > 0 {
		all := make([]tftypes.Value, len(s.Upstreams))
		for i, one := range s.Upstreams {
			all[i] = tftypes.NewValue(tftypes.String, one)
		}
		own["upstreams"] = tftypes.NewValue(t.AttributeTypes["upstreams"], all)
	}
	return s.Settings, own, nil
}

func (loadBalancer) moved(_, _ values) bool { return false }
