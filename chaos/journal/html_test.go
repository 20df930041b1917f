package journal_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// page is a journal's page.
func page(t testing.TB, j *journal.Journal) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := j.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// golden compares a text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i, line := range gotLines {
		if i >= len(wantLines) || line != wantLines[i] {
			t.Fatalf("%s differs from line %d, see -update:\n got %q\nwant %q", file, i+1, line, slices.Concat(wantLines, []string{""})[min(i, len(wantLines))])
		}
	}
	t.Fatalf("%s has more lines", file)
}

// outline is what a page says, without how it looks: the elements that carry
// text, and in the pictures what stands where.
func outline(n *node, depth int, out *strings.Builder) {
	for _, c := range n.children {
		switch c.name {
		case "style", "defs", "meta":
			continue
		case "title", "h1", "h2", "h3", "p", "dt", "dd", "figcaption", "summary", "th", "td", "li", "code", "desc", "text", "a":
			fmt.Fprintf(out, "%s%s", strings.Repeat(" ", depth), c.name)
			if x := c.attr["x"]; x != "" {
				fmt.Fprintf(out, " %s,%s", x, c.attr["y"])
			}
			fmt.Fprintf(out, ": %s\n", c.words())
		case "rect", "use", "line":
			fmt.Fprintf(out, "%s%s %s,%s %s%s\n", strings.Repeat(" ", depth), c.name,
				c.attr["x"]+c.attr["x1"], c.attr["y"]+c.attr["y1"], c.attr["width"], c.attr["href"])
		default:
			fmt.Fprintf(out, "%s%s %s\n", strings.Repeat(" ", depth), c.name, c.attr["class"])
			outline(c, depth+1, out)
		}
	}
}

func TestPageGolden(t *testing.T) {
	j := liveness()
	j.Arms = j.Arms[:2]
	var out strings.Builder
	outline(parse(t, page(t, j)), 0, &out)
	golden(t, "liveness.page", out.String())
}

func TestJSONGolden(t *testing.T) {
	golden(t, "elicitation.json", strings.ReplaceAll(string(marshal(t, elicitation())), "},{", "},\n{")+"\n")
}

func TestJUnitGolden(t *testing.T) {
	golden(t, "both.junit.xml", string(junit(t, liveness(), elicitation())))
}

func TestPageSaysTheVerdictFirst(t *testing.T) {
	for verdict, want := range map[journal.Verdict]string{
		journal.Upheld: "✓ Upheld", journal.Deviated: "✕ Deviated", journal.Inconclusive: "? Inconclusive", journal.AbortedVerdict: "■ Aborted",
	} {
		j := liveness()
		j.Verdict, j.Reason, j.Status = verdict, "Because of <that>.", journal.Interrupted
		doc := parse(t, page(t, j))
		first := doc.one(t, "main", "").children[0]
		if got := first.one(t, "p", "word").words(); got != want {
			t.Errorf("%s: the first word is %q, want %q", verdict, got, want)
		}
		if got := first.one(t, "p", "reason").words(); got != j.Reason {
			t.Errorf("%s: the reason is %q, want %q", verdict, got, j.Reason)
		}
		if !strings.Contains(first.text, "interrupted before its end") {
			t.Errorf("%s: the page does not say that the run was interrupted", verdict)
		}
		if title := doc.one(t, "head", "").one(t, "title", "").text; !strings.HasPrefix(title, strings.Fields(want)[1]+": ") {
			t.Errorf("%s: the title is %q", verdict, title)
		}
	}
}

