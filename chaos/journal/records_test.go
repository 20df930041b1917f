package journal_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

// m is a moment in minutes of the experiment's time.
func m(minutes float64) time.Duration {
	return time.Duration(minutes * float64(time.Minute)).Round(time.Millisecond)
}

func span(from, to float64, state, label string) journal.Span {
	return journal.Span{From: m(from), To: m(to), State: state, Label: label}
}

func mark(at float64, kind, label string) journal.Mark {
	return journal.Mark{At: m(at), Kind: kind, Label: label}
}

func harm(at float64, kind, label string) journal.Mark {
	return journal.Mark{At: m(at), Kind: kind, Label: label, Harm: true}
}

func probe(at float64, verdict, label string) journal.Mark {
	return journal.Mark{At: m(at), Kind: journal.MarkProbe, Verdict: verdict, Label: label}
}

var start = time.Date(2026, 11, 12, 9, 30, 0, 0, time.UTC)

// liveness is the record of the first observation: a session of 30 minutes, a log
// of 60, and a replay that proves nothing.
func liveness() *journal.Journal {
	return &journal.Journal{
		Program: "revenant v0.4.0", Platform: "linux/amd64",
		Name: "session-liveness", Title: "A replay is no proof of life: the session expires, the log answers",
		Description: "The server keeps a session for 30 minutes and its event log for 60. The load balancer cuts the idle stream, the client comes back with its cursor and is given a replay with 200 OK. Then the session dies, in the second part while the client is away.",
		Definition:  json.RawMessage(`{"title":"A replay is no proof of life","steady-state-hypothesis":{"title":"no event of a dead session is applied","probes":[]},"method":[{"type":"action","name":"initialize","at":"1m"},{"type":"action","name":"the load balancer cuts the idle stream","at":"5m"}],"server":{"session_ttl":"30m","log_retention":"60m","get_checks_session":false},"load_balancer":{"idle_timeout":"4m","on_expiry":"fin"}}`),
		Start:       start, End: start.Add(27*time.Second + 412*time.Millisecond), Zero: start.Add(120 * time.Millisecond),
		Scale: 100, Length: m(42), Seed: 4471, Repeat: 1,
		Status: journal.Completed, Verdict: journal.Upheld,
		Reason: "Without the middleware the application acted on 10 events of a dead session and lost 4 calls to it; with it every one of them was quarantined, and the application was told at the reconnect.",
		Again:  "revenant run experiments/session-liveness.yaml --seed 4471 --time-scale 100 --client gosdk,naive",
		Before: []journal.Check{
			{Arm: journal.Control, Client: "gosdk", Measure: "events_lost", Value: "0", Tolerance: "0", Met: true},
			{Arm: journal.Protected, Client: "gosdk", Measure: "events_lost", Value: "0", Tolerance: "0", Met: true},
		},
		After: []journal.Check{
			{Arm: journal.Control, Client: "gosdk", Measure: "dead_session_events_applied", Value: "10", Tolerance: "at least 1", Met: true},
			{Arm: journal.Protected, Client: "gosdk", Measure: "dead_session_events_applied", Value: "0", Tolerance: "0", Met: true},
			{Arm: journal.Control, Client: "gosdk", Measure: "requests_to_a_dead_session", Value: "5", Tolerance: "at least 2", Met: true},
			{Arm: journal.Protected, Client: "gosdk", Measure: "requests_to_a_dead_session", Value: "2", Tolerance: "at most 2", Met: true},
			{Arm: journal.Control, Client: "gosdk", Measure: "detected_at", Value: "tool call", Tolerance: "tool call", Met: true},
			{Arm: journal.Protected, Client: "gosdk", Measure: "detected_at", Value: "reconnect", Tolerance: "reconnect", Met: true},
			{Arm: journal.Protected, Client: "gosdk", Measure: "false_deaths", Value: "0", Tolerance: "0", Met: true},
			{Arm: journal.Control, Client: "naive", Measure: "dead_session_events_applied", Value: "10", Tolerance: "at least 1", Met: true},
			{Arm: journal.Protected, Client: "naive", Measure: "dead_session_events_applied", Value: "0", Tolerance: "0", Met: true},
			{Arm: journal.Protected, Client: "naive", Measure: "events_lost", Value: "0", Tolerance: "0", Met: true},
		},
		Run: []journal.Activity{
			{Name: "initialize", At: m(1), Done: m(1.03), Status: journal.StepSucceeded},
			{Name: "the load balancer cuts the idle stream", At: m(5), Done: m(5.01), Status: journal.StepSucceeded, Output: "fin after 4 min without a byte"},
			{Name: "events 4472 and 4473 are logged", At: m(5.5), Done: m(5.51), Status: journal.StepSucceeded},
			{Name: "the client reconnects with cursor 4471", At: m(6), Done: m(6.06), Status: journal.StepSucceeded, Output: "200, replay of 2 events"},
			{Name: "the session expires", At: m(31), Done: m(31), Status: journal.StepSucceeded},
			{Name: "tools/call", At: m(33), Done: m(33.1), Status: journal.StepSucceeded},
			{Name: "the session is reaped while the client is away", At: m(38), Done: m(38.4), Status: journal.StepSucceeded, Output: "the log stays"},
			{Name: "the client reconnects", At: m(39), Done: m(39.1), Status: journal.StepSucceeded, Output: "200, replay of 10 events of a dead session"},
		},
		Rollback: []journal.Activity{
			{Name: "stop the load balancers", At: m(42), Done: m(42), Status: journal.StepSucceeded},
			{Name: "stop the servers", At: m(42), Done: m(42.05), Status: journal.StepSucceeded},
		},
		Arms: []journal.Arm{
			livenessControl("gosdk"), livenessProtected("gosdk"),
			livenessControl("naive"), livenessProtected("naive"),
		},
	}
}

