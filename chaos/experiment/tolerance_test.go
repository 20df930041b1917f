package experiment_test

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

func number(n float64) experiment.Value { return experiment.NumberValue(n) }

func span(d time.Duration) experiment.Value { return experiment.TimeValue(experiment.Duration(d)) }

func text(s string) experiment.Value { return experiment.TextValue(s) }

func TestTolerance(t *testing.T) {
	type list = []experiment.Value
	for _, test := range []struct {
		tolerance       experiment.Tolerance
		accepts         list
		not             list
		text, words, js string
	}{
		{experiment.Exactly(number(0)), list{number(0)}, list{number(1), number(math.NaN()), span(0), text("0"), {}}, "0", "0", "0"},
		{experiment.Exactly(span(90 * time.Second)), list{span(90 * time.Second)}, list{span(91 * time.Second), number(90e9)}, "1m30s", "1m30s", `"1m30s"`},
		{experiment.Exactly(text("reconnect")), list{text("reconnect")}, list{text("Reconnect"), text("")}, "reconnect", "reconnect", `"reconnect"`},
		{experiment.Exactly(text("a b")), list{text("a b")}, list{text("a")}, "a b", `"a b"`, `"a b"`},
		{experiment.Compare(">=", number(1)), list{number(1), number(2)}, list{number(0.5), number(math.NaN()), text("2"), span(2)}, ">= 1", "at least 1", `">= 1"`},
		{experiment.Compare(">", number(1)), list{number(2)}, list{number(1)}, "> 1", "more than 1", `"> 1"`},
		{experiment.Compare("<=", span(time.Second)), list{span(0), span(time.Second)}, list{span(2 * time.Second), number(0)}, "<= 1s", "at most 1s", `"<= 1s"`},
		{experiment.Compare("<", number(1)), list{number(0)}, list{number(1)}, "< 1", "less than 1", `"< 1"`},
		{experiment.Compare("!=", number(1)), list{number(0), number(2)}, list{number(1), number(math.NaN()), text("0")}, "!= 1", "other than 1", `"!= 1"`},
		{experiment.Compare("!=", text("a")), list{text("b")}, list{text("a"), number(1)}, "!= a", "other than a", `"!= a"`},
		{experiment.Compare("=~", number(1)), nil, list{number(1)}, "=~ 1", "1", `"=~ 1"`},
		{experiment.Compare(">", text("a")), nil, list{text("b")}, "> a", "more than a", `"> a"`},
		{experiment.Between(number(1), number(3)), list{number(1), number(2.5), number(3)}, list{number(0), number(4), span(2)}, "[1, 3]", "from 1 to 3", "[1,3]"},
		{experiment.OneOf(number(1), number(3)), list{number(1), number(3)}, list{number(2)}, "in [1, 3]", "1 or 3", `{"in":[1,3]}`},
		{experiment.OneOf(text("a"), text("b c")), list{text("a"), text("b c")}, list{text("b")}, "[a, b c]", `a or "b c"`, `{"in":["a","b c"]}`},
		{experiment.Matching(regexp.MustCompile("^dead|gone")), list{text("dead"), text("it is gone")}, list{text("undead"), number(0)}, "/^dead|gone/", `a text that matches "^dead|gone"`, `{"regex":"^dead|gone"}`},
	} {
		for _, v := range test.accepts {
			if !test.tolerance.Accepts(v) {
				t.Errorf("%v refuses %v", test.tolerance, v)
			}
		}
		for _, v := range test.not {
			if test.tolerance.Accepts(v) {
				t.Errorf("%v accepts %v", test.tolerance, v)
			}
		}
		js, err := test.tolerance.MarshalJSON()
		if got := test.tolerance.String(); got != test.text || test.tolerance.Words() != test.words || string(js) != test.js || err != nil {
			t.Errorf("%q, %q, %s, %v, want %q, %q, %s", got, test.tolerance.Words(), js, err, test.text, test.words, test.js)
		}
	}
	var none experiment.Tolerance
	if none.Accepts(number(0)) || none.Accepts(experiment.Value{}) {
		t.Error("the zero Tolerance accepts something")
	}
	if _, err := none.MarshalJSON(); err == nil {
		t.Error("the zero Tolerance has JSON")
	}
}

// An experiment has teeth where no value could be measured in both arms.
func TestTeeth(t *testing.T) {
	n := func(f float64) experiment.Value { return number(f) }
	same := experiment.Matching(regexp.MustCompile("a"))
	for _, test := range []struct {
		control, protected experiment.Tolerance
		want               bool
	}{
		{experiment.Compare(">=", n(1)), experiment.Exactly(n(0)), true},
		{experiment.Compare(">=", n(0.5)), experiment.Compare("<", n(0.5)), true},
		{experiment.Compare(">", n(1)), experiment.Compare("<=", n(1)), true},
		{experiment.Compare(">=", n(1)), experiment.Compare("<=", n(1)), false},
		{experiment.Compare(">=", n(1)), experiment.Compare("<=", n(2)), false},
		{experiment.Compare("!=", n(0)), experiment.Exactly(n(0)), true},
		{experiment.Compare("!=", n(0)), experiment.Compare("<=", n(0)), false}, // It cannot be told.
		{experiment.Between(n(3), n(9)), experiment.Between(n(0), n(2)), true},
		{experiment.Between(n(2), n(9)), experiment.Between(n(0), n(2)), false},
		{experiment.OneOf(n(1), n(2)), experiment.Exactly(n(0)), true},
		{experiment.OneOf(n(1), n(2)), experiment.Between(n(2), n(3)), false},
		{experiment.Exactly(n(0)), experiment.Exactly(n(0)), false},
		{same, same, false},
	} {
		d := load(t, "testdata/harmless.yaml")
		d.Teeth.None = ""
		d.Hypothesis.Control.Measures = experiment.Tolerances{experiment.EventsLost: test.control}
		d.Hypothesis.Protected.Measures = experiment.Tolerances{experiment.EventsLost: test.protected}
		err := d.Validate()
		if (err == nil) != test.want && err != nil && test.control.String() != "/a/" {
			t.Errorf("control %v, protected %v: %v, want teeth: %t", test.control, test.protected, err, test.want)
		} else if err == nil && !test.want {
			t.Errorf("control %v, protected %v: no problem, want that it has no teeth", test.control, test.protected)
		}
	}
}
