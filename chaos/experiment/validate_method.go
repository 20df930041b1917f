package experiment

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/fault"
)

// method checks the steps, and their order.
func (v *validator) method() {
	d := v.def
	names := make(map[string]string)
	total := 0
	for i := range d.Method {
		s, path := &d.Method[i], fmt.Sprintf("method[%d]", i)
		above := d.StartsAt
		if i > 0 {
			above = d.Method[i-1].At
		}
		switch {
		case s.At < above && i == 0:
			v.faultIn(path+".at", []string{"starts_at"}, "is %v, want no time before starts_at, %v", s.At, above)
		case s.At < above:
			v.faultIn(path+".at", []string{fmt.Sprintf("method[%d].at", i-1)}, "is %v, want no time before the step above it, %v: steps are in the order of time", s.At, above)
		case s.At > d.Length:
			v.faultIn(path+".at", []string{"length"}, "is %v, want no time after length, %v", s.At, d.Length)
		}
		v.period(s, path)
		if !v.oneAction(s.set(), reflect.TypeFor[Action](), path) {
			continue
		}
		v.waiting(s, path)
		v.action(&s.Action, path)
		if c := s.Call; c != nil && c.Name != "" {
			name := path + ".call.name"
			if first, twice := names[c.Name]; twice {
				v.fault(name, "is %s, the name of the call in %s, want each name once", c.Name, first)
			} else if s.Every > 0 {
				v.fault(name, "is %s, of a step that is done more than once, want no name: a hypothesis speaks of one call", c.Name)
			}
			names[c.Name] = path
		}
		total += s.count()
	}
	if total > maxTimes {
		v.fault("method", "has %d steps when those with every are counted out, want at most %d", total, maxTimes)
	}
}

// period checks the repetition of a step.
func (v *validator) period(s *Step, path string) {
	reads := []string{path + ".at", path + ".every"}
	switch {
	case s.Every > 0 && s.Until == 0:
		v.faultIn(path+".every", []string{path + ".until"}, "is %v, want until with it: the last moment", s.Every)
	case s.Every == 0 && s.Until > 0:
		v.faultIn(path+".until", reads, "is %v, want every with it: the time between two", s.Until)
	case s.Every > 0 && s.Until < s.At+s.Every:
		v.faultIn(path+".until", reads, "is %v, want at least at + every, %v", s.Until, s.At+s.Every)
	case s.Until > v.def.Length:
		v.faultIn(path+".until", []string{"length"}, "is %v, want no time after length, %v", s.Until, v.def.Length)
	case s.count() > maxTimes:
		v.faultIn(path+".every", reads, "is %v, which is %d times until %v, want at most %d", s.Every, s.count(), s.Until, maxTimes)
	}
}

// waiting checks what a step has beside its action.
func (v *validator) waiting(s *Step, path string) {
	kind := s.Kind()
	if s.When != "" && s.Every > 0 {
		v.fault(path+".when", "is %s, of a step that is done every %v, want none: it does not wait", s.When, s.Every)
	}
	if s.Clients == 0 {
		return
	}
	most := 0
	for _, k := range v.def.Clients.Kinds() {
		most = max(most, v.def.Clients.Of(k).Number())
	}
	switch {
	case !forClients(kind):
		v.fault(path+".clients", "is %d, but %s is not done for each client, want none", s.Clients, kind)
	case s.Clients > most:
		v.faultIn(path+".clients", []string{"clients"}, "is %d, want at most %d, the count of the clients", s.Clients, most)
	}
}

// oneAction reports whether there is one, and one only.
func (v *validator) oneAction(set []string, of reflect.Type, path string) bool {
	var all []string
	for _, f := range fieldsOf(of) {
		if f.typ.Kind() == reflect.Pointer {
			all = append(all, f.name)
		}
	}
	switch {
	case len(set) == 0:
		v.fault(path, "does nothing, want one of %s", strings.Join(all, ", "))
	case len(set) > 1:
		v.fault(path, "does %s, want one of them in a step", strings.Join(set, " and "))
	}
	return len(set) == 1
}

// action checks what the types do not say of an action. The path is that of the
// step.
func (v *validator) action(a *Action, path string) {
	d := v.def
	at := func(key string) string { return path + "." + key }
	balancer := []string{"topology.load_balancer"}
	switch {
	case a.Call != nil:
		v.call(a.Call, at("call"))
	case a.Emit != nil, a.Ask != nil:
		kinds := d.Clients.Kinds()
		if len(kinds) > 0 && !slices.ContainsFunc(kinds, func(k ClientKind) bool { return d.Clients.Of(k).Streams() }) {
			v.faultIn(at(a.Kind()), []string{"clients"}, "acts on the standalone stream, which no client has; want a client with standalone_stream: true, or a call")
		}
	case a.Fault != nil:
		v.breaks(a.Fault, at("fault"))
	case a.Rule != nil:
		v.rule(a.Rule.Rule, at("rule"))
	case a.Cut != nil && d.Topology.LoadBalancer == nil:
		v.faultIn(at("cut"), balancer, "is done by the load balancer, and there is none; want topology.load_balancer, or a fault of a link")
	case a.Cut != nil:
		cfg := d.Topology.LoadBalancer.config(1)
		if cfg.Validate() != nil {
			return // It has problems of its own.
		}
		how := a.Cut.How
		if how == 0 {
			how = d.CutBy(a.Cut)
		}
		if err := cfg.CanCut(how); err != nil {
			text := strings.TrimPrefix(err.Error(), "lb: cut ")
			v.faultIn(at("cut.how"), balancer, "%s", strings.Replace(text, "; want", ", want", 1))
		}
	case a.RestartLoadBalancer != nil && d.Topology.LoadBalancer == nil:
		v.faultIn(at("restart_load_balancer"), balancer, "restarts the load balancer, and there is none; want topology.load_balancer")
	case a.RestartServers != nil:
		r := a.RestartServers
		v.replica(r.Replica, at("restart_servers.replica"))
		if r.Pause > 0 && (r.Replica != nil || d.Topology.Servers.Replicas < 2) {
			v.faultIn(at("restart_servers.pause"), []string{"topology.servers"}, "is %v, but only one replica is restarted, want none", r.Pause)
		}
	}
}

