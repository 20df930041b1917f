package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// noLimit is a limit that is none.
const noLimit = "none"

// durationType is texts that are durations: "60s" and "1m" are the same. A limit may
// also be "none".
type durationType struct {
	basetypes.StringType
	limit bool
}

// durationValue is a text of a durationType.
type durationValue struct {
	basetypes.StringValue
	limit bool
}

var (
	_ basetypes.StringTypable                    = durationType{}
	_ basetypes.StringValuableWithSemanticEquals = durationValue{}
	_ xattr.ValidateableAttribute                = durationValue{}
)

// Equal implements attr.Type.
func (t durationType) Equal(other attr.Type) bool { return t == other }

// String implements attr.Type.
func (t durationType) String() string {
	if t.limit {
		return "provider.limit"
	}
	return "provider.duration"
}

// ValueType implements attr.Type.
func (t durationType) ValueType(context.Context) attr.Value { return durationValue{limit: t.limit} }

// ValueFromString implements basetypes.StringTypable.
func (t durationType) ValueFromString(_ context.Context, s basetypes.StringValue) (basetypes.StringValuable, diag.Diagnostics) {
	return durationValue{s, t.limit}, nil
}

// ValueFromTerraform implements attr.Type.
func (t durationType) ValueFromTerraform(ctx context.Context, in tftypes.Value) (attr.Value, error) {
	v, err := t.StringType.ValueFromTerraform(ctx, in)
	if err != nil {
		return nil, err
	}
	s, ok := v.(basetypes.StringValue)
	if !ok {
		return nil, fmt.Errorf("provider: a text is a %T", v)
	}
	return durationValue{s, t.limit}, nil
}

// Type implements attr.Value.
func (v durationValue) Type(context.Context) attr.Type { return durationType{limit: v.limit} }

// Equal implements attr.Value: it is about the text.
func (v durationValue) Equal(other attr.Value) bool {
	o, ok := other.(durationValue)
	return ok && v.limit == o.limit && v.StringValue.Equal(o.StringValue)
}

// StringSemanticEquals implements basetypes.StringValuableWithSemanticEquals.
func (v durationValue) StringSemanticEquals(ctx context.Context, other basetypes.StringValuable) (bool, diag.Diagnostics) {
	o, diags := other.ToStringValue(ctx)
	return v.limit == isLimit(other) && sameTime(v.ValueString(), o.ValueString()), diags
}

func isLimit(v basetypes.StringValuable) bool {
	d, ok := v.(durationValue)
	return ok && d.limit
}

// sameTime is whether two texts are the same duration, or the same text.
func sameTime(a, b string) bool {
	var x, y experiment.Duration
	if x.UnmarshalText([]byte(a)) != nil || y.UnmarshalText([]byte(b)) != nil {
		return a == b
	}
	return x == y
}

// ValidateAttribute implements xattr.ValidateableAttribute.
func (v durationValue) ValidateAttribute(_ context.Context, req xattr.ValidateAttributeRequest, resp *xattr.ValidateAttributeResponse) {
	if v.IsNull() || v.IsUnknown() {
		return
	}
	var err error
	if v.limit {
		err = new(experiment.Limit).UnmarshalText([]byte(v.ValueString()))
	} else {
		err = new(experiment.Duration).UnmarshalText([]byte(v.ValueString()))
	}
	if err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Not a duration", fmt.Sprintf("%v is %v.", req.Path, err))
	}
}

// sameDuration keeps the text that is in the state when the configuration has
// another one for the same time: semantic equality is not asked when Terraform
// plans.
func sameDuration() []planmodifier.String { return []planmodifier.String{durationModifier{}} }

type durationModifier struct{}

// Description implements planmodifier.Describer.
func (durationModifier) Description(context.Context) string {
	return "Another text for the same time is no change."
}

// MarkdownDescription implements planmodifier.Describer.
func (m durationModifier) MarkdownDescription(ctx context.Context) string { return m.Description(ctx) }

// PlanModifyString implements planmodifier.String.
func (durationModifier) PlanModifyString(_ context.Context, req planmodifier.StringRequest, resp *planmodifier.StringResponse) {
	if known(req.StateValue) && known(req.PlanValue) && sameTime(req.StateValue.ValueString(), req.PlanValue.ValueString()) {
		resp.PlanValue = req.StateValue
	}
}

// known is whether a value is there and known.
func known(v attr.Value) bool { return !v.IsNull() && !v.IsUnknown() }
