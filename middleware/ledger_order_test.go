package middleware

import (
	"fmt"
	"testing"
)

// What makes room is what nobody waits for, if there is any.
func TestLedgerForgetsWhatIsSettledFirst(t *testing.T) {
	b := newBook(PendingReconcile, false)
	open := readID([]byte(`"open"`))
	b.request(b.elicit(open), sighting{now: b.now})
	for i := range maxPending {
		id := readID(fmt.Appendf(nil, "%d", i))
		b.request(b.elicit(id), sighting{now: b.now})
		b.cancelled(id) // and never answered
	}
	if n := b.count(); n != 1 {
		t.Errorf("%d are pending, want the one that is open", n)
	}
	if p := b.pending[open.key]; p == nil || p.state != delivered {
		t.Errorf("the open request is %+v, want it followed", p)
	}
}

// A call that was failed stays so when its client withdraws it.
func TestLedgerFailsAWithdrawnCallNoSecondTime(t *testing.T) {
	for _, owed := range []bool{false, true} {
		b := newBook(PendingStrict, true)
		if owed {
			b.sees(live)
			b.reply(request12, refused, b.now)
		} else {
			b.sees()
		}
		b.abandoned(call7)
		if block := b.owed(call7); block != nil {
			t.Errorf("owed %v: %q is still to be said to a call that was withdrawn", owed, block)
		}
		if r, err := b.request(b.elicit(readID([]byte("13"))), sighting{call: call7, st: b.st, replay: true, now: b.now}); r != suppress || err != nil {
			t.Errorf("owed %v: the next request of the call = %v, %v, want it suppressed", owed, r, err)
		}
		if r := b.response(call7); r != suppress {
			t.Errorf("owed %v: a late answer = %v, want it suppressed", owed, r)
		}
	}
}