func events() (applied []journal.Mark) {
	for i := range 11 {
		applied = append(applied, mark(9.5+2*float64(i), journal.MarkApplied, fmt.Sprint("event ", 4474+i)))
	}
	return applied
}

func livenessControl(client string) journal.Arm {
	return journal.Arm{
		Name: journal.Control, Client: client,
		Measures: map[string]float64{"dead_session_events_applied": 10, "requests_to_a_dead_session": 5, "events_lost": 0, "calls_failed": 4},
		Lanes: []journal.Lane{
			{Name: "Load balancer", Kind: journal.BalancerLane,
				Spans: []journal.Span{span(1, 5, journal.StateOpen, ""), span(5, 6, journal.StateCut, ""), span(6, 34.1, journal.StateOpen, ""), span(34.1, 38, journal.StateOpen, ""), span(38, 39, journal.StateCut, ""), span(39, 42, journal.StateOpen, "")},
				Marks: []journal.Mark{mark(5, journal.MarkCut, "idle for 4 min: fin"), mark(38, journal.MarkCut, "idle for 4 min: fin")}},
			{Name: "Stream", Kind: journal.StreamLane,
				Spans: []journal.Span{span(1, 5, journal.StateOpen, ""), span(5, 6, journal.StateClosed, ""), span(6, 33.9, journal.StateOpen, ""), span(34.1, 38, journal.StateOpen, ""), span(38, 39, journal.StateClosed, ""), span(39, 42, journal.StateOpen, "")},
				Marks: []journal.Mark{mark(6, journal.MarkReconnect, "cursor 4471, answered 200"), mark(6.02, journal.MarkReplay, "events 4472 and 4473"), mark(39, journal.MarkReconnect, "cursor 12, answered 200"), {At: m(39.02), Kind: journal.MarkReplay, Label: "events 13 to 22", Count: 10}}},
			{Name: "Session", Kind: journal.SessionLane,
				Spans: []journal.Span{span(1, 31, journal.StateAlive, "5f0c21ab…"), span(31, 34, journal.StateDead, ""), span(34, 38.4, journal.StateAlive, ""), span(38.4, 42, journal.StateDead, "")},
				Marks: []journal.Mark{mark(1, journal.MarkInitialized, "5f0c21ab…"), mark(31, journal.MarkDied, "session TTL of 30 min"), mark(34, journal.MarkInitialized, "c07d9e44…"), mark(38.4, journal.MarkDied, "reaped")}},
			{Name: "Application", Kind: journal.ApplicationLane,
				Marks: append(append([]journal.Mark{mark(1.03, journal.MarkApplied, "event 4471"), mark(6.03, journal.MarkApplied, "event 4472"), mark(6.03, journal.MarkApplied, "event 4473")}, events()...),
					harm(33, journal.MarkFailed, "tools/call: 404 session expired"), harm(33.2, journal.MarkFailed, "retry 1: 404"), harm(33.4, journal.MarkFailed, "retry 2: 404"), harm(33.6, journal.MarkFailed, "retry 3: 404"),
					journal.Mark{At: m(39.03), Kind: journal.MarkApplied, Harm: true, Count: 10, Label: "events 13 to 22, of a dead session"},
					harm(41, journal.MarkFailed, "tools/call: 404 session expired"))},
		},
	}
}

