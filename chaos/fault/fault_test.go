package fault_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/fault"
)

// forms is each kind, in its two forms.
var forms = []struct {
	fault fault.Fault
	text  string
	json  string
}{
	{fault.Fault{Kind: fault.FIN}, `fin`, `{"kind":"fin"}`},
	{
		fault.Fault{Kind: fault.RST, Direction: fault.ToClient, Conn: 2},
		`rst direction=to_client conn=2`, `{"kind":"rst","direction":"to_client","conn":2}`,
	},
	{fault.Fault{Kind: fault.Blackhole, Limit: 3}, `blackhole limit=3`, `{"kind":"blackhole","limit":3}`},
	{fault.Fault{Kind: fault.CutAfter}, `cut_after`, `{"kind":"cut_after"}`},
	{
		fault.Fault{Kind: fault.CutAfter, Direction: fault.ToServer, Bytes: 1 << 40, How: fault.HowRST},
		`cut_after direction=to_server bytes=1099511627776 how=rst`,
		`{"kind":"cut_after","direction":"to_server","bytes":1099511627776,"how":"rst"}`,
	},
	{
		fault.Fault{Kind: fault.CutInEvent, Event: 3, Offset: 5, How: fault.HowBlackhole},
		`cut_in_event event=3 offset=5 how=blackhole`, `{"kind":"cut_in_event","event":3,"offset":5,"how":"blackhole"}`,
	},
	{
		fault.Fault{Kind: fault.Latency, Delay: 1500 * time.Millisecond, Jitter: time.Millisecond},
		`latency delay=1.5s jitter=1ms`, `{"kind":"latency","delay":"1.5s","jitter":"1ms"}`,
	},
	{fault.Fault{Kind: fault.Bandwidth, BytesPerSecond: 1000}, `bandwidth bytes_per_second=1000`, `{"kind":"bandwidth","bytes_per_second":1000}`},
	{fault.Fault{Kind: fault.Partition}, `partition`, `{"kind":"partition"}`},
	{fault.Fault{Kind: fault.SilentDrop, After: 350 * time.Second}, `silent_drop after=5m50s`, `{"kind":"silent_drop","after":"5m50s"}`},
	{fault.Fault{Kind: fault.SilentDropThenReset}, `silent_drop_then_reset`, `{"kind":"silent_drop_then_reset"}`},
	{fault.Fault{Kind: fault.PacketLoss, Probability: 0.01}, `packet_loss probability=0.01`, `{"kind":"packet_loss","probability":0.01}`},
	{fault.Fault{Kind: fault.Reset}, `reset`, `{"kind":"reset"}`},
}

func TestForms(t *testing.T) {
	seen := make(map[fault.Kind]bool)
	for _, test := range forms {
		seen[test.fault.Kind] = true
		if got := test.fault.String(); got != test.text {
			t.Errorf("String() = %q, want %q", got, test.text)
		}
		if got, err := fault.Parse(test.text); got != test.fault || err != nil {
			t.Errorf("Parse(%q) = %v, %v, want %v", test.text, got, err, test.fault)
		}
		if got, err := json.Marshal(test.fault); string(got) != test.json || err != nil {
			t.Errorf("Marshal(%v) = %s, %v, want %s", test.fault, got, err, test.json)
		}
		var got fault.Fault
		if err := json.Unmarshal([]byte(test.json), &got); got != test.fault || err != nil {
			t.Errorf("Unmarshal(%s) = %v, %v, want %v", test.json, got, err, test.fault)
		}
	}
	for _, kind := range fault.Kinds() {
		if !seen[kind] {
			t.Errorf("%s has no form in this test", kind)
		}
		if !kind.OnLink() && !kind.OnNetwork() {
			t.Errorf("%s acts nowhere", kind)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, test := range []struct {
		fault fault.Fault
		want  []string // of the error, each
	}{
		{fault.Fault{}, []string{`kind is "", want one of ["fin" `}},
		{fault.Fault{Kind: "lag"}, []string{`kind is "lag"`}},
		{
			fault.Fault{Kind: fault.FIN, Delay: time.Second, Event: 1},
			[]string{`fin: delay is 1s, want none: fin takes direction, conn, limit`, `fin: event is 1, want none`},
		},
		{fault.Fault{Kind: fault.FIN, Direction: "up"}, []string{`direction is "up", want "to_client", "to_server", or none`}},
		{fault.Fault{Kind: fault.FIN, Conn: -1}, []string{`conn is -1, want 0 or more`}},
		{fault.Fault{Kind: fault.FIN, Conn: 1, Limit: 1}, []string{`limit is 1, want none beside conn`}},
		{fault.Fault{Kind: fault.CutAfter, Bytes: -1, How: "bang"}, []string{`bytes is -1, want 0 or more`, `how is "bang", want "rst", "blackhole"`}},
		{fault.Fault{Kind: fault.CutInEvent}, []string{`event is 0, want more than 0`}},
		{fault.Fault{Kind: fault.CutInEvent, Event: 1, Direction: fault.ToServer}, []string{`direction is to_server`}},
		{fault.Fault{Kind: fault.Latency}, []string{`delay is 0s, want more than 0`}},
		{fault.Fault{Kind: fault.Latency, Delay: 1, Jitter: 2}, []string{`jitter is 2ns, want no more than delay, 1ns`}},
		{fault.Fault{Kind: fault.Bandwidth, BytesPerSecond: -1}, []string{`bytes_per_second is -1, want more than 0`}},
		{fault.Fault{Kind: fault.SilentDrop, After: 1500 * time.Millisecond}, []string{`after is 1.5s, want whole seconds`}},
		{fault.Fault{Kind: fault.SilentDrop, After: 48 * time.Hour}, []string{`after is 48h0m0s`}},
		{fault.Fault{Kind: fault.PacketLoss}, []string{`probability is 0, want more than 0`}},
		{fault.Fault{Kind: fault.PacketLoss, Probability: 1.5}, []string{`probability is 1.5, want from 0.000001 to 1`}},
		{fault.Fault{Kind: fault.PacketLoss, Probability: 1e-9}, []string{`probability is 1e-09`}},
		{fault.Fault{Kind: fault.PacketLoss, Probability: math.NaN()}, []string{`probability is NaN`}},
	} {
		target := new(recorder)
		_, err := test.fault.Apply(t.Context(), target)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Apply(%v) = %v, want %q", test.fault, err, want)
			}
		}
		if len(target.log) > 0 {
			t.Errorf("Apply(%v) applied it", test.fault)
		}
	}
}

