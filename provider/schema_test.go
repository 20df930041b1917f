package provider

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// schemaOf is a resource's schema.
func schemaOf(t *testing.T, r resource.Resource) schema.Schema {
	t.Helper()
	var resp resource.SchemaResponse
	r.Schema(t.Context(), resource.SchemaRequest{}, &resp)
	if resp.Diagnostics.HasError() {
		t.Fatal(resp.Diagnostics)
	}
	return resp.Schema
}

// Whatever a definition can say of servers and of a load balancer, a resource can,
// with the same words to explain it.
func TestSettingsAreThoseOfDefinitions(t *testing.T) {
	var document struct {
		Defs map[string]struct {
			Properties map[string]struct {
				Description string   `json:"description"`
				Type        string   `json:"type"`
				Enum        []string `json:"enum"`
			} `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(experiment.Schema(), &document); err != nil {
		t.Fatal(err)
	}
	rules, ok := schemaOf(t, newMCPServer()).Attributes["rules"].(schema.ListNestedAttribute)
	if !ok {
		t.Fatal("revenant_mcp_server has no list of rules")
	}
	for def, attributes := range map[string]map[string]schema.Attribute{
		"Servers":      schemaOf(t, newMCPServer()).Attributes,
		"LoadBalancer": schemaOf(t, newLoadBalancer()).Attributes,
		"Rule":         rules.NestedObject.Attributes,
	} {
		properties := document.Defs[def].Properties
		if len(properties) < 10 {
			t.Errorf("%s has %d keys: is it still there?", def, len(properties))
		}
		for key, want := range properties {
			a, ok := attributes[key]
			if !ok {
				t.Errorf("%s of %s is no attribute", key, def)
				continue
			}
			if !a.IsOptional() || a.IsComputed() || a.IsRequired() {
				t.Errorf("%s of %s is not optional alone", key, def)
			}
			if got := strings.ReplaceAll(a.GetMarkdownDescription(), "`", ""); got != want.Description {
				t.Errorf("%s of %s is described as %q, want %q", key, def, got, want.Description)
			}
			forms := map[string]tftypes.Type{"boolean": tftypes.Bool, "integer": tftypes.Number, "string": tftypes.String, "": tftypes.String}
			if form, ok := forms[want.Type]; ok && !a.GetType().TerraformType(t.Context()).Is(form) {
				t.Errorf("%s of %s is a %v, want a %v", key, def, a.GetType(), form)
			}
			if text, ok := a.(schema.StringAttribute); ok && want.Enum != nil {
				if len(text.Validators) != 1 || !strings.Contains(text.Validators[0].Description(t.Context()), want.Enum[0]) {
					t.Errorf("%s of %s takes any text, want one of %q", key, def, want.Enum)
				}
			}
			timed := strings.HasSuffix(key, "_ttl") || strings.HasSuffix(key, "_timeout") || slices.Contains([]string{"log_retention", "retry", "delay", "retry_after", "max_duration"}, key)
			if _, is := a.GetType().(durationType); is != timed {
				t.Errorf("%s of %s is a duration: %v, want %v", key, def, is, timed)
			}
		}
	}
	// Of these "none" is one.
	for _, key := range []string{"idle_timeout", "header_timeout", "max_duration"} {
		if d, ok := schemaOf(t, newLoadBalancer()).Attributes[key].GetType().(durationType); !ok || !d.limit {
			t.Errorf("%s is no limit", key)
		}
	}
}

// A form of schema that is not known here is found when the provider is tested, not
// when it is used.
func TestUnknownFormOfSchema(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a key of an unknown form is taken for something")
		}
	}()
	jsonSchema{Type: "object"}.attribute("key")
}

func TestSchemasAreValid(t *testing.T) {
	p := New(Config{})()
	var own provider.SchemaResponse
	p.Schema(t.Context(), provider.SchemaRequest{}, &own)
	if d := own.Schema.ValidateImplementation(t.Context()); d.HasError() {
		t.Error(d)
	}
	if token := own.Schema.Attributes["token"]; !token.IsSensitive() {
		t.Error("the token is not sensitive")
	}
	for _, make := range p.Resources(t.Context()) {
		r := make()
		s := schemaOf(t, r)
		if d := s.ValidateImplementation(t.Context()); d.HasError() {
			t.Errorf("%T: %v", r, d)
		}
		for name, a := range s.Attributes {
			if a.GetMarkdownDescription() == "" {
				t.Errorf("%T: %s is not described", r, name)
			}
		}
	}
	for _, make := range p.DataSources(t.Context()) {
		d := make()
		var resp datasource.SchemaResponse
		d.Schema(context.Background(), datasource.SchemaRequest{}, &resp)
		if diags := resp.Schema.ValidateImplementation(t.Context()); diags.HasError() {
			t.Errorf("%T: %v", d, diags)
		}
	}
}
