package middleware

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

// replayWindow is how long after a reconnect was answered a server may take to
// begin with its replay, for the ledger: a probe may be quicker. The stream that
// follows a replay cannot be told from it.
const replayWindow = time.Second

// hold starts to read the replay after cursor, up to Config.MaxHeldBytes of it.
func (b *body) hold(cursor string) {
	b.cursor, b.replayUntil = cursor, time.Now().Add(replayWindow)
	b.cond = sync.NewCond(&b.mu)
	b.pumping = true
	b.settled = make(chan struct{})
	b.pumped = make(chan struct{})
	go b.pump()
}

const pumpBytes = 1 << 10

func (b *body) pump() {
	defer close(b.pumped)
	chunk := make([]byte, pumpBytes)
	b.mu.Lock()
	defer func() {
		b.pumping = false
		b.settleLocked()
		b.cond.Broadcast()
		b.mu.Unlock()
	}()
	for {
		for len(b.buf) >= b.f.t.cfg.MaxHeldBytes && !b.released && b.failed == nil {
			b.cond.Wait()
		}
		if b.released || b.failed != nil || b.end != nil {
			return
		}
		room := b.f.t.cfg.MaxHeldBytes - len(b.buf)
		b.mu.Unlock()
		n, err := b.up.Read(chunk[:min(room, len(chunk))])
		b.mu.Lock()
		b.buf = append(b.buf, chunk[:n]...)
		if b.released {
			// No verdict was asked for on behalf of these bytes: the reader
			// takes them as it takes what it reads itself.
			b.late, b.lateN, b.lateErr = true, n, err
			return
		}
		b.scanLocked(n)
		if err != nil {
			b.endLocked(err)
		}
		if b.events > 0 {
			b.settleLocked()
		}
		b.cond.Broadcast()
	}
}

func (b *body) settleLocked() {
	select {
	case <-b.settled:
	default:
		close(b.settled)
	}
}

// emptyWithin reports whether the replay has ended with nothing held, waiting
// no longer than d for it to say so.
func (b *body) emptyWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-b.settled:
	case <-timer.C:
	case <-b.f.client.Context().Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failed == nil && b.end != nil && b.events == 0 && (b.end == io.EOF || b.whole == len(b.buf))
}

// release lets the client have what is held, and extra after it, and everything
// that follows. said is for the hook.
func (b *body) release(extra []byte) (events, size int, said []Event) {
	t, s := b.f.t, b.f.s
	owes := false
	b.mu.Lock()
	for done := 0; s.asks(b.buf[done:b.whole]); {
		region := b.buf[done:b.whole:b.whole]
		b.mu.Unlock()
		r := t.reconcile(b.passage(true), region)
		b.mu.Lock()
		b.replaceLocked(done, len(region), r)
		done += len(r.data)
		said, owes = append(said, r.events...), owes || r.owes
	}
	events, size = b.events, b.whole
	if len(extra) > 0 {
		b.mu.Unlock()
		r := t.reconcileExtra(s, extra)
		b.mu.Lock()
		b.insertLocked(r)
		said, owes = append(said, r.events...), owes || r.owes
	}
	b.released = true
	b.cond.Broadcast()
	b.mu.Unlock()
	b.settle()
	if owes {
		s.settleAll()
	}
	return events, size, said
}

// insertLocked puts events of the stream behind those that are whole.
func (b *body) insertLocked(r reconciled) {
	b.buf = slices.Insert(b.buf, b.whole, r.data...)
	b.noteLocked(b.whole, r)
	b.whole += len(r.data)
}

// catchUp waits until what has arrived of some replays is held, as far as can
// be told, so that a quarantine says what there was. It is for outcomes that
// are in no hurry.
func catchUp(ctx context.Context, replays []*body) {
	held := make([]int, len(replays))
	for waited := time.Duration(0); waited < catchUpTimeout; waited += catchUpStep {
		busy := false
		for i, b := range replays {
			b.mu.Lock()
			busy = busy || b.pumping && (len(b.buf) != held[i] || held[i] == 0)
			held[i] = len(b.buf)
			b.mu.Unlock()
		}
		if !busy || !sleep(ctx, catchUpStep) {
			return
		}
	}
}

const (
	catchUpStep    = 2 * time.Millisecond
	catchUpTimeout = 20 * time.Millisecond
)

// discard gives up what is held, and waits until nothing reads upstream any
// more.
func (b *body) discard() (records []QuarantinedEvent, events, size int) {
	b.closeUpstream()
	b.mu.Lock()
	if b.failed == nil {
		b.failed = errClosed
	}
	b.cond.Broadcast()
	held := b.buf[:b.whole]
	events, size = b.events, len(b.buf)
	b.mu.Unlock()
	b.join()
	b.finish()
	return quarantineRecords(held), events, size
}

// join waits until the pump has ended, which closing its upstream makes it do.
func (b *body) join() {
	if b.pumped == nil {
		return
	}
	timer := time.NewTimer(abortTimeout)
	defer timer.Stop()
	select {
	case <-b.pumped:
	case <-timer.C:
	}
}
