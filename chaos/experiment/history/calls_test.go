package history_test

import (
	"maps"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
)

func TestPromptsForOneRequest(t *testing.T) {
	s, stream := a()
	q, r := s.ask("A", "main", 10), s.ask("A", "main", 11)
	s.prompts(stream, q, 10)
	s.prompts(stream, r, 11)
	s.close(stream, 20)
	for _, at := range []float64{30, 40} {
		s.prompts(s.get("A", "1", at), q, at)
	}
	s.c.Prompts[2].Withdrawn = new(sec(31))
	got, err := history.PromptsForOneRequest(s.h)
	if want := map[int]int{1: 1, 3: 1}; err != nil || got.Max != 3 || got.All != 4 || got.Withdrawn != 1 || !maps.Equal(got.Times, want) {
		t.Errorf("PromptsForOneRequest = %+v, %v, want 3 at the most, %v, 1 withdrawn", got, err, want)
	}
	checkMeasures(t, s.h, map[string]float64{"prompts_for_one_request": 3, "requests_prompted_again": 1})
}

// Two persons who are asked the same are each asked once.
func TestPromptsOfTwoClients(t *testing.T) {
	s, stream := a()
	q := s.ask("A", "main", 10)
	s.prompts(stream, q, 10)
	s.h.Clients = append(s.h.Clients, history.Client{Name: "two", Prompts: s.c.Prompts})
	got, err := history.PromptsForOneRequest(s.h)
	checkCount(t, "PromptsForOneRequest", got.Max, err, 1)
}

func TestCalls(t *testing.T) {
	s, _ := a()
	s.calls("A", 10, 11, client.Result, 0)
	s.c.Calls[0].Stamp = s.store("A", "call", 11).Stamp
	s.calls("A", 10, 11, client.ToolError, 0)
	s.calls("A", 10, 11, client.RPCError, -32601)
	s.calls("A", 10, 11, client.RPCError, client.StaleCode)
	s.calls("A", 10, 11, client.RPCError, client.StaleCode)
	s.calls("A", 10, 11, client.SessionError, 0)
	s.calls("A", 10, 11, client.TransportError, 0)
	s.calls("A", 10, 0, "", 0)
	s.calls("A", 10, 100, client.Hanging, 0)
	failed, err := history.CallsFailed(s.h)
	want := history.Failures{Stale: 2, RPC: 1, Session: 1, Transport: 1, Tool: 1}
	checkCount(t, "CallsFailed", failed, err, want)
	checkCount(t, "Total", failed.Total(), nil, 6)
	n, err := history.CallsHanging(s.h)
	checkCount(t, "CallsHanging", n, err, 2)
	n, err = history.CallsAnswered(s.h)
	checkCount(t, "CallsAnswered", n, err, 1)
	s.h.Patience = sec(99) // A call that was given up had what its application gave it.
	s.c.Calls[7].Ended, s.c.Calls[7].How = new(sec(12)), client.Hanging
	n, err = history.CallsHanging(s.h)
	checkCount(t, "CallsHanging", n, err, 2)
}

func TestStaleAnswers(t *testing.T) {
	s, _ := a()
	s.h.Oracle.Answers = []history.Answer{{Status: 202, Taken: true}, {Status: 400}, {Status: 202}}
	n, err := history.StaleAnswers(s.h)
	checkCount(t, "StaleAnswers", n, err, 2)
}

func TestCallsHangingWantsPatience(t *testing.T) {
	s, _ := a()
	s.calls("A", 95, 0, "", 0)
	n, err := history.CallsHanging(s.h)
	checkCount(t, "CallsHanging", n, err, 1)
	s.h.Patience = sec(10)
	_, err = history.CallsHanging(s.h)
	checkProblem(t, err, "the run was long enough: call 1 of one is open, and began 5s before the end")
	s.calls("A", 96, 97, client.Result, 0) // is no matter of patience
	s.c.Calls[0].At = sec(90)
	n, err = history.CallsHanging(s.h)
	checkCount(t, "CallsHanging", n, err, 1)
}

func TestCallsFailedWantsOutcomes(t *testing.T) {
	s, _ := a()
	s.calls("A", 10, 11, "surprise", 0)
	_, err := history.CallsFailed(s.h)
	checkProblem(t, err, `every outcome of a call is known: call 1 of one ended as "surprise"`)
}