func livenessProtected(client string) journal.Arm {
	a := livenessControl(client)
	a.Name = journal.Protected
	a.Measures = map[string]float64{"dead_session_events_applied": 0, "requests_to_a_dead_session": 2, "events_lost": 0, "calls_failed": 1, "probe_milliseconds": 1.25}
	stream := &a.Lanes[1]
	stream.Spans = []journal.Span{span(1, 5, journal.StateOpen, ""), span(5, 6, journal.StateClosed, ""), span(6, 6.06, journal.StateHeld, "2 events"), span(6.06, 33.05, journal.StateOpen, ""), span(34, 38, journal.StateOpen, ""), span(38, 39, journal.StateClosed, ""), span(39, 39.1, journal.StateHeld, "10 events"), span(39.1, 39.3, journal.StateClosed, ""), span(39.3, 42, journal.StateOpen, "")}
	session := &a.Lanes[2]
	session.Spans = []journal.Span{span(1, 31, journal.StateAlive, "91e2b7d0…"), span(31, 33.05, journal.StateDead, ""), span(33.05, 34, journal.StateFenced, ""), span(34, 38.4, journal.StateAlive, ""), span(38.4, 39.1, journal.StateDead, ""), span(39.1, 39.3, journal.StateFenced, ""), span(39.3, 42, journal.StateAlive, "")}
	session.Marks = append(session.Marks[:len(session.Marks):len(session.Marks)], mark(39.3, journal.MarkInitialized, "3a44f1c9…"))
	a.Lanes = append(a.Lanes[:3:3],
		journal.Lane{Name: "Middleware", Kind: journal.ProbeLane, Marks: []journal.Mark{
			mark(6.02, journal.MarkHeld, "2 events"), probe(6.04, journal.ProbeLive, "ping answered 200"), {At: m(6.06), Kind: journal.MarkReleased, Label: "2 events", Count: 2},
			{At: m(33.1), Kind: journal.MarkFenced, Label: "3 retries refused before the wire", Count: 3},
			{At: m(39.02), Kind: journal.MarkHeld, Label: "10 events", Count: 10}, probe(39.06, journal.ProbeDead, "ping answered 404"), {At: m(39.1), Kind: journal.MarkQuarantined, Label: "events 13 to 22", Count: 10}}},
		journal.Lane{Name: "Application", Kind: journal.ApplicationLane, Marks: append(append([]journal.Mark{mark(1.03, journal.MarkApplied, "event 4471"), mark(6.07, journal.MarkApplied, "event 4472"), mark(6.07, journal.MarkApplied, "event 4473")}, events()...),
			mark(33.05, journal.MarkFailed, "tools/call: the session is dead (SessionResumptionError)"), mark(41, journal.MarkCalled, "tools/call"))})
	return a
}

