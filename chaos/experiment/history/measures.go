package history

import (
	"slices"
	"time"
)

// Measure is one number that a History can be asked for.
type Measure struct {
	// Name is for programs: definitions of experiments name it.
	Name string
	// Unit is "" for a plain number, "s" for seconds of the experiment's own time.
	Unit string
	// About is one clause for people.
	About string

	count func(*History) (float64, error)
}

// Result is what a Measure has come to.
type Result struct {
	Name, Unit string
	// Value means nothing if there is a Problem.
	Value float64
	// Problem says why nothing can be said, "" if something can.
	Problem string
}

// Of counts. It never panics, and h is not changed.
func (m Measure) Of(h *History) Result {
	r := Result{Name: m.Name, Unit: m.Unit}
	value, err := m.count(h)
	if err != nil {
		r.Problem = err.Error()
		return r
	}
	r.Value = value
	return r
}

// number makes a Measure's function of a counter's.
func number[T any](counter func(*History) (T, error), of func(*History, T) float64) func(*History) (float64, error) {
	return func(h *History) (float64, error) {
		value, err := counter(h)
		if err != nil {
			return 0, err
		}
		return of(h, value), nil
	}
}

func integer(_ *History, n int) float64 { return float64(n) }

func detectedAt(place Place) func(*History) (float64, error) {
	return number(Detections, func(_ *History, all []Detection) float64 {
		n := 0
		for _, d := range all {
			if d.Place == place {
				n++
			}
		}
		return float64(n)
	})
}

// seconds of the experiment's own time.
func seconds(h *History, d time.Duration) float64 { return h.scaled(d).Seconds() }

func sentToDead(of func([]DeadSession) int) func(*History) (float64, error) {
	return number(RequestsToDeadSessions, func(_ *History, all []DeadSession) float64 { return float64(of(all)) })
}

func decided(kind string, events bool) func(*History) (float64, error) {
	counter := func(h *History) (int, error) {
		return count(h, []assumption{complete}, func(x *index) (n int, _ Problems) {
			for _, c := range x.Clients {
				for _, d := range c.Guard {
					switch {
					case d.Kind != kind:
					case events:
						n += d.Events
					default:
						n++
					}
				}
			}
			return n, nil
		})
	}
	return number(counter, integer)
}

