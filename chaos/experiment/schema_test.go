package experiment

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

var update = flag.Bool("update", false, "rewrite schema.json and what else is made of the code")

// The schema that is shipped is what the types and their comments say.
func TestSchema(t *testing.T) {
	g := &schemaMaker{docs: comments(t), defs: map[string]any{}}
	root := g.object(typeOf[Definition](), "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "https://github.com/revenant-mcp/revenant/chaos/experiment/schema.json"
	root["title"] = "Experiment of the chaos suite"
	root["$defs"] = g.defs
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b.Bytes(), Schema()) {
		t.Errorf("schema.json is not what the types and their comments say; run go generate ./chaos/experiment")
	}
}

// schemaMaker makes the schema by reflection.
type schemaMaker struct {
	docs map[string]string // by type and field, "Definition.Name"
	defs map[string]any
}

// object is the schema of a struct.
func (g *schemaMaker) object(t reflect.Type, doc string) map[string]any {
	properties := map[string]any{}
	var required []string
	for _, f := range fieldsOf(t) {
		owner, goField := declared(t, f.index)
		text := g.docs[owner.Name()+"."+goField.Name]
		if text == "" {
			panic(fmt.Sprintf("%v.%s has no comment", owner, goField.Name))
		}
		s := g.of(f.typ, f.check)
		s["description"] = g.plain(text, t)
		properties[f.name] = s
		if f.check.required {
			required = append(required, f.name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// declared is the struct in which a field stands that may be embedded.
func declared(t reflect.Type, index []int) (reflect.Type, reflect.StructField) {
	for _, i := range index[:len(index)-1] {
		t = t.Field(i).Type
	}
	return t, t.Field(index[len(index)-1])
}

const schemaDuration = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`

// of is the schema of a value.
func (g *schemaMaker) of(t reflect.Type, c check) map[string]any {
	switch {
	case t.Kind() == reflect.Pointer:
		return g.of(t.Elem(), c)
	case t == typeOf[Duration]():
		return map[string]any{"type": "string", "pattern": schemaDuration}
	case t == typeOf[Limit]():
		return map[string]any{"anyOf": []any{map[string]any{"const": noLimitText}, map[string]any{"type": "string", "pattern": schemaDuration}}}
	case t == typeOf[lb.Expiry]():
		return map[string]any{"anyOf": []any{
			map[string]any{"enum": expiryTexts},
			map[string]any{"type": "integer", "minimum": 400, "maximum": 599},
			map[string]any{"type": "string", "pattern": "^[45][0-9][0-9]$"},
		}}
	case texts(t) != nil:
		return map[string]any{"enum": texts(t)}
	case t == typeOf[Expectations]():
		g.define("expectations", func() map[string]any { return g.expectations(true) })
		return ref("expectations")
	case t == typeOf[Bounds]():
		g.define("bounds", func() map[string]any { return g.bounds() })
		return ref("bounds")
	}
	switch t.Kind() {
	case reflect.Struct:
		g.define(t.Name(), func() map[string]any { return g.object(t, "") })
		return ref(t.Name())
	case reflect.Slice:
		s := map[string]any{"type": "array", "items": g.of(t.Elem(), check{})}
		if c.required {
			s["minItems"] = 1
		}
		if c.max != nil {
			s["maxItems"] = *c.max
		}
		return s
	case reflect.String:
		s := map[string]any{"type": "string"}
		if c.required {
			s["pattern"] = `\S`
		}
		if c.pattern != nil {
			s["pattern"] = c.pattern.String()
		}
		if c.max != nil {
			s["maxLength"] = *c.max
		}
		return s
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		s := map[string]any{"type": "integer"}
		if t.Kind() == reflect.Float64 {
			s["type"] = "number"
		}
		if c.min != nil {
			s["minimum"] = *c.min
		}
		if c.max != nil {
			s["maximum"] = *c.max
		}
		return s
	}
	panic(fmt.Sprintf("no schema for a %v", t))
}

func ref(name string) map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }

// define makes a definition once.
func (g *schemaMaker) define(name string, make func() map[string]any) {
	if _, there := g.defs[name]; !there {
		g.defs[name] = nil
		g.defs[name] = make()
	}
}

func (g *schemaMaker) measures(of []MeasureInfo) map[string]any {
	properties := map[string]any{}
	for _, m := range of {
		s := g.tolerance(m)
		s["description"] = m.Doc
		properties[string(m.Measure)] = s
	}
	return properties
}

func closed(properties map[string]any) map[string]any {
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
}

func (g *schemaMaker) expectations(perClient bool) map[string]any {
	g.define("ofSession", func() map[string]any { return closed(g.measures(SessionMeasures())) })
	g.define("ofCall", func() map[string]any { return closed(g.measures(CallMeasures())) })
	properties := g.measures(Measures())
	properties[keySessions] = map[string]any{
		"type": "object", "patternProperties": map[string]any{"^[1-9][0-9]*$": ref("ofSession")}, "additionalProperties": false,
		"description": g.plain(g.docs["Expectations.Sessions"], typeOf[Expectations]()),
	}
	properties[keyCalls] = map[string]any{
		"type": "object", "additionalProperties": ref("ofCall"),
		"description": g.plain(g.docs["Expectations.Calls"], typeOf[Expectations]()),
	}
	if perClient {
		g.define("ofClient", func() map[string]any { return g.expectations(false) })
		kinds := map[string]any{}
		for _, k := range ClientKinds() {
			kinds[string(k)] = ref("ofClient")
		}
		clients := closed(kinds)
		clients["description"] = "What is expected of one kind of client in place of what is said of all, measure by measure."
		properties[keyClients] = clients
	}
	return closed(properties)
}

func (g *schemaMaker) bounds() map[string]any {
	properties := map[string]any{}
	for _, m := range Measures() {
		if m.Kind != Text {
			properties[string(m.Measure)] = map[string]any{"type": "string", "pattern": "^>", "description": m.Doc}
		}
	}
	return closed(properties)
}

// tolerance refers to the schema of what may be expected of a measure.
func (g *schemaMaker) tolerance(m MeasureInfo) map[string]any {
	name := map[ValueKind]string{Number: "numberTolerance", TimeSpan: "timeTolerance", Text: "textTolerance"}[m.Kind]
	if m.Values != nil {
		name = string(m.Measure) + "Tolerance"
	}
	g.define(name, func() map[string]any { return g.toleranceOf(m) })
	return ref(name)
}

func (g *schemaMaker) toleranceOf(m MeasureInfo) map[string]any {
	one := map[ValueKind]map[string]any{
		Number:   {"type": "number"},
		TimeSpan: {"type": "string", "pattern": schemaDuration},
		Text:     {"type": "string"},
	}[m.Kind]
	if m.Values != nil {
		one = map[string]any{"enum": m.Values}
	}
	set := map[string]any{
		"type": "object", "properties": map[string]any{"in": map[string]any{"type": "array", "items": one, "minItems": 1}},
		"required": []string{"in"}, "additionalProperties": false,
	}
	if m.Kind == Text {
		pattern := map[string]any{
			"type": "object", "properties": map[string]any{"regex": map[string]any{"type": "string", "format": "regex"}},
			"required": []string{"regex"}, "additionalProperties": false,
		}
		other := map[string]any{"type": "string", "pattern": "^!="}
		return map[string]any{"anyOf": []any{one, other, map[string]any{"type": "array", "items": one, "minItems": 1}, set, pattern}}
	}
	number := `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?`
	if m.Kind == TimeSpan {
		number = `([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+`
	}
	return map[string]any{"anyOf": []any{
		one,
		map[string]any{"type": "string", "pattern": `^(<=|>=|!=|<|>)\s*` + number + `\s*$`},
		map[string]any{"type": "array", "items": one, "minItems": 2, "maxItems": 2},
		set,
	}}
}

var goLink = regexp.MustCompile(`\[([A-Za-z.]+)\]`)

// plain is a comment in the words of a definition: keys in place of the names of
// Go's fields.
func (g *schemaMaker) plain(text string, t reflect.Type) string {
	text = goLink.ReplaceAllString(text, "$1")
	fields := reflect.VisibleFields(t)
	slices.SortFunc(fields, func(a, b reflect.StructField) int { return len(b.Name) - len(a.Name) })
	for _, f := range fields {
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" {
			text = regexp.MustCompile(`\b`+f.Name+`\b`).ReplaceAllString(text, key)
		} else if t == typeOf[Expectations]() {
			text = regexp.MustCompile(`\b`+f.Name+`\b`).ReplaceAllString(text, strings.ToLower(f.Name))
		}
	}
	return text
}

// comments are those of the fields in this package, each on one line.
func comments(t *testing.T) map[string]string {
	docs := map[string]string{}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			of, ok := spec.Type.(*ast.StructType)
			if !ok {
				return true
			}
			for _, f := range of.Fields.List {
				for _, name := range f.Names {
					docs[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
				}
			}
			return true
		})
	}
	return docs
}
