package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

// marked is in every id that is not one any more.
const marked = "…"

// short is a session id as it may be shown.
func short(id string) string {
	if strings.Contains(id, marked) {
		return id
	}
	return journal.Abbreviate(id)
}

// MarshalJSON writes the History as [History.Redacted] has it.
func (h *History) MarshalJSON() ([]byte, error) {
	type plain History
	return json.Marshal((*plain)(h.Redacted()))
}

// Redacted is a copy that may leave the house: no session can be used by what is
// in it. Each id is replaced by its abbreviation everywhere, errors included, or
// by one with a number where two would be the same. All counts over the copy are
// those over h.
func (h *History) Redacted() *History {
	names := newNames()
	out := *h
	out.visit(func(id *string) { names.learn(*id) })
	texts := names.replacer()
	out.copyLists()
	out.visit(func(id *string) { *id = names.of[*id] })
	out.visitTexts(func(text *string) { *text = texts.Replace(*text) })
	return &out
}

// names gives each id a name.
type names struct {
	of    map[string]string
	taken map[string]bool
}

func newNames() *names { return &names{of: map[string]string{"": ""}, taken: map[string]bool{}} }

func (n *names) learn(id string) {
	if _, ok := n.of[id]; ok {
		return
	}
	name := short(id)
	for i := 2; n.taken[name]; i++ {
		name = fmt.Sprintf("%s%d", short(id), i)
	}
	n.of[id], n.taken[name] = name, true
}

// replacer replaces ids in texts, the longest first.
func (n *names) replacer() *strings.Replacer {
	var ids []string
	for id := range n.of {
		if id != "" {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, id := range ids {
		pairs = append(pairs, id, n.of[id])
	}
	return strings.NewReplacer(pairs...)
}

// visit calls f with every session id.
func (h *History) visit(f func(*string)) {
	o := &h.Oracle
	for i := range o.Sessions {
		f(&o.Sessions[i].ID)
	}
	for i := range o.Events {
		f(&o.Events[i].Session)
		f(&o.Events[i].Stamp.Session)
	}
	for i := range o.Requests {
		f(&o.Requests[i].Session)
		f(&o.Requests[i].AnsweredAs)
	}
	for i := range o.Asks {
		f(&o.Asks[i].Session)
		f(&o.Asks[i].Stamp.Session)
	}
	for i := range o.Answers {
		f(&o.Answers[i].Session)
	}
	for k := range h.Clients {
		c := &h.Clients[k]
		for i := range c.Began {
			f(&c.Began[i].Session)
		}
		for i := range c.Left {
			f(&c.Left[i].Session)
		}
		for i := range c.Reports {
			f(&c.Reports[i].Session)
		}
		for i := range c.Applied {
			f(&c.Applied[i].Stamp.Session)
		}
		for i := range c.Prompts {
			f(&c.Prompts[i].Stamp.Session)
		}
		for i := range c.Calls {
			f(&c.Calls[i].Session)
			f(&c.Calls[i].Stamp.Session)
		}
		for i := range c.Exchanges {
			f(&c.Exchanges[i].Session)
		}
		for i := range c.Guard {
			f(&c.Guard[i].Session)
		}
	}
}

// visitTexts calls f with every text that may name a session.
func (h *History) visitTexts(f func(*string)) {
	for k := range h.Clients {
		c := &h.Clients[k]
		for i := range c.Failed {
			f(&c.Failed[i].Err)
		}
		for i := range c.Reports {
			f(&c.Reports[i].Err)
		}
		for i := range c.Calls {
			f(&c.Calls[i].Err)
		}
		for i := range c.Exchanges {
			f(&c.Exchanges[i].Err)
		}
		for i := range c.Guard {
			f(&c.Guard[i].Err)
		}
	}
	for k := range h.Balancers {
		for i := range h.Balancers[k].Events {
			f(&h.Balancers[k].Events[i].Err)
		}
	}
}

// copyLists gives h lists of its own.
func (h *History) copyLists() {
	o := &h.Oracle
	o.Sessions, o.Events, o.Requests = slices.Clone(o.Sessions), slices.Clone(o.Events), slices.Clone(o.Requests)
	o.Asks, o.Answers = slices.Clone(o.Asks), slices.Clone(o.Answers)
	h.Clients = slices.Clone(h.Clients)
	for i := range h.Clients {
		c := &h.Clients[i]
		c.Began, c.Failed, c.Left, c.Reports = slices.Clone(c.Began), slices.Clone(c.Failed), slices.Clone(c.Left), slices.Clone(c.Reports)
		c.Applied, c.Prompts, c.Calls = slices.Clone(c.Applied), slices.Clone(c.Prompts), slices.Clone(c.Calls)
		c.Exchanges, c.Guard = slices.Clone(c.Exchanges), slices.Clone(c.Guard)
	}
	h.Balancers = slices.Clone(h.Balancers)
	for i := range h.Balancers {
		h.Balancers[i].Events = slices.Clone(h.Balancers[i].Events)
	}
}
