package provider

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// The definitions in the experiments' schema that resources have the keys of.
const (
	serversDef  = "Servers"
	balancerDef = "LoadBalancer"
)

// jsonSchema is what this package knows of JSON Schema: the forms that the
// experiments' schema has.
type jsonSchema struct {
	Description string                `json:"description"`
	Type        string                `json:"type"`
	Enum        []string              `json:"enum"`
	Const       *string               `json:"const"`
	Pattern     string                `json:"pattern"`
	Minimum     *int64                `json:"minimum"`
	Maximum     *int64                `json:"maximum"`
	MaxLength   *int                  `json:"maxLength"`
	MaxItems    *int                  `json:"maxItems"`
	Items       *jsonSchema           `json:"items"`
	Ref         string                `json:"$ref"`
	AnyOf       []jsonSchema          `json:"anyOf"`
	Properties  map[string]jsonSchema `json:"properties"`
}

// durationMark is how the pattern of durations ends, and of nothing else.
const durationMark = `(ns|us|µs|ms|s|m|h))+$`

// definitions are those of the experiments' schema that are needed here.
var definitions = sync.OnceValue(func() map[string]jsonSchema {
	var all struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	if err := json.Unmarshal(experiment.Schema(), &all); err != nil {
		panic(fmt.Sprintf("provider: the experiments' schema: %v", err))
	}
	defs := make(map[string]jsonSchema)
	for _, name := range []string{serversDef, balancerDef, "Rule"} {
		var def jsonSchema
		if err := json.Unmarshal(all.Defs[name], &def); err != nil {
			panic(fmt.Sprintf("provider: %s in the experiments' schema: %v", name, err))
		}
		defs[name] = def
	}
	return defs
})

// settings are the keys of a definition as attributes. A key of a form that is not
// known here is a fault of this program, which its tests find.
func settings(def string) map[string]schema.Attribute {
	attributes := make(map[string]schema.Attribute)
	for key, s := range definitions()[def].Properties {
		attributes[key] = s.attribute(key)
	}
	return attributes
}

// attribute is a key as an attribute, which may be left out.
func (s jsonSchema) attribute(key string) schema.Attribute {
	text := s.markdown(key)
	switch {
	case s.Type == "boolean":
		return schema.BoolAttribute{Optional: true, MarkdownDescription: text}
	case s.Type == "integer":
		a := schema.Int64Attribute{Optional: true, MarkdownDescription: text}
		if s.Minimum != nil && s.Maximum != nil {
			a.Validators = []validator.Int64{int64validator.Between(*s.Minimum, *s.Maximum)}
		}
		return a
	case s.isDuration(), s.isLimit():
		return schema.StringAttribute{
			Optional: true, MarkdownDescription: text, CustomType: durationType{limit: s.isLimit()},
			PlanModifiers: sameDuration(),
		}
	case s.Type == "array" && s.Items != nil && s.Items.Ref != "":
		def := strings.TrimPrefix(s.Items.Ref, "#/$defs/")
		a := schema.ListNestedAttribute{
			Optional: true, MarkdownDescription: text,
			NestedObject: schema.NestedAttributeObject{Attributes: settings(def)},
		}
		if s.MaxItems != nil {
			a.Validators = []validator.List{listvalidator.SizeAtMost(*s.MaxItems)}
		}
		return a
	case s.Enum != nil:
		return schema.StringAttribute{Optional: true, MarkdownDescription: text, Validators: oneOf(s.Enum)}
	case s.Type == "string":
		a := schema.StringAttribute{Optional: true, MarkdownDescription: text}
		if s.MaxLength != nil {
			a.Validators = []validator.String{stringvalidator.UTF8LengthAtMost(*s.MaxLength)}
		}
		return a
	case s.AnyOf != nil:
		return schema.StringAttribute{Optional: true, MarkdownDescription: text, Validators: []validator.String{anyOf(s.AnyOf)}}
	}
	panic(fmt.Sprintf("provider: %s has a schema of another form than is known: %+v", key, s))
}

func (s jsonSchema) isDuration() bool {
	return s.Type == "string" && strings.HasSuffix(s.Pattern, durationMark)
}

func (s jsonSchema) isLimit() bool {
	return len(s.AnyOf) == 2 && slices.ContainsFunc(s.AnyOf, jsonSchema.isDuration) &&
		slices.ContainsFunc(s.AnyOf, func(one jsonSchema) bool { return one.Const != nil && *one.Const == noLimit })
}

// markdown is the description: it begins with the key.
func (s jsonSchema) markdown(key string) string {
	if rest, ok := strings.CutPrefix(s.Description, key+" "); ok {
		return "`" + key + "` " + rest
	}
	return s.Description
}

func oneOf(words []string) []validator.String {
	return []validator.String{stringvalidator.OneOf(words...)}
}

// anyOf takes what one of some schemas of texts takes. Numbers are texts in HCL.
func anyOf(all []jsonSchema) validator.String {
	var forms []validator.String
	for _, s := range all {
		switch {
		case s.Enum != nil:
			forms = append(forms, stringvalidator.OneOf(s.Enum...))
		case s.Pattern != "":
			forms = append(forms, stringvalidator.RegexMatches(regexp.MustCompile(s.Pattern), "must match "+s.Pattern))
		}
	}
	return stringvalidator.Any(forms...)
}
