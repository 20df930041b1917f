package experiment

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// hypothesis checks that what is expected can be measured, and has teeth.
func (v *validator) hypothesis() {
	h := &v.def.Hypothesis
	v.expected(h.Before, "hypothesis.before", "")
	v.expected(h.Control, "hypothesis.control", Control)
	v.expected(h.Protected, "hypothesis.protected", Protected)
	v.teeth()
}

// expected checks the expectations of an arm. arm is "" for those before the
// method.
func (v *validator) expected(e Expectations, path, arm string) {
	kinds := v.def.Clients.Kinds()
	v.measures(e, path, arm, kinds)
	for _, kind := range slices.Sorted(maps.Keys(e.Clients)) {
		below := path + ".clients." + string(kind)
		switch {
		case !slices.Contains(ClientKinds(), kind):
			v.fault(below, "is no kind of client, want %s", orList(of(ClientKinds())))
		case !slices.Contains(kinds, kind):
			v.faultIn(below, []string{"clients"}, "is a kind of which there are no clients, want %s in clients, or nothing here", kind)
		case len(e.Clients[kind].Clients) > 0:
			v.fault(below+".clients", "is inside clients already")
		default:
			v.measures(e.Clients[kind], below, arm, []ClientKind{kind})
		}
	}
}

func (v *validator) measures(e Expectations, path, arm string, kinds []ClientKind) {
	for _, m := range slices.Sorted(maps.Keys(e.Measures)) {
		v.measure(m, e.Measures[m], ofArm, join(path, string(m)), arm, kinds)
	}
	if arm == "" && len(e.Sessions)+len(e.Calls) > 0 {
		key := keySessions
		if len(e.Sessions) == 0 {
			key = keyCalls
		}
		v.fault(join(path, key), "cannot be checked before the method, want measures of the arm alone")
		return
	}
	for _, n := range slices.Sorted(maps.Keys(e.Sessions)) {
		below := path + "." + keySessions + "." + strconv.Itoa(n)
		if n < 1 || n > maxSessions {
			v.fault(below, "is no session, want its number, from 1 to %d", maxSessions)
			continue
		}
		for _, m := range slices.Sorted(maps.Keys(e.Sessions[n])) {
			v.measure(m, e.Sessions[n][m], ofSession, join(below, string(m)), arm, kinds)
		}
	}
	names := v.callNames()
	for _, call := range slices.Sorted(maps.Keys(e.Calls)) {
		below := path + "." + keyCalls + "." + call
		if !slices.Contains(names, call) {
			p := len(v.problems)
			v.faultIn(below, []string{"method"}, "is the name of no call in the method, want %s", orNone(names))
			if len(v.problems) > p {
				v.problems[p].Suggestion = nearest(call, names)
			}
			continue
		}
		for _, m := range slices.Sorted(maps.Keys(e.Calls[call])) {
			v.measure(m, e.Calls[call][m], ofCall, join(below, string(m)), arm, kinds)
		}
	}
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "a call with a name"
	}
	return orList(names)
}

// callNames are those of the method.
func (v *validator) callNames() (names []string) {
	for i := range v.def.Method {
		if c := v.def.Method[i].Call; c != nil && c.Name != "" {
			names = append(names, c.Name)
		}
	}
	return names
}

// measure checks one expectation: that it can be measured there, and met.
func (v *validator) measure(m Measure, t Tolerance, s scope, path, arm string, kinds []ClientKind) {
	info, ok := m.Info()
	if !ok || info.scope&s == 0 {
		v.fault(path, "is no measure here")
		return
	}
	if why := v.impossible(info, arm, kinds); why != "" {
		v.faultIn(path, []string{"method", "topology", "clients"}, "cannot be measured: %s", why)
	}
	if t.form == 0 {
		v.fault(path, "accepts nothing, want a tolerance")
		return
	}
	for _, value := range t.values {
		switch {
		case value.kind != info.Kind:
			v.fault(path, "is compared with %s, a value of another kind", value)
		case info.Kind != Text && (value.number < 0 && m != CallErrorCode || value.number != value.number):
			v.fault(path, "is %s, want nothing below 0: it is never negative", t)
		case info.Values != nil && !slices.Contains(info.Values, value.text):
			p := len(v.problems)
			v.fault(path, "is %s, want %s", quote(value.text), orList(info.Values))
			if len(v.problems) > p {
				v.problems[p].Suggestion = nearest(value.text, info.Values)
			}
		}
	}
	switch {
	case t.form == formRange && t.values[0].number > t.values[1].number:
		v.fault(path, "is %s, want the lower end first", t)
	case t.form == formCompare && t.op == "<" && t.values[0].kind != Text && t.values[0].number == 0 && m != CallErrorCode:
		v.fault(path, "is %s, which nothing is, want 0 or \"<= 0\"", t)
	case t.form == formCompare && t.op == ">=" && t.values[0].number == 0 && m != CallErrorCode:
		v.fault(path, "is %s, which everything is, want more", t)
	}
}