func (v *validator) replica(n *int, path string) {
	all := max(1, v.def.Topology.Servers.Replicas)
	switch {
	case n == nil || *n < all:
	case all == 1:
		v.faultIn(path, []string{"topology.servers"}, "is %d, want 0: there is one replica", *n)
	default:
		v.faultIn(path, []string{"topology.servers"}, "is %d, want from 0 to %d: there are %d replicas", *n, all-1, all)
	}
}

// breaks checks a fault, and that its target is there.
func (v *validator) breaks(f *Fault, path string) {
	t := &v.def.Topology
	target := path + ".target"
	if f.Target == OnNetwork {
		if t.Network != Namespaces {
			v.faultIn(target, []string{"topology.network"}, "is network, want topology.network: namespaces with it, or a link")
		}
	} else if f.Target != "" && !slices.Contains(t.Links, LinkName(f.Target)) {
		v.faultIn(target, []string{"topology.links"}, "is %s, a link that the topology has not, want it in topology.links", f.Target)
	}
	if f.Replica != nil && f.Target != OnBack {
		v.faultIn(path+".replica", []string{target}, "is %d, want target: back with it, or none", *f.Replica)
	}
	v.replica(f.Replica, path+".replica")
	if f.Kind == "" {
		return // which is said elsewhere
	}
	real := func(of Duration) time.Duration { return time.Duration(of) }
	for _, err := range split(f.scaled(real, 1).Validate()) {
		text := strings.TrimPrefix(strings.TrimPrefix(err.Error(), "fault: "), string(f.Kind)+": ")
		name, rest, _ := strings.Cut(text, " ")
		v.fault(join(path, name), "%s", rest)
	}
	switch {
	case f.Target == OnNetwork && !f.Kind.OnNetwork():
		v.fault(path+".kind", "is %s, which acts on a link, want target: front or back, or %s", f.Kind, orList(kindsWhere(true)))
	case f.Target != OnNetwork && f.Target != "" && !f.Kind.OnLink():
		v.fault(path+".kind", "is %s, which acts in the network, want target: network, or %s", f.Kind, orList(kindsWhere(false)))
	case f.Target == OnNetwork && (f.Conn > 0 || f.Limit > 0):
		v.fault(path+".target", "is network, which does not count connections, want no conn and no limit")
	}
}

// kindsWhere lists the kinds of faults of the network, or of links.
func kindsWhere(network bool) (names []string) {
	for _, k := range fault.Kinds() {
		if network && k.OnNetwork() || !network && k.OnLink() {
			names = append(names, string(k))
		}
	}
	return names
}

// call checks that a tool gets the arguments that it takes.
func (v *validator) call(c *Call, path string) {
	args, known := toolArgs[c.Tool]
	if !known {
		return // which is said elsewhere
	}
	bar := slices.Index(args, "|")
	required, takes := args[:bar], slices.Concat(args[:bar], args[bar+1:])
	at := reflect.ValueOf(c).Elem()
	for _, f := range fieldsOf(at.Type()) {
		given := !zero(at.FieldByIndex(f.index))
		switch {
		case !isToolArg(f.name):
		case given && !slices.Contains(takes, f.name):
			want := "none: it takes no argument"
			if len(takes) > 0 {
				want = "none: it takes " + strings.Join(takes, ", ")
			}
			v.faultIn(join(path, f.name), []string{path + ".tool"}, "is no argument of %s, want %s", c.Tool, want)
		case !given && slices.Contains(required, f.name):
			v.faultIn(join(path, f.name), []string{path + ".tool"}, "is missing: %s needs it", c.Tool)
		}
	}
	if c.Interval > 0 && c.Events < 2 {
		v.faultIn(path+".interval", []string{path + ".events"}, "is %v, want 2 events or more with it", c.Interval)
	}
}

// isToolArg is whether a key of a call is an argument of some tool.
func isToolArg(key string) bool {
	for _, args := range toolArgs {
		if slices.Contains(args, key) {
			return true
		}
	}
	return false
}

// rollbacks checks what is done at the end.
func (v *validator) rollbacks() {
	for i := range v.def.Rollbacks {
		r, path := &v.def.Rollbacks[i], fmt.Sprintf("rollbacks[%d]", i)
		action := r.Action()
		if !v.oneAction(action.set(), typeOf[Rollback](), path) {
			continue
		}
		v.action(&action, path)
		if c := r.Call; c != nil && c.Name != "" {
			v.fault(path+".call.name", "is %s, want none: the hypothesis has been checked by then", c.Name)
		}
		if c := r.Call; c != nil && c.Background {
			v.fault(path+".call.background", "is true, want false: the run ends with the rollbacks")
		}
	}
}
