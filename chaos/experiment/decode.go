package experiment

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

// decoder reads the values of a definition from a YAML tree. It goes on after
// every problem, and notes where each key stands.
type decoder struct {
	file  string
	lines []string

	anchors   map[string]ast.Node
	expanding map[string]bool // the anchors whose values are being read
	nodes     int
	full      bool // the bound of nodes is reached

	places   map[string]spot // by path
	problems Problems
	meant    []string // the paths that misspelled keys were probably meant to be
}

func (d *decoder) problem(n ast.Node, path, format string, args ...any) *Problem {
	p := d.at(spotOf(start(n)), path, fmt.Sprintf(format, args...))
	d.problems = append(d.problems, p)
	return p
}

func (d *decoder) decodeDocument(body ast.Node, def *Definition) {
	d.collectAnchors(body)
	d.places[""] = spotOf(start(body))
	d.value(body, reflect.ValueOf(def).Elem(), "", check{})
}

// collectAnchors finds all anchors, those in values that cannot be read included.
func (d *decoder) collectAnchors(n ast.Node) {
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			d.collectAnchors(v)
		}
	case *ast.MappingValueNode:
		d.collectAnchors(n.Value)
	case *ast.SequenceNode:
		for _, v := range n.Values {
			d.collectAnchors(v)
		}
	case *ast.TagNode:
		d.collectAnchors(n.Value)
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		if _, twice := d.anchors[name]; twice {
			d.problem(n, "", "anchor &%s is defined twice, want it once", name)
		}
		d.anchors[name] = n.Value
		d.collectAnchors(n.Value)
	}
}

// resolve follows anchors and aliases, and refuses tags. done is to be called
// when the value has been read; ok is false after a problem.
func (d *decoder) resolve(n ast.Node, path string) (value ast.Node, done func(), ok bool) {
	done = func() {}
	d.nodes++
	if d.nodes > maxNodes {
		if !d.full {
			d.full = true
			d.problem(n, path, "has more than %d values when its aliases are followed", maxNodes)
		}
		return nil, done, false
	}
	switch n := n.(type) {
	case nil:
		return nil, done, false
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		d.expanding[name] = true
		value, inner, ok := d.resolve(n.Value, path)
		return value, func() { inner(); delete(d.expanding, name) }, ok
	case *ast.TagNode:
		d.problem(n, path, "has a tag, %s, want the value without it", quote(n.GetToken().Value))
		return nil, done, false
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		target, known := d.anchors[name]
		switch {
		case !known:
			p := d.problem(n, path, "is an alias of the anchor &%s, which there is not", name)
			p.Suggestion = nearest(name, slices.Sorted(maps.Keys(d.anchors)))
			return nil, done, false
		case d.expanding[name]:
			d.problem(n, path, "is an alias inside its own anchor, &%s", name)
			return nil, done, false
		}
		d.expanding[name] = true
		value, inner, ok := d.resolve(target, path)
		return value, func() { inner(); delete(d.expanding, name) }, ok
	}
	return n, done, true
}

// value reads a value into v, which is settable.
func (d *decoder) value(n ast.Node, v reflect.Value, path string, c check) {
	n, done, ok := d.resolve(n, path)
	defer done()
	if !ok {
		return
	}
	if read := special[v.Type()]; read != nil {
		read(d, n, v, path)
		return
	}
	if v.CanAddr() {
		if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
			d.text(n, v, path, text)
			return
		}
	}
	if known := texts(v.Type()); known != nil {
		d.word(n, v, path, known)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		inner := reflect.New(v.Type().Elem())
		d.value(n, inner.Elem(), path, c)
		v.Set(inner)
		return
	case reflect.Struct:
		d.mapping(n, v, path)
		return
	case reflect.Slice:
		d.list(n, v, path)
	default:
		if !d.scalar(n, v, path) {
			return
		}
	}
	if fault := c.fault(v); fault != "" {
		d.problem(n, path, "%s", fault)
	}
}

// special are the types that no rule here fits.
var special map[reflect.Type]func(*decoder, ast.Node, reflect.Value, string)

