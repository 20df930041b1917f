package experiment

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Plan is what running an experiment would do, for people and, as JSON, for
// programs. Real times are in milliseconds in JSON.
type Plan struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`

	Seed      uint64   `json:"seed"`
	TimeScale float64  `json:"time_scale"`
	Repeats   int      `json:"repeats"`
	StartsAt  Duration `json:"starts_at"`
	Length    Duration `json:"length"`
	// Takes is how long one run takes, TimeLimit when it is aborted, both in real
	// time.
	Takes     Millis `json:"takes_ms"`
	TimeLimit Millis `json:"time_limit_ms"`

	// Path is what a request passes, from the clients to the servers.
	Path []Hop `json:"path"`
	// Arms are in the order in which a journal has them.
	Arms []PlannedArm `json:"arms"`
	// Timeline has a step for each of the method, the periodic ones once.
	Timeline []PlannedStep `json:"timeline"`

	Hypothesis string  `json:"hypothesis,omitempty"`
	Claims     []Claim `json:"claims"`
	// NoTeeth says why the control arm is not expected to fail.
	NoTeeth string `json:"no_teeth,omitempty"`

	Rollbacks []string     `json:"rollbacks,omitempty"`
	Abort     []Claim      `json:"abort,omitempty"`
	Needs     []PlannedFor `json:"needs"`
	Notes     []string     `json:"notes,omitempty"`
}

// Millis is a real time.
type Millis time.Duration

// MarshalJSON writes milliseconds.
func (m Millis) MarshalJSON() ([]byte, error) {
	return json.Marshal(float64(time.Duration(m).Round(100*time.Microsecond)) / float64(time.Millisecond))
}

// Hop is something that a request passes.
type Hop struct {
	// What is clients, link, network, load balancer or servers.
	What string `json:"what"`
	// Name is what it is called in the picture.
	Name string `json:"name"`
	// Settings are those that are given, each as "key value", and Rules the
	// servers', each with its settings.
	Settings []string   `json:"settings,omitempty"`
	Rules    [][]string `json:"rules,omitempty"`
}

// PlannedArm is the clients of one kind in one arm.
type PlannedArm struct {
	Arm    string     `json:"arm"`
	Client ClientKind `json:"client"`
	Count  int        `json:"count"`
	// Settings are those of the clients, and Guard those of the middleware that
	// are set.
	Settings []string `json:"settings,omitempty"`
	Guard    []string `json:"middleware,omitempty"`
}

// PlannedStep is one step.
type PlannedStep struct {
	At    Duration `json:"at"`
	Until Duration `json:"until,omitzero"`
	Times int      `json:"times"`
	Real  Millis   `json:"real_ms"` // since the beginning
	// Name is the step's own, "" if it has none, and What what it does.
	Name string `json:"name,omitempty"`
	What string `json:"what"`
	Kind string `json:"kind"`
}

// Claim is one expectation in words.
type Claim struct {
	// Arm is "" for both, before the method. Client is "" for all kinds.
	Arm       string     `json:"arm,omitempty"`
	Client    ClientKind `json:"client,omitempty"`
	Measure   Measure    `json:"measure"`
	Session   int        `json:"session,omitempty"`
	Call      string     `json:"call,omitempty"`
	Tolerance Tolerance  `json:"tolerance"`
	Words     string     `json:"words"`
}

// PlannedFor is a [Need], and whether it is there.
type PlannedFor struct {
	Need
	Available bool   `json:"available"`
	Missing   string `json:"missing,omitempty"`
}

// Plan returns what running d would do. d has to be valid. It asks the machine
// whether what d needs is there, and starts nothing else.
func (d *Definition) Plan() *Plan {
	p := &Plan{
		Name: d.Name, Title: d.Title, Description: strings.TrimSpace(d.Description),
		Seed: max(1, d.Seed), TimeScale: d.Scale(), Repeats: max(1, d.Repeats),
		StartsAt: d.StartsAt, Length: d.Length, Takes: Millis(d.Takes()), TimeLimit: Millis(d.TimeLimit()),
		Path: d.hops(), Hypothesis: d.Hypothesis.Title, NoTeeth: strings.TrimSpace(d.Teeth.None),
		Needs: []PlannedFor{}, Notes: d.notes(),
	}
	for _, kind := range d.Clients.Kinds() {
		c := d.Clients.Of(kind)
		settings := slices.DeleteFunc(settingsOf(reflect.ValueOf(*c)), func(s string) bool { return strings.HasPrefix(s, "count ") })
		for _, arm := range Arms() {
			a := PlannedArm{Arm: arm, Client: kind, Count: c.Number(), Settings: settings}
			if arm == Protected {
				a.Guard = settingsOf(reflect.ValueOf(d.Middleware))
			}
			p.Arms = append(p.Arms, a)
		}
	}
	p.Timeline = append(p.Timeline, PlannedStep{At: d.StartsAt, Times: 1, Kind: "connect", What: d.beginning()})
	for i := range d.Method {
		s := &d.Method[i]
		step := PlannedStep{
			At: s.At, Times: s.count(), Real: Millis(d.Real(s.At - d.StartsAt)), Name: s.Name, Kind: s.Kind(), What: s.words(),
		}
		if step.Times > 1 {
			step.Until = s.last()
		}
		p.Timeline = append(p.Timeline, step)
	}
	p.Claims = slices.Concat(claims("", d.Hypothesis.Before), claims(Control, d.Hypothesis.Control), claims(Protected, d.Hypothesis.Protected))
	for i := range d.Rollbacks {
		a := d.Rollbacks[i].Action()
		p.Rollbacks = append(p.Rollbacks, orDefault(d.Rollbacks[i].Name, a.words()))
	}
	p.Abort = slices.Concat(claims(Control, Expectations{Measures: Tolerances(d.Abort.Control)}), claims(Protected, Expectations{Measures: Tolerances(d.Abort.Protected)}))
	for _, n := range d.Needs() {
		f := PlannedFor{Need: n, Available: true}
		if err := n.Available(); err != nil {
			f.Available, f.Missing = false, err.Error()
		}
		p.Needs = append(p.Needs, f)
	}
	return p
}

// beginning says what happens before the method.
func (d *Definition) beginning() string {
	for _, kind := range d.Clients.Kinds() {
		if d.Clients.Of(kind).Streams() {
			return (&Action{Connect: &Connect{}}).words()
		}
	}
	return "the clients begin a session each"
}

// claims are expectations in words: those of all kinds of clients, and then those
// of single ones.
func claims(arm string, e Expectations) (all []Claim) {
	add := func(client ClientKind, of []Expectation) {
		for _, x := range of {
			all = append(all, Claim{
				Arm: arm, Client: client, Measure: x.Measure, Session: x.Session, Call: x.Call, Tolerance: x.Tolerance, Words: x.Words(),
			})
		}
	}
	add("", Expectations{Measures: e.Measures, Sessions: e.Sessions, Calls: e.Calls}.For(""))
	for _, kind := range ClientKinds() {
		if own, ok := e.Clients[kind]; ok {
			add(kind, own.For(kind))
		}
	}
	return all
}

// Words is the expectation in words: "events lost: 0".
func (x Expectation) Words() string { return x.Subject.Words() + ": " + x.Tolerance.Words() }

// Words is the subject in words: "session 2: death detected at".
func (s Subject) Words() string {
	info, _ := s.Measure.Info()
	switch {
	case s.Session > 0:
		return fmt.Sprintf("session %d: %s", s.Session, info.Words)
	case s.Call != "":
		return fmt.Sprintf("call %s: %s", s.Call, info.Words)
	}
	return info.Words
}

// hops is the path from the clients to the servers.
func (d *Definition) hops() []Hop {
	t := &d.Topology
	hops := []Hop{{What: "clients", Name: "clients"}}
	if t.Network == Namespaces {
		hops = append(hops, Hop{What: "network", Name: "network"})
	}
	if slices.Contains(t.Links, Front) {
		hops = append(hops, Hop{What: "link", Name: string(Front)})
	}
	if t.LoadBalancer != nil {
		hops = append(hops, Hop{What: "load balancer", Name: "load balancer", Settings: settingsOf(reflect.ValueOf(*t.LoadBalancer))})
	}
	if slices.Contains(t.Links, Back) {
		hops = append(hops, Hop{What: "link", Name: string(Back)})
	}
	name := "server"
	if n := t.Servers.Replicas; n > 1 {
		name = fmt.Sprintf("%d replicas", n)
	}
	servers := Hop{What: "servers", Name: name}
	plain := t.Servers
	plain.Rules = nil
	servers.Settings = settingsOf(reflect.ValueOf(plain))
	for _, r := range t.Servers.Rules {
		servers.Rules = append(servers.Rules, settingsOf(reflect.ValueOf(r)))
	}
	return append(hops, servers)
}

// settingsOf lists the values of a struct that are given, as a definition has
// them.
func settingsOf(v reflect.Value) (all []string) {
	for _, f := range fieldsOf(v.Type()) {
		at := v.FieldByIndex(f.index)
		if zero(at) {
			continue
		}
		text, err := marshalPlain(at.Interface())
		if err != nil {
			continue // A value that is none; Validate says so.
		}
		all = append(all, f.name+" "+strings.Trim(string(text), `"`))
	}
	return all
}