// elicitation is the record of the second observation: a load balancer that cuts
// every minute, and a question to the user in every replay.
func elicitation() *journal.Journal {
	j := &journal.Journal{
		Program: "revenant v0.4.0", Platform: "linux/amd64",
		Name: "elicitation-pending", Title: "One question, asked once: a pending request is replayed each minute",
		Description: "The server asks the user to confirm a destructive call. The load balancer cuts the stream after 60 s without a byte, and each reconnect replays the question.",
		Definition:  json.RawMessage(`{"title":"One question, asked once","method":[]}`),
		Start:       start.Add(time.Hour), End: start.Add(time.Hour + 11*time.Second), Scale: 60, Length: m(10), Seed: 60, Repeat: 2,
		Status: journal.Completed, Verdict: journal.Deviated,
		Reason: "With the middleware the user was asked twice: client mcpgo, at T+07:01.",
		Again:  "revenant run experiments/elicitation-pending.yaml --seed 60",
		After: []journal.Check{
			{Arm: journal.Control, Client: "mcpgo", Measure: "prompts_for_one_request", Value: "9", Tolerance: "at least 2", Met: true},
			{Arm: journal.Protected, Client: "mcpgo", Measure: "prompts_for_one_request", Value: "2", Tolerance: "1", Met: false},
			{Arm: journal.Control, Client: "mcpgo", Measure: "calls_left_hanging", Value: "1", Tolerance: "1", Met: true},
			{Arm: journal.Protected, Client: "mcpgo", Measure: "calls_left_hanging", Tolerance: "0", Problem: "the oracle's log was cut short at T+09:40"},
		},
		Run: []journal.Activity{
			{Name: "tools/call with a question to the user", At: m(0.2), Done: m(0.25), Status: journal.StepSucceeded},
			{Name: "the load balancer cuts each minute", At: m(1), Done: m(9.5), Status: journal.StepSucceeded},
			{Name: "the user answers", At: m(9.6), Done: m(9.6), Status: journal.StepFailed, Output: "answered 400: no such request"},
			{Name: "the call ends", At: m(10), Done: m(10), Status: journal.StepSkipped},
		},
	}
	for _, name := range []string{journal.Control, journal.Protected} {
		balancer := journal.Lane{Name: "Load balancer", Kind: journal.BalancerLane}
		stream := journal.Lane{Name: "Stream of the call", Kind: journal.StreamLane}
		ours := journal.Lane{Name: "Middleware", Kind: journal.ProbeLane}
		app := journal.Lane{Name: "Application", Kind: journal.ApplicationLane, Marks: []journal.Mark{mark(0.2, journal.MarkPrompted, "delete 14 rows?")}}
		session := journal.Lane{Name: "Session", Kind: journal.SessionLane, Spans: []journal.Span{span(0, 10, journal.StateAlive, "")}, Marks: []journal.Mark{mark(0, journal.MarkInitialized, "77b01d52…")}}
		from := 0.1
		for i := 1; i <= 9; i++ {
			t := float64(i)
			balancer.Spans = append(balancer.Spans, span(from, t, journal.StateOpen, ""), span(t, t+0.1, journal.StateCut, ""))
			balancer.Marks = append(balancer.Marks, mark(t, journal.MarkCut, "idle for 60 s"))
			stream.Spans = append(stream.Spans, span(from, t, journal.StateOpen, ""), span(t, t+0.1, journal.StateClosed, ""))
			stream.Marks = append(stream.Marks, mark(t+0.1, journal.MarkReconnect, "cursor 3"), mark(t+0.12, journal.MarkReplay, "the question, id 7"))
			from = t + 0.1
			if name == journal.Control || i == 7 {
				app.Marks = append(app.Marks, harm(t+0.15, journal.MarkPrompted, "delete 14 rows?"))
			}
			if name == journal.Protected {
				verdict := journal.ProbeLive
				if i == 4 {
					verdict = journal.ProbeAmbiguous
				}
				ours.Marks = append(ours.Marks, mark(t+0.12, journal.MarkHeld, ""), probe(t+0.13, verdict, ""), mark(t+0.14, journal.MarkSuppressed, "the question, id 7"))
			}
		}
		balancer.Spans = append(balancer.Spans, span(from, 10, journal.StateOpen, ""))
		stream.Spans = append(stream.Spans, span(from, 10, journal.StateOpen, ""))
		lanes := []journal.Lane{balancer, stream, session}
		measures := map[string]float64{"prompts_for_one_request": 10, "calls_left_hanging": 1}
		if name == journal.Protected {
			ours.Marks = append(ours.Marks, mark(9.6, journal.MarkStale, "id 7: the answer was refused"))
			lanes = append(lanes, ours)
			measures["prompts_for_one_request"] = 2
		}
		j.Arms = append(j.Arms, journal.Arm{Name: name, Client: "mcpgo", Measures: measures, Lanes: append(lanes, app)})
	}
	return j
}

