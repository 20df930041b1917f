package journal_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

// With a folder it is written the pages that a person, or a browser, is to look
// at: go test -run TestPages -pages DIR.
var pages = flag.String("pages", "", "folder for the pages of the tests' journals")

func TestPages(t *testing.T) {
	dir := *pages
	if dir == "" {
		t.Skip("no -pages")
	}
	aborted := liveness()
	aborted.Name, aborted.Status, aborted.Verdict = "stopped", journal.Aborted, journal.AbortedVerdict
	aborted.Title, aborted.Reason = "A run that was stopped", "The stop condition “error rate over 5 %” was met at T+12:00."
	aborted.After, aborted.Arms = nil, nil
	if err := journal.WriteReport(dir, []*journal.Journal{liveness(), elicitation(), crowd(), aborted}); err != nil {
		t.Fatal(err)
	}
}

// constants are the values of the package's string constants with a prefix.
func constants(t *testing.T, prefix string) (values []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "journal.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, prefix) && len(spec.Values) == 1 {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	return values
}

// Every state and every kind of mark has a shape that is there, and a line in the
// legend; what has none of its own is drawn and named all the same.
func TestEveryStateAndMarkHasALook(t *testing.T) {
	j := liveness()
	lane := journal.Lane{Name: "All"}
	states, kinds := constants(t, "State"), constants(t, "Mark")
	if len(states) < 7 || len(kinds) < 17 {
		t.Fatalf("states %q, kinds %q: where have they gone?", states, kinds)
	}
	for i, s := range append(states, "asleep") {
		lane.Spans = append(lane.Spans, span(float64(i), float64(i+1), s, ""))
	}
	for i, k := range append(kinds, "sneezed") {
		lane.Marks = append(lane.Marks, mark(float64(i), k, ""))
	}
	for i, v := range constants(t, "Probe")[1:] { // the first is the lane
		lane.Marks = append(lane.Marks, probe(30+float64(i), v, ""))
	}
	j.Arms = []journal.Arm{{Name: journal.Control, Client: "c", Lanes: []journal.Lane{lane}}}
	j.Run = nil
	doc := parse(t, page(t, j))
	legend := doc.one(t, "details", "legend")
	used := map[string]int{}
	for _, u := range doc.one(t, "figure", "").all("use", "") {
		href := u.attr["href"]
		used[href]++
		if doc.byID(strings.TrimPrefix(href, "#")) == nil {
			t.Errorf("there is no shape %s", href)
		}
		found := false
		for _, l := range legend.all("use", "") {
			found = found || l.attr["href"] == href
		}
		if !found {
			t.Errorf("the legend does not explain %s", href)
		}
	}
	if len(used) != len(lane.Marks) || used["#g-other"] != 1 {
		t.Errorf("%d marks have %d shapes: %v", len(lane.Marks), len(used), used)
	}
	for _, s := range append(states, "other") {
		if len(doc.one(t, "figure", "").all("g", "s-"+s)) != 1 || len(legend.all("g", "s-"+s)) != 1 {
			t.Errorf("the state %s is not drawn, or not explained", s)
		}
		if s != "other" && !strings.Contains(doc.one(t, "style", "").text, ".s-"+s+" rect") {
			t.Errorf("the state %s has no style", s)
		}
	}
	if text := doc.one(t, "figure", "").text; !strings.Contains(text, "asleep") || !strings.Contains(text, "sneezed") {
		t.Error("what has no look of its own is not named")
	}
}