func TestPageShowsBothArmsOnOneAxis(t *testing.T) {
	doc := parse(t, page(t, liveness()))
	clients := doc.all("section", "client")
	if len(clients) != 2 {
		t.Fatalf("%d clients, want 2", len(clients))
	}
	for _, c := range clients {
		arms := c.all("figure", "")
		if len(arms) != 2 || !strings.HasPrefix(arms[0].words(), "control without the middleware ✕ harm, 15 times") || !strings.HasPrefix(arms[1].words(), "protected with the middleware ✓ no harm") {
			t.Fatalf("the arms are %q", texts(arms))
		}
		var axes, lanes [2][]string
		for i, arm := range arms {
			for _, n := range arm.all("text", "tick") {
				axes[i] = append(axes[i], n.attr["x"]+" "+n.words())
			}
			svg := arm.one(t, "svg", "")
			var tops []string
			for _, g := range svg.children {
				if g.name == "g" && strings.HasPrefix(g.attr["transform"], "translate(") && len(g.all("text", "lane")) > 0 {
					name, _, _ := strings.Cut(g.one(t, "text", "lane").words(), " – ")
					lanes[i] = append(lanes[i], g.attr["transform"]+" "+name)
					tops = append(tops, g.attr["transform"])
				}
			}
			// Every mark is in its lane.
			tops = append(tops, fmt.Sprintf("translate(0 %s)", svg.attr["height"]))
			for _, g := range svg.children {
				n := slices.Index(tops, g.attr["transform"])
				for _, u := range g.all("use", "") {
					var top, next, y int
					fmt.Sscanf(tops[n]+tops[n+1]+u.attr["y"], "translate(0 %d)translate(0 %d)%d", &top, &next, &y)
					if y < 18 || top+y+9 > next {
						t.Errorf("a mark at %d is not in its lane, from %d to %d", top+y, top, next)
					}
				}
			}
			if title, desc := svg.children[0], svg.children[1]; svg.attr["role"] != "img" || title.name != "title" || desc.name != "desc" ||
				svg.attr["aria-labelledby"] != title.attr["id"]+" "+desc.attr["id"] {
				t.Errorf("the picture has no role, title or description")
			}
		}
		if !slices.Equal(axes[0], axes[1]) || !slices.Equal(lanes[0], lanes[1]) {
			t.Errorf("the arms do not stand side by side:\n%q\n%q\n%q\n%q", axes[0], axes[1], lanes[0], lanes[1])
		}
		if len(lanes[0]) != 5 || !strings.Contains(arms[0].one(t, "svg", "").text, "Middleware – not in this arm") {
			t.Errorf("the control arm's lanes are %q", lanes[0])
		}
	}
}

func TestPageShowsWhatHappened(t *testing.T) {
	arms := parse(t, page(t, elicitation())).all("figure", "")
	for i, want := range []map[string]int{
		{"#g-cut": 9, "#g-reconnect": 9, "#g-prompted": 10, "#g-ring": 9, "#g-probe-live": 0},
		{"#g-cut": 9, "#g-prompted": 2, "#g-ring": 1, "#g-held": 9, "#g-probe-live": 8, "#g-probe-ambiguous": 1, "#g-suppressed": 9, "#g-stale": 1},
	} {
		got := map[string]int{}
		for _, u := range arms[i].all("use", "") {
			got[u.attr["href"]]++
		}
		for mark, n := range want {
			if got[mark] != n {
				t.Errorf("arm %d: %d marks %s, want %d", i, got[mark], mark, n)
			}
		}
	}
	if n := len(arms[0].all("g", "step")); n != 3 {
		t.Errorf("%d steps are drawn, want 3: one was skipped", n)
	}
	// What the pictures show stands beside them as text.
	rows := arms[1].one(t, "table", "events").rows()
	if want := []string{"T+07:09", "Application", "prompted ✕ harm", "delete 14 rows?"}; !slices.ContainsFunc(rows, func(r []string) bool { return slices.Equal(r, want) }) {
		t.Errorf("the list lacks %q: %q", want, rows)
	}

	doc := parse(t, page(t, liveness()))
	control := doc.all("figure", "")[0].one(t, "svg", "")
	if got, want := texts(control.all("text", "death")), []string{"session dies T+31:00", "session dies T+38:24"}; !slices.Equal(got, want) {
		t.Errorf("the deaths are %q, want %q", got, want)
	}
	// The second has no room on the right of its line.
	if a, b := control.all("text", "death")[0].attr, control.all("text", "death")[1].attr; a["text-anchor"] != "start" || b["text-anchor"] != "end" || a["y"] == b["y"] {
		t.Errorf("the labels stand at %v and %v", a, b)
	}
	var numbers []string
	for _, step := range control.all("g", "step") {
		numbers = append(numbers, strings.Join(texts(step.all("text", "")), ""))
	}
	if want := []string{"1", "2", "", "", "5", "6", "7", ""}; !slices.Equal(numbers, want) {
		t.Errorf("the steps' numbers are %q, want %q: those for which there is room", numbers, want)
	}
	// T+31 of 42 minutes.
	if got := control.all("g", "death")[0].one(t, "line", "").attr["x1"]; got != "73.81%" {
		t.Errorf("the session dies at %s, want 73.81%%", got)
	}
	bar := control.all("g", "s-dead")[0]
	if got := bar.one(t, "title", "").words(); got != "Session: dead, T+31:00 to T+34:00 (3 min)" {
		t.Errorf("the dead session's title is %q", got)
	}
	if rect := bar.all("rect", "")[0]; rect.attr["x"] != "73.81%" || rect.attr["width"] != "7.14%" {
		t.Errorf("the dead session is drawn at %s for %s, want 73.81%%, 7.14%%", rect.attr["x"], rect.attr["width"])
	}
	var quarantined *node
	for _, g := range doc.all("figure", "")[1].all("g", "glyph") {
		if g.all("use", "")[0].attr["href"] == "#g-quarantined" {
			quarantined = g
		}
	}
	if quarantined == nil || quarantined.one(t, "text", "").words() != "×10" || !strings.Contains(quarantined.text, "T+39:06 quarantined ×10, events 13 to 22") {
		t.Errorf("the quarantined events are %+v", quarantined)
	}
}

