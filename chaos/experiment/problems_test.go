package experiment_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// edited is testdata/full.yaml with one text in place of another, which stands in
// it once.
func edited(t *testing.T, from, to string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(data), from); n != 1 {
		t.Fatalf("testdata/full.yaml has %q %d times, want it once", from, n)
	}
	return strings.Replace(string(data), from, to, 1)
}

// Each of these is one mistake, and one problem: no more follow from it.
func TestProblems(t *testing.T) {
	const byType, bySense = true, false
	for _, test := range []struct {
		from, to string
		want     string // path, message and suggestion
		schema   bool   // whether the schema refuses it as well
	}{
		// Keys.
		{"title: Everything", "titel: Everything", "titel is no key of a definition; did you mean title?", byType},
		{"    session_ttl: 30m", "    sesion_ttl: 30m", "topology.servers.sesion_ttl is no key of topology.servers; did you mean session_ttl?", byType},
		{"    cookie: route", "    idle_timeout: 4m", "topology.servers.idle_timeout is no key of topology.servers, want one of replicas, shared_sessions, session_ttl, refresh, log_retention, max_events, unknown_session, get_checks_session, conflict, rules, cookie, replay, on_break, stale_answer, liveness_token, retry; idle_timeout is a key of topology.load_balancer", byType},
		{"clients: 2\n    connect: {}", "clients: 2\n    connect: {how: now}", "method[0].connect.how is a key, and method[0].connect has none; how is a key of method.disconnect, method.cut or method.fault", byType},
		{"\nseed: 4471", "\nseed: 4471\nseed: 4472", "seed is given twice, first on line 11, want it once", bySense},
		{"network: namespaces", "network: namespaces\n  network: none", "topology.network is given twice, first on line 52, want it once", bySense},

		// Values of another type.
		{"seed: 4471", "seed: -1", "seed is -1, want a whole number from 1 on", byType},
		{"seed: 4471", "seed: 0", "seed is 0, want 1 or more", byType},
		{"repeats: 2", "repeats: 0", "repeats is 0, want from 1 to 100", byType},
		{"repeats: 2", "repeats: 2.5", "repeats is 2.5, want a whole number", byType},
		{"repeats: 2", `repeats: "2"`, `repeats is the text "2", want a whole number`, byType},
		{"repeats: 2", "repeats: 99999999999999999999999", `repeats is the text "99999999999999999999999", want a whole number`, byType},
		{"time_scale: 10", "time_scale: fast", `time_scale is the text "fast", want a number`, byType},
		{"time_scale: 10", "time_scale: .nan", "time_scale is .nan, want a number", bySense},
		{"time_scale: 10", "time_scale: 1001", "time_scale is 1001, want from 1 to 1000", byType},
		{"title: Everything at once", "title: 7", "title is 7, want a text; put it in quotes", byType},
		{"title: Everything at once", "title:", "title is empty, want a text; put it in quotes", byType},
		{"title: Everything at once", `title: " "`, "title is empty, want a text", byType},
		{"title: Everything at once", `title: "a\nb"`, `title is "a\nb", want one line`, byType},
		{"name: full", "name: Full house", `name is "Full house", want lower-case letters, digits and single dashes between them`, byType},
		{"shared_sessions: true", "shared_sessions: yes", `topology.servers.shared_sessions is the text "yes", want true or false`, byType},
		{"session_ttl: 30m", "session_ttl: 30", "topology.servers.session_ttl is 30, want a duration with its unit, such as 30s or 1m30s", byType},
		{"session_ttl: 30m", "session_ttl: 30 min", `topology.servers.session_ttl is "30 min" is no duration, want a number with a unit, such as 30s or 1m30s`, byType},
		{"session_ttl: 30m", "session_ttl: -30m", `topology.servers.session_ttl is "-30m" is no duration, want a number with a unit, such as 30s or 1m30s`, byType},
		{"session_ttl: 30m", "session_ttl: 100000h", `topology.servers.session_ttl is "100000h" is too long, want at most 8784h`, bySense},
		{"refresh: any", "refresh: anny", `topology.servers.refresh is "anny", want post, any or never; did you mean any?`, byType},
		{"refresh: any", `refresh: ""`, `topology.servers.refresh is "", want post, any or never`, byType},
		{"refresh: any", "refresh: 1", "topology.servers.refresh is 1, want post, any or never", byType},
		{"links: [front, back]", "links: front", `topology.links is the text "front", want a list`, byType},
		{"mcpgo: {}", "mcpgo:", "clients.mcpgo is empty, want a mapping; {} is one with nothing but defaults", byType},
		{"idle_timeout: 4m", "idle_timeout: 0s", `topology.load_balancer.idle_timeout is "0s" is no limit, want more, or none`, bySense},
		{"on_expiry: silent_then_rst", "on_expiry: silent_then_rts", `topology.load_balancer.on_expiry is "silent_then_rts", want fin, rst, clean_end, silent, silent_then_rst, or a status from 400 to 599; did you mean silent_then_rst?`, byType},
		{"on_expiry: silent_then_rst", "on_expiry: 302", "topology.load_balancer.on_expiry is 302, want fin, rst, clean_end, silent, silent_then_rst, or a status from 400 to 599", byType},
		{"kind: cut_in_event", "kind: cut_in_evnt", `method[12].fault.kind is "cut_in_evnt", want fin, rst, blackhole, cut_after, cut_in_event, latency, bandwidth, partition, silent_drop, silent_drop_then_reset, packet_loss or reset; did you mean cut_in_event?`, byType},
		{"probability: 0.25", "probability: 25", "method[16].fault.probability is 25, want from 0.000001 to 1", byType},
		{"content_type: text/html, ", "status: 200, ", "topology.servers.rules[1].status is given twice, first on line 30, want it once", bySense},

		{"engine: embedded", `engine: ""`, `topology.load_balancer.engine is "", want embedded, haproxy or nginx`, byType},
		// What depends on something that could not be read is not judged.
		{"links: [front, back]", "links: [frnt, back]", `topology.links[0] is "frnt", want front or back; did you mean front?`, byType},
		{"links: [front, back]", "lniks: [front, back]", "topology.lniks is no key of topology; did you mean links?", byType},

		// Time.
		{"starts_at: 1m", "starts_at: 50m", "length is 40m, want more than starts_at, 50m\nmethod[0].at is 1m, want no time before starts_at, 50m", bySense},
		{"- at: 4m", "- at: 2m", "method[10].at is 2m, want no time before the step above it, 3m: steps are in the order of time", bySense},
		{"- at: 20m", "- at: 41m", "method[24].at is 41m, want no time after length, 40m", bySense},
		{"- at: 20m\n", "-\n", "method[24].at is missing", byType},
		{"- at: 20m\n", "- ta: 20m\n", "method[24].ta is no key of method[24]; did you mean at?", byType},
		{"every: 30s", "when: away", "method[11].until is 6m, want every with it: the time between two", bySense},
		{"    until: 6m\n", "", "method[11].every is 30s, want until with it: the last moment", bySense},
		{"until: 6m", "until: 5m10s", "method[11].until is 5m10s, want at least at + every, 5m30s", bySense},
		{"until: 6m", "until: 50m", "method[11].until is 50m, want no time after length, 40m", bySense},
		{"every: 30s", "every: 30s\n    when: away", "method[11].when is away, of a step that is done every 30s, want none: it does not wait", bySense},
		{"idle_timeout: 4m", "idle_timeout: 100ms", "topology.load_balancer.idle_timeout is 100ms, which at time_scale 10 takes 10ms: too short for an ordinary machine, want 20ms or more; a time_scale of at most 5 would do", bySense},
		{"retry: 5s", "retry: 1ms", "topology.servers.retry is 1ms: too short for an ordinary machine, want 10ms or more in real time", bySense},
		{"after: 350s", "after: 355s", "method[17].fault.after is 5m55s, which at time_scale 10 takes 35.5s, want whole seconds in real time as well; a time_scale that divides 355 would do", bySense},
		{"after: 350s", "after: 1500ms", "method[17].fault.after is 1.5s, want whole seconds", bySense},
		{"retry_after: 20s", "retry_after: 3s", "topology.servers.rules[1].retry_after is 3s, which at time_scale 10 takes 300ms, want whole seconds in real time as well; a time_scale that divides 3 would do", bySense},

		// Topology.
		{"replicas: 2\n    shared_sessions: true", "shared_sessions: true", "topology.servers.shared_sessions is true, want more than one of replicas, or false\nmethod[13].fault.replica is 1, want 0: there is one replica\nmethod[21].restart_servers.pause is 30s, but only one replica is restarted, want none\nmethod[22].restart_servers.replica is 1, want 0: there is one replica", bySense},
		{"stale_answer: 202", "stale_answer: 404", "topology.servers.stale_answer is 404, want 200 to 299, or 400 to 499 without 404 and 410, which say that the session is dead", bySense},
		{"cookie: route", "cookie: a b", `topology.servers.cookie is "a b", want a name that a cookie may have`, bySense},
		{"links: [front, back]", "links: [front, back, back]", "topology.links has 3 entries, want at most 2", byType},
		{"links: [front, back]", "links: [back, back]", "topology.links[1] is back, want each link once\nmethod[12].fault.target is front, a link that the topology has not, want it in topology.links\nmethod[14].fault.target is front, a link that the topology has not, want it in topology.links", bySense},
		{"network: namespaces", "network: none", "method[16].fault.target is network, want topology.network: namespaces with it, or a link\nmethod[17].fault.target is network, want topology.network: namespaces with it, or a link", bySense},
		{"engine: embedded", "engine: haproxy", "topology.load_balancer.max_duration is 20m0s: engine haproxy has no limit on a whole response; want 0, or engine embedded\ntopology.load_balancer.on_expiry is silent_then_rst: engine haproxy can only do fin here; want that, or engine embedded\ntopology.load_balancer.header_status is 502: engine haproxy answers 504; want that, or engine embedded", bySense},
		{"header_status: 502", "header_status: 200", "topology.load_balancer.header_status is 200, want from 400 to 599", byType},
		{"rpc: ping, ", "rpc: ping, status: 204, body: x, ", `topology.servers.rules[0].body is "x", want none with status 204` + "\n" + `method[19].rule.body is "x", want none with status 204`, bySense},
		{"{on: delete, hang: true}", "{on: delete}", "topology.servers.rules[3] has no effect, want a delay, a status, hang or reap_after_replay", bySense},
		{"{on: delete, hang: true}", "{on: delete, rpc: ping, hang: true}", `topology.servers.rules[3].rpc is "ping", want none, or on: post`, bySense},

		// Clients, the middleware and persons.
		{"probe_timeout: 10s", "probe_timeout: 40s", "middleware.probe_timeout is 40s, want at most probe_budget, 30s", bySense},
		{"probe_dead_status_codes: [400]", "probe_dead_status_codes: [200]", "middleware.probe_dead_status_codes has 200, want 400 to 599", bySense},
		{"session_header: Mcp-Session-Id", "session_header: a b", `middleware.session_header is "a b", want a header name such as "Mcp-Session-Id"`, bySense},
		{"pending: strict", "pending: stict", `middleware.pending is "stict", want reconcile, strict or off; did you mean strict?`, byType},
		{"{action: never}", "{action: never, after: 1s}", "person.replies[1].after is 1s, want none with action: never", bySense},

		// The method.
		{"    reap: {}\n  - at: 16m", "    reap: {}\n    emit: {}\n  - at: 16m", "method[20] does emit and reap, want one of them in a step", bySense},
		{"    reap: {}\n  - at: 16m", "  - at: 16m", "method[20] does nothing, want one of connect, disconnect, emit, call, ask, cut, fault, rule, reap, restart_servers, restart_load_balancer", bySense},
		{"clients: 2\n    connect", "clients: 4\n    connect", "method[0].clients is 4, want at most 3, the count of the clients", bySense},
		{"- at: 18m", "- at: 18m\n    clients: 1", "method[23].clients is 1, but restart_load_balancer is not done for each client, want none", bySense},
		{"tool: emit, events: 3", "tool: emit, event: 3", "method[3].call.event is no key of method[3].call; did you mean events?", byType},
		{"tool: emit, events: 3", "tool: emit, events: 3, message: x", "method[3].call.message is no argument of emit, want none: it takes events", bySense},
		{"{tool: roots}", "{tool: roots, text: x}", "method[8].call.text is no argument of roots, want none: it takes no argument", bySense},
		{"message: Delete?, ", "", "method[5].call.message is missing: confirm needs it", bySense},
		{"events: 10, interval: 2s", "events: 1, interval: 2s", "method[4].call.interval is 2s, want 2 events or more with it", bySense},
		{"name: said", "name: delete", "method[5].call.name is delete, the name of the call in method[2], want each name once\nhypothesis.control.clients.naive.calls.said is the name of no call in the method, want delete or delete\nhypothesis.protected.calls.said is the name of no call in the method, want delete or delete", bySense},
		{"cut: {how: rst}", "call: {tool: echo, name: again}", "method[11].call.name is again, of a step that is done more than once, want no name: a hypothesis speaks of one call", bySense},
		{"cut: {how: rst}", "cut: {how: 503}", `method[11].cut.how is "503", want "fin", "rst", "clean_end", "silent" or "silent_then_rst"`, bySense},
		{"target: back, replica: 1,", "target: front, replica: 1,", "method[13].fault.replica is 1, want target: back with it, or none", bySense},
		{"target: back, replica: 1,", "target: back, replica: 2,", "method[13].fault.replica is 2, want from 0 to 1: there are 2 replicas", bySense},
		{"target: network, kind: packet_loss", "target: front, kind: packet_loss", "method[16].fault.kind is packet_loss, which acts in the network, want target: network, or fin, rst, blackhole, cut_after, cut_in_event, latency, bandwidth or partition", bySense},
		{"target: front, kind: latency", "target: network, kind: latency", "method[14].fault.kind is latency, which acts on a link, want target: front or back, or partition, silent_drop, silent_drop_then_reset, packet_loss or reset", bySense},
		{"conn: 1, bytes: 100", "conn: 1, limit: 2, bytes: 100", "method[13].fault.limit is 2, want none beside conn: that is one connection already", bySense},
		{"jitter: 500ms", "jitter: 5s", "method[14].fault.jitter is 5s, want no more than delay, 1s", bySense},
		{"target: front, kind: latency, delay: 1s, jitter: 500ms", "target: front, kind: rst, event: 2", "method[14].fault.event is 2, want none: rst takes direction, conn, limit", bySense},
		{"- call: {tool: echo}", "- call: {tool: echo, name: last}", "rollbacks[1].call.name is last, want none: the hypothesis has been checked by then", bySense},
		{"- call: {tool: echo}", "- call: {tool: echo, background: true}", "rollbacks[1].call.background is true, want false: the run ends with the rollbacks", bySense},
		{"  - restart_load_balancer: {}", "  - {}", "rollbacks[4] does nothing, want one of disconnect, call, reap, restart_servers, restart_load_balancer", bySense},

		// The hypothesis.
		{"    events_lost: 0\n    sessions", "    event_lost: 0\n    sessions", "hypothesis.protected.event_lost is no measure of an arm; did you mean events_lost?", byType},
		{"    events_lost: 0\n    sessions", "    outcome: answered\n    sessions", "hypothesis.protected.outcome is no measure of an arm, but of a call: it belongs below calls and the call's name", byType},
		{"events_lost: 0", "events_lost: none", `hypothesis.protected.events_lost is the text "none", want a number, a comparison such as ">= 1", a range [1, 3] or {in: [...]}`, byType},
		{"events_lost: 0", `events_lost: "=> 1"`, `hypothesis.protected.events_lost is the text "=> 1", want a number, a comparison such as ">= 1", a range [1, 3] or {in: [...]}`, byType},
		{"events_lost: 0", `events_lost: ">= many"`, `hypothesis.protected.events_lost compares with "many", want a number`, byType},
		{"events_lost: 0", "events_lost: [1, 2, 3]", "hypothesis.protected.events_lost is a list of 3, want the two ends of a range; a set is written {in: [...]}", byType},
		{"events_lost: 0", "events_lost: {regex: x}", "hypothesis.protected.events_lost.regex is no key of a tolerance here, want {in: [...]}, or of a text {regex: ...}", byType},
		{"events_lost: 0", "events_lost: {}", "hypothesis.protected.events_lost is a mapping of 0 keys, want {in: [...]}, or of a text {regex: ...}", byType},
		{"events_lost: 0", "events_lost: {in: []}", "hypothesis.protected.events_lost.in is no list, want one of the values that may be", byType},
		{"events_lost: 0", "events_lost: -1", "hypothesis.protected.events_lost is -1, want nothing below 0: it is never negative", bySense},
		{"events_lost: 0", "events_lost: [3, 1]", "hypothesis.protected.events_lost is [3, 1], want the lower end first", bySense},
		{"events_lost: 0", `events_lost: "< 0"`, `hypothesis.protected.events_lost is < 0, which nothing is, want 0 or "<= 0"`, bySense},
		{"events_lost: 0", `events_lost: ">= 0"`, "hypothesis.protected.events_lost is >= 0, which everything is, want more", bySense},
		{`{regex: "session is dead"}`, `{regex: "("}`, "hypothesis.protected.detection_error.regex is no regular expression: error parsing regexp: missing closing ): `(`", byType},
		{"detected_at: reconnect", "detected_at: reconect", `hypothesis.protected.detected_at is "reconect", want reconnect, tool_call, never, no_death or mixed; did you mean reconnect?`, byType},
		{"detected_at: reconnect", `detected_at: "> reconnect"`, "hypothesis.protected.detected_at is a comparison of texts, want !=, a text, a list of texts, or {regex: ...}", byType},
		{`detection_delay: "<= 30s"`, "detection_delay: 30", `hypothesis.protected.detection_delay is 30, want a duration, a comparison such as "<= 30s", a range [1s, 5s] or {in: [...]}`, byType},
		{"      1: {detection_delay: [0s, 30s]}", "      0: {detection_delay: [0s, 30s]}", "hypothesis.protected.sessions.0 is no session, want its number, from 1 to 1000", byType},
		{"      naive:\n", "      native:\n", "hypothesis.control.clients.native is no kind of client, want gosdk, mcpgo or naive; did you mean naive?", byType},
		{"  naive: {count: 2}\n\nmid", "\nmid", "hypothesis.control.clients.naive is a kind of which there are no clients, want naive in clients, or nothing here", bySense},
		{`    dead_session_events_applied: ">= 1"`, "    probes: 0\n    dead_session_events_applied: \">= 1\"", "hypothesis.control.probes cannot be measured: it is the middleware's, which the control arm has not", bySense},
		{"    sessions_begun: [1, 3]", "    prompts: 0", "hypothesis.before.prompts cannot be measured: before the method there is nothing of it", bySense},
		{"    sessions_begun: [1, 3]", "    sessions: {1: {events_lost: 0}}", "hypothesis.before.sessions cannot be checked before the method, want measures of the arm alone", bySense},
		{"      said: {attempts", "      sad: {attempts", "hypothesis.protected.calls.sad is the name of no call in the method, want said or delete; did you mean said?", bySense},

		// When to stop.
		{`streams_cut: "> 1000"`, `streams_cut: "< 1000"`, `abort.control.streams_cut is < 1000, want a bound such as "> 10": what is more stops the run`, byType},
		{`streams_cut: "> 1000"`, "streams_cut: 1000", `abort.control.streams_cut is 1000, want a bound such as "> 10": what is more stops the run`, byType},
		{"real_time_limit: 10m", "real_time_limit: 3m", "abort.real_time_limit is 3m, want more than the run takes, 3m54s", bySense},
		{"real_time_limit: 10m", "real_time_limit: 1ms", "abort.real_time_limit is 1ms, want at least 1s", bySense},
	} {
		t.Run(test.to, func(t *testing.T) {
			text := edited(t, test.from, test.to)
			d, err := experiment.Parse("full.yaml", []byte(text))
			problems := experiment.Problems(nil)
			if d != nil || !errors.As(err, &problems) {
				t.Fatalf("Parse() = %v, %v, want Problems", d, err)
			}
			var got []string
			for _, p := range problems {
				_, rest, ok := strings.Cut(p.Error(), ": ")
				if !ok || p.File != "full.yaml" || p.Line == 0 || p.Column == 0 {
					t.Errorf("%q at %d:%d of %s, want a place", p, p.Line, p.Column, p.File)
				}
				got = append(got, rest)
			}
			if strings.Join(got, "\n") != test.want {
				t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(got, "\n"), test.want)
			}
			if strings.Contains(test.want, "is given twice") || strings.Contains(test.to, ".nan") {
				return // JSON has neither.
			}
			if refused := validate(t, []byte(text)) != nil; refused != test.schema {
				t.Errorf("the schema refuses it: %t, want %t", refused, test.schema)
			}
		})
	}
}