var measures = []Measure{
	{"dead_session_events_applied", "", "events of dead sessions that were handed to the application",
		number(DeadSessionEventsApplied, func(_ *History, d DeadEvents) float64 { return float64(d.Total()) })},
	{"dead_session_prompts", "", "of these, questions that were put to the person",
		number(DeadSessionEventsApplied, func(_ *History, d DeadEvents) float64 { return float64(d.Prompts) })},
	{"requests_to_dead_session", "", "requests on the wire with the id of a dead session",
		sentToDead(func(all []DeadSession) (n int) {
			for _, d := range all {
				n += d.Requests
			}
			return n
		})},
	{"requests_to_one_dead_session", "", "the most requests on the wire with the id of one dead session",
		sentToDead(func(all []DeadSession) (n int) {
			for _, d := range all {
				n = max(n, d.Requests)
			}
			return n
		})},
	{"requests_after_detection", "", "of these, requests that were sent after the application had been told",
		sentToDead(func(all []DeadSession) (n int) {
			for _, d := range all {
				n += d.Told
			}
			return n
		})},
	{"prompts_for_one_request", "", "how often one request of the server's was put to the person at the most",
		number(PromptsForOneRequest, func(_ *History, p Prompts) float64 { return float64(p.Max) })},
	{"requests_prompted_again", "", "requests of the server's that were put to the person more than once",
		number(PromptsForOneRequest, func(_ *History, p Prompts) float64 {
			n := 0
			for times, requests := range p.Times {
				if times > 1 {
					n += requests
				}
			}
			return float64(n)
		})},
	{"prompts", "", "how often persons were prompted", number(PromptsForOneRequest, func(_ *History, p Prompts) float64 { return float64(p.All) })},
	{"stale_answers", "", "answers to requests for which the server did not wait", number(StaleAnswers, integer)},
	{"streams_cut", "", "responses that a load balancer or a link broke off", number(StreamsCut, integer)},
	{"reconnects", "", "times that a client opened a stream that it had before", number(Reconnects, integer)},
	{"calls_answered", "", "tool calls that were answered", number(CallsAnswered, integer)},
	{"calls_hanging", "", "tool calls that were open at the end, or given up", number(CallsHanging, integer)},
	{"calls_failed", "", "tool calls that failed", failed(Failures.Total)},
	{"calls_failed_stale", "", "of these, by the middleware's error −32001", failed(func(f Failures) int { return f.Stale })},
	{"calls_failed_rpc", "", "of these, by another JSON-RPC error", failed(func(f Failures) int { return f.RPC })},
	{"calls_failed_session", "", "of these, because the session was over", failed(func(f Failures) int { return f.Session })},
	{"calls_failed_transport", "", "of these, by an error of the transport", failed(func(f Failures) int { return f.Transport })},
	{"calls_failed_tool", "", "of these, by the tool's own word", failed(func(f Failures) int { return f.Tool })},
	{"events_applied", "", "notifications that came while their session lived", number(EventsApplied, integer)},
	{"events_reordered", "", "notifications that came after a later one of the same stream", number(EventsReordered, integer)},
	{"events_lost", "", "events of living sessions that should have come and never did",
		number(EventsLost, func(_ *History, l Losses) float64 { return float64(l.Lost) })},
	{"events_missed", "", "events of living sessions that never came, as the protocol lets it happen",
		number(EventsLost, func(_ *History, l Losses) float64 { return float64(l.Missed) })},
	{"events_duplicated", "", "notifications that came once more", number(EventsDuplicated, integer)},
	{"events_delayed", "", "events that came late though nothing stood in their way",
		number(EventsDelayed, func(_ *History, d Delays) float64 { return float64(d.Delayed) })},
	{"event_delay_max", "s", "the longest delay of an event when nothing stood in its way",
		number(EventsDelayed, func(h *History, d Delays) float64 { return seconds(h, d.Max) })},
	{"detected_at_reconnect", "", "deaths that the application was told of at a reconnect", detectedAt(AtReconnect)},
	{"detected_at_tool_call", "", "deaths that it was told of at a tool call", detectedAt(AtCall)},
	{"detected_never", "", "deaths that it was never told of", detectedAt(AtNever)},
	{"detection_delay", "s", "the longest time from a death to the report of it, of those that were reported",
		number(Detections, func(h *History, all []Detection) float64 {
			longest := time.Duration(0)
			for _, d := range all {
				longest = max(longest, d.After)
			}
			return seconds(h, longest)
		})},
	{"false_deaths", "", "living sessions that the application was told are dead", number(FalseDeaths, integer)},
	{"sessions_given_up", "", "living sessions that the client gave up for another reason", number(SessionsGivenUp, integer)},
	{"sessions_died", "", "sessions that died, of what cause ever", number(SessionsDied, integer)},
	{"sessions_begun", "", "sessions that were begun", number(SessionsBegun, integer)},
	{"reinitialize_collisions", "", "times that initialize met requests of the old session on the wire", number(Collisions, integer)},
	{"probes", "", "probes that the middleware sent", decided("probe sent", false)},
	{"events_released", "", "events that it held and handed on", decided("released", true)},
	{"events_quarantined", "", "events that it held and discarded", decided("quarantined", true)},
	{"messages_suppressed", "", "messages that it kept back as moot", decided("duplicate suppressed", false)},
	{"requests_stale", "", "requests of the server's that it found stale", decided("stale", false)},
	{"requests_fenced", "", "requests that it refused", decided("fenced", false)},
}

func failed(of func(Failures) int) func(*History) (float64, error) {
	return number(CallsFailed, func(_ *History, f Failures) float64 { return float64(of(f)) })
}

// Measures returns all there are, in the order in which they are shown.
func Measures() []Measure { return slices.Clone(measures) }

// MeasureNamed returns the Measure with that name.
func MeasureNamed(name string) (Measure, bool) {
	i := slices.IndexFunc(measures, func(m Measure) bool { return m.Name == name })
	if i < 0 {
		return Measure{}, false
	}
	return measures[i], true
}

// DetectedAt is where the deaths were detected, as one word for a hypothesis: a
// Place if it is the same for all, [AtMixed] if not, and [AtNoDeath] if there was
// none.
func DetectedAt(h *History) (Place, error) {
	all, err := Detections(h)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return AtNoDeath, nil
	}
	for _, d := range all {
		if d.Place != all[0].Place {
			return AtMixed, nil
		}
	}
	return all[0].Place, nil
}