// crowd is a run with many clients in each arm and many events.
func crowd() *journal.Journal {
	j := liveness()
	j.Name, j.Title = "five-hundred-clients", "Five hundred clients behind one load balancer"
	j.Verdict, j.Reason = journal.Inconclusive, "The control arm did not fail: no session died while its client was away."
	j.After, j.Run = nil, j.Run[:2]
	for n := range 70 {
		j.After = append(j.After,
			journal.Check{Arm: journal.Control, Client: "gosdk", Measure: fmt.Sprintf("measure_%02d", n), Value: "0", Tolerance: "at least 1", Met: n != 66},
			journal.Check{Arm: journal.Protected, Client: "gosdk", Measure: fmt.Sprintf("measure_%02d", n), Value: "0", Tolerance: "0", Met: true})
	}
	j.Arms = nil
	for _, name := range []string{journal.Control, journal.Protected} {
		a := journal.Arm{Name: name, Client: "gosdk", Lanes: []journal.Lane{{Name: "Load balancer", Kind: journal.BalancerLane, Spans: []journal.Span{span(0, 42, journal.StateOpen, "")}}}}
		for i := range 500 {
			cut := 5 + float64(i*7%500)/25
			stream := journal.Lane{Name: fmt.Sprint("Stream ", i+1), Kind: journal.StreamLane, Spans: []journal.Span{span(1, cut, journal.StateOpen, ""), span(cut, cut+1, journal.StateClosed, ""), span(cut+1, cut+1.5, journal.StateHeld, ""), span(cut+1.5, 42, journal.StateOpen, "")}}
			for k := range 10 {
				stream.Marks = append(stream.Marks, mark(float64((i*31+k*97)%420)/10, journal.MarkApplied, ""))
			}
			a.Lanes = append(a.Lanes, stream, journal.Lane{Name: fmt.Sprint("Session ", i+1), Kind: journal.SessionLane, Spans: []journal.Span{span(1, 25+cut/2, journal.StateAlive, ""), span(25+cut/2, 42, journal.StateDead, "")}})
		}
		// A lane of its own with thousands of short spans and marks.
		busy := journal.Lane{Name: "Application", Kind: journal.ApplicationLane}
		for i := range 10_000 {
			busy.Marks = append(busy.Marks, mark(42*float64(i)/10_000, journal.MarkApplied, fmt.Sprint("event ", i)))
			if i%10 == 0 {
				busy.Spans = append(busy.Spans, span(42*float64(i)/10_000, 42*float64(i+5)/10_000, "working", ""))
			}
		}
		j.Arms = append(j.Arms, journal.Arm{Name: a.Name, Client: a.Client, Lanes: append(a.Lanes, busy)})
	}
	return j
}
