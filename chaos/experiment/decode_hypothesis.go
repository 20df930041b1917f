package experiment

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// The keys of an arm's expectations beside measures.
const (
	keySessions = "sessions"
	keyCalls    = "calls"
	keyClients  = "clients"
)

func (d *decoder) expectations(n ast.Node, v reflect.Value, path string) {
	v.Set(reflect.ValueOf(d.expected(n, path, true)))
}

// expected reads what is expected of an arm; perClient is whether single kinds of
// clients may have their own.
func (d *decoder) expected(n ast.Node, path string, perClient bool) Expectations {
	var e Expectations
	d.entries(n, path, func(key string, at, value ast.Node, below string) {
		switch {
		case key == keySessions:
			e.Sessions = d.sessions(value, below)
		case key == keyCalls:
			e.Calls = make(map[string]Tolerances)
			d.nested(value, below, func(call string, at, value ast.Node, below string) {
				e.Calls[call] = make(Tolerances)
				d.nested(value, below, func(key string, at, value ast.Node, below string) {
					d.expectation(e.Calls[call], ofCall, key, at, value, below, nil)
				})
			})
		case key == keyClients && perClient:
			e.Clients = make(map[ClientKind]Expectations)
			d.nested(value, below, func(kind string, at, value ast.Node, below string) {
				if !slices.Contains(ClientKinds(), ClientKind(kind)) {
					p := d.problem(at, below, "is no kind of client, want %s", orList(of(ClientKinds())))
					p.Suggestion = nearest(kind, of(ClientKinds()))
					return
				}
				value, done, ok := d.resolve(value, below)
				defer done()
				if ok {
					e.Clients[ClientKind(kind)] = d.expected(value, below, false)
				}
			})
		default:
			if e.Measures == nil {
				e.Measures = make(Tolerances)
			}
			others := []string{keySessions, keyCalls}
			if perClient {
				others = append(others, keyClients)
			}
			d.expectation(e.Measures, ofArm, key, at, value, below, others)
		}
	})
	return e
}

// nested is entries of a value that has not been resolved.
func (d *decoder) nested(n ast.Node, path string, each func(key string, at, value ast.Node, path string)) {
	n, done, ok := d.resolve(n, path)
	defer done()
	if ok {
		d.entries(n, path, each)
	}
}

func (d *decoder) sessions(n ast.Node, path string) map[int]Tolerances {
	all := make(map[int]Tolerances)
	d.nested(n, path, func(key string, at, value ast.Node, below string) {
		number, err := strconv.Atoi(key)
		if err != nil || number < 1 || number > maxSessions || strconv.Itoa(number) != key {
			d.problem(at, below, "is no session, want its number, from 1 to %d", maxSessions)
			return
		}
		all[number] = make(Tolerances)
		d.nested(value, below, func(key string, at, value ast.Node, below string) {
			d.expectation(all[number], ofSession, key, at, value, below, nil)
		})
	})
	return all
}

// maxSessions is how many sessions of one client can be spoken of.
const maxSessions = 1000

// bounds reads what aborts a run.
func (d *decoder) bounds(n ast.Node, v reflect.Value, path string) {
	all := make(Tolerances)
	d.entries(n, path, func(key string, at, value ast.Node, below string) {
		d.expectation(all, ofArm, key, at, value, below, nil)
	})
	v.Set(reflect.ValueOf(Bounds(all)))
}

// expectation reads what is expected of one measure. others are the keys that
// might have been meant beside measures.
func (d *decoder) expectation(into Tolerances, s scope, key string, at, value ast.Node, path string, others []string) {
	info, ok := Measure(key).Info()
	if !ok || info.scope&s == 0 {
		names := others
		for _, m := range ofScope(s) {
			names = append(names, string(m.Measure))
		}
		what := map[scope]string{ofArm: "of an arm", ofSession: "of a session", ofCall: "of a call"}
		p := d.problem(at, path, "is no measure %s", what[s])
		p.Suggestion = nearest(key, names)
		switch {
		case p.Suggestion != "":
		case ok && info.scope == ofCall:
			p.Message += ", but of a call: it belongs below calls and the call's name"
		default:
			p.Message += ", want one of " + strings.Join(names, ", ")
		}
		return
	}
	n, done, ok := d.resolve(value, path)
	defer done()
	if !ok {
		return
	}
	if t, ok := d.tolerance(n, info, path); ok {
		into[Measure(key)] = t
	}
}

