package client

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// maxRecords bounds a log, to some 100 MB.
const maxRecords = 1 << 18

// Log is what happened to one client, in the order in which it did. It only
// grows. Its methods may be called from any goroutine; none of them waits for
// anything but [Log.Until].
type Log struct {
	limit int // immutable

	mu        sync.Mutex
	records   []Record
	dropped   int
	exchanges int
	changed   chan struct{}          // closed, and replaced, by each change
	dead      func(middleware.Event) // told of the middleware's SessionDead; may be nil
}

// NewLog returns an empty log.
func NewLog() *Log { return &Log{limit: maxRecords, changed: make(chan struct{})} }

// add gives the record its number and its time.
func (l *Log) add(r Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addLocked(r)
}

func (l *Log) addLocked(r Record) {
	if len(l.records) >= l.limit {
		l.dropped++
		return
	}
	// Under the lock: the order of the times is that of the log.
	r.N, r.At = len(l.records)+1, time.Now()
	l.records = append(l.records, r)
	close(l.changed)
	l.changed = make(chan struct{})
}

// begin adds an Asked record and returns the exchange's number.
func (l *Log) begin(r Record) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.exchanges++
	r.Kind, r.Ref = Asked, l.exchanges
	l.addLocked(r)
	return r.Ref
}

// Records returns what is there, oldest first. It is the caller's own.
func (l *Log) Records() []Record { return l.Since(0) }

// Since returns what came after the record with the number n.
func (l *Log) Since(n int) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.records[min(max(n, 0), len(l.records)):])
}

// Dropped is how many records are missing at the end, because the log keeps the
// first 262,144. Nothing can be counted over such a log.
func (l *Log) Dropped() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// Until waits until cond is true of the records, and returns them. cond is
// called once at first and then after changes, and must not change them. It
// gives up with the cause of ctx, and returns what is there.
func (l *Log) Until(ctx context.Context, cond func([]Record) bool) ([]Record, error) {
	for {
		l.mu.Lock()
		records, changed := slices.Clip(l.records), l.changed
		l.mu.Unlock()
		if cond(records) {
			return slices.Clone(records), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return slices.Clone(records), context.Cause(ctx)
		}
	}
}

// Observe is for [middleware.Config].Observe of the client's own middleware. A
// client of kind [MCPGo] learns of its session's death from it.
func (l *Log) Observe(e middleware.Event) {
	l.mu.Lock()
	l.addLocked(Record{Kind: Decided, SessionID: e.SessionID, Guard: &e})
	dead := l.dead
	l.mu.Unlock()
	if e.Kind == middleware.SessionDead && dead != nil {
		dead(e)
	}
}

// onDead has f told of the middleware's SessionDead.
func (l *Log) onDead(f func(middleware.Event)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = f
}

// Wire returns a transport that logs what passes it, for below the middleware.
// base must not be nil, and is the caller's.
func (l *Log) Wire(base http.RoundTripper) http.RoundTripper {
	return &tap{base: base, log: l, layer: Wire}
}