// Contrast as WCAG 2 computes it, of every text with what is behind it.
func TestTextHasContrastInBothModes(t *testing.T) {
	style := parse(t, page(t, liveness())).one(t, "style", "").text
	light, rest, _ := strings.Cut(style, "@media screen and (prefers-color-scheme: dark)")
	dark, _, _ := strings.Cut(rest, "* {")
	colours := func(css string) map[string]string {
		m := map[string]string{}
		for _, v := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
			m[v[1]] = v[2]
		}
		return m
	}
	luminance := func(hex string) float64 {
		n, err := strconv.ParseUint(hex, 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
			c := float64(n>>(16-8*i)&255) / 255
			if c <= 0.04045 {
				c /= 12.92
			} else {
				c = math.Pow((c+0.055)/1.055, 2.4)
			}
			sum += weight * c
		}
		return sum
	}
	for mode, c := range map[string]map[string]string{"light": colours(light), "dark": colours(dark)} {
		if len(c) < 25 {
			t.Fatalf("%s: %d colours, where have they gone?", mode, len(c))
		}
		check := func(text, behind string) {
			a, b := luminance(c[text]), luminance(c[behind])
			if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want 4.5", mode, text, behind, ratio)
			}
		}
		for _, behind := range []string{"page", "card"} {
			for _, text := range []string{"ink", "soft", "link"} {
				check(text, behind)
			}
		}
		for _, text := range []string{"ours", "harm", "good", "bad", "unsure"} {
			check(text, "card")
		}
		check("ink", "code")
		for _, v := range []string{"good", "bad", "unsure", "off"} {
			check(v, v+"-bg")
			check("ink", v+"-bg")
		}
		for _, s := range []string{"open", "alive", "held", "dead", "cut", "fenced"} {
			check(s+"-ink", s)
		}
	}
}

// The page may be opened from disk, without a network: it names nothing outside
// itself but the files beside it, and the browser is told to load nothing.
func TestPagesAreSelfContained(t *testing.T) {
	dir := t.TempDir()
	if err := journal.WriteReport(dir, []*journal.Journal{liveness()}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]map[string]bool{
		"index.html":                   {"session-liveness/report.html": true, "junit.xml": true},
		"session-liveness/report.html": {"../index.html": true, "journal.json": true},
	} {
		text := read(t, dir, name)
		doc := parse(t, []byte(text))
		policy := ""
		for _, n := range doc.all("", "") {
			if n.name == "script" || n.name == "link" || n.name == "img" || n.name == "iframe" {
				t.Errorf("%s has a %s", name, n.name)
			}
			if n.attr["http-equiv"] == "Content-Security-Policy" {
				policy = n.attr["content"]
			}
			for key, value := range n.attr {
				if key == "src" || strings.HasPrefix(key, "on") || key == "style" {
					t.Errorf("%s: %s has %s=%q", name, n.name, key, value)
				}
				if key != "href" {
					continue
				}
				id, local := strings.CutPrefix(value, "#")
				if local && doc.byID(id) == nil {
					t.Errorf("%s: %s leads nowhere", name, value)
				}
				if !local && !want[value] {
					t.Errorf("%s: a link to %q", name, value)
				}
			}
		}
		if policy != "default-src 'none'; style-src 'unsafe-inline'" {
			t.Errorf("%s: the policy is %q", name, policy)
		}
		for _, u := range regexp.MustCompile(`url\(([^)]*)\)`).FindAllStringSubmatch(text, -1) {
			if id, local := strings.CutPrefix(u[1], "#"); !local || (len(doc.all("figure", "")) > 0 && doc.byID(id) == nil) {
				t.Errorf("%s: the style loads %q", name, u[1])
			}
		}
		if strings.Contains(text, "@import") {
			t.Errorf("%s: the style imports", name)
		}
	}
}

func TestTicksAreAtRoundTimes(t *testing.T) {
	for length, want := range map[float64]string{
		42:              "[T+0 5 min 10 min 15 min 20 min 25 min 30 min 35 min 40 min]",
		10:              "[T+0 2 min 4 min 6 min 8 min 10 min]",
		0.5:             "[T+0 5 s 10 s 15 s 20 s 25 s 30 s]",
		0.002:           "[T+0 20 ms 40 ms 60 ms 80 ms 100 ms 120 ms]",
		60 * 5:          "[T+0 1 h 2 h 3 h 4 h 5 h]",
		60 * 24 * 365:   "[T+0 90 d 180 d 270 d 360 d]",
		60 * 24 * 36500: "[T+0 3650 d 7300 d 10950 d 14600 d 18250 d 21900 d 25550 d 29200 d 32850 d 36500 d]",
	} {
		j := liveness()
		j.Length, j.Run = m(length), nil
		got := fmt.Sprint(texts(parse(t, page(t, j)).all("figure", "")[0].all("text", "tick")))
		if got = strings.ReplaceAll(got, "  ", " "); got != want {
			t.Errorf("%v min: ticks %v, want %v", length, got, want)
		}
	}
}