// tolerance reads one.
func (d *decoder) tolerance(n ast.Node, info MeasureInfo, path string) (Tolerance, bool) {
	switch n := n.(type) {
	case *ast.SequenceNode:
		values, ok := d.values(n, info.Kind, path)
		switch {
		case !ok:
			return Tolerance{}, false
		case info.Kind == Text && len(values) > 0:
			return OneOf(values...), true
		case info.Kind != Text && len(values) == 2:
			return Between(values[0], values[1]), true
		}
		d.problem(n, path, "is a list of %d, want the two ends of a range; a set is written {in: [...]}", len(values))
		return Tolerance{}, false
	case *ast.MappingNode:
		return d.toleranceMapping(n, info, path)
	case *ast.StringNode:
		for _, op := range operators {
			rest, ok := strings.CutPrefix(n.Value, op)
			if !ok {
				continue
			}
			v, err := parseValue(strings.TrimSpace(rest), info.Kind)
			if err == nil && info.Kind == Text && op != "!=" {
				err = fmt.Errorf("is a comparison of texts, want !=, a text, a list of texts, or {regex: ...}")
			}
			if err != nil {
				d.problem(n, path, "%v", err)
				return Tolerance{}, false
			}
			return Compare(op, v), true
		}
	}
	v, ok := d.measured(n, info.Kind, path)
	return Exactly(v), ok
}

func (d *decoder) toleranceMapping(n *ast.MappingNode, info MeasureInfo, path string) (t Tolerance, ok bool) {
	const want = "want {in: [...]}, or of a text {regex: ...}"
	if len(n.Values) != 1 {
		d.problem(n, path, "is a mapping of %d keys, %s", len(n.Values), want)
		return t, false
	}
	d.entries(n, path, func(key string, at, value ast.Node, below string) {
		value, done, found := d.resolve(value, below)
		defer done()
		seq, list := value.(*ast.SequenceNode)
		switch {
		case !found:
		case key == "in" && list && len(seq.Values) > 0:
			var values []Value
			if values, ok = d.values(seq, info.Kind, below); ok {
				t = OneOf(values...)
			}
		case key == "in":
			d.problem(value, below, "is no list, want one of the values that may be")
		case key == "regex" && info.Kind == Text:
			text, found := d.string(value, below, "want a regular expression")
			if !found {
				return
			}
			re, err := regexp.Compile(text)
			if err != nil {
				d.problem(value, below, "is no regular expression: %v", err)
				return
			}
			t, ok = Matching(re), true
		default:
			d.problem(at, below, "is no key of a tolerance here, %s", want)
		}
	})
	return t, ok
}

func (d *decoder) values(n *ast.SequenceNode, kind ValueKind, path string) (all []Value, ok bool) {
	ok = true
	for i, item := range n.Values {
		below := fmt.Sprintf("%s[%d]", path, i)
		item, done, found := d.resolve(item, below)
		if !found {
			return nil, false
		}
		v, read := d.measured(item, kind, below)
		done()
		ok = ok && read
		all = append(all, v)
	}
	return all, ok
}

// measured reads a value such as a measure has.
func (d *decoder) measured(n ast.Node, kind ValueKind, path string) (Value, bool) {
	if kind == Number {
		f, ok := number(n)
		if !ok {
			d.problem(n, path, "%s, want a number, a comparison such as \">= 1\", a range [1, 3] or {in: [...]}", d.is(n))
		}
		return NumberValue(f), ok
	}
	want := "want a text, a list of texts, or {regex: ...}"
	if kind == TimeSpan {
		want = "want a duration, a comparison such as \"<= 30s\", a range [1s, 5s] or {in: [...]}"
	}
	s, ok := d.string(n, path, want)
	if !ok {
		return Value{}, false
	}
	v, err := parseValue(s, kind)
	if err != nil {
		d.problem(n, path, "%v", err)
	}
	return v, err == nil
}

func parseValue(s string, kind ValueKind) (Value, error) {
	switch kind {
	case Number:
		if !numberPattern.MatchString(s) {
			return Value{}, fmt.Errorf("compares with %s, want a number", quote(s))
		}
		f, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return Value{}, fmt.Errorf("compares with %s, want a smaller number", quote(s))
		}
		return NumberValue(f), nil
	case TimeSpan:
		var d Duration
		if err := d.UnmarshalText([]byte(s)); err != nil {
			return Value{}, fmt.Errorf("is %w", err)
		}
		return TimeValue(d), nil
	}
	return TextValue(s), nil
}
