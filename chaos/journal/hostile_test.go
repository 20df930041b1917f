package journal_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

// hostile ends whatever it stands in: a tag, an attribute, a title, a style, a
// script, CDATA, a comment, a template; and it has what XML forbids and what turns
// the direction of a text round.
const hostile = "</title></style></script></svg>\"'`><script>alert(1)</script><img src=x onerror=alert(2)>" +
	"]]><!--{{.}}&lt;&amp; javascript:alert(3) \x00\x01\x1b[31m\u202e\u2066\ufffe\uffff\xff\r\n"

// poison sets every text of a value to the hostile one, after what it was, as far
// as it may be any.
func poison(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Pointer:
		return poison(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; name == "_" || (name == "Verdict" && v.Field(i).Kind() == reflect.String) {
				continue
			}
			n += poison(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			n += poison(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(hostile), reflect.ValueOf(float64(1)))
		n++
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() {
			v.SetString(v.String() + hostile)
			n++
		}
	}
	return n
}

// shape is the elements of a page with the names of their attributes.
func shape(n *node) map[string]bool {
	found := map[string]bool{}
	for _, e := range n.all("", "") {
		found[e.name+" "+strings.Join(slices.Sorted(maps.Keys(e.attr)), " ")] = true
	}
	return found
}

func TestHostileTextIsOnlyText(t *testing.T) {
	var runs []*journal.Journal
	known := map[string]bool{}
	for _, make := range []func() *journal.Journal{liveness, elicitation, crowd} {
		maps.Copy(known, shape(parse(t, page(t, make()))))
		j := make()
		for i := range j.Arms { // enough of them to be drawn together
			j.Arms[i].Lanes = j.Arms[i].Lanes[:min(len(j.Arms[i].Lanes), 40)]
		}
		if n := poison(reflect.ValueOf(j)); n < 50 {
			t.Fatalf("only %d texts are poisoned", n)
		}
		text, err := json.Marshal(map[string]string{hostile: hostile})
		if err != nil {
			t.Fatal(err)
		}
		j.Definition = text
		runs = append(runs, j)

		// JSON has a place for all but what is no UTF-8.
		got := new(journal.Journal)
		if err := json.Unmarshal(marshal(t, j), got); err != nil {
			t.Fatal(err)
		}
		if want := strings.ToValidUTF8(j.Reason, "\ufffd"); got.Reason != want {
			t.Errorf("the reason is read as %q, want %q", got.Reason, want)
		}
	}
	// What all of them have in common with a page of unknown words.
	unknown := liveness()
	unknown.Arms[0].Name, unknown.Arms[0].Lanes[0].Spans[0].State, unknown.Arms[0].Lanes[0].Marks[0].Kind = "third", "asleep", "sneezed"
	maps.Copy(known, shape(parse(t, page(t, unknown))))

	dir := t.TempDir()
	if err := journal.WriteReport(dir, runs); err != nil {
		t.Fatal(err)
	}
	var files []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) != 2+2*len(runs) {
		t.Fatalf("the report is %q, %v", files, err)
	}
	for _, file := range files {
		if filepath.Ext(file) == ".json" {
			continue
		}
		text := read(t, file)
		if strings.ContainsAny(text, "\x00\x01\x1b\u202e\u2066\ufffe\uffff\r") {
			t.Errorf("%s has characters that XML forbids or that turn the text round", file)
		}
		doc := parse(t, []byte(text))
		if len(doc.all("script", "")) > 0 || len(doc.all("img", "")) > 0 {
			t.Errorf("%s: text has become an element", file)
		}
		if !strings.Contains(doc.text, "<script>alert(1)</script>") {
			t.Errorf("%s does not show the text", file)
		}
		if filepath.Base(file) != journal.FilePage {
			continue
		}
		for s := range shape(doc) {
			if !known[s] && !strings.HasPrefix(s, "a href") {
				t.Errorf("%s: a new element: %s", file, s)
			}
		}
		for _, n := range doc.all("", "") {
			for key, value := range n.attr {
				if strings.Contains(value, "alert(") && key != "aria-label" {
					t.Errorf("%s: %s has %s=%q", file, n.name, key, value)
				}
			}
		}
	}
}