// impossible says why a measure cannot be produced, "" if it can.
func (v *validator) impossible(info MeasureInfo, arm string, kinds []ClientKind) string {
	n, has := info.needs, v.produces(kinds)
	switch {
	case n&needsGuard != 0 && arm == Control:
		return "it is the middleware's, which the control arm has not"
	case arm == "" && n&^needsStreams != 0:
		return "before the method there is nothing of it"
	case n&needsDeath != 0 && has&needsDeath == 0:
		return "no session can die here; want a session_ttl, a step that reaps or restarts, a rule with reap_after_replay, or replicas without shared_sessions"
	case n&needsStreams != 0 && has&needsStreams == 0:
		return "no client here is sent events; want a standalone_stream, or a call that sends some"
	case n&needsPrompts != 0 && has&needsPrompts == 0:
		return "no step here has a server ask the person; want ask, or a call of confirm"
	case n&needsCalls != 0 && has&needsCalls == 0:
		return "no step here calls a tool; want call"
	}
	return ""
}

// produces is what the topology, the clients and the method bring about.
func (v *validator) produces(kinds []ClientKind) (has needs) {
	d := v.def
	s := &d.Topology.Servers
	reaps := func(r Rule) bool { return r.ReapAfterReplay }
	if s.SessionTTL > 0 || s.Replicas > 1 && !s.SharedSessions || slices.ContainsFunc(s.Rules, reaps) {
		has |= needsDeath
	}
	for _, k := range kinds {
		if d.Clients.Of(k).Streams() {
			has |= needsStreams
		}
	}
	for i := range d.Method {
		switch a := &d.Method[i].Action; {
		case a.Reap != nil, a.RestartServers != nil, a.Rule != nil && reaps(a.Rule.Rule):
			has |= needsDeath
		case a.Disconnect != nil && a.Disconnect.How != Vanish:
			has |= needsDeath
		case a.Ask != nil:
			has |= needsPrompts
		case a.Call != nil:
			has |= needsCalls
			if a.Call.Tool.asksPerson() {
				has |= needsPrompts
			}
			if a.Call.Events > 0 {
				has |= needsStreams
			}
		}
	}
	return has
}

// teeth checks that the control arm has to fail.
func (v *validator) teeth() {
	h, d := &v.def.Hypothesis, v.def
	const control = "hypothesis.control"
	reads := []string{"hypothesis", "teeth", "clients"}
	if d.Teeth.None != "" || h.Control.IsZero() && h.Protected.IsZero() { // the latter is said elsewhere
		return
	}
	if h.Control.IsZero() {
		v.faultIn(control, reads, "is missing: without a control arm that fails a run shows nothing; want its failure, or teeth: {none: why}")
		return
	}
	for _, kind := range d.Clients.Kinds() {
		if !hasTeeth(h.Control.For(kind), h.Protected.For(kind)) {
			v.faultIn(control, reads, "has no teeth for %s: both arms could measure the same; want a measure that the protected arm has too, and a tolerance that excludes that one's, or teeth: {none: why}", kind)
			return
		}
	}
}

// hasTeeth is whether what one arm is expected to measure excludes what the other
// is.
func hasTeeth(control, protected []Expectation) bool {
	return slices.ContainsFunc(control, func(c Expectation) bool {
		return slices.ContainsFunc(protected, func(p Expectation) bool {
			return c.Subject == p.Subject && c.Tolerance.excludes(p.Tolerance)
		})
	})
}

// abort checks what stops a run.
func (v *validator) abort() {
	a := &v.def.Abort
	for _, one := range []struct {
		arm    string
		bounds Bounds
	}{{Control, a.Control}, {Protected, a.Protected}} {
		for _, m := range one.bounds.ordered() {
			path := "abort." + one.arm + "." + string(m)
			t := one.bounds[m]
			v.measure(m, t, ofArm, path, one.arm, v.def.Clients.Kinds())
			if t.form != formCompare || !strings.HasPrefix(t.op, ">") {
				v.fault(path, "is %s, want a bound such as \"> 10\": what is more stops the run", t)
			}
		}
	}
	limit := time.Duration(a.RealTimeLimit)
	switch {
	case limit == 0:
	case limit < time.Second:
		v.fault("abort.real_time_limit", "is %v, want at least 1s", a.RealTimeLimit)
	case limit <= v.def.Takes():
		v.faultIn("abort.real_time_limit", []string{"length", "starts_at", "time_scale"}, "is %v, want more than the run takes, %v", a.RealTimeLimit, rounded(v.def.Takes()))
	}
}

// TimeLimit returns how long one run may take before it is aborted, in real time.
func (d *Definition) TimeLimit() time.Duration {
	if d.Abort.RealTimeLimit > 0 {
		return time.Duration(d.Abort.RealTimeLimit)
	}
	return 2*d.Takes() + 30*time.Second
}
