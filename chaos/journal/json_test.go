package journal_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

func marshal(t testing.TB, j *journal.Journal) []byte {
	t.Helper()
	data, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestJSONRoundTrip(t *testing.T) {
	bare := &journal.Journal{Name: "bare", Start: start, End: start, Scale: 1, Status: journal.Failed, Verdict: journal.AbortedVerdict}
	for _, want := range []*journal.Journal{liveness(), elicitation(), crowd(), bare} {
		got := new(journal.Journal)
		if err := json.Unmarshal(marshal(t, want), got); err != nil {
			t.Fatalf("%s: %v", want.Name, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: what is read differs from what was written:\n%+v\nwant\n%+v", want.Name, got, want)
		}
	}
}

// The fields, types and words that the specification of Chaos Toolkit's journal
// has as MUST and SHOULD.
func TestJSONHasTheFieldsOfChaosToolkit(t *testing.T) {
	j := liveness()
	j.After[0].Met = false
	j.After[1].Problem = "the oracle was away"
	var doc map[string]any
	if err := json.Unmarshal(marshal(t, j), &doc); err != nil {
		t.Fatal(err)
	}
	object := func(v any, path string) map[string]any {
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("%s is %T, want an object", path, v)
		}
		return m
	}
	timed := func(m map[string]any, path string) {
		begin, err1 := time.Parse(time.RFC3339, m["start"].(string))
		end, err2 := time.Parse(time.RFC3339, m["end"].(string))
		if err1 != nil || err2 != nil || begin.Location() != time.UTC {
			t.Errorf("%s: start %v, end %v: want RFC 3339 in UTC", path, m["start"], m["end"])
		}
		if got := m["duration"].(float64); math.Abs(got-end.Sub(begin).Seconds()) > 1e-9 {
			t.Errorf("%s: duration %v, want that from start to end, %v", path, got, end.Sub(begin).Seconds())
		}
	}
	timed(doc, "the journal")
	object(doc["experiment"], "experiment")
	if doc["status"] != "completed" || doc["deviated"] != false {
		t.Errorf("status %v, deviated %v, want completed, false", doc["status"], doc["deviated"])
	}
	states := object(doc["steady_states"], "steady_states")
	if before := object(states["before"], "before"); before["steady_state_met"] != true {
		t.Errorf("before: steady_state_met = %v, want true", before["steady_state_met"])
	}
	after := object(states["after"], "after")
	if after["steady_state_met"] != false {
		t.Errorf("after: steady_state_met = %v, want false", after["steady_state_met"])
	}
	for i, want := range []struct {
		status string
		met    bool
	}{{"succeeded", false}, {"failed", true}, {"succeeded", true}} {
		p := object(after["probes"].([]any)[i], "probe")
		timed(p, "probe")
		activity := object(p["activity"], "activity")
		if activity["type"] != "probe" || activity["name"] != j.After[i].Arm+"/gosdk/"+j.After[i].Measure || activity["tolerance"] != j.After[i].Tolerance {
			t.Errorf("probe %d: activity = %v", i, activity)
		}
		if p["status"] != want.status || p["tolerance_met"] != want.met || p["output"] != j.After[i].Value {
			t.Errorf("probe %d = %v, want %+v", i, p, want)
		}
		if _, has := p["exception"]; has != (want.status == "failed") {
			t.Errorf("probe %d: has an exception: %v", i, has)
		}
	}
	for _, list := range []string{"run", "rollbacks"} {
		for _, v := range doc[list].([]any) {
			a := object(v, list)
			timed(a, list)
			if a["status"] != "succeeded" || object(a["activity"], "activity")["name"] == "" {
				t.Errorf("%s: %v", list, a)
			}
			if output, has := a["output"]; !has || output == "" {
				t.Errorf("%s: output = %q, want a text or null", list, output)
			}
		}
	}
	// T+5 of the experiment, 120 ms after the start and at a hundred times the pace.
	if got, want := object(doc["run"].([]any)[1], "run")["start"], "2026-11-12T09:30:03.12Z"; got != want {
		t.Errorf("the second step began at %v, want %v", got, want)
	}
	j.Verdict, j.Definition = journal.Deviated, nil
	if !strings.Contains(string(marshal(t, j)), `"experiment":{}`) {
		t.Error("without a definition the experiment is no object")
	}
	if !strings.Contains(string(marshal(t, j)), `"deviated":true`) {
		t.Error("a run that has deviated does not say so")
	}
}

func TestLengthsOfTimeAreSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "0.000000001", -1: "-0.000000001", 90 * time.Second: "90", 1500 * time.Millisecond: "1.5",
		-2500 * time.Millisecond: "-2.5", 31*time.Minute + 123456789: "1860.123456789", 100*365*24*time.Hour - 1: "3153599999.999999999",
	} {
		j := liveness()
		j.Arms = []journal.Arm{{Lanes: []journal.Lane{{Name: "l", Marks: []journal.Mark{{At: d, Kind: "k"}}}}}}
		data := marshal(t, j)
		if !strings.Contains(string(data), `"at":`+want+`,"kind"`) {
			t.Errorf("%v is not written as %s", d, want)
		}
		got := new(journal.Journal)
		if err := json.Unmarshal(data, got); err != nil || got.Arms[0].Lanes[0].Marks[0].At != d {
			t.Errorf("%v is read as %v, %v", d, got.Arms[0].Lanes[0].Marks[0].At, err)
		}
	}
}