func TestPageHasNumbersMethodAndCommand(t *testing.T) {
	j := elicitation()
	doc := parse(t, page(t, j))
	numbers := doc.byID("numbers").all("table", "numbers")[0].rows()
	if want := [][]string{
		{"Client", "Measure", "control", "protected"},
		{"mcpgo", "prompts for one request", "9 ✓ as expectedwant at least 2", "2 ✕ not as expectedwant 1"},
		{"mcpgo", "calls left hanging", "1 ✓ as expectedwant 1", "? cannot be saidwant 0the oracle's log was cut short at T+09:40"},
	}; !reflect.DeepEqual(numbers, want) {
		t.Errorf("the numbers are\n%q\nwant\n%q", numbers, want)
	}
	steps := doc.byID("method").one(t, "table", "steps").rows()
	if want := [][]string{
		{"No.", "At", "Step", "Over", "Outcome"},
		{"1", "T+00:12", "tools/call with a question to the user", "T+00:15", "✓ succeeded"},
		{"2", "T+01:00", "the load balancer cuts each minute", "T+09:30", "✓ succeeded"},
		{"3", "T+09:36", "the user answersanswered 400: no such request", "T+09:36", "✕ failed"},
		{"4", "T+10:00", "the call ends", "–", "– skipped"},
	}; !reflect.DeepEqual(steps, want) {
		t.Errorf("the steps are\n%q\nwant\n%q", steps, want)
	}
	if got := doc.one(t, "pre", "command").text; got != j.Again {
		t.Errorf("the command is %q, want %q", got, j.Again)
	}
	if details := doc.byID("again").one(t, "details", ""); details.attr["open"] != "" || !strings.Contains(details.one(t, "code", "").text, `"title": "One question, asked once"`) {
		t.Errorf("the definition is not folded away: %q", details.text)
	}
	for _, table := range doc.all("table", "") {
		for _, th := range table.all("th", "") {
			if scope := th.attr["scope"]; scope != "col" && scope != "row" {
				t.Errorf("the header %q has scope %q", th.words(), scope)
			}
		}
	}
}

