package mcpserver

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"
)

var errPurged = errors.New("mcpserver: the session's events were purged")

// eventLog keeps the events of all sessions. It does not know whether a session
// lives, nor what a process is: several may write to it, one after another or at
// once.
type eventLog struct {
	// Immutable.
	retention time.Duration // 0: for ever
	max       int           // of one session
	replay    Replay
	oracle    *Oracle

	mu        sync.Mutex
	seq       uint64
	logs      map[string]*sessionLog // by session
	order     list.List              // of *entry, the oldest in front; empty if retention is 0
	emptied   []string               // inner sessions whose last event went since expire was called
	processes []*process             // those that write to it
}

func newEventLog(cfg Config, oracle *Oracle) *eventLog {
	cfg = cfg.withDefaults()
	return &eventLog{
		retention: cfg.LogRetention, max: cfg.MaxEvents, replay: cfg.Replay,
		oracle: oracle, logs: make(map[string]*sessionLog),
	}
}

// attach adds a process that is to know what becomes of the events.
func (l *eventLog) attach(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes = append(l.processes, p)
}

func (l *eventLog) detach(p *process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes = slices.DeleteFunc(slices.Clone(l.processes), func(q *process) bool { return q == p })
}

// attached is not to be changed.
func (l *eventLog) attached() []*process {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clip(l.processes)
}

// nudgeLocked: expire has something to do that nobody could know of.
func (l *eventLog) nudgeLocked() {
	for _, p := range l.processes {
		p.nudge()
	}
}

// processLog is the log as one process writes to it and replays from it: the
// event store that mcp-go is given. It calls nothing of mcp-go's, which holds a
// stream's lock while it stores or replays.
type processLog struct {
	*eventLog
	process *process
}

// sessionLog is the log of one session, all its streams together.
type sessionLog struct {
	entries []*entry       // by seq
	count   map[string]int // of the entries, by inner session
	purged  bool           // nothing is stored any more
}

// entry is immutable but for turn, which the log's lock guards.
type entry struct {
	seq     uint64
	id      string // seq in decimal
	inner   string
	stream  string
	message json.RawMessage
	ask     int64 // the id, if the message is a server-to-client request; else 0
	at      time.Time
	turn    *list.Element // its place in eventLog.order
}

// StoreEvent implements [server.EventStore]. It never asks whether the session
// lives; it only tells the oracle.
func (l *processLog) StoreEvent(_ context.Context, inner, stream string, message json.RawMessage) (string, error) {
	message, ask := unwrap(slices.Clone(message))
	stamp := stampIn(message)
	id, stored, err := l.store(inner, stream, message, ask, stamp)
	if err == nil {
		l.oracle.tell(stored)
	}
	l.process.acks.answer(stamp.Seq, err)
	return id, err
}

func (l *processLog) store(inner, stream string, message json.RawMessage, ask int64, stamp Stamp) (string, Record, error) {
	session := sessionOf(inner)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process.killed.Load() {
		return "", Record{}, errRestarted
	}
	sl := l.logLocked(session)
	if sl.purged {
		return "", Record{}, errPurged
	}
	l.seq++
	e := &entry{
		seq: l.seq, id: strconv.FormatUint(l.seq, 10),
		inner: inner, stream: stream, message: message, ask: ask, at: time.Now(),
	}
	sl.entries = append(sl.entries, e)
	sl.count[inner]++
	if l.retention > 0 {
		e.turn = l.order.PushBack(e)
		if l.order.Len() == 1 {
			l.nudgeLocked()
		}
	}
	if len(sl.entries) > l.max {
		if l.removeLocked(sl, 0); len(l.emptied) > 0 {
			l.nudgeLocked()
		}
	}
	// The oracle hears of it before anybody can read it.
	return e.id, l.oracle.eventStored(Event{
		Stamp: stamp, SessionID: session, EventID: e.id, StreamID: stream,
		At: e.at, SessionAlive: l.process.sessions.alive(session),
	}), nil
}

// removeLocked removes one entry of a session.
func (l *eventLog) removeLocked(sl *sessionLog, i int) {
	e := sl.entries[i]
	if e.turn != nil {
		l.order.Remove(e.turn)
		e.turn = nil
	}
	if i == 0 { // The usual case, without a move of all the others.
		sl.entries[0] = nil
		sl.entries = sl.entries[1:]
	} else {
		sl.entries = slices.Delete(sl.entries, i, i+1)
	}
	if sl.count[e.inner]--; sl.count[e.inner] == 0 {
		delete(sl.count, e.inner)
		l.emptied = append(l.emptied, e.inner)
	}
}

func (l *eventLog) forgottenLocked(e *entry, now time.Time) bool {
	return l.retention > 0 && now.Sub(e.at) >= l.retention
}

// PurgeSession implements [server.EventStore]: a client has deleted the session,
// which gets no more events on any stream. When the server itself discards what
// mcp-go holds, the log keeps what it has.
func (l *processLog) PurgeSession(ctx context.Context, inner string) error {
	if callFrom(ctx) == nil {
		return nil
	}
	session := sessionOf(inner)
	l.purge(session)
	l.process.acks.abandon(session)
	return nil
}

func (l *eventLog) purge(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	sl := l.logLocked(session)
	sl.purged = true
	for i := len(sl.entries) - 1; i >= 0; i-- {
		l.removeLocked(sl, i)
	}
	l.nudgeLocked()
}

// reopen lets a session that was purged have events again.
func (l *eventLog) reopen(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sl := l.logs[session]; sl != nil {
		sl.purged = false
	}
}

func (l *eventLog) logLocked(session string) *sessionLog {
	sl := l.logs[session]
	if sl == nil {
		sl = &sessionLog{count: make(map[string]int)}
		l.logs[session] = sl
	}
	return sl
}

// has is whether any event of an inner session is left.
func (l *eventLog) has(inner string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	sl := l.logs[sessionOf(inner)]
	return sl != nil && sl.count[inner] > 0
}

// forget drops what is known of a session that has no events.
func (l *eventLog) forget(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sl := l.logs[session]; sl != nil && len(sl.entries) == 0 {
		delete(l.logs, session)
	}
}

// expire removes the events that are kept no longer. It returns the inner
// sessions that have lost their last one since the call before.
func (l *eventLog) expire() (emptied []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for f := l.order.Front(); f != nil; f = l.order.Front() {
		e := f.Value.(*entry)
		if !l.forgottenLocked(e, now) {
			break
		}
		// The oldest of all sessions is the oldest of its own.
		l.removeLocked(l.logs[sessionOf(e.inner)], 0)
	}
	emptied, l.emptied = l.emptied, nil
	return emptied
}

// next is when expire will have something to do, or the zero Time.
func (l *eventLog) next() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.order.Front(); f != nil {
		return f.Value.(*entry).at.Add(l.retention)
	}
	return time.Time{}
}
