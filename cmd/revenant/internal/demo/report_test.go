package demo

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// finding is what came of a record, as far as a verdict goes.
func finding(record *Record, outcome Outcome, unplanned bool, reasons ...string) *Findings {
	f := &Findings{Record: record, Verdict: Verdict{Outcome: outcome, Reasons: reasons, Unplanned: unplanned}}
	switch record {
	case SessionRecord:
		f.detail = &SessionReport{}
	case ElicitationRecord:
		f.detail = &ElicitationReport{}
	}
	return f
}

// The verdict on a run is the gravest on its records, whatever their order.
func TestVerdictOnSeveralRecords(t *testing.T) {
	up := func(r *Record) *Findings { return finding(r, Upheld, false) }
	for _, test := range []struct {
		findings  []*Findings
		outcome   Outcome
		unplanned bool
		reasons   []string
	}{
		{[]*Findings{up(SessionRecord)}, Upheld, false, nil},
		{[]*Findings{up(SessionRecord), up(ElicitationRecord)}, Upheld, false, nil},
		{[]*Findings{up(SessionRecord), finding(ElicitationRecord, Deviated, false, "a", "b")}, Deviated, false, []string{"elicitation: a", "elicitation: b"}},
		{[]*Findings{finding(SessionRecord, Deviated, false, "a"), up(ElicitationRecord)}, Deviated, false, []string{"session: a"}},
		{[]*Findings{finding(SessionRecord, Inconclusive, true, "a"), up(ElicitationRecord)}, Inconclusive, true, []string{"session: a"}},
		{[]*Findings{finding(SessionRecord, Inconclusive, true, "a"), finding(ElicitationRecord, Deviated, false, "b")}, Deviated, true, []string{"session: a", "elicitation: b"}},
		{[]*Findings{finding(SessionRecord, Deviated, false, "a"), finding(ElicitationRecord, Inconclusive, true, "b")}, Deviated, true, []string{"session: a", "elicitation: b"}},
	} {
		r := newReport(Config{}, 0)
		for _, f := range test.findings {
			r.add(f)
		}
		if r.Verdict != test.outcome || r.Unplanned != test.unplanned || !slices.Equal(r.Reasons, test.reasons) {
			t.Errorf("verdict %s, unplanned %t, because %q, want %s, %t, %q",
				r.Verdict, r.Unplanned, r.Reasons, test.outcome, test.unplanned, test.reasons)
		}
		for i, f := range test.findings {
			if got := r.Records[i]; got.Record != f.Record.name || got.Verdict != f.Outcome || got.Unplanned != f.Unplanned || !slices.Equal(got.Reasons, f.Reasons) {
				t.Errorf("record %d is %+v, want %s, %+v", i, got, f.Record.name, f.Verdict)
			}
		}
	}
}

// A record that was not replayed has no field: a zero would look like a result.
func TestReportHasWhatWasReplayedOnly(t *testing.T) {
	for _, test := range []struct {
		records   []*Record
		has, lack []string
	}{
		{[]*Record{SessionRecord}, []string{"settings", "arms", "timeline"}, []string{"elicitation"}},
		{[]*Record{ElicitationRecord}, []string{"elicitation"}, []string{"settings", "arms", "timeline"}},
		{records, []string{"settings", "arms", "timeline", "elicitation"}, nil},
	} {
		r := newReport(Config{}, 0)
		for _, record := range test.records {
			r.add(finding(record, Upheld, false))
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), `"reasons":[]`) || strings.Contains(string(text), `"reasons":null`) {
			t.Errorf("the reasons for nothing are no empty array in %s", text)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range append(test.has, test.lack...) {
			if _, ok := fields[name]; ok != slices.Contains(test.has, name) {
				t.Errorf("%s: field %q is there: %t", text, name, ok)
			}
		}
	}
}
