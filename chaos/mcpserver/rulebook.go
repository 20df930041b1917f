package mcpserver

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// rulebook has the rules of a server, or of all replicas of a cluster, and what
// they have counted. It outlives restarts.
type rulebook struct {
	mu       sync.Mutex
	made     int // the number of the latest rule
	rules    []*installedRule
	sessions map[string]*ruleTally
	order    []string // the keys of sessions, the oldest in front
}

// installedRule is a rule in force. Guarded by rulebook.mu.
type installedRule struct {
	Rule
	n      int
	server *Server // whose requests it is for; nil: those of all
	count  int     // of all requests that it was about
}

// ruleTally is what the rules know of a session.
type ruleTally struct {
	streamed bool        // it has had a stream by GET
	counts   map[int]int // by the rule's number
}

func newRulebook(rules []Rule) *rulebook {
	b := &rulebook{sessions: make(map[string]*ruleTally)}
	for _, r := range rules {
		b.add(r, nil)
	}
	return b
}

func (b *rulebook) add(r Rule, server *Server) *installedRule {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made++
	in := &installedRule{Rule: r, n: b.made, server: server}
	b.rules = append(b.rules, in)
	return in
}

// inject is [Server.Inject]; server nil is [Cluster.Inject].
func (b *rulebook) inject(r Rule, server *Server) (remove func(), err error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	in := b.add(r, server)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.rules = slices.DeleteFunc(b.rules, func(o *installedRule) bool { return o == in })
	}, nil
}

// match counts a request, and returns the rule that is to be applied to it and
// that rule's number, or 0.
func (b *rulebook) match(c *call) (rule Rule, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rules) == 0 {
		return Rule{}, 0
	}
	tally := b.tallyLocked(c.session)
	resume := c.cursor != "" || tally.streamed
	for _, in := range b.rules {
		if in.server != nil && in.server != c.server || !in.On.wants(c.method, resume) ||
			in.RPC != "" && in.RPC != c.rpc.name() {
			continue
		}
		in.count++
		tally.counts[in.n]++
		count := in.count
		if in.Count == CountSession {
			count = tally.counts[in.n]
		}
		if n == 0 && count >= in.From && (in.To == 0 || count <= in.To) {
			rule, n = in.Rule, in.n
		}
	}
	return rule, n
}

// streamed notes that a session has a stream by GET.
func (b *rulebook) streamed(session string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tallyLocked(session).streamed = true
}

// tallyLocked is that of a session. Of the oldest of very many, it is a new one.
func (b *rulebook) tallyLocked(session string) *ruleTally {
	t := b.sessions[session]
	if t == nil {
		t = &ruleTally{counts: make(map[int]int)}
		b.sessions[session] = t
		b.order = append(b.order, session)
		if len(b.order) > oracleLimit {
			delete(b.sessions, b.order[0])
			b.order = b.order[1:]
		}
	}
	return t
}

// interpose does to a request what a rule says. It reports whether the request is
// still to be served. ctx ends with the connection or with the server.
func (s *process) interpose(ctx context.Context, a *answer, c *call) bool {
	rule, n := c.server.rules.match(c)
	if n == 0 {
		return true
	}
	s.oracle.updateRequest(c.n, 0, time.Time{}, func(r *Request) { r.Rule = n })
	if rule.Delay > 0 {
		timer := time.NewTimer(rule.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			a.aborted = true
			return false
		}
	}
	if rule.Hang {
		<-ctx.Done()
		a.aborted = true
		return false
	}
	if rule.Status == 0 {
		c.reaps = rule.ReapAfterReplay
		return true
	}
	if rule.RetryAfter > 0 {
		a.Header().Set("Retry-After", strconv.Itoa(int(rule.RetryAfter/time.Second)))
	}
	if rule.Body != "" && rule.ContentType == "" {
		rule.ContentType = "text/plain; charset=utf-8"
	}
	if rule.ContentType != "" {
		a.Header().Set("Content-Type", rule.ContentType)
	}
	// Around the answer's own methods, to which an SSE body is a stream.
	a.note(rule.Status)
	a.ResponseWriter.WriteHeader(rule.Status)
	_, _ = a.ResponseWriter.Write([]byte(rule.Body))
	return false
}

// opened notes that the header of a stream has been written.
func (s *process) opened(c *call) {
	if c.method != http.MethodGet {
		return
	}
	c.server.rules.streamed(c.sent)
	if c.reaps && !c.resumes {
		s.reapInReplay(c.session)
	}
}
