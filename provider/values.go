package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// values are the attributes of a resource of which one does not care, here, which
// they are.
type values map[string]tftypes.Value

// valuesOf returns the attributes of an object; of null none.
func valuesOf(object tftypes.Value) (values, error) {
	v := make(map[string]tftypes.Value)
	if object.IsNull() || !object.IsKnown() {
		return v, nil
	}
	if err := object.As(&v); err != nil {
		return nil, fmt.Errorf("provider: the attributes of a resource: %w", err)
	}
	return v, nil
}

// text is an attribute that is a text, "" for null and for what is not known.
func (v values) text(name string) string {
	var s string
	if there, ok := v[name]; ok && there.IsKnown() && !there.IsNull() && there.Type().Is(tftypes.String) {
		if there.As(&s) != nil {
			return ""
		}
	}
	return s
}

// integer is an attribute that is a number, 0 for null and for what is not known.
func (v values) integer(name string) int64 {
	n := new(big.Float)
	if there, ok := v[name]; !ok || !there.IsKnown() || there.IsNull() || there.As(&n) != nil {
		return 0
	}
	i, _ := n.Int64()
	return i
}

// texts is an attribute that is a list of texts.
func (v values) texts(name string) []string {
	var list []tftypes.Value
	if there, ok := v[name]; !ok || !there.IsFullyKnown() || there.IsNull() || there.As(&list) != nil {
		return nil
	}
	all := make([]string, len(list))
	for i, one := range list {
		if one.As(&all[i]) != nil {
			return nil
		}
	}
	return all
}

// same is whether two have the same for each of the names.
func (v values) same(o values, names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !v[name].Equal(o[name]) })
}

// object is the attributes as an object of a type.
func (v values) object(t tftypes.Type) tftypes.Value {
	return tftypes.NewValue(t, map[string]tftypes.Value(maps.Clone(v)))
}

// plain is a value as encoding/json has it. What is null in an object is left out,
// and what is not known is put down at its path and is, in the result, of a form
// that no setting has: what depends on it cannot be judged then, and is not.
func plain(v tftypes.Value, path string, unknown map[string]bool) (any, error) {
	if !v.IsKnown() {
		unknown[path] = true
		return map[string]any{}, nil
	}
	if v.IsNull() {
		return nil, nil
	}
	switch t := v.Type(); {
	case t.Is(tftypes.String):
		var s string
		err := v.As(&s)
		return s, err
	case t.Is(tftypes.Bool):
		var b bool
		err := v.As(&b)
		return b, err
	case t.Is(tftypes.Number):
		n := new(big.Float)
		err := v.As(&n)
		return json.Number(n.Text('f', -1)), err
	case t.Is(tftypes.List{}):
		var list []tftypes.Value
		if err := v.As(&list); err != nil {
			return nil, err
		}
		all := make([]any, len(list))
		for i, one := range list {
			var err error
			if all[i], err = plain(one, fmt.Sprintf("%s[%d]", path, i), unknown); err != nil {
				return nil, err
			}
		}
		return all, nil
	case t.Is(tftypes.Object{}):
		var fields map[string]tftypes.Value
		if err := v.As(&fields); err != nil {
			return nil, err
		}
		return plainObject(fields, slices.Collect(maps.Keys(fields)), path, unknown)
	}
	return nil, fmt.Errorf("provider: %s is a %v, which no setting is", path, v.Type())
}

func plainObject(fields values, names []string, path string, unknown map[string]bool) (map[string]any, error) {
	object := make(map[string]any)
	for _, name := range names {
		at := name
		if path != "" {
			at = path + "." + name
		}
		value, err := plain(fields[name], at, unknown)
		if err != nil {
			return nil, err
		}
		if value != nil {
			object[name] = value
		}
	}
	return object, nil
}

// settingsJSON is the attributes of some names as a resource's settings.
func (v values) settingsJSON(names []string, unknown map[string]bool) (json.RawMessage, error) {
	object, err := plainObject(v, names, "", unknown)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

// fromSettings is the reverse of settingsJSON, for attributes of the types.
func fromSettings(data json.RawMessage, types map[string]tftypes.Type) (values, error) {
	var object map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if len(data) > 0 {
		if err := decoder.Decode(&object); err != nil {
			return nil, fmt.Errorf("the settings that the daemon has: %w", err)
		}
	}
	v := make(values)
	for name, t := range types {
		value, err := typed(object[name], t, name)
		if err != nil {
			return nil, err
		}
		v[name] = value
	}
	return v, nil
}

// typed is a value of encoding/json's as one of a type.
func typed(value any, t tftypes.Type, path string) (tftypes.Value, error) {
	none := tftypes.NewValue(t, nil)
	switch value := value.(type) {
	case nil:
		return none, nil
	case string:
		if t.Is(tftypes.String) {
			return tftypes.NewValue(t, value), nil
		}
	case bool:
		if t.Is(tftypes.Bool) {
			return tftypes.NewValue(t, value), nil
		}
	case json.Number:
		if t.Is(tftypes.String) { // such as a status, which in HCL is a text, too
			return tftypes.NewValue(t, value.String()), nil
		}
		n, ok := new(big.Float).SetString(value.String())
		if ok && t.Is(tftypes.Number) {
			return tftypes.NewValue(t, n), nil
		}
	case []any:
		list, ok := t.(tftypes.List)
		if !ok {
			break
		}
		all := make([]tftypes.Value, len(value))
		for i, one := range value {
			var err error
			if all[i], err = typed(one, list.ElementType, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return none, err
			}
		}
		return tftypes.NewValue(t, all), nil
	case map[string]any:
		object, ok := t.(tftypes.Object)
		if !ok {
			break
		}
		fields := make(map[string]tftypes.Value)
		for name, of := range object.AttributeTypes {
			var err error
			if fields[name], err = typed(value[name], of, path+"."+name); err != nil {
				return none, err
			}
		}
		return tftypes.NewValue(t, fields), nil
	}
	return none, fmt.Errorf("%s is %v with the daemon, want a %v", path, value, t)
}

// objectType is the type of a schema's objects.
func objectType(ctx context.Context, s interface {
	TerraformType(context.Context) tftypes.Type
}) (tftypes.Object, error) {
	t, ok := s.TerraformType(ctx).(tftypes.Object)
	if !ok {
		return t, fmt.Errorf("provider: a schema is no object")
	}
	return t, nil
}
