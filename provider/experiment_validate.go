package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/lb"
)

// validateExperiment finds what is wrong with a configuration as far as that is
// known.
func validateExperiment(ctx context.Context, m *experimentModel) (diags diag.Diagnostics) {
	if !known(m.Definition) {
		return nil
	}
	text := []byte(m.Definition.ValueString())
	d, problems := parseWith(text, !m.Server.IsNull(), !m.LoadBalancer.IsNull())
	if len(problems) > 0 {
		return definitionProblems(problems)
	}
	if d == nil {
		return nil
	}
	if known(m.Clients) {
		var clients []string
		diags.Append(m.Clients.ElementsAs(ctx, &clients, false)...)
		kinds := d.Clients.Kinds()
		for _, client := range clients {
			if !slices.Contains(kinds, experiment.ClientKind(client)) {
				diags.AddAttributeError(path.Root("clients"), "A client that the experiment does not have",
					fmt.Sprintf("clients has %q, want one that the definition has: %v.", client, kinds))
			}
		}
	}
	// Only where the settings are the definition's can it be known what they are
	// with another scale.
	if known(m.TimeScale) && m.Server.IsNull() && m.LoadBalancer.IsNull() {
		d.TimeScale = m.TimeScale.ValueFloat64()
		var problems experiment.Problems
		if errors.As(d.Validate(), &problems) {
			for _, p := range problems {
				diags.AddAttributeError(path.Root("time_scale"), "The experiment cannot be run at this scale",
					fmt.Sprintf("time_scale is %v, with which %s", d.TimeScale, sentence(p.Error())))
			}
		}
	}
	return diags
}

// parseWith parses a definition, whose servers or load balancer may be those of
// resources that are not known here. Then it is wrong only if it is wrong with any
// of some that there could be, and the definition is nil, since nobody knows it.
func parseWith(text []byte, servers, balancer bool) (*experiment.Definition, experiment.Problems) {
	const name = "definition"
	if !servers && !balancer {
		d, err := experiment.Parse(name, text)
		return d, problemsOf(err)
	}
	candidates := []func(*experiment.Definition){func(*experiment.Definition) {}}
	if servers {
		candidates = append(candidates,
			func(d *experiment.Definition) { d.Topology.Servers = experiment.Servers{} },
			func(d *experiment.Definition) {
				d.Topology.Servers = experiment.Servers{Replicas: 2, Retry: d.Length / 20, SessionTTL: d.Length / 2}
			})
	}
	if balancer {
		for _, before := range slices.Clone(candidates) {
			for _, b := range []experiment.LoadBalancer{{}, {Mode: lb.TCP}} {
				candidates = append(candidates, func(d *experiment.Definition) {
					before(d)
					d.Topology.LoadBalancer = &b
				})
			}
		}
	}
	var common experiment.Problems
	for i, change := range candidates {
		_, err := experiment.ParseWith(name, text, change)
		found := problemsOf(err)
		if i == 0 {
			common = found
			continue
		}
		common = slices.DeleteFunc(common, func(p *experiment.Problem) bool {
			return !slices.ContainsFunc(found, func(o *experiment.Problem) bool { return p.Path == o.Path && p.Message == o.Message })
		})
	}
	return nil, common
}

func problemsOf(err error) experiment.Problems {
	var problems experiment.Problems
	if err != nil && !errors.As(err, &problems) {
		problems = experiment.Problems{{Message: err.Error()}}
	}
	return problems
}
