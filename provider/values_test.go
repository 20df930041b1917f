package provider

import (
	"math/big"
	"slices"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

var ruleType = tftypes.Object{AttributeTypes: map[string]tftypes.Type{"on": tftypes.String, "status": tftypes.Number, "hang": tftypes.Bool}}

func rule(on, status, hang any) tftypes.Value {
	return tftypes.NewValue(ruleType, map[string]tftypes.Value{
		"on": tftypes.NewValue(tftypes.String, on), "status": tftypes.NewValue(tftypes.Number, status), "hang": tftypes.NewValue(tftypes.Bool, hang),
	})
}

// What is put into settings comes back from them.
func TestSettingsRoundTrip(t *testing.T) {
	list := tftypes.List{ElementType: ruleType}
	v := values{
		"text": tftypes.NewValue(tftypes.String, "60s"), "number": tftypes.NewValue(tftypes.Number, 1_000_000), "yes": tftypes.NewValue(tftypes.Bool, false),
		"rules": tftypes.NewValue(list, []tftypes.Value{rule("post", 503, nil), rule(nil, nil, true)}),
		"none":  tftypes.NewValue(tftypes.String, nil), "empty": tftypes.NewValue(list, []tftypes.Value{}),
	}
	names := []string{"text", "number", "yes", "rules", "none", "empty"}
	data, err := v.settingsJSON(names, map[string]bool{})
	if want := `{"empty":[],"number":1000000,"rules":[{"on":"post","status":503},{"hang":true}],"text":"60s","yes":false}`; err != nil || string(data) != want {
		t.Fatalf("settingsJSON() = %s, %v, want %s", data, err, want)
	}
	types := make(map[string]tftypes.Type)
	for name, value := range v {
		types[name] = value.Type()
	}
	back, err := fromSettings(data, types)
	if err != nil || !back.same(v, names...) {
		t.Errorf("fromSettings() = %v, %v, want %v", back, err, v)
	}
	// What somebody else writes as a number is a text here.
	got, err := fromSettings([]byte(`{"text": 503}`), types)
	if err != nil || got.text("text") != "503" {
		t.Errorf("fromSettings() of a number for a text = %v, %v, want a text", got, err)
	}
	if _, err := fromSettings([]byte(`{"number": "many"}`), types); err == nil {
		t.Error("fromSettings() takes a text for a number")
	}
}

func TestUnknownSettings(t *testing.T) {
	list := tftypes.List{ElementType: ruleType}
	v := values{
		"text":  tftypes.NewValue(tftypes.String, tftypes.UnknownValue),
		"rules": tftypes.NewValue(list, []tftypes.Value{rule("post", tftypes.UnknownValue, nil), tftypes.NewValue(ruleType, tftypes.UnknownValue)}),
	}
	unknown := make(map[string]bool)
	if _, err := v.settingsJSON([]string{"text", "rules"}, unknown); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"text", "rules[0].status", "rules[1]"} {
		if !unknown[path] {
			t.Errorf("%s is taken for known: %v", path, unknown)
		}
	}
	if len(unknown) != 3 {
		t.Errorf("unknown is %v, want three", unknown)
	}
}

func TestValues(t *testing.T) {
	v := values{
		"n": tftypes.NewValue(tftypes.Number, big.NewFloat(7)), "s": tftypes.NewValue(tftypes.String, "x"),
		"l": tftypes.NewValue(tftypes.List{ElementType: tftypes.String}, []tftypes.Value{tftypes.NewValue(tftypes.String, "a")}),
		"u": tftypes.NewValue(tftypes.String, tftypes.UnknownValue),
	}
	if v.integer("n") != 7 || v.integer("no") != 0 || v.text("s") != "x" || v.text("u") != "" || v.text("n") != "" || !slices.Equal(v.texts("l"), []string{"a"}) || v.texts("no") != nil {
		t.Errorf("the values of %v are %d, %q, %q", v, v.integer("n"), v.text("s"), v.texts("l"))
	}
}
