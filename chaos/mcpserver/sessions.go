package mcpserver

import (
	"container/list"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

// sessionStore holds the session records. A record whose time has come counts
// as dead from that instant, whether or not expire has been called since.
type sessionStore struct {
	// Immutable.
	ttl    time.Duration // 0: records do not expire
	oracle *Oracle

	mu      sync.Mutex
	records map[string]*record
	order   list.List // of *record: those that will expire, the next one in front
	// replaced has, for the id of a session that is none, that of the session
	// which answers in its place.
	replaced map[string]string
}

// record is one session. turn != nil => !dead.
type record struct {
	id      string
	dead    bool
	expires time.Time     // zero: never
	turn    *list.Element // its place in sessionStore.order
}

func newSessionStore(ttl time.Duration, oracle *Oracle) *sessionStore {
	return &sessionStore{
		ttl: ttl, oracle: oracle, records: make(map[string]*record), replaced: make(map[string]string),
	}
}

// create makes a session.
func (s *sessionStore) create(replica int) Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.createLocked(Session{ID: rand.Text(), Replica: replica})
}

func (s *sessionStore) createLocked(about Session) Record {
	about.Created = time.Now()
	r := &record{id: about.ID}
	s.records[r.id] = r
	if s.ttl > 0 {
		r.expires = about.Created.Add(s.ttl)
		r.turn = s.order.PushBack(r)
	}
	return s.oracle.sessionCreated(about)
}

// adopt makes a session of an id that a client has brought, unless that lives.
// It reports whether it did.
func (s *sessionStore) adopt(id string, replica int) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[id]
	if r.aliveAt(time.Now()) || r != nil && !r.dead {
		return Record{}, false // The latter's death is recorded first, by expire.
	}
	return s.createLocked(Session{ID: id, Replica: replica, Adopted: true}), true
}

// replace returns the id of the living session that answers in the place of one
// that is none. If it had to be made, the Record says so.
func (s *sessionStore) replace(id string, replica int) (string, *Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if by := s.replaced[id]; s.records[by].aliveAt(time.Now()) {
		return by, nil
	}
	created := s.createLocked(Session{ID: rand.Text(), Replica: replica})
	s.replaced[id] = created.Session.ID
	return created.Session.ID, &created
}

func (r *record) aliveAt(now time.Time) bool {
	return r != nil && !r.dead && (r.expires.IsZero() || now.Before(r.expires))
}

func (s *sessionStore) alive(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[id].aliveAt(time.Now())
}

// known is whether there is a record, be it of a dead session.
func (s *sessionStore) known(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[id] != nil
}

// refresh gives a living session its full time again. It reports whether the
// session lives.
func (s *sessionStore) refresh(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.records[id]
	if !r.aliveAt(now) {
		return false
	}
	if r.turn != nil {
		r.expires = now.Add(s.ttl)
		s.order.MoveToBack(r.turn)
	}
	return true
}

// end kills a living session. It reports whether there was one.
func (s *sessionStore) end(id string, why Why) (Record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	r := s.records[id]
	if !r.aliveAt(now) {
		return Record{}, false
	}
	return s.killLocked(r, now, why), true
}

// endAll kills all that live. The death of one whose time has come is of that.
func (s *sessionStore) endAll(why Why) []Record {
	deaths := s.expire()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for _, r := range s.records {
		if !r.dead {
			deaths = append(deaths, s.killLocked(r, now, why))
		}
	}
	return deaths
}

// expire kills all whose time has come, each at the instant that was its time.
func (s *sessionStore) expire() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	var deaths []Record
	now := time.Now()
	for e := s.order.Front(); e != nil; e = s.order.Front() {
		r := e.Value.(*record)
		if r.aliveAt(now) {
			break
		}
		deaths = append(deaths, s.killLocked(r, r.expires, WhyExpired))
	}
	return deaths
}

func (s *sessionStore) killLocked(r *record, at time.Time, why Why) Record {
	r.dead = true
	if r.turn != nil {
		s.order.Remove(r.turn)
		r.turn = nil
	}
	return s.oracle.sessionDied(r.id, at, why)
}

// next is when expire will have something to do, or the zero Time.
func (s *sessionStore) next() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.order.Front(); e != nil {
		return e.Value.(*record).expires
	}
	return time.Time{}
}

// buried is whether a session's death has been recorded, or nothing of it.
func (s *sessionStore) buried(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.records[id]
	return r == nil || r.dead
}

// forget drops the record of a session that is buried.
func (s *sessionStore) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, id)
	maps.DeleteFunc(s.replaced, func(_, by string) bool { return by == id })
}

// sessionIDs is the session store as mcp-go asks it while it serves one
// request. mcp-go asks for POSTs and DELETEs, never for GETs.
type sessionIDs struct {
	process *process
	call    *call // nil when the server itself discards mcp-go's state
}

// idResolver makes one for each request.
type idResolver struct{ process *process }

// ResolveSessionIdManager implements [server.SessionIdManagerResolver].
func (x idResolver) ResolveSessionIdManager(r *http.Request) server.SessionIdManager {
	ids := sessionIDs{process: x.process}
	if r != nil {
		ids.call = callFrom(r.Context())
	}
	return ids
}

// Generate implements [server.SessionIdManager]: mcp-go is serving an
// initialize request.
func (s sessionIDs) Generate() string {
	replica := 0
	if s.call != nil {
		replica = s.call.server.replica
	}
	created := s.process.sessions.create(replica)
	id := created.Session.ID
	if s.call != nil {
		s.process.inners.begin(id)
		s.call.inner = id
	}
	s.process.nudge()
	s.process.oracle.tell(created)
	return id
}

// Validate implements [server.SessionIdManager]. mcp-go answers 404 to true and
// to an error alike.
func (s sessionIDs) Validate(inner string) (isTerminated bool, err error) {
	id := sessionOf(inner)
	defer func() {
		if s.call != nil {
			s.call.admitted = err == nil && !isTerminated
		}
	}()
	check := s.process.sessions.refresh
	if s.process.cfg.Refresh == RefreshNever {
		check = s.process.sessions.alive
	}
	switch {
	case check(id), s.call != nil && s.call.checked:
		return false, nil
	case s.process.sessions.known(id):
		return true, nil
	default:
		return false, fmt.Errorf("mcpserver: no session %q", id)
	}
}

// Terminate implements [server.SessionIdManager]. A client may always do it.
func (s sessionIDs) Terminate(inner string) (isNotAllowed bool, err error) {
	if s.call == nil {
		return false, nil
	}
	if died, ok := s.process.sessions.end(inner, WhyDeleted); ok {
		s.process.died(died)
	}
	return false, nil
}
