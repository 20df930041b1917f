package experiment

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Value is what was measured, or a bound of what may be.
type Value struct {
	kind   ValueKind
	number float64 // of a TimeSpan: the Duration
	text   string
}

// NumberValue is a measured number.
func NumberValue(n float64) Value { return Value{kind: Number, number: n} }

// TimeValue is a measured length of time.
func TimeValue(d Duration) Value { return Value{kind: TimeSpan, number: float64(d)} }

// TextValue is a measured text.
func TextValue(s string) Value { return Value{kind: Text, text: s} }

// Kind is what kind of value it is; 0 for the zero Value.
func (v Value) Kind() ValueKind { return v.kind }

// Float is the value as a number: of a TimeSpan in seconds, of a Text 0.
func (v Value) Float() float64 {
	if v.kind == TimeSpan {
		return v.number / 1e9
	}
	return v.number
}

// String is the value with its unit, if it has one.
func (v Value) String() string {
	switch v.kind {
	case Number:
		return strconv.FormatFloat(v.number, 'f', -1, 64)
	case TimeSpan:
		return Duration(v.number).String()
	}
	return v.text
}

// wire is the value as it is written down.
func (v Value) wire() any {
	if v.kind == Number {
		return json.Number(v.String())
	}
	return v.String()
}

// form is how a tolerance is written.
type form uint8

const (
	formExact   form = iota + 1 // 0, 30s, reconnect
	formCompare                 // ">= 1"
	formRange                   // [1, 3]
	formSet                     // {in: [1, 2]}, and a list of texts
	formRegex                   // {regex: ...}
)

// Tolerance is which values of a measure are as they ought to be: one value, a
// comparison, a range, a set, or for texts a regular expression. The zero
// Tolerance accepts nothing. Make one with [Exactly], [Compare], [Between],
// [OneOf] or [Matching].
type Tolerance struct {
	form   form
	op     string
	values []Value // one; of a range two; of a set any
	regex  *regexp.Regexp
}

// Exactly accepts one value.
func Exactly(v Value) Tolerance { return Tolerance{form: formExact, values: []Value{v}} }

// Compare accepts what is <, <=, >, >= or != the value. Any other op accepts
// nothing.
func Compare(op string, v Value) Tolerance {
	return Tolerance{form: formCompare, op: op, values: []Value{v}}
}

// Between accepts what is from low to high, both included.
func Between(low, high Value) Tolerance {
	return Tolerance{form: formRange, values: []Value{low, high}}
}

// OneOf accepts each of the values.
func OneOf(values ...Value) Tolerance {
	return Tolerance{form: formSet, values: slices.Clone(values)}
}

// Matching accepts a text in which the regular expression matches.
func Matching(re *regexp.Regexp) Tolerance { return Tolerance{form: formRegex, regex: re} }

// operators are the longest first.
var operators = []string{"<=", ">=", "!=", "<", ">"}

// Accepts is whether v is as it ought to be. A value of another kind than the
// tolerance's is not, nor is NaN.
func (t Tolerance) Accepts(v Value) bool {
	if math.IsNaN(v.number) {
		return false
	}
	switch t.form {
	case formExact, formSet:
		return slices.Contains(t.values, v)
	case formRange:
		low, high := t.values[0], t.values[1]
		return v.kind == low.kind && v.kind != Text && low.number <= v.number && v.number <= high.number
	case formRegex:
		return v.kind == Text && t.regex.MatchString(v.text)
	case formCompare:
		than := t.values[0]
		if v.kind != than.kind {
			return false
		}
		switch t.op {
		case "!=":
			return v != than
		case "<":
			return v.kind != Text && v.number < than.number
		case "<=":
			return v.kind != Text && v.number <= than.number
		case ">":
			return v.kind != Text && v.number > than.number
		case ">=":
			return v.kind != Text && v.number >= than.number
		}
	}
	return false
}