func init() { // it refers to itself
	special = map[reflect.Type]func(*decoder, ast.Node, reflect.Value, string){
		typeOf[Expectations](): (*decoder).expectations,
		typeOf[Bounds]():       (*decoder).bounds,
	}
}

// entries yields the keys and values of a mapping. It notes where they are, and
// reports what is no mapping, no text as a key, or a key for the second time.
func (d *decoder) entries(n ast.Node, path string, each func(key string, at ast.Node, value ast.Node, path string)) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		want := "want a mapping of keys and values"
		if n.Type() == ast.NullType {
			want = "want a mapping; {} is one with nothing but defaults"
		}
		d.problem(n, path, "%s, %s", d.is(n), want)
		return
	}
	seen := make(map[string]int)
	for _, entry := range m.Values {
		var key string
		switch k := entry.Key.(type) {
		case *ast.StringNode:
			key = k.Value
		case *ast.IntegerNode:
			key = k.GetToken().Value
		case *ast.MergeKeyNode:
			d.problem(entry, path, "merges another mapping with <<, want its keys written out, or an alias of the whole")
			continue
		default:
			d.problem(entry, path, "has a key that is no text")
			continue
		}
		below := join(path, key)
		if line, twice := seen[key]; twice {
			d.problem(entry, below, "is given twice, first on line %d, want it once", line)
			continue
		}
		seen[key] = start(entry).Position.Line
		d.note(below, entry)
		each(key, entry, entry.Value, below)
	}
}

// note keeps where a key is: at its value if that is short, or else at the key.
func (d *decoder) note(path string, entry *ast.MappingValueNode) {
	at := start(entry)
	if scalar(entry.Value) {
		at = start(entry.Value)
	}
	if _, there := d.places[path]; !there {
		d.places[path] = spotOf(at)
	}
}

func scalar(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NanNode, *ast.InfinityNode:
		return true
	}
	return false
}

// mapping reads a struct.
func (d *decoder) mapping(n ast.Node, v reflect.Value, path string) {
	fields := fieldsOf(v.Type())
	given := make(map[string]bool)
	d.entries(n, path, func(key string, at, value ast.Node, below string) {
		given[key] = true
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key })
		if i < 0 {
			d.unknownKey(at, path, below, key, fields)
			return
		}
		d.value(value, v.FieldByIndex(fields[i].index), below, fields[i].check)
	})
	if n.Type() != ast.MappingType {
		return
	}
	for _, f := range fields {
		// What else is missing, validate sees. Of a duration it cannot tell.
		if f.check.required && f.typ == typeOf[Duration]() && !given[f.name] && !slices.Contains(d.meant, join(path, f.name)) {
			d.problems = append(d.problems, d.at(d.spotAt(path), join(path, f.name), "is missing"))
		}
	}
}

func (d *decoder) unknownKey(at ast.Node, path, below, key string, fields []field) {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	where := "a definition"
	if path != "" {
		where = path
	}
	p := d.problem(at, below, "is no key of %s", where)
	p.Suggestion = nearest(key, names)
	if p.Suggestion != "" {
		d.meant = append(d.meant, join(path, p.Suggestion))
		return
	}
	p.Message += ", want one of " + strings.Join(names, ", ")
	if len(names) == 0 {
		p.Message = fmt.Sprintf("is a key, and %s has none", where)
	}
	var elsewhere []string
	for _, place := range knownKeys()[key] {
		if place == "" {
			place = "the definition itself"
		}
		elsewhere = append(elsewhere, place)
	}
	if len(elsewhere) > 0 {
		p.Message += fmt.Sprintf("; %s is a key of %s", key, orList(elsewhere[:min(3, len(elsewhere))]))
	}
}

// list reads a slice.
func (d *decoder) list(n ast.Node, v reflect.Value, path string) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.problem(n, path, "%s, want a list", d.is(n))
		return
	}
	all := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, item := range seq.Values {
		below := fmt.Sprintf("%s[%d]", path, i)
		if item != nil {
			d.places[below] = spotOf(start(item))
		}
		d.value(item, all.Index(i), below, check{})
	}
	v.Set(all)
}

