package history_test

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/experiment/history"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

const minute = time.Minute

// The first seed's drop, unscaled: the stream is cut at T+5, ten events are
// stored while the client is away and the session is then lost, the client is
// back a minute later, and its application calls a tool at T+33. mcp-go comes
// back without a cursor, so its server replays from the beginning to such a
// client, as go-sdk's does.
func TestSeedOfTheDrop(t *testing.T) {
	common := map[string]float64{
		"events_lost": 0, "events_delayed": 0, "false_deaths": 0, "sessions_given_up": 0, "calls_hanging": 0,
		"prompts_for_one_request": 0, "sessions_begun": 2, "detected_never": 0, "requests_after_detection": 0,
	}
	control := map[string]float64{
		"calls_failed": 1, "calls_failed_session": 1, "detected_at_reconnect": 0, "detected_at_tool_call": 1,
		"detection_delay": 28 * 60, "events_missed": 0, "events_quarantined": 0,
	}
	protected := map[string]float64{
		"dead_session_events_applied": 0, "requests_to_dead_session": 2, "calls_failed": 0,
		"detected_at_reconnect": 1, "detected_at_tool_call": 0, "events_missed": 10,
	}
	cases := map[client.Kind]struct {
		server             mcpserver.Config
		control, protected map[string]float64
	}{
		client.GoSDK: {
			mcpserver.Config{Retry: minute},
			map[string]float64{"dead_session_events_applied": 10, "requests_to_dead_session": 7},
			map[string]float64{"events_quarantined": 10},
		},
		// It comes back every second, and gets the event that it had once more.
		client.MCPGo: {
			mcpserver.Config{Replay: mcpserver.ReplayFull},
			map[string]float64{"dead_session_events_applied": 7 * 11, "requests_to_dead_session": 8},
			map[string]float64{"events_quarantined": 11},
		},
		// It makes a call three times more that is answered 404.
		client.Naive: {
			mcpserver.Config{Retry: minute},
			map[string]float64{"dead_session_events_applied": 10, "requests_to_dead_session": 10},
			map[string]float64{"events_quarantined": 10},
		},
	}
	for kind, c := range cases {
		for _, arm := range arms {
			t.Run(string(kind)+"/"+arm, func(t *testing.T) {
				cfg := client.Config{Kind: kind, Reinitialize: true}
				virtual(t, arm, c.server, lb.Config{IdleTimeout: 4 * minute, OnExpiry: lb.FIN}, cfg, func(r *run) {
					r.until(1 * minute)
					session := r.connect()
					r.emit(session, 1)
					r.until(5 * minute)
					r.emit(session, 10)
					r.server.Reap(session)
					r.until(33 * minute)
					got := <-r.client.Call("echo", map[string]any{"text": "hello"})
					if (got.How == client.Result) != (arm == "protected") {
						t.Errorf("the call ends as %v, %v", got.How, got.Err)
					}
					r.until(34 * minute)

					want := maps.Clone(common)
					if arm == "control" {
						maps.Copy(want, control)
						maps.Copy(want, c.control)
					} else {
						maps.Copy(want, protected)
						maps.Copy(want, c.protected)
					}
					h := r.history()
					checkMeasures(t, h, want)
					// What leaves the process says the same.
					data, err := json.Marshal(h)
					if err != nil {
						t.Fatal(err)
					}
					read := new(history.History)
					if err := json.Unmarshal(data, read); err != nil {
						t.Fatal(err)
					}
					checkMeasures(t, read, want)
					if _, problems := history.Arm(h, arm, kind); len(problems) != 0 {
						t.Errorf("Arm has problems: %v", problems)
					}
				})
			})
		}
	}
}

// The second seed: a person is asked to confirm a call, the stream is cut when it
// is idle for 60 seconds, the server waits no longer and replays the question.
// The person takes 90 seconds for it, and 5 when asked again.
func TestSeedOfTheElicitation(t *testing.T) {
	cases := []struct {
		kind    client.Kind
		cut     lb.Expiry
		control map[string]float64
	}{
		// The client ends its session after five rounds on one event.
		{client.GoSDK, lb.FIN, map[string]float64{"prompts_for_one_request": 6, "calls_failed": 1, "sessions_given_up": 1}},
		// It asks at each reconnect, for ever.
		{client.MCPGo, lb.CleanEnd, map[string]float64{"prompts_for_one_request": 15, "calls_hanging": 1}},
		{client.Naive, lb.FIN, map[string]float64{"prompts_for_one_request": 15, "calls_hanging": 1}},
	}
	for _, c := range cases {
		for _, arm := range arms {
			t.Run(string(c.kind)+"/"+arm, func(t *testing.T) {
				server := mcpserver.Config{Retry: time.Second, Replay: mcpserver.ReplayInclusive, OnBreak: mcpserver.BreakCancels, StaleAnswer: 202}
				cfg := client.Config{Kind: c.kind, CallsOnly: true, Person: client.Person{Replies: []client.Reply{{After: 90 * time.Second}, {After: 5 * time.Second}}}}
				virtual(t, arm, server, lb.Config{IdleTimeout: minute, OnExpiry: c.cut}, cfg, func(r *run) {
					r.connect()
					r.client.Call("confirm", map[string]any{"message": "Really?"})
					r.until(15 * minute)
					want := map[string]float64{
						"prompts_for_one_request": 1, "calls_failed": 1, "calls_failed_stale": 1, "calls_hanging": 0,
						"sessions_given_up": 0, "false_deaths": 0, "requests_stale": 1,
					}
					if arm == "control" {
						want = c.control
					}
					checkMeasures(t, r.history(), want)
				})
			})
		}
	}
}

// A healthy session on a stream that is cut again and again: nothing may be lost,
// doubled, late or declared dead. mcp-go alone loses what is said while it is
// away, and the middleware alone keeps that from it.
func TestHealthySessionOnABadStream(t *testing.T) {
	for _, kind := range client.Kinds() {
		for _, arm := range arms {
			t.Run(string(kind)+"/"+arm, func(t *testing.T) {
				virtual(t, arm, mcpserver.Config{Retry: time.Second}, lb.Config{}, client.Config{Kind: kind}, func(r *run) {
					session := r.connect()
					r.emit(session, 1)
					for range 20 {
						r.balancer.Cut(lb.RST)
						r.emit(session, 1) // The client is away for a second.
						r.until(time.Since(r.zero) + 2*time.Second)
						r.emit(session, 1)
					}
					r.until(time.Since(r.zero) + 2*time.Second)
					missed := 0.0
					if kind == client.MCPGo && arm == "control" {
						missed = 20
					}
					h := r.history()
					checkMeasures(t, h, map[string]float64{
						"events_lost": 0, "events_missed": missed, "events_duplicated": 0, "events_delayed": 0,
						"false_deaths": 0, "sessions_given_up": 0, "sessions_begun": 1, "dead_session_events_applied": 0,
					})
					if want := 41 - int(missed); len(h.Clients[0].Applied) != want {
						t.Errorf("%d events were applied, want %d", len(h.Clients[0].Applied), want)
					}
				})
			})
		}
	}
}