func TestPageOfManyClientsAndMarksStaysUsable(t *testing.T) {
	j := crowd()
	text := page(t, j)
	if len(text) > 400_000 {
		t.Errorf("the page has %d bytes, its JSON %d", len(text), len(marshal(t, j)))
	}
	doc := parse(t, text)
	arm := doc.all("figure", "")[0]
	notes := strings.Join(texts(arm.all("p", "note")), " ")
	for _, want := range []string{
		"1,000 of 1,002 lanes are drawn together, by kind",
		"Marks that fall together are drawn as one with a count: 15,000 marks in ",
		"14750 more are in the JSON.",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("the page does not say %q: %q", want, notes)
		}
	}
	if got, want := texts(arm.all("text", "lane")), []string{"Load balancer", "Streams (500)", "Sessions (500)", "Application"}; !slices.Equal(got, want) {
		t.Errorf("the lanes are %q, want %q", got, want)
	}
	// All marks are counted, and none is drawn over another of its row.
	total := 0
	type place struct{ parent, y string }
	free := map[place]float64{}
	for _, lane := range arm.one(t, "svg", "").children {
		for _, g := range lane.all("g", "glyph") {
			use := g.all("use", "")[0]
			x, _ := strconv.ParseFloat(strings.TrimSuffix(use.attr["x"], "%"), 64)
			p := place{lane.attr["transform"], use.attr["y"]}
			px := x / 100 * 520
			if end, taken := free[p]; taken && px-8 < end-0.5 {
				t.Fatalf("a mark at %.1f px stands on one that ends at %.1f px", px, end)
			}
			title := g.one(t, "title", "").words()
			n := 1
			if m := regexp.MustCompile(`in all ×([0-9,]+)`).FindStringSubmatch(title); m != nil {
				n, _ = strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
			}
			total += n
			free[p] = px + 8
			for _, badge := range g.all("text", "") {
				free[p] = px + 8 + 7*float64(len([]rune(badge.words())))
			}
		}
	}
	if total != 15_000 {
		t.Errorf("the marks' counts add up to %d, want 15000", total)
	}
	// What is only drawn as a share is explained as well.
	if legend := doc.one(t, "details", "legend"); len(legend.all("g", "s-dead")) != 1 || len(legend.all("g", "s-held")) != 1 {
		t.Error("the legend does not explain the shares")
	}
	// Of the sessions, half are dead at about T+32:30.
	shares := map[string]string{}
	for _, b := range arm.all("g", "share") {
		shares[b.one(t, "title", "").words()] = b.attr["class"]
	}
	if !slices.ContainsFunc(mapKeys(shares), func(s string) bool {
		return regexp.MustCompile(`^Sessions \(500\): dead, (47|50|53) %, T\+32:`).MatchString(s)
	}) {
		t.Errorf("no share of dead sessions is near a half at T+32: %q", mapKeys(shares))
	}
	// What is not met stands first among the numbers, the rest is folded.
	rows := doc.byID("numbers").all("table", "numbers")[0].rows()
	if len(rows) != 61 || rows[1][1] != "measure 66" || rows[2][1] != "measure 00" {
		t.Errorf("%d rows, the first of them %q", len(rows), rows[1])
	}
	if summary := doc.byID("numbers").all("summary", "")[0].words(); summary != "10 more rows" {
		t.Errorf("the rest is %q, want 10 more rows", summary)
	}
}

// A lane that changes its state faster than a picture can show it is drawn by how
// much of the time it was in which.
func TestManySpansOfALaneAreDrawnAsShares(t *testing.T) {
	j := liveness()
	lane := journal.Lane{Name: "Stream", Kind: journal.StreamLane}
	for i := range 4200 {
		at := float64(i) / 100
		lane.Spans = append(lane.Spans, span(at, at+0.0075, journal.StateOpen, ""), span(at+0.0075, at+0.01, journal.StateClosed, ""))
	}
	j.Arms = []journal.Arm{{Name: journal.Control, Client: "c", Lanes: []journal.Lane{lane}}}
	bars := parse(t, page(t, j)).one(t, "figure", "").all("g", "bar")
	if len(bars) > 2*130 {
		t.Fatalf("8400 spans are drawn as %d bars", len(bars))
	}
	for _, b := range bars {
		if title := b.one(t, "title", "").words(); !regexp.MustCompile(`: (open, 7[3-6]|closed, 2[4-7]) %, `).MatchString(title) {
			t.Errorf("a bar says %q, want open for three quarters of the time", title)
		}
	}
}

func mapKeys(m map[string]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func TestPageOfManyKindsOfClients(t *testing.T) {
	j := liveness()
	j.After, j.Arms = nil, nil
	for i := range 60 {
		client := fmt.Sprintf("client-%03d", i)
		j.Arms = append(j.Arms, livenessControl(client), livenessProtected(client))
		j.After = append(j.After, journal.Check{Arm: journal.Protected, Client: client, Measure: "events_lost", Value: "0", Tolerance: "0", Met: i != 32})
	}
	doc := parse(t, page(t, j))
	clients := doc.all("section", "client")
	if len(clients) != 12 || clients[0].one(t, "h3", "").words() != "Client client-032" || clients[1].one(t, "h3", "").words() != "Client client-000" {
		t.Errorf("%d clients have pictures, the first is %q; want 12, and the one that failed first", len(clients), clients[0].one(t, "h3", "").words())
	}
	if note := doc.byID("timelines").text; !strings.Contains(note, "48 more clients have no picture here.") {
		t.Error("the page does not say that clients are left out")
	}

	// And of many arms of one client.
	for i := range j.Arms {
		j.Arms[i].Client = "gosdk"
	}
	one := parse(t, page(t, j)).one(t, "section", "client")
	if n := len(one.all("figure", "")); n != 6 || !strings.Contains(one.text, "114 more arms of this client have no picture here.") {
		t.Errorf("%d arms are drawn, want 6 and a word on the others", n)
	}
}