func TestLengthsOfOtherProgramsAreRead(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1e3": 1000 * time.Second, "2.5E-1": 250 * time.Millisecond, "-1.0": -time.Second, "-0.25": -250 * time.Millisecond,
		"0.12345678949": 123456789, "0.00000000051": 1, "null": 0,
	} {
		j := liveness()
		j.Arms = []journal.Arm{{Lanes: []journal.Lane{{Name: "l", Marks: []journal.Mark{{At: 77 * time.Second, Kind: "k"}}}}}}
		data := strings.Replace(string(marshal(t, j)), `"at":77,`, `"at":`+text+`,`, 1)
		got := new(journal.Journal)
		if err := json.Unmarshal([]byte(data), got); err != nil || got.Arms[0].Lanes[0].Marks[0].At != want {
			t.Errorf("%s s is read as %+v, %v, want %v", text, got.Arms, err, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	good := string(marshal(t, liveness()))
	change := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the journal has no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, c := range map[string]struct {
		data, want string
		version    int
	}{
		"nothing":         {"", "not a journal", 0},
		"no JSON":         {"<html></html>", "not a journal", 0},
		"cut short":       {good[:len(good)/2], "not a journal", 0},
		"an array":        {"[]", "not a journal", 0},
		"null":            {"null", "it has no journal_version", 0},
		"another JSON":    {`{"name":"x"}`, "it has no journal_version", 0},
		"Chaos Toolkit's": {`{"chaoslib-version":"1.43.0","experiment":{},"status":"completed"}`, "a journal of Chaos Toolkit", 0},
		"newer":           {change(`"journal_version":1`, `"journal_version":2`), "journal_version 2 is newer than this program, which reads 1", 2},
		"version 0":       {change(`"journal_version":1`, `"journal_version":0`), "want a number from 1", 0},
		"version text":    {change(`"journal_version":1`, `"journal_version":"1"`), "want a number from 1", 0},
		"wrong type":      {change(`"seed":4471`, `"seed":"4471"`), "seed", 1},
		"time as text":    {change(`"length":2520`, `"length":"42m"`), "a length of time is a number of seconds", 1},
		"endless time":    {change(`"length":2520`, `"length":1e300`), "out of range", 1},
	} {
		file := filepath.Join(t.TempDir(), "j.json")
		if err := os.WriteFile(file, []byte(c.data), 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := journal.Read(file)
		format := (*journal.FormatError)(nil)
		if !errors.As(err, &format) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) || format.Version != c.version || j != nil {
			t.Errorf("%s: Read = %v, %v, want a FormatError of version %d with %q and the file's name", name, j, err, c.version, c.want)
		}
	}
	if _, err := journal.Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Read of no file = %v, want os.ErrNotExist", err)
	}
}

func TestReadIgnoresWhatIsNew(t *testing.T) {
	data := strings.Replace(string(marshal(t, liveness())), `"arms":[{`, `"mood":{"of":["late"]},"arms":[{"temper":3,`, 1)
	got := new(journal.Journal)
	if err := json.Unmarshal([]byte(data), got); err != nil || !reflect.DeepEqual(got, liveness()) {
		t.Errorf("with fields of a later program: %v, and another journal", err)
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	if err := liveness().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, fault := range map[string]func(*journal.Journal){
		"name: empty":                     func(j *journal.Journal) { j.Name = "" },
		"start: not set":                  func(j *journal.Journal) { j.Start = time.Time{} },
		"end: not set":                    func(j *journal.Journal) { j.End = time.Time{} },
		"end: before the start":           func(j *journal.Journal) { j.End = j.Start.Add(-1) },
		"zero: in the year 9999":          func(j *journal.Journal) { j.Zero = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) },
		"time_scale: 0":                   func(j *journal.Journal) { j.Scale = 0 },
		"time_scale: NaN":                 func(j *journal.Journal) { j.Scale = math.NaN() },
		"length: -1ns":                    func(j *journal.Journal) { j.Length = -1 },
		"repeat: -1":                      func(j *journal.Journal) { j.Repeat = -1 },
		`status: "done"`:                  func(j *journal.Journal) { j.Status = "done" },
		`verdict: "passed"`:               func(j *journal.Journal) { j.Verdict = "passed" },
		"experiment: not a JSON object":   func(j *journal.Journal) { j.Definition = json.RawMessage(`[1]`) },
		`run[1].status: ""`:               func(j *journal.Journal) { j.Run[1].Status = "" },
		"rollbacks[0].at: ":               func(j *journal.Journal) { j.Rollback[0].At = math.MinInt64 },
		`arms[0].measures["calls_failed"`: func(j *journal.Journal) { j.Arms[0].Measures["calls_failed"] = math.Inf(1) },
		"arms[1].lanes[0].spans[2].to":    func(j *journal.Journal) { j.Arms[1].Lanes[0].Spans[2].To = 0 },
		"arms[0].lanes[2].marks[1].count": func(j *journal.Journal) { j.Arms[0].Lanes[2].Marks[1].Count = -1 },
		"arms[0].lanes[2].marks[0].verdict": func(j *journal.Journal) {
			j.Arms[0].Lanes[2].Marks[0].Verdict = "maybe"
		},
	} {
		j := liveness()
		fault(j)
		err := j.Validate()
		if !errors.Is(err, journal.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want %q", err, want)
		}
		if _, err := json.Marshal(j); !errors.Is(err, journal.ErrInvalid) {
			t.Errorf("%s: Marshal = %v, want ErrInvalid", want, err)
		}
		if err := j.WriteHTML(discard{t}); !errors.Is(err, journal.ErrInvalid) {
			t.Errorf("%s: WriteHTML = %v, want ErrInvalid", want, err)
		}
		if err := journal.WriteJUnit(discard{t}, liveness(), j); !errors.Is(err, journal.ErrInvalid) {
			t.Errorf("%s: WriteJUnit = %v, want ErrInvalid", want, err)
		}
	}

	// Two at once, and a great many.
	j := liveness()
	j.Name, j.Scale = "", -1
	for i := range j.Arms[0].Lanes[3].Marks {
		j.Arms[0].Lanes[3].Marks[i].Count = -1
	}
	for i := range j.Arms[1].Lanes[4].Marks {
		j.Arms[1].Lanes[4].Marks[i].Count = -1
	}
	err := j.Validate()
	if text := err.Error(); !strings.Contains(text, "name: empty") || !strings.Contains(text, "time_scale: -1") || !strings.Contains(text, "and 18 more") || strings.Count(text, "\n") != 20 {
		t.Errorf("Validate() = %v, want 20 faults and the number of the others", err)
	}
}

// discard fails the test if anything is written to it.
type discard struct{ t *testing.T }

func (d discard) Write(p []byte) (int, error) {
	d.t.Errorf("%d bytes were written", len(p))
	return len(p), nil
}

func TestAbbreviate(t *testing.T) {
	for id, want := range map[string]string{
		"":                                     "",
		"5f0c21ab-9e7d-4c55-8a10-1d6f9b0e2c77": "5f0c21ab…",
		"session1":                             "sess…",
		"s":                                    "…",
		"ééééé":                                "éé…",
	} {
		if got := journal.Abbreviate(id); got != want {
			t.Errorf("Abbreviate(%q) = %q, want %q", id, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, j := range []*journal.Journal{liveness(), elicitation()} {
		j.Arms = j.Arms[:1]
		data, err := json.Marshal(j)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"journal_version":1,"name":"a","start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:00:00Z","time_scale":0.001,"status":"failed","verdict":"aborted","arms":[{"lanes":[{"spans":[{"from":-1e9,"to":1e9,"state":"x"}],"marks":[{"at":1e-9,"kind":"probe","verdict":"Dead"},{"kind":"probe-dead"}]}]}],"run":[{"status":"skipped","at":1e9}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		j := new(journal.Journal)
		if json.Unmarshal(data, j) != nil {
			return
		}
		again := new(journal.Journal)
		first := marshal(t, j)
		if err := json.Unmarshal(first, again); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if second := marshal(t, again); string(second) != string(first) {
			t.Errorf("written twice it differs:\n%s\n%s", first, second)
		}
		parse(t, page(t, j))
		parse(t, junit(t, j))
	})
}
