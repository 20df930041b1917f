package journal

import (
	"strings"
	"testing"
	"time"
)

func TestStory(t *testing.T) {
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	arm := func(name string, lanes ...Lane) Arm { return Arm{Name: name, Client: "gosdk", Lanes: lanes} }
	cut := func(s float64) Lane {
		return Lane{Name: "load balancer", Kind: BalancerLane, Marks: []Mark{{At: at(s), Kind: MarkCut, Label: "lb: idle timeout"}}}
	}
	j := &Journal{
		Length: 10 * time.Minute,
		Run: []Activity{
			{Name: "the server is told to send 100% of what it has, and that is more than fits into one line", At: at(60), Status: StepSucceeded},
			{Name: "never", At: at(500), Status: StepSkipped},
		},
		Arms: []Arm{
			arm(Control, cut(60.4), Lane{Name: "session", Kind: SessionLane, Marks: []Mark{{At: at(61), Kind: MarkDied, Label: "reaped 50%"}}},
				Lane{Name: "application", Kind: ApplicationLane, Marks: []Mark{
					{At: at(70), Kind: MarkApplied}, {At: at(80), Kind: MarkApplied}, {At: at(90), Kind: MarkApplied, Harm: true}, {At: at(91), Kind: MarkApplied, Harm: true},
					{At: at(300), Kind: MarkFenced}, {At: at(301), Kind: MarkFenced}, {At: at(590), Kind: MarkApplied},
				}}),
			arm(Protected, cut(60.2), Lane{Name: "middleware", Kind: ProbeLane, Marks: []Mark{
				{At: at(90), Kind: MarkHeld}, {At: at(90.5), Kind: MarkProbe, Verdict: ProbeDead}, {At: at(91), Kind: MarkReleased, Count: 2}, {At: at(91), Kind: MarkSuppressed},
				{At: at(200), Kind: MarkReleased, Count: 1}, {At: at(200), Kind: MarkStale}, {At: at(201), Kind: "odd_thing", Label: "x"},
			}}, Lane{Name: "naive 2: application", Kind: ApplicationLane, Marks: []Mark{{At: at(70), Kind: MarkApplied}}}),
			{Name: Protected, Client: "naive"},
		},
	}
	var out strings.Builder
	if err := j.WriteStory(&out); err != nil {
		t.Fatal(err)
	}
	const want = `Client gosdk
T+01:00     step      the server is told to send 100% of what it has, and that
                      is more than fits into one line
T+01:00.2   both      a stream is cut: idle timeout
T+01:01     control   the session dies: reaped 50%
T+01:10     protected the application is given an event (naive 2)
T+01:10     control   the application is given 2 events, until T+01:20
T+01:30     protected the middleware holds what is replayed
T+01:30   ! control   the application acts on 2 events of a dead session
T+01:30.5   protected the middleware probes the session: it is dead
T+01:31     protected the middleware releases an event
T+01:31     protected the middleware keeps back what the application had
                      already
T+03:20     protected the middleware fails a call: nobody waits for the answer
T+03:21     protected odd thing: x
T+05:00     control   the middleware refuses a request of the dead session, 2
                      times
T+09:50     control   the application is given an event

Client naive
T+01:00     step      the server is told to send 100% of what it has, and that
                      is more than fits into one line
`
	if out.String() != want {
		t.Errorf("the story is\n%s\nwant\n%s", out.String(), want)
	}
	for _, l := range strings.Split(out.String(), "\n") {
		if len(l) > 79 {
			t.Errorf("%d columns: %q", len(l), l)
		}
	}
}

func TestParagraphs(t *testing.T) {
	const text = "One sentence\nthat goes on.\r\n\r\nAnother\none.\n\n  indented\n- a\n- list\nthat ends\n\n\n"
	const want = "One sentence that goes on.\n\nAnother one.\n\n  indented\n- a\n- list that ends"
	if got := paragraphs(text); got != want {
		t.Errorf("paragraphs(%q) = %q, want %q", text, got, want)
	}
}
