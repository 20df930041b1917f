package provider

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/lb"
)

// nameValidator takes what may be a resource's name.
type nameValidator struct{}

// Description implements validator.Describer.
func (nameValidator) Description(context.Context) string { return "must be " + control.NameRule }

// MarkdownDescription implements validator.Describer.
func (v nameValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString implements validator.String.
func (nameValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if known(req.ConfigValue) && !control.ValidName(req.ConfigValue.ValueString()) {
		resp.Diagnostics.AddAttributeError(req.Path, "Not a name",
			fmt.Sprintf("%v is %q, want %s.", req.Path, req.ConfigValue.ValueString(), control.NameRule))
	}
}

// listenValidator takes addresses on this machine.
type listenValidator struct{}

// Description implements validator.Describer.
func (listenValidator) Description(context.Context) string {
	return "must be an address and a port on this machine, such as 127.0.0.1:8080"
}

// MarkdownDescription implements validator.Describer.
func (v listenValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString implements validator.String.
func (listenValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if !known(req.ConfigValue) {
		return
	}
	at, err := netip.ParseAddrPort(req.ConfigValue.ValueString())
	text := ""
	switch {
	case err != nil:
		text = "want an address and a port, such as 127.0.0.1:8080"
	case !at.Addr().IsLoopback() || at.Addr().Zone() != "":
		text = fmt.Sprintf("want an address that only this machine can reach, such as 127.0.0.1:%d", at.Port())
	case at.Port() == 0:
		text = "want a port, or no address at all for one that is free"
	default:
		return
	}
	resp.Diagnostics.AddAttributeError(req.Path, "Not an address to listen on", fmt.Sprintf("%v is %q, %s.", req.Path, req.ConfigValue.ValueString(), text))
}

// upstreamValidator takes addresses anywhere.
type upstreamValidator struct{}

// Description implements validator.Describer.
func (upstreamValidator) Description(context.Context) string {
	return "must be a host and a port, such as 10.0.0.7:8080"
}

// MarkdownDescription implements validator.Describer.
func (v upstreamValidator) MarkdownDescription(ctx context.Context) string { return v.Description(ctx) }

// ValidateString implements validator.String.
func (upstreamValidator) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if !known(req.ConfigValue) {
		return
	}
	host, port, err := net.SplitHostPort(req.ConfigValue.ValueString())
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		resp.Diagnostics.AddAttributeError(req.Path, "Not an upstream",
			fmt.Sprintf("%v is %q, want a host and a port, such as 10.0.0.7:8080.", req.Path, req.ConfigValue.ValueString()))
	}
}

// missingEngine says whether this machine lacks the program that a load balancer is
// to be.
func missingEngine(plan values) (diags diag.Diagnostics) {
	engine := lb.Engine(plan.text("engine"))
	if engine == "" || engine == lb.Embedded {
		return nil
	}
	need := experiment.Need{What: "the program " + string(engine), Engine: engine}
	if err := need.Available(); err != nil {
		diags.AddAttributeError(path.Root("engine"), "This machine has no such load balancer",
			fmt.Sprintf("engine is %q, and %s Install it, or use the engine %q.", engine, sentence(err.Error()), lb.Embedded))
	}
	return diags
}