func TestParseReportsAllFaults(t *testing.T) {
	_, err := fault.Parse("latency delay=soon delay=1s pace=1 loud bytes=1e3 probability=+Inf")
	for _, want := range []string{
		`delay is "soon", want a duration`, `delay is given twice`, `"pace=1", want name=value`,
		`"loud", want name=value`, `bytes is "1e3", want a whole number`, `probability is "+Inf", want a number`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse() = %v, want %q", err, want)
		}
	}
	for _, s := range []string{"", "  ", "fin delay=1s", "boom"} {
		if f, err := fault.Parse(s); err == nil {
			t.Errorf("Parse(%q) = %v, want an error", s, f)
		}
	}
}

func TestUnmarshalIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind":"fin","dely":"1s"}`:      `"dely"`,
		`{"kind":"latency","delay":"1"}`:  `delay is "1", want a duration`,
		`{"kind":"latency","delay":1000}`: `delay`,
		`{"kind":"cut_after","bytes":""}`: `bytes`,
	} {
		var f fault.Fault
		if err := json.Unmarshal([]byte(text), &f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Unmarshal(%s) = %v, want an error with %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, form := range forms {
		f.Add(form.text)
	}
	f.Fuzz(func(t *testing.T, s string) {
		read, err := fault.Parse(s)
		if err != nil {
			return
		}
		if again, err := fault.Parse(read.String()); again != read || err != nil {
			t.Errorf("Parse(%q) = %v, Parse of that = %v, %v", s, read, again, err)
		}
		data, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		var again fault.Fault
		if err := json.Unmarshal(data, &again); again != read || err != nil {
			t.Errorf("%v is %s in JSON, and that is %v, %v", read, data, again, err)
		}
	})
}

// recorder is a target that writes down what is done to it.
type recorder struct {
	log    []string
	refuse error
	undo   func(f fault.Fault) error
	inject func(ctx context.Context)
}

func (r *recorder) Inject(ctx context.Context, f fault.Fault) (func() error, error) {
	if r.inject != nil {
		r.inject(ctx)
	}
	if r.refuse != nil {
		return nil, r.refuse
	}
	r.log = append(r.log, "apply "+f.String())
	return func() error {
		r.log = append(r.log, "undo "+f.String())
		if r.undo != nil {
			return r.undo(f)
		}
		return nil
	}, nil
}

func TestApply(t *testing.T) {
	broken := errors.New("broken")
	target := &recorder{undo: func(fault.Fault) error { return broken }}
	undo, err := fault.Fault{Kind: fault.FIN}.Apply(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // runs once, and says the same each time
		if err := undo(); !errors.Is(err, broken) || err.Error() != "fault: undo of fin: broken" {
			t.Errorf("undo() = %v", err)
		}
	}
	if got := strings.Join(target.log, ", "); got != "apply fin, undo fin" {
		t.Errorf("the target saw %s", got)
	}

	target = &recorder{refuse: broken}
	if _, err := (fault.Fault{Kind: fault.RST}).Apply(t.Context(), target); !errors.Is(err, broken) {
		t.Errorf("Apply() = %v, want %v", err, broken)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	target = new(recorder)
	if _, err := (fault.Fault{Kind: fault.RST}).Apply(ctx, target); !errors.Is(err, context.Canceled) || len(target.log) > 0 {
		t.Errorf("Apply() with an ended context = %v, want %v", err, context.Canceled)
	}
}