// words says what an action does.
func (a *Action) words() string {
	each := func(n int, one, many string) string {
		if n == 1 {
			return one
		}
		return fmt.Sprintf(many, n)
	}
	forAWhile := func(d Duration) string {
		if d == 0 {
			return ", to the end"
		}
		return ", for " + d.String()
	}
	switch {
	case a.Connect != nil:
		return "the clients begin a session each, and are sent one event"
	case a.Disconnect != nil && a.Disconnect.How == Vanish:
		return "the clients vanish without a word"
	case a.Disconnect != nil:
		return "the clients leave with a DELETE"
	case a.Emit != nil:
		text := each(a.Emit.Number(), "the servers send an event to each client", "the servers send %d events to each client")
		if a.Emit.Every > 0 {
			text += ", one every " + a.Emit.Every.String()
		}
		if a.Emit.Bytes > 0 {
			text += fmt.Sprintf(", of %d bytes", a.Emit.Bytes)
		}
		return text
	case a.Call != nil:
		return a.Call.words()
	case a.Ask != nil:
		return "the servers ask the person of each client: " + a.Ask.Message
	case a.Cut != nil && a.Cut.How != 0:
		return fmt.Sprintf("the load balancer cuts what is under way: %v", a.Cut.How)
	case a.Cut != nil:
		return "the load balancer cuts what is under way"
	case a.Fault != nil:
		real := func(of Duration) time.Duration { return time.Duration(of) }
		where := "link " + string(a.Fault.Target)
		if a.Fault.Target == OnNetwork {
			where = "network"
		}
		return fmt.Sprintf("%s: %v%s", where, a.Fault.scaled(real, 1), forAWhile(a.Fault.For))
	case a.Rule != nil:
		return "rule: " + strings.Join(settingsOf(reflect.ValueOf(a.Rule.Rule)), ", ") + forAWhile(a.Rule.For)
	case a.Reap != nil:
		return "the servers lose the clients' sessions, and keep the log"
	case a.RestartServers != nil && a.RestartServers.Replica != nil:
		return fmt.Sprintf("replica %d is restarted, and loses its sessions", *a.RestartServers.Replica)
	case a.RestartServers != nil:
		text := "the servers are restarted, and lose their sessions"
		if a.RestartServers.Pause > 0 {
			text += ", one after the other, with pauses of " + a.RestartServers.Pause.String()
		}
		return text
	case a.RestartLoadBalancer != nil:
		text := "the load balancer is restarted"
		if d := a.RestartLoadBalancer.DownFor; d > 0 {
			text += ", away for " + d.String()
		}
		return text
	}
	return "nothing"
}

// words says what a call does.
func (c *Call) words() string {
	text := "the clients call " + string(c.Tool)
	if c.Name != "" {
		text += " (" + c.Name + ")"
	}
	if c.Background {
		text += " in the background"
	}
	switch {
	case c.Retries == 1:
		text += ", once more if it fails"
	case c.Retries > 1:
		text += fmt.Sprintf(", up to %d times more if it fails", c.Retries)
	}
	if c.Timeout > 0 {
		text += ", for " + c.Timeout.String() + " at most"
	}
	return text
}

// words says what a step does, for how many clients, and what it waits for.
func (s *Step) words() string {
	text := s.Action.words()
	switch {
	case s.Clients == 1:
		text += " (the first of each kind)"
	case s.Clients > 1:
		text += fmt.Sprintf(" (the first %d of each kind)", s.Clients)
	}
	switch {
	case s.Every > 0:
		text = fmt.Sprintf("every %v: %s", s.Every, text)
	case s.When == WhenAway:
		text = "once the clients are away: " + text
	case s.When == WhenBack:
		text = "once the clients are back: " + text
	}
	return text
}