// word reads one of so many words.
func (d *decoder) word(n ast.Node, v reflect.Value, path string, known []string) {
	s, ok := d.string(n, path, "want "+orList(known))
	if !ok {
		return
	}
	if !slices.Contains(known, s) {
		p := d.problem(n, path, "is %s, want %s", quote(s), orList(known))
		p.Suggestion = nearest(s, known)
		return
	}
	v.SetString(s)
}

// text reads what reads itself.
func (d *decoder) text(n ast.Node, v reflect.Value, path string, into encoding.TextUnmarshaler) {
	known := texts(v.Type())
	want := "want " + orList(known)
	switch v.Type() {
	case typeOf[Duration]():
		want = "want a duration with its unit, such as 30s or 1m30s"
	case typeOf[Limit]():
		want = "want a duration with its unit, such as 60s, or none"
	case typeOf[lb.Expiry]():
		known, want = expiryTexts, "want "+strings.Join(expiryTexts, ", ")+", or a status from 400 to 599"
		if i, ok := n.(*ast.IntegerNode); ok { // a status
			if err := into.UnmarshalText([]byte(i.GetToken().Value)); err != nil {
				d.problem(n, path, "%s, %s", d.is(n), want)
			}
			return
		}
	}
	s, ok := d.string(n, path, want)
	if !ok {
		return
	}
	err := into.UnmarshalText([]byte(s))
	switch {
	case known != nil && (err != nil || s == ""):
		p := d.problem(n, path, "is %s, %s", quote(s), want)
		p.Suggestion = nearest(s, known)
	case err != nil:
		d.problem(n, path, "is %v", err)
	}
}

// scalar reads a text, a number or a truth value, and reports whether it could.
func (d *decoder) scalar(n ast.Node, v reflect.Value, path string) bool {
	switch v.Kind() {
	case reflect.String:
		s, ok := d.string(n, path, "want a text; put it in quotes")
		if ok {
			v.SetString(s)
		}
		return ok
	case reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.problem(n, path, "%s, want true or false", d.is(n))
			return false
		}
		v.SetBool(b.Value)
	case reflect.Int, reflect.Int64:
		i, err := strconv.ParseInt(numeral(n), 10, v.Type().Bits())
		if err != nil {
			d.problem(n, path, "%s, want a whole number", d.is(n))
			return false
		}
		v.SetInt(i)
	case reflect.Uint64:
		i, err := strconv.ParseUint(numeral(n), 10, 64)
		if err != nil {
			d.problem(n, path, "%s, want a whole number from 1 on", d.is(n))
			return false
		}
		v.SetUint(i)
	case reflect.Float64:
		f, ok := number(n)
		if !ok {
			d.problem(n, path, "%s, want a number", d.is(n))
			return false
		}
		v.SetFloat(f)
	default:
		panic(fmt.Sprintf("experiment: %s is a %v, which is not read", path, v.Type()))
	}
	return true
}

var (
	integerPattern = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	numberPattern  = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// numeral is a whole number as JSON would have it, or "".
func numeral(n ast.Node) string {
	if s := n.GetToken().Value; (n.Type() == ast.IntegerType || n.Type() == ast.StringType && unquoted(n)) && integerPattern.MatchString(s) {
		return s
	}
	return ""
}

// unquoted is whether a text is plain: too large a number is one.
func unquoted(n ast.Node) bool { return !strings.ContainsAny(n.GetToken().Origin, `"'`) }

// number is a number as JSON would have it.
func number(n ast.Node) (float64, bool) {
	s := n.GetToken().Value
	if n.Type() != ast.IntegerType && n.Type() != ast.FloatType || !numberPattern.MatchString(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsInf(f, 0)
}

// string reads a text, and reports whether it was one.
func (d *decoder) string(n ast.Node, path, want string) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	d.problem(n, path, "%s, %s", d.is(n), want)
	return "", false
}

// is says what a value is.
func (d *decoder) is(n ast.Node) string {
	switch n := n.(type) {
	case *ast.NullNode:
		return "is empty"
	case *ast.MappingNode:
		return "is a mapping"
	case *ast.SequenceNode:
		return "is a list"
	case *ast.StringNode:
		return "is the text " + quote(n.Value)
	case *ast.LiteralNode:
		return "is a text"
	}
	return "is " + strings.TrimSpace(n.GetToken().Value)
}
