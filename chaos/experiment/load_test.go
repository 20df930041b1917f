package experiment_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// validate holds YAML against the schema that is shipped.
func validate(t *testing.T, data []byte) error {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(experiment.Schema())))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

func examples(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"testdata/*.yaml", "../../experiments/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		all = append(all, files...)
	}
	return all
}

// What is a definition is one for the schema as well, and comes out of its JSON as
// it went in.
func TestExamples(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			d, err := experiment.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate(t, data); err != nil {
				t.Errorf("the schema refuses it: %v", err)
			}
			if !strings.HasPrefix(string(data), "# yaml-language-server: $schema=") {
				t.Error("it does not name its schema in its first line")
			}
			text, err := json.Marshal(d)
			if err != nil {
				t.Fatal(err)
			}
			again, err := experiment.Parse("again.json", text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if !reflect.DeepEqual(again, d) {
				t.Errorf("its JSON is read as another definition:\n%s", text)
			}
			if err := d.Validate(); err != nil {
				t.Errorf("Validate() = %v, want what Load says", err)
			}
		})
	}
}

func TestLoadOfNoFile(t *testing.T) {
	_, err := experiment.Load("testdata/nowhere.yaml")
	if p := (experiment.Problems)(nil); !errors.Is(err, os.ErrNotExist) || errors.As(err, &p) {
		t.Errorf("Load of no file: %v, want one that is os.ErrNotExist, and no Problems", err)
	}
}

// What has nothing to do with a definition ends soon, with one problem and its
// place.
func TestParseIsBounded(t *testing.T) {
	laughs := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'j'; c++ {
		p := string(c - 1)
		laughs += string(c) + ": &" + string(c) + " [*" + strings.Repeat(p+", *", 8) + p + "]\n"
	}
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	many := strings.Replace(string(full), "links: [front, back]", "links: &l ["+strings.Repeat("front, ", 500)+"back]", 1)
	many = strings.Replace(many, "probe_live_error_codes: [-32600]", "probe_live_error_codes: &n ["+strings.Repeat("1, ", 2000)+"1]", 1)
	many = strings.Replace(many, "probe_dead_status_codes: [400]", "probe_dead_status_codes: *n", 1)

	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "x.yaml: is empty, want a definition"},
		{"only a comment", "# nothing\n", "x.yaml: is empty, want a definition"},
		{"too large", strings.Repeat("#\n", 64<<10) + "a", "x.yaml: is larger than 128 KiB"},
		{"not UTF-8", "name: \xff", "x.yaml: is not UTF-8 text"},
		{"deep flow", strings.Repeat("[", 60_000), "x.yaml:1:33: is nested too deep"},
		{"deep block", strings.Repeat("- ", 60_000), "x.yaml:1:65: is nested too deep"},
		{"deep keys", strings.Repeat("? ", 60_000), "x.yaml:1:65: is nested too deep"},
		{"many tokens", strings.Repeat("a: b\n", 20_000), "x.yaml:6668:1: is nested too deep, or too long"},
		{"two documents", "name: a\n---\nname: b\n", "x.yaml:3:1: begins another document"},
		{"no YAML", "name: [a\n", "x.yaml:1:7: is no YAML here: sequence end token ']' not found"},
		{"a tab", "name: a\n\ttitle: b\n", "x.yaml:2:1: is no YAML here"},
		{"a list", "- a\n", "x.yaml:1:1: is a list, want a mapping of keys and values"},
		{"a text", "name\n", `x.yaml:1:1: is the text "name", want a mapping`},
		{"laughs", laughs + "topology: *i\n", "topology is a list, want a mapping"},
		{"laughs in a list", "method: &m [*m, *m]\n", "method[0] is an alias inside its own anchor, &m"},
		{"a cycle of two", "method: &m [{at: 1s, fault: &f {kind: *m}}]\n", "is an alias inside its own anchor, &m"},
		{"anchor twice", "method: &m []\nrollbacks: &m []\n", "x.yaml:2:12: anchor &m is defined twice"},
		{"no anchor", "method: &methods []\nrollbacks: *method\n", "x.yaml:2:12: rollbacks is an alias of the anchor &method, which there is not; did you mean methods?"},
		{"a merge", "clients: &c {}\nteeth:\n  <<: *c\n", "x.yaml:3:3: teeth merges another mapping with <<"},
		{"a tag", "name: !!str x\n", "x.yaml:1:7: name has a tag"},
		{"a key that is no text", "? a\n: b\n", "x.yaml:1:1: has a key that is no text"},
		{"many values", many + "x: 1\n", "has 2001 entries, want at most 50"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := experiment.Parse("x.yaml", []byte(test.text))
			if d != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Parse() = %v, %.2000v, want a problem %q", d, err, test.want)
			}
		})
	}
}

// A definition may have a byte order mark, and Windows' ends of lines.
func TestParseOfOtherEditors(t *testing.T) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := experiment.Parse("full.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := experiment.Parse("full.yaml", []byte("\ufeff"+strings.ReplaceAll(string(data), "\n", "\r\n")))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Parse() = %+v, %v, want what it is without", got, err)
	}
}

// The values that all aliases lead to are counted.
func TestAliasesAreBounded(t *testing.T) {
	text := "method:\n  - &s {at: 1s, call: {tool: echo, text: a, url: b, prompt: c, message: d, events: 1, times: 1, retries: 1}}\n" + strings.Repeat("  - *s\n", 3000)
	_, err := experiment.Parse("x.yaml", []byte(text))
	if err == nil || !strings.Contains(err.Error(), "has more than 20000 values when its aliases are followed") {
		t.Errorf("Parse() = %.500v, want a bound of values", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range []string{"testdata/full.yaml", "testdata/harmless.yaml", "../../experiments/session.yaml", "../../experiments/elicitation.yaml"} {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("name: &a [*a, {x: *b}]\n? y\n: !!t z\n"))
	f.Add([]byte("a:\n  - |\n   x\n  - 'y\n\n    z'\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := experiment.Parse("x.yaml", data)
		if (d == nil) == (err == nil) {
			t.Fatalf("Parse(%q) = %v, %v, want one of the two", data, d, err)
		}
		if err != nil {
			problems := experiment.Problems(nil)
			if !errors.As(err, &problems) || len(problems) == 0 || len(problems) > 51 {
				t.Fatalf("Parse(%q) = %v, want 1 to 51 Problems", data, err)
			}
			_ = problems.Text()
			return
		}
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		again, err := experiment.Parse("again.json", text)
		if err != nil || !reflect.DeepEqual(again, d) {
			t.Fatalf("Parse(%s) = %v, %v, want %v", text, again, err, d)
		}
		var b strings.Builder
		if err := d.Plan().WriteText(&b); err != nil {
			t.Fatal(err)
		}
		d.Servers()
		d.Balancer()
		d.Guard()
	})
}
