package provider

import (
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/experiment"
)

func newMCPServer() resource.Resource { return &standing{variant: mcpServer{}} }

// mcpServer is revenant_mcp_server: an MCP server, or several replicas over one log.
type mcpServer struct{}

func (mcpServer) is() (string, control.Kind) { return "mcp_server", control.Servers }

func (mcpServer) words() (noun, description string) {
	return "MCP server", "An MCP server, or several replicas of one over the same event log, on this machine: with sessions that expire, a log that may outlive them, and whatever else real ones do. " +
		"Its settings are the keys of `topology.servers` in the definition of an experiment, in real time."
}

func (mcpServer) def() string     { return serversDef }
func (mcpServer) listens() string { return "addrs" }

func (mcpServer) attributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"addrs": schema.ListAttribute{
			ElementType: types.StringType, Optional: true, Computed: true,
			MarkdownDescription: "The addresses to listen on, one for each replica, each as an address of this machine's loopback and a port. Default: free ports, which are then kept.",
			Validators:          []validator.List{listvalidator.SizeAtLeast(1), listvalidator.UniqueValues(), listvalidator.ValueStringsAre(listenValidator{})},
		},
	}
}

func (mcpServer) validate(config values, settings []byte, unknown map[string]bool) (diags diag.Diagnostics) {
	_, err := experiment.ParseServers(settings)
	diags.Append(settingProblems(err, mcpServerKeys(), unknown)...)
	if addrs := config["addrs"]; addrs.IsKnown() && !addrs.IsNull() && !unknown["replicas"] && !diags.HasError() {
		var all []tftypes.Value
		if want := replicas(config); addrs.As(&all) == nil && int64(len(all)) != want {
			diags.AddAttributeError(path.Root("addrs"), "As many addresses as replicas",
				fmt.Sprintf("addrs has %d addresses, want %d, one for each replica, or none for free ports.", len(all), want))
		}
	}
	return diags
}

func mcpServerKeys() []string { return (&standing{variant: mcpServer{}}).keys() }

// replicas is how many there are, with the default.
func replicas(v values) int64 { return max(1, v.integer("replicas")) }

func (mcpServer) spec(_, config values, settings []byte) ([]byte, error) {
	return json.Marshal(control.ServerSpec{Addrs: config.texts("addrs"), Settings: settings})
}

func (mcpServer) from(spec []byte, status control.Status, t tftypes.Object) ([]byte, values, error) {
	var s control.ServerSpec
	if err := json.Unmarshal(spec, &s); err != nil {
		return nil, nil, fmt.Errorf("the spec that the daemon has: %w", err)
	}
	addrs := make([]tftypes.Value, len(status.Addrs))
	for i, addr := range status.Addrs {
		addrs[i] = tftypes.NewValue(tftypes.String, addr)
	}
	return s.Settings, values{"addrs": tftypes.NewValue(t.AttributeTypes["addrs"], addrs)}, nil
}

func (mcpServer) moved(plan, state values) bool {
	return !plan["replicas"].IsKnown() || replicas(plan) != replicas(state)
}
