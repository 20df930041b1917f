package provider

import (
	"context"
	"fmt"
	"os"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// Address is where the provider is found in a registry.
const Address = "registry.terraform.io/revenant-mcp/revenant"

// typeName begins the names of the provider's resources.
const typeName = "revenant"

// The environment variables that stand for settings of the provider.
const (
	EndpointEnv = "REVENANT_ENDPOINT"
	TokenEnv    = "REVENANT_TOKEN"
	DataDirEnv  = "REVENANT_DATA_DIR"
)

// Config is what a provider needs of its program.
type Config struct {
	_ struct{}

	// Version is the program's.
	Version string
	// Program and Args start a daemon: with "--data-dir DIR" after them they call
	// local.Serve. Program "" is this program, Args nil "daemon".
	Program string
	Args    []string
	// Getenv is the environment. nil: that of this process.
	Getenv func(string) string
	// Backend is asked in place of any daemon. nil: there is one to be found. It is
	// for tests.
	Backend control.Backend
}

// revenantProvider is the provider.
type revenantProvider struct {
	cfg Config
}

var (
	_ provider.Provider              = (*revenantProvider)(nil)
	_ provider.ProviderWithFunctions = (*revenantProvider)(nil)
)

// New returns what makes a provider, for package providerserver.
func New(cfg Config) func() provider.Provider {
	if cfg.Args == nil {
		cfg.Args = []string{"daemon"}
	}
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	return func() provider.Provider { return &revenantProvider{cfg} }
}

// Metadata implements provider.Provider.
func (p *revenantProvider) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = typeName, p.cfg.Version
}

const providerText = `MCP servers that lose their sessions, load balancers that cut idle streams, and experiments that show what a client makes of it.

Without ` + "`endpoint`" + ` the provider starts a daemon of its own, one for each ` + "`data_dir`" + `, which goes on when Terraform has ended and ends by itself after the last resource is destroyed. Its log is ` + "`daemon.log`" + ` in that directory.`

var endpointForm = regexp.MustCompile(`^(unix:///.+|https?://[^/@]+/?)$`)

// Schema implements provider.Provider.
func (p *revenantProvider) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: providerText,
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Where a daemon is that somebody else has started (`revenant serve`): `unix:///path/to/revenant.sock`, or `http://127.0.0.1:8700`. " +
					"Environment: `" + EndpointEnv + "`. Default: none, and the provider starts its own.",
				Validators: []validator.String{stringvalidator.RegexMatches(endpointForm, "must be unix:///path/to/socket, or http://host:port, without anything else")},
			},
			"token": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "The token that the daemon of an `http` endpoint wants. It is in no state and in no plan. Environment: `" + TokenEnv + "`, which is the better place. Default: none.",
			},
			"data_dir": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "The directory in which the provider's own daemon keeps everything, and where the reports of experiments are written. One daemon has it at a time; configurations with the same one share it. " +
					"Environment: `" + DataDirEnv + "`. Default: `revenant` below `$XDG_STATE_HOME`, or below `~/.local/state`.",
				Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			},
		},
	}
}

// providerModel is the configuration of the provider.
type providerModel struct {
	Endpoint types.String `tfsdk:"endpoint"`
	Token    types.String `tfsdk:"token"`
	DataDir  types.String `tfsdk:"data_dir"`
}

// Configure implements provider.Provider. It connects to nothing.
func (p *revenantProvider) Configure(ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	var m providerModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	for name, v := range map[string]types.String{"endpoint": m.Endpoint, "token": m.Token, "data_dir": m.DataDir} {
		if v.IsUnknown() {
			resp.Diagnostics.AddAttributeError(path.Root(name), "A setting of the provider is not known yet",
				fmt.Sprintf("%s depends on something that is known only after an apply. Give it a value that is known before, or apply what it depends on first, with -target.", name))
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	get := func(v types.String, env string) string {
		if v.IsNull() {
			return p.cfg.Getenv(env)
		}
		return v.ValueString()
	}
	c, at, err := newConnection(p.cfg, get(m.Endpoint, EndpointEnv), get(m.Token, TokenEnv), get(m.DataDir, DataDirEnv))
	if err != nil {
		resp.Diagnostics.AddAttributeError(path.Root(at), "The provider cannot be configured", sentence(err.Error()))
		return
	}
	resp.ResourceData, resp.DataSourceData = c, c
}

// Resources implements provider.Provider.
func (p *revenantProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newMCPServer, newLoadBalancer, newExperiment}
}

// DataSources implements provider.Provider.
func (p *revenantProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{newExperimentResult}
}

// Functions implements provider.ProviderWithFunctions.
func (p *revenantProvider) Functions(context.Context) []func() function.Function {
	return []func() function.Function{newResumptionGap}
}
