package experiment

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
)

// Validate returns everything that is wrong with d, as a [Problems], or nil.
// Parse has done so with what it returns.
func (d *Definition) Validate() error {
	return d.validate(func(string) bool { return false }).err()
}

// validate finds what is wrong with the values, whatever they were read from.
// unclear tells of which paths something could not be read.
func (d *Definition) validate(unclear func(path string) bool) Problems {
	v := &validator{def: d, unclear: unclear}
	v.walk(reflect.ValueOf(d).Elem(), "", check{})
	v.time()
	v.topology()
	v.clients()
	v.middleware()
	v.method()
	v.rollbacks()
	v.hypothesis()
	v.abort()
	return v.problems
}

// validator collects problems.
type validator struct {
	def      *Definition
	unclear  func(path string) bool
	problems Problems
}

// fault notes a problem, unless it is about something that could not be read, or
// that has a problem already.
func (v *validator) fault(path, format string, args ...any) {
	v.faultIn(path, nil, format, args...)
}

// faultIn is fault of what also depends on other paths.
func (v *validator) faultIn(path string, reads []string, format string, args ...any) {
	if path != "" && v.unclear(path) || slices.ContainsFunc(reads, v.unclear) ||
		slices.ContainsFunc(v.problems, func(p *Problem) bool { return p.Path == path }) {
		return
	}
	v.problems = append(v.problems, &Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// walk checks each value by itself, by the tag of its field.
func (v *validator) walk(at reflect.Value, path string, c check) {
	switch at.Kind() {
	case reflect.Pointer:
		if !at.IsNil() {
			v.walk(at.Elem(), path, check{})
		}
		return
	case reflect.Struct:
		if at.Type() == typeOf[Expectations]() {
			return
		}
		for _, f := range fieldsOf(at.Type()) {
			value, below := at.FieldByIndex(f.index), join(path, f.name)
			switch {
			case f.name == "at":
				v.duration(value, below, f.check)
			case !zero(value):
				v.walk(value, below, f.check)
			case f.check.required:
				v.fault(below, "is missing")
			}
		}
		return
	case reflect.Slice:
		for i := range at.Len() {
			v.walk(at.Index(i), fmt.Sprintf("%s[%d]", path, i), check{})
		}
	}
	switch at.Type() {
	case typeOf[Duration](), typeOf[Limit]():
		v.duration(at, path, c)
		return
	}
	if known := texts(at.Type()); known != nil && at.Kind() == reflect.String && !slices.Contains(known, at.String()) {
		v.fault(path, "is %s, want %s", quote(at.String()), orList(known))
	} else if m, ok := at.Interface().(encoding.TextMarshaler); ok {
		if _, err := m.MarshalText(); err != nil {
			v.fault(path, "is none of its values: %v", err)
		}
	}
	if fault := c.fault(at); fault != "" {
		v.fault(path, "%s", fault)
	}
}

// zero is whether a field is not given.
func zero(v reflect.Value) bool {
	if e, ok := v.Interface().(interface{ IsZero() bool }); ok {
		return e.IsZero()
	}
	return v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
}

// duration checks how long one is in real time.
func (v *validator) duration(at reflect.Value, path string, c check) {
	d := Duration(at.Int())
	switch {
	case at.Type() == typeOf[Limit]() && Limit(d) == NoLimit || d == 0:
		return
	case d < 0 || d > maxDuration:
		v.fault(path, "is %v, want from 0s to %v", d, maxDuration)
		return
	}
	v.real(path, path, d, c.real)
	if c.seconds {
		v.wholeSeconds(path, d)
	}
}

// real refuses what is shorter than least when the experiment runs. about is what
// is so short, and path where to say so.
func (v *validator) real(path, about string, d Duration, least time.Duration) {
	scale := v.def.Scale()
	real := v.def.Real(d)
	if least == 0 || real >= least || scale < 1 {
		return
	}
	if most := math.Floor(float64(d) / float64(least)); most >= 1 {
		v.faultIn(path, []string{"time_scale"}, "is %v, which at time_scale %v takes %v: too short for an ordinary machine, want %v or more; a time_scale of at most %v would do",
			d, scale, rounded(real), least, most)
		return
	}
	v.faultIn(path, []string{"time_scale"}, "is %v: too short for an ordinary machine, want %v or more in real time", d, least)
}

// wholeSeconds refuses what is none, in the record's time or in real time.
func (v *validator) wholeSeconds(path string, d Duration) {
	scale := v.def.Scale()
	real := v.def.Real(d)
	off := (real - real.Round(time.Second)).Abs()
	switch {
	case d%Duration(time.Second) != 0:
		v.fault(path, "is %v, want whole seconds", d)
	case real < time.Second/2 || off > time.Millisecond:
		seconds := int64(d / Duration(time.Second))
		v.faultIn(path, []string{"time_scale"}, "is %v, which at time_scale %v takes %v, want whole seconds in real time as well; a time_scale that divides %d would do",
			d, scale, rounded(real), seconds)
	}
}

// rounded is a real time for people.
func rounded(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d
}

// time checks the experiment's clock as a whole.
func (v *validator) time() {
	d := v.def
	if d.Length <= d.StartsAt && d.Length > 0 {
		v.faultIn("length", []string{"starts_at"}, "is %v, want more than starts_at, %v", d.Length, d.StartsAt)
	}
	const longest = 24 * time.Hour
	if total := d.Takes() * time.Duration(max(1, d.Repeats)); d.Repeats <= 100 && total > longest {
		v.faultIn("length", []string{"time_scale", "starts_at", "repeats"}, "is %v, so that all runs take %v, want at most %v; a greater time_scale would do", d.Length, rounded(total), longest)
	}
}

// Takes returns how long one run takes, without what it takes to start and to end.
func (d *Definition) Takes() time.Duration { return d.Real(d.Length - d.StartsAt) }

// topology checks what the clients talk to.
func (v *validator) topology() {
	t, reads := &v.def.Topology, []string{"topology.load_balancer"}
	const servers, balancer = "topology.servers", "topology.load_balancer"
	if t.Servers.Replicas > 1 && t.LoadBalancer == nil {
		v.faultIn(servers+".replicas", reads, "is %d, want a load_balancer in front of them, or 1", t.Servers.Replicas)
	}
	if t.Servers.SharedSessions && t.Servers.Replicas < 2 {
		v.faultIn(servers+".shared_sessions", []string{servers + ".replicas"}, "is true, want more than one of replicas, or false")
	}
	if s := t.Servers.StaleAnswer; s >= 300 && s < 400 || s == 404 || s == 410 {
		v.fault(servers+".stale_answer", "is %d, want 200 to 299, or 400 to 499 without 404 and 410, which say that the session is dead", s)
	}
	if c := t.Servers.Cookie; c != "" && !validToken(c) {
		v.fault(servers+".cookie", "is %s, want a name that a cookie may have", quote(c))
	}
	for i, r := range t.Servers.Rules {
		v.rule(r, fmt.Sprintf("%s.rules[%d]", servers, i))
	}
	for i, l := range t.Links {
		path := fmt.Sprintf("topology.links[%d]", i)
		if slices.Index(t.Links, l) < i {
			v.fault(path, "is %s, want each link once", l)
		}
		if l == Back && t.LoadBalancer == nil {
			v.faultIn(path, reads, "is back, which is behind a load_balancer, and there is none; want front, or a load_balancer")
		}
	}
	if t.LoadBalancer == nil {
		return
	}
	resolved, err := t.LoadBalancer.config(max(1, t.Servers.Replicas)).Resolve()
	v.foreign(err, balancer, "lb: Config.", lbKeys)
	if err != nil {
		return
	}
	if t.Network == Namespaces && resolved.Engine != lb.Embedded {
		v.faultIn(balancer+".engine", []string{"topology.network"}, "is %s, a program that would look for the servers outside of topology.network: namespaces; want embedded, or network: none", resolved.Engine)
	}
	for key, limit := range map[string]time.Duration{
		"idle_timeout": resolved.IdleTimeout, "header_timeout": resolved.HeaderTimeout, "max_duration": resolved.MaxDuration,
	} {
		if limit > 0 && t.LoadBalancer.limit(key) == 0 { // The profile's: the others have been checked.
			v.real(balancer+".profile", key, Duration(limit), leastLimit)
		}
	}
}

// leastLimit is the shortest limit of a load balancer that means anything.
const leastLimit = 20 * time.Millisecond

// limit is the limit that a key has.
func (b *LoadBalancer) limit(key string) Limit {
	switch key {
	case "idle_timeout":
		return b.IdleTimeout
	case "header_timeout":
		return b.HeaderTimeout
	}
	return b.MaxDuration
}

// lbKeys are the keys of a load balancer by the names of lb's fields.
var lbKeys = keysOf(typeOf[LoadBalancer]())

// keysOf pairs the names of a type's fields with their keys, the longest names
// first.
func keysOf(t reflect.Type) (pairs []string) {
	fields := reflect.VisibleFields(t)
	slices.SortFunc(fields, func(a, b reflect.StructField) int { return len(b.Name) - len(a.Name) })
	for _, f := range fields {
		if key, _, _ := strings.Cut(f.Tag.Get("json"), ","); key != "" {
			pairs = append(pairs, f.Name, key)
		}
	}
	return pairs
}

// foreign makes problems of another package's errors: of the form "prefix, name of
// a field, is, ...". pairs are the keys by the names of the fields.
func (v *validator) foreign(err error, path, prefix string, pairs []string) {
	keys := strings.NewReplacer(pairs...)
	for _, one := range split(err) {
		text, ok := strings.CutPrefix(one.Error(), prefix)
		name, rest, _ := strings.Cut(text, " ")
		if !ok || rest == "" {
			v.fault(path, "is not right: %v", one)
			continue
		}
		v.fault(join(path, keys.Replace(name)), "%s", keys.Replace(rest))
	}
}

// split returns the errors that were joined in one.
func split(err error) []error {
	switch err := err.(type) {
	case nil:
		return nil
	case interface{ Unwrap() []error }:
		var all []error
		for _, one := range err.Unwrap() {
			all = append(all, split(one)...)
		}
		return all
	}
	return []error{err}
}

// rule checks one by the server's own rules. They speak of the record's time.
func (v *validator) rule(r Rule, path string) {
	for _, err := range split(r.scaled(1).Validate()) {
		text := strings.TrimPrefix(err.Error(), "mcpserver: rule: ")
		name, rest, _ := strings.Cut(text, " ")
		rest = strings.Replace(rest, ": want ", ", want ", 1)
		if name == "rule" {
			v.fault(path, "%s", strings.Replace(rest, "is without an", "has no", 1))
			continue
		}
		v.fault(join(path, name), "%s", rest)
	}
}

// validToken is whether s is a token of RFC 9110 section 5.6.2, which the name of
// a cookie and that of a header have to be.
func validToken(s string) bool {
	const others = "!#$%&'*+-.^_`|~"
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune(others, r)
	}) < 0
}

// clients checks who they are.
func (v *validator) clients() {
	if len(v.def.Clients.Kinds()) == 0 {
		v.fault("clients", "has no client, want %s", orList(of(ClientKinds())))
	}
	replies := v.def.Person.Replies
	for i, r := range replies {
		if r.Action == Never && r.After != 0 {
			v.fault(fmt.Sprintf("person.replies[%d].after", i), "is %v, want none with action: never", r.After)
		}
	}
}

// middleware checks its settings by its own rules, in the record's time.
func (v *validator) middleware() {
	const prefix = "middleware: Config."
	// The probe's settings are keys beside the others.
	flat := strings.NewReplacer("Probe.Method", "ProbeMethod",
		"Probe.LiveErrorCodes", "ProbeLiveErrorCodes", "Probe.DeadStatusCodes", "ProbeDeadStatusCodes")
	for _, one := range split(v.def.Middleware.check()) {
		v.foreign(errors.New(flat.Replace(one.Error())), "middleware", prefix, middlewareKeys)
	}
}