// String is the tolerance as a definition has it, on one line.
func (t Tolerance) String() string {
	texts := make([]string, len(t.values))
	for i, v := range t.values {
		texts[i] = v.String()
	}
	switch t.form {
	case formExact:
		return texts[0]
	case formCompare:
		return t.op + " " + texts[0]
	case formRange, formSet:
		list := "[" + strings.Join(texts, ", ") + "]"
		if t.form == formRange || t.values[0].kind == Text {
			return list
		}
		return "in " + list
	case formRegex:
		return "/" + t.regex.String() + "/"
	}
	return ""
}

// wordPattern is a text that needs no quotes.
var wordPattern = regexp.MustCompile(`^[a-z_]+$`)

var operatorWords = map[string]string{"<": "less than ", "<=": "at most ", ">": "more than ", ">=": "at least ", "!=": "other than "}

// Words is the tolerance for a sentence: "at least 1".
func (t Tolerance) Words() string {
	texts := make([]string, len(t.values))
	for i, v := range t.values {
		texts[i] = v.String()
		if v.kind == Text && !wordPattern.MatchString(v.text) {
			texts[i] = strconv.Quote(v.text)
		}
	}
	switch t.form {
	case formExact:
		return texts[0]
	case formCompare:
		return operatorWords[t.op] + texts[0]
	case formRange:
		return "from " + texts[0] + " to " + texts[1]
	case formSet:
		return orList(texts)
	case formRegex:
		return "a text that matches " + strconv.Quote(t.regex.String())
	}
	return "nothing"
}

// MarshalJSON writes what a definition has.
func (t Tolerance) MarshalJSON() ([]byte, error) {
	list := make([]any, len(t.values))
	for i, v := range t.values {
		list[i] = v.wire()
	}
	switch t.form {
	case formExact:
		return json.Marshal(list[0])
	case formCompare:
		return marshalPlain(t.String())
	case formRange:
		return json.Marshal(list)
	case formSet:
		return json.Marshal(map[string]any{"in": list})
	case formRegex:
		return marshalPlain(map[string]any{"regex": t.regex.String()})
	}
	return nil, fmt.Errorf("experiment: a tolerance that accepts nothing has no text")
}

// marshalPlain is json.Marshal without escapes for HTML.
func marshalPlain(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}

// interval is the numbers that a tolerance accepts, with its ends included or
// not.
type interval struct {
	low, high         float64
	lowOpen, highOpen bool
}

// excludes is whether no value is accepted by both, as far as can be told: of two
// regular expressions, or of one and "other than", it cannot.
func (t Tolerance) excludes(o Tolerance) bool {
	if list := t.listed(); list != nil {
		return !slices.ContainsFunc(list, o.Accepts)
	}
	if list := o.listed(); list != nil {
		return !slices.ContainsFunc(list, t.Accepts)
	}
	a, ok := t.interval()
	b, also := o.interval()
	if !ok || !also {
		return false
	}
	return a.below(b) || b.below(a)
}

func (a interval) below(b interval) bool {
	return a.high < b.low || a.high == b.low && (a.highOpen || b.lowOpen)
}

// listed is all values that are accepted, nil if they cannot be listed.
func (t Tolerance) listed() []Value {
	if t.form == formExact || t.form == formSet {
		return t.values
	}
	return nil
}

func (t Tolerance) interval() (i interval, ok bool) {
	i = interval{low: math.Inf(-1), high: math.Inf(1)}
	switch {
	case t.form == formRange:
		i.low, i.high = t.values[0].number, t.values[1].number
	case t.form != formCompare || t.values[0].kind == Text:
		return i, false
	case t.op == "<" || t.op == "<=":
		i.high, i.highOpen = t.values[0].number, t.op == "<"
	case t.op == ">" || t.op == ">=":
		i.low, i.lowOpen = t.values[0].number, t.op == ">"
	default:
		return i, false
	}
	return i, true
}

// orList is "a, b or c".
func orList(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	last := len(items) - 1
	return strings.Join(items[:last], ", ") + " or " + items[last]
}
