package provider

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/attr/xattr"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

func TestSameTime(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"60s", "1m", true}, {"1h", "60m0s", true}, {"1.5s", "1500ms", true}, {"60s", "61s", false},
		{"none", "none", true}, {"none", "60s", false}, {"x", "x", true}, {"x", "y", false}, {"", "", true}, {"0s", "", false},
	} {
		if got := sameTime(c.a, c.b); got != c.want {
			t.Errorf("sameTime(%q, %q) = %v, want %v", c.a, c.b, got, c.want)
		}
		a, b := durationValue{types.StringValue(c.a), true}, durationValue{types.StringValue(c.b), true}
		if got, d := a.StringSemanticEquals(t.Context(), b); got != c.want || d.HasError() {
			t.Errorf("%q and %q are the same: %v, %v, want %v", c.a, c.b, got, d, c.want)
		}
	}
}

func TestDurationsAreValidated(t *testing.T) {
	for _, c := range []struct {
		text            string
		duration, limit bool
	}{
		{"60s", true, true}, {"1m30s", true, true}, {"none", false, true}, {"0s", true, false},
		{"60", false, false}, {"-1s", false, false}, {"", false, false}, {"9000h", false, false},
	} {
		for _, limit := range []bool{false, true} {
			v, err := durationType{limit: limit}.ValueFromTerraform(t.Context(), tftypes.NewValue(tftypes.String, c.text))
			if err != nil {
				t.Fatal(err)
			}
			var resp xattr.ValidateAttributeResponse
			v.(xattr.ValidateableAttribute).ValidateAttribute(t.Context(), xattr.ValidateAttributeRequest{Path: path.Root("x")}, &resp)
			want := c.duration
			if limit {
				want = c.limit
			}
			if resp.Diagnostics.HasError() == want {
				t.Errorf("%q, which may be none: %v, is right: %v, want %v: %v", c.text, limit, !want, want, resp.Diagnostics)
			}
		}
	}
}

func TestPlanKeepsTheSameTime(t *testing.T) {
	for _, c := range []struct{ state, plan, want types.String }{
		{types.StringValue("60s"), types.StringValue("1m"), types.StringValue("60s")},
		{types.StringValue("60s"), types.StringValue("2m"), types.StringValue("2m")},
		{types.StringNull(), types.StringValue("1m"), types.StringValue("1m")},
		{types.StringValue("60s"), types.StringNull(), types.StringNull()},
		{types.StringValue("60s"), types.StringUnknown(), types.StringUnknown()},
	} {
		resp := planmodifier.StringResponse{PlanValue: c.plan}
		durationModifier{}.PlanModifyString(t.Context(), planmodifier.StringRequest{StateValue: c.state, PlanValue: c.plan}, &resp)
		if !resp.PlanValue.Equal(c.want) {
			t.Errorf("%v planned as %v becomes %v, want %v", c.state, c.plan, resp.PlanValue, c.want)
		}
	}
}

func TestDurationTypesDiffer(t *testing.T) {
	plain, limit := durationType{}, durationType{limit: true}
	if plain.Equal(limit) || !limit.Equal(durationType{limit: true}) || plain.Equal(types.StringType) || plain.String() == limit.String() {
		t.Error("a duration and a limit are the same type")
	}
	if (durationValue{types.StringValue("1m"), false}).Equal(durationValue{types.StringValue("60s"), false}) {
		t.Error("two texts are equal, which is for semantic equality to say")
	}
}
