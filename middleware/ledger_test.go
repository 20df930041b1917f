package middleware

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// book is a ledger under test with its own clock. The request is 12, the
// client's call 7 and its stream st; another call is 8.
type book struct {
	*ledger
	st   *stream
	call rpcID
	now  time.Time
}

// undelivered takes the latest delivery of a request back.
func (b *book) undelivered(id rpcID) {
	d := delivery{id: id}
	if p := b.pending[id.key]; p != nil {
		d.nth, d.prior = p.nth, p.prior
	}
	b.undeliver(d)
}

var (
	request12 = readID([]byte(`12`))
	call7     = readID([]byte(`7`))
	call8     = readID([]byte(`8`))
)

const testGrace = time.Minute

func newBook(policy Pending, callKnown bool) *book {
	b := &book{
		ledger: newLedger(&Config{Pending: policy, StaleGrace: testGrace}, "s"),
		st:     &stream{}, now: time.Unix(1e9, 0),
	}
	if callKnown {
		b.call = call7
	}
	return b
}

func (b *book) elicit(id rpcID) message {
	return message{kind: requestMessage, id: id, method: "elicitation/create"}
}

// sees is a sighting of request 12 on its own stream. The first one is not a
// replay: nobody has reconnected.
func (b *book) sees(change ...func(*sighting)) (ruling, error) {
	at := sighting{call: b.call, st: b.st, replay: true, now: b.now}
	for _, f := range change {
		f(&at)
	}
	return b.request(b.elicit(request12), at)
}

func live(at *sighting)     { at.replay = false }
func moot(at *sighting)     { at.moot = true }
func asserted(at *sighting) { at.asserted = true }
func elsewhere(at *sighting) {
	at.call, at.st = call8, &stream{}
}

// states are how request 12 can stand, each from an empty ledger.
var states = []struct {
	name string
	set  func(*book)
}{
	{"unseen", func(*book) {}},
	{"delivered", func(b *book) { b.sees(live) }},
	{"answered", func(b *book) { b.sees(live); b.reply(request12, accepted, b.now) }},
	{"overdue", func(b *book) { // answered, replayed once, and the grace is over
		b.sees(live)
		b.reply(request12, accepted, b.now)
		if b.policy != PendingStrict {
			b.sees()
		}
		b.now = b.now.Add(testGrace)
	}},
	{"lost", func(b *book) { b.sees(live); b.reply(request12, unanswered, b.now) }},
	{"again", func(b *book) { // lost, and delivered once more
		b.sees(live)
		b.reply(request12, unanswered, b.now)
		b.sees(asserted)
	}},
	{"withdrawn", func(b *book) { b.sees(live); b.cancelled(request12) }}, // and never answered
	{"settled", func(b *book) { b.sees(live); b.reply(request12, accepted, b.now); b.cancelled(request12) }},
	{"refused", func(b *book) { b.sees(live); b.reply(request12, refused, b.now) }},
	{"failed", func(b *book) { // in place, after a lost answer
		b.sees(live)
		b.reply(request12, unanswered, b.now)
		b.sees()
	}},
	{"unread", func(b *book) { // as again, and then taken back
		b.sees(live)
		b.reply(request12, unanswered, b.now)
		b.sees(asserted)
		b.undelivered(request12)
	}},
	{"sibling", func(b *book) { // its call was failed for the sake of another request, this one being unseen
		other := readID([]byte(`11`))
		at := sighting{call: b.call, st: b.st, now: b.now}
		b.request(b.elicit(other), at)
		b.reply(other, unanswered, b.now)
		b.request(b.elicit(other), at)
	}},
}

// deeds are what can happen to it.
var deeds = []struct {
	name string
	do   func(*book) string
}{
	{"live", func(b *book) string { return ruled(b.sees(live)) }},
	{"replay", func(b *book) string { return ruled(b.sees()) }},
	{"moot", func(b *book) string { return ruled(b.sees(moot)) }},
	{"asserted", func(b *book) string { return ruled(b.sees(asserted)) }},
	{"progress", func(b *book) string { b.st.passed.Add(1); return ruled(b.sees()) }},
	{"early", func(b *book) string { b.now = b.now.Add(-time.Nanosecond); return ruled(b.sees()) }},
	{"elsewhere", func(b *book) string { return ruled(b.sees(elsewhere)) }},
	{"accepted", func(b *book) string { return b.replies(accepted) }},
	{"refused", func(b *book) string { return b.replies(refused) }},
	{"unanswered", func(b *book) string { return b.replies(unanswered) }},
	{"deferred", func(b *book) string { return b.replies(deferred) }},
	{"cancelled", func(b *book) string { b.cancelled(request12); return "-" }},
	{"response", func(b *book) string { return ruled(b.response(call7), nil) }},
	{"abandoned", func(b *book) string { b.abandoned(call7); return "-" }},
	{"undelivered", func(b *book) string { b.undelivered(request12); return "-" }},
}

func ruled(r ruling, err error) string {
	word := map[ruling]string{pass: "pass", suppress: "keep", fail: "FAIL", owe: "OWES"}[r]
	switch {
	case errors.Is(err, ErrStaleElicitation):
		word += "!"
	case errors.Is(err, ErrUnknownPendingRequest):
		word += "?"
	case err != nil:
		word += fmt.Sprintf("(%v)", err)
	}
	return word
}

func (b *book) replies(o outcome) string {
	known, st, err := b.reply(request12, o, b.now)
	switch {
	case err != nil && st == b.st:
		return "stale!"
	case err != nil || st != nil:
		return "stale of another stream"
	case known:
		return "known"
	}
	return "unknown"
}

// state is how request 12 stands now: a star says that its answer is awaited
// only in case that the server refuses it.
func (b *book) state() string {
	p := b.pending[request12.key]
	_, remembered := b.settled.get(request12.key)
	switch {
	case p != nil && remembered:
		return "twice"
	case remembered:
		return "settled"
	case p == nil:
		return "unseen"
	}
	return [...]string{delivered: "delivered", answered: "answered", lost: "lost", settled: "settled*", stale: "stale*"}[p.state]
}

func (b *book) check(t *testing.T) {
	t.Helper()
	open := 0
	for _, p := range b.order {
		if b.pending[p.id.key] != p {
			t.Errorf("%v is in the order and not in the table", p.id)
		}
		if p.state < settled {
			open++
		}
	}
	if len(b.order) != len(b.pending) {
		t.Errorf("%d requests in order, %d in the table", len(b.order), len(b.pending))
	}
	if got := b.count(); got != open {
		t.Errorf("count() = %d, want %d", got, open)
	}
	if got, want := b.following.Load(), open > 0 || b.failed.len() > 0; got != want {
		t.Errorf("following = %v, want %v", got, want)
	}
	if open > 0 && !b.awaiting.Load() {
		t.Errorf("awaiting = false with %d requests open", open)
	}
}

// outcomes has for each state and deed what is said and how request 12 then
// stands. FAIL stands for a call that is failed in place of the request, OWES
// for one that is to be failed on its own stream, keep for what is kept back; ! is a [*StaleElicitationError], ? a
// [*UnknownPendingRequestError].
var outcomes = []struct {
	policy    Pending
	callKnown bool
	table     string
}{
	{PendingReconcile, true, `
            unseen         delivered       answered       overdue        lost           again           withdrawn      settled       refused       failed        unread         sibling
live        pass>delivered keep>delivered  keep>answered  FAIL!>settled  FAIL!>settled  keep>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  FAIL!>settled  keep>settled
replay      pass>delivered keep>delivered  keep>answered  FAIL!>settled  FAIL!>settled  keep>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  FAIL!>settled  keep>settled
moot        keep>settled   keep>settled*   keep>settled   keep>settled   keep>settled   keep>settled*   keep>settled*  keep>settled  keep>settled  keep>settled  keep>settled   keep>settled
asserted    pass>delivered keep>delivered  keep>answered  FAIL!>settled  pass>delivered keep>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  pass>delivered keep>settled
progress    pass>delivered keep>delivered  keep>answered  keep>answered  FAIL!>settled  keep>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  FAIL!>settled  keep>settled
early       pass>delivered keep>delivered  keep>answered  keep>answered  FAIL!>settled  keep>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  FAIL!>settled  keep>settled
elsewhere   pass>delivered keep>delivered  keep>answered  OWES!>settled  OWES!>settled  keep>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  OWES!>settled  pass>delivered
accepted    unknown>unseen known>answered  known>answered known>answered known>answered known>answered  known>settled  known>settled known>settled known>settled known>answered unknown>unseen
refused     unknown>unseen stale!>settled  known>answered known>answered stale!>settled stale!>settled  known>settled  known>settled known>settled known>settled stale!>settled unknown>unseen
unanswered  unknown>unseen known>lost      known>answered known>answered known>lost     known>lost      known>settled  known>settled known>settled known>settled known>lost     unknown>unseen
deferred    unknown>unseen known>delivered known>answered known>answered known>lost     known>delivered known>settled* known>settled known>settled known>settled known>lost     unknown>unseen
cancelled   ->unseen       ->settled*      ->settled      ->settled      ->settled      ->settled*      ->settled*     ->settled     ->settled     ->settled     ->settled      ->unseen
response    pass>unseen    pass>settled*   pass>settled   pass>settled   pass>settled   pass>settled*   pass>settled*  pass>settled  pass>settled  keep>settled  pass>settled   keep>unseen
abandoned   ->unseen       ->settled*      ->settled      ->settled      ->settled      ->settled*      ->settled*     ->settled     ->settled     ->settled     ->settled      ->unseen
undelivered ->unseen       ->unseen        ->answered     ->answered     ->lost         ->lost          ->settled*     ->settled     ->settled     ->settled     ->lost         ->unseen`},
	{PendingReconcile, false, `
            unseen         delivered       answered      overdue       lost           again           withdrawn      settled       refused       failed        unread         sibling
live        pass>delivered keep>delivered  keep>settled  keep>settled  keep!>settled  keep>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  keep!>settled  pass>delivered
replay      pass>delivered keep>delivered  keep>settled  keep>settled  keep!>settled  keep>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  keep!>settled  pass>delivered
moot        keep>settled   keep>settled*   keep>settled  keep>settled  keep>settled   keep>settled*   keep>settled*  keep>settled  keep>settled  keep>settled  keep>settled   keep>settled
asserted    pass>delivered keep>delivered  keep>settled  keep>settled  pass>delivered keep>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  pass>delivered pass>delivered
progress    pass>delivered keep>delivered  keep>settled  keep>settled  keep!>settled  keep>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  keep!>settled  pass>delivered
early       pass>delivered keep>delivered  keep>settled  keep>settled  keep!>settled  keep>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  keep!>settled  pass>delivered
elsewhere   pass>delivered keep>delivered  keep>settled  keep>settled  keep!>settled  keep>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  keep!>settled  pass>delivered
accepted    unknown>unseen known>settled   known>settled known>settled known>settled  known>settled   known>settled  known>settled known>settled known>settled known>settled  unknown>unseen
refused     unknown>unseen stale!>settled  known>settled known>settled stale!>settled stale!>settled  known>settled  known>settled known>settled known>settled stale!>settled unknown>unseen
unanswered  unknown>unseen known>lost      known>settled known>settled known>lost     known>lost      known>settled  known>settled known>settled known>settled known>lost     unknown>unseen
deferred    unknown>unseen known>delivered known>settled known>settled known>lost     known>delivered known>settled* known>settled known>settled known>settled known>lost     unknown>unseen
cancelled   ->unseen       ->settled*      ->settled     ->settled     ->settled      ->settled*      ->settled*     ->settled     ->settled     ->settled     ->settled      ->unseen
response    pass>unseen    pass>delivered  pass>settled  pass>settled  pass>lost      pass>delivered  pass>settled*  pass>settled  pass>settled  pass>settled  pass>lost      pass>unseen
abandoned   ->unseen       ->delivered     ->settled     ->settled     ->lost         ->delivered     ->settled*     ->settled     ->settled     ->settled     ->lost         ->unseen
undelivered ->unseen       ->unseen        ->settled     ->settled     ->lost         ->lost          ->settled*     ->settled     ->settled     ->settled     ->lost         ->unseen`},
	{PendingStrict, true, `
            unseen         delivered       answered       overdue        lost           again           withdrawn      settled       refused       failed        unread         sibling
live        pass>delivered FAIL!>stale*    FAIL!>settled  FAIL!>settled  FAIL!>settled  FAIL!>stale*    keep>settled*  keep>settled  keep>settled  keep>settled  FAIL!>settled  keep>settled
replay      FAIL?>settled  FAIL!>stale*    FAIL!>settled  FAIL!>settled  FAIL!>settled  FAIL!>stale*    keep>settled*  keep>settled  keep>settled  keep>settled  FAIL!>settled  keep>settled
moot        keep>settled   keep>settled*   keep>settled   keep>settled   keep>settled   keep>settled*   keep>settled*  keep>settled  keep>settled  keep>settled  keep>settled   keep>settled
asserted    FAIL?>settled  pass>delivered  pass>delivered pass>delivered pass>delivered pass>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  pass>delivered keep>settled
progress    FAIL?>settled  FAIL!>stale*    FAIL!>settled  FAIL!>settled  FAIL!>settled  FAIL!>stale*    keep>settled*  keep>settled  keep>settled  keep>settled  FAIL!>settled  keep>settled
early       FAIL?>settled  FAIL!>stale*    FAIL!>settled  FAIL!>settled  FAIL!>settled  FAIL!>stale*    keep>settled*  keep>settled  keep>settled  keep>settled  FAIL!>settled  keep>settled
elsewhere   FAIL?>settled  OWES!>stale*    OWES!>settled  OWES!>settled  OWES!>settled  OWES!>stale*    keep>settled*  keep>settled  keep>settled  keep>settled  OWES!>settled  FAIL?>settled
accepted    unknown>unseen known>answered  known>answered known>answered known>answered known>answered  known>settled  known>settled known>settled known>settled known>answered unknown>unseen
refused     unknown>unseen stale!>settled  known>answered known>answered stale!>settled stale!>settled  known>settled  known>settled known>settled known>settled stale!>settled unknown>unseen
unanswered  unknown>unseen known>lost      known>answered known>answered known>lost     known>lost      known>settled  known>settled known>settled known>settled known>lost     unknown>unseen
deferred    unknown>unseen known>delivered known>answered known>answered known>lost     known>delivered known>settled* known>settled known>settled known>settled known>lost     unknown>unseen
cancelled   ->unseen       ->settled*      ->settled      ->settled      ->settled      ->settled*      ->settled*     ->settled     ->settled     ->settled     ->settled      ->unseen
response    pass>unseen    pass>settled*   pass>settled   pass>settled   pass>settled   pass>settled*   pass>settled*  pass>settled  pass>settled  keep>settled  pass>settled   keep>unseen
abandoned   ->unseen       ->settled*      ->settled      ->settled      ->settled      ->settled*      ->settled*     ->settled     ->settled     ->settled     ->settled      ->unseen
undelivered ->unseen       ->unseen        ->answered     ->answered     ->lost         ->lost          ->settled*     ->settled     ->settled     ->settled     ->lost         ->unseen`},
	{PendingStrict, false, `
            unseen         delivered       answered      overdue       lost           again           withdrawn      settled       refused       failed        unread         sibling
live        pass>delivered keep!>stale*    keep>settled  keep>settled  keep!>settled  keep!>stale*    keep>settled*  keep>settled  keep>settled  keep>settled  keep!>settled  pass>delivered
replay      keep?>settled  keep!>stale*    keep>settled  keep>settled  keep!>settled  keep!>stale*    keep>settled*  keep>settled  keep>settled  keep>settled  keep!>settled  keep?>settled
moot        keep>settled   keep>settled*   keep>settled  keep>settled  keep>settled   keep>settled*   keep>settled*  keep>settled  keep>settled  keep>settled  keep>settled   keep>settled
asserted    keep?>settled  pass>delivered  keep>settled  keep>settled  pass>delivered pass>delivered  keep>settled*  keep>settled  keep>settled  keep>settled  pass>delivered keep?>settled
progress    keep?>settled  keep!>stale*    keep>settled  keep>settled  keep!>settled  keep!>stale*    keep>settled*  keep>settled  keep>settled  keep>settled  keep!>settled  keep?>settled
early       keep?>settled  keep!>stale*    keep>settled  keep>settled  keep!>settled  keep!>stale*    keep>settled*  keep>settled  keep>settled  keep>settled  keep!>settled  keep?>settled
elsewhere   FAIL?>settled  keep!>stale*    keep>settled  keep>settled  keep!>settled  keep!>stale*    keep>settled*  keep>settled  keep>settled  keep>settled  keep!>settled  FAIL?>settled
accepted    unknown>unseen known>settled   known>settled known>settled known>settled  known>settled   known>settled  known>settled known>settled known>settled known>settled  unknown>unseen
refused     unknown>unseen stale!>settled  known>settled known>settled stale!>settled stale!>settled  known>settled  known>settled known>settled known>settled stale!>settled unknown>unseen
unanswered  unknown>unseen known>lost      known>settled known>settled known>lost     known>lost      known>settled  known>settled known>settled known>settled known>lost     unknown>unseen
deferred    unknown>unseen known>delivered known>settled known>settled known>lost     known>delivered known>settled* known>settled known>settled known>settled known>lost     unknown>unseen
cancelled   ->unseen       ->settled*      ->settled     ->settled     ->settled      ->settled*      ->settled*     ->settled     ->settled     ->settled     ->settled      ->unseen
response    pass>unseen    pass>delivered  pass>settled  pass>settled  pass>lost      pass>delivered  pass>settled*  pass>settled  pass>settled  pass>settled  pass>lost      pass>unseen
abandoned   ->unseen       ->delivered     ->settled     ->settled     ->lost         ->delivered     ->settled*     ->settled     ->settled     ->settled     ->lost         ->unseen
undelivered ->unseen       ->unseen        ->settled     ->settled     ->lost         ->lost          ->settled*     ->settled     ->settled     ->settled     ->lost         ->unseen`},
}

// Every state with everything that can happen in it.
func TestLedger(t *testing.T) {
	for _, o := range outcomes {
		lines := strings.Split(strings.TrimPrefix(o.table, "\n"), "\n")
		for i, name := range strings.Fields(lines[0]) {
			if name != states[i].name {
				t.Fatalf("column %d is %q, want %q", i, name, states[i].name)
			}
		}
		if len(lines) != len(deeds)+1 {
			t.Fatalf("%d lines for %d deeds", len(lines)-1, len(deeds))
		}
		for i, d := range deeds {
			cells := strings.Fields(lines[i+1])
			if cells[0] != d.name {
				t.Fatalf("line %d is %q, want %q", i, cells[0], d.name)
			}
			for j, s := range states {
				b := newBook(o.policy, o.callKnown)
				s.set(b)
				said := d.do(b)
				b.check(t)
				if got, want := said+">"+b.state(), cells[j+1]; got != want {
					t.Errorf("%v, call known %v: %s when %s = %s, want %s", o.policy, o.callKnown, d.name, s.name, got, want)
				}
			}
		}
	}
}

// A call is failed once, and where there was nothing to stand in for, it is
// owed.
func TestLedgerOwesAFailureOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		do   func(*book)
		want bool
	}{
		"a refused answer":                      {func(b *book) { b.sees(live); b.reply(request12, refused, b.now) }, true},
		"in place of the request":               {func(b *book) { b.sees(live); b.reply(request12, unanswered, b.now); b.sees() }, false},
		"its own answer came first":             {func(b *book) { b.sees(live); b.reply(request12, refused, b.now); b.response(call7) }, false},
		"the client has withdrawn the call":     {func(b *book) { b.sees(live); b.reply(request12, refused, b.now); b.abandoned(call7) }, false},
		"the answer of another call came first": {func(b *book) { b.sees(live); b.reply(request12, refused, b.now); b.response(call8) }, true},
		"nothing was refused":                   {func(b *book) { b.sees(live) }, false},
	} {
		b := newBook(PendingReconcile, true)
		tc.do(b)
		first, second := b.owed(call7), b.owed(call7)
		if (first != nil) != tc.want || second != nil {
			t.Errorf("%s: owed = %q and then %q, want one: %v", name, first, second, tc.want)
		}
		if tc.want && b.response(call7) != suppress {
			t.Errorf("%s: the call's answer is passed on after its failure", name)
		}
	}
}

// Whatever else a failed call has asked is over with it, and a call that fails
// twice is told once.
func TestLedgerFailsACallForAllOfItsRequests(t *testing.T) {
	b := newBook(PendingReconcile, true)
	ids := []rpcID{readID([]byte(`1`)), readID([]byte(`2`)), readID([]byte(`"3"`))}
	at := sighting{call: call7, st: b.st, now: b.now}
	for _, id := range ids {
		b.request(b.elicit(id), at)
		b.reply(id, unanswered, b.now)
	}
	for i, id := range ids {
		r, err := b.request(b.elicit(id), at)
		if failed := r == fail && err != nil; failed != (i == 0) || !failed && (r != suppress || err != nil) {
			t.Errorf("request %s = %v, %v", id.raw, r, err)
		}
	}
	if b.count() != 0 || len(b.pending) != 0 {
		t.Errorf("count() = %d with %d in the table, want none", b.count(), len(b.pending))
	}
}

// The errors say whose they are.
func TestLedgerErrors(t *testing.T) {
	b := newBook(PendingReconcile, true)
	b.sees(live)
	_, _, err := b.reply(request12, refused, b.now)
	if want := (StaleElicitationError{"s", "12", "elicitation/create", "7", err.Reason}); *err != want || err.Reason == "" {
		t.Errorf("error = %+v, want %+v with a reason", *err, want)
	}
	b = newBook(PendingStrict, true)
	_, unseen := b.sees()
	var unknown *UnknownPendingRequestError
	if !errors.As(unseen, &unknown) || *unknown != (UnknownPendingRequestError{"s", "12", "elicitation/create", "7"}) {
		t.Errorf("error = %+v", unseen)
	}
}

// Progress counts from the last replay on, and the grace from the answer.
func TestLedgerCountsReplaysWithoutProgress(t *testing.T) {
	const minutes = time.Minute
	for name, tc := range map[string]struct {
		replays string // p: with progress on the stream before it
		after   time.Duration
		want    string // of the last one
	}{
		"once, long after":                   {".", 60 * minutes, "keep"},
		"twice in a hurry":                   {"..", testGrace - 1, "keep"},
		"twice":                              {"..", testGrace, "FAIL!"},
		"often in a hurry":                   {"........", testGrace - 1, "keep"},
		"the last with progress":             {"...p", 60 * minutes, "keep"},
		"one after progress":                 {"p.", 60 * minutes, "FAIL!"},
		"with progress each time":            {"pppp", 60 * minutes, "keep"},
		"twice after progress":               {"pp.", 60 * minutes, "FAIL!"},
		"progress between the first and now": {".p", 60 * minutes, "keep"},
	} {
		b := newBook(PendingReconcile, true)
		b.sees(live)
		b.st.passed.Add(3) // before the answer: it is no sign
		b.reply(request12, accepted, b.now)
		var got string
		for i, r := range tc.replays {
			at := b.now
			if i == len(tc.replays)-1 {
				at = b.now.Add(tc.after)
			}
			if r == 'p' {
				b.st.passed.Add(1)
			}
			got = ruled(b.sees(func(s *sighting) { s.now = at }))
		}
		if got != tc.want {
			t.Errorf("%s: the last of %q = %s, want %s", name, tc.replays, got, tc.want)
		}
	}
}

// A second answer to a request takes nothing back of what the first came to.
func TestLedgerKeepsTheTimeOfTheFirstAnswer(t *testing.T) {
	b := newBook(PendingReconcile, true)
	b.sees(live)
	b.reply(request12, accepted, b.now)
	b.reply(request12, accepted, b.now.Add(testGrace/2))
	b.sees()
	b.now = b.now.Add(testGrace)
	if got := ruled(b.sees()); got != "FAIL!" {
		t.Errorf("the replay after the grace = %s, want FAIL!", got)
	}
}

func TestLedgerIsBounded(t *testing.T) {
	b := newBook(PendingReconcile, true)
	number := func(i int) rpcID { return readID([]byte(strconv.Itoa(i))) }
	at := sighting{call: call7, st: b.st, now: b.now}
	for i := range maxPending + 1 {
		if r, _ := b.request(b.elicit(number(i)), at); r != pass {
			t.Fatalf("request %d = %v, want pass", i, r)
		}
	}
	if n := b.count(); n != maxPending || len(b.order) != maxPending {
		t.Errorf("count() = %d of %d, want %d", n, len(b.order), maxPending)
	}
	// The oldest counts as settled.
	if r, _ := b.request(b.elicit(number(0)), at); r != suppress || b.pending[number(0).key] != nil {
		t.Errorf("the oldest = %v, want it settled", r)
	}
	if known, _, err := b.reply(number(0), refused, b.now); !known || err != nil {
		t.Errorf("reply to the oldest = %v, %v, want it known", known, err)
	}

	b = newBook(PendingReconcile, true)
	for i := range maxSettled + 2 {
		b.request(b.elicit(number(i)), sighting{moot: true, replay: true})
	}
	if n := b.settled.len(); n != maxSettled {
		t.Errorf("%d settled ids are kept, want %d", n, maxSettled)
	}
	if r, _ := b.request(b.elicit(number(0)), at); r != pass {
		t.Errorf("a forgotten request = %v, want pass", r)
	}

	b = newBook(PendingReconcile, true)
	for i := range maxSettled + 2 {
		b.request(b.elicit(number(i)), sighting{call: number(i), now: b.now})
		b.reply(number(i), refused, b.now)
	}
	if n := b.failed.len(); n != maxSettled {
		t.Errorf("%d failed calls are kept, want %d", n, maxSettled)
	}
}

// A session that has asked ten thousand times keeps no more than one that has
// asked a few times.
func TestLedgerGivesItsMemoryBack(t *testing.T) {
	for name, over := range map[string]func(b *book, id rpcID){
		"answered, and its call":     func(b *book, id rpcID) { b.reply(id, accepted, b.now); b.response(call7) },
		"answered, and cancelled":    func(b *book, id rpcID) { b.reply(id, accepted, b.now); b.cancelled(id) },
		"answered, and withdrawn":    func(b *book, id rpcID) { b.reply(id, accepted, b.now); b.abandoned(call7) },
		"cancelled, and answered":    func(b *book, id rpcID) { b.cancelled(id); b.reply(id, accepted, b.now) },
		"its call first":             func(b *book, id rpcID) { b.response(call7); b.reply(id, unanswered, b.now) },
		"cancelled, never answered":  func(b *book, id rpcID) { b.cancelled(id) },
		"refused":                    func(b *book, id rpcID) { b.reply(id, refused, b.now); b.response(call7) },
		"never answered, its call":   func(b *book, id rpcID) { b.response(call7) },
		"taken back":                 func(b *book, id rpcID) { b.undelivered(id) },
		"lost, asserted, taken back": func(b *book, id rpcID) { b.reply(id, unanswered, b.now); b.response(call7) },
	} {
		b := newBook(PendingReconcile, true)
		for i := range 10_000 {
			id := readID([]byte(strconv.Itoa(i)))
			b.request(b.elicit(id), sighting{call: call7, st: b.st, now: b.now})
			over(b, id)
		}
		if n := b.count(); n != 0 {
			t.Errorf("%s: count() = %d, want 0", name, n)
		}
		if len(b.order) > maxPending || len(b.pending) > maxPending || b.settled.len() > maxSettled || b.failed.len() > 1 {
			t.Errorf("%s: %d in order, %d in the table, %d settled, %d failed", name, len(b.order), len(b.pending), b.settled.len(), b.failed.len())
		}
		for _, p := range b.order {
			if p.st != nil || p.given.meta != nil || p.prior != nil {
				t.Errorf("%s: a settled request keeps %+v", name, p)
			}
		}
		if b.following.Load() {
			t.Errorf("%s: following = true with nothing pending", name)
		}
	}
}

func TestLedgerKeepsALittleOfMeta(t *testing.T) {
	for size, want := range map[int]string{maxMetaBytes: "pass", maxMetaBytes + 1: "FAIL!"} {
		b := newBook(PendingReconcile, true)
		m := b.elicit(request12)
		m.meta = bytes.Repeat([]byte{' '}, size)
		b.request(m, sighting{call: call7, st: b.st, now: b.now})
		kept := len(b.pending[request12.key].given.meta)
		if kept > maxMetaBytes {
			t.Errorf("%d bytes are kept of %d", kept, size)
		}
		m.meta[0] = 'x' // it was the stream's buffer
		if kept > 0 && b.pending[request12.key].given.meta[0] != ' ' {
			t.Error("what is kept shares its memory with the stream")
		}
		b.reply(request12, unanswered, b.now)
		if got := ruled(b.sees(asserted)); got != want {
			t.Errorf("asserted after a _meta of %d bytes = %s, want %s", size, got, want)
		}
	}
}

func TestLedgerRecalls(t *testing.T) {
	for _, tc := range []struct {
		policy Pending
		state  string
		known  bool
		asks   bool
	}{
		{PendingReconcile, "unseen", false, false},
		{PendingReconcile, "delivered", true, false},
		{PendingReconcile, "answered", true, false},
		{PendingReconcile, "lost", true, true},
		{PendingReconcile, "again", true, false},
		{PendingReconcile, "withdrawn", true, false},
		{PendingReconcile, "settled", true, false},
		{PendingStrict, "unseen", false, false},
		{PendingStrict, "delivered", true, true},
		{PendingStrict, "answered", true, true},
		{PendingStrict, "lost", true, true},
		{PendingStrict, "withdrawn", true, false},
		{PendingStrict, "settled", true, false},
	} {
		b := newBook(tc.policy, true)
		for _, s := range states {
			if s.name == tc.state {
				s.set(b)
			}
		}
		if known, asks, _, _ := b.recall(request12); known != tc.known || asks != tc.asks {
			t.Errorf("%v, %s: recall = %v, %v, want %v, %v", tc.policy, tc.state, known, asks, tc.known, tc.asks)
		}
	}
}

// A server that waits for the answer to another request of the same call is
// silent for a reason.
func TestLedgerWaitsForALaterQuestionOfTheCall(t *testing.T) {
	other := readID([]byte(`13`))
	for name, tc := range map[string]struct {
		other func(*book)
		want  string
	}{
		"it is with the application": {func(*book) {}, "keep"},
		"its answer was lost":        {func(b *book) { b.reply(other, unanswered, b.now) }, "FAIL!"},
		"it was withdrawn":           {func(b *book) { b.cancelled(other) }, "FAIL!"},
		"it was answered long ago":   {func(b *book) { b.reply(other, accepted, b.now.Add(-testGrace)) }, "FAIL!"},
		"it was answered just now":   {func(b *book) { b.reply(other, accepted, b.now.Add(-testGrace+1)) }, "keep"},
	} {
		b := newBook(PendingReconcile, true)
		b.sees(live)
		b.reply(request12, accepted, b.now)
		b.request(b.elicit(other), sighting{call: b.call, st: b.st, now: b.now})
		b.now = b.now.Add(10 * testGrace)
		b.sees()
		b.sees()
		tc.other(b)
		b.sees()
		if got := ruled(b.sees()); got != tc.want {
			t.Errorf("%s: the replay = %s, want %s", name, got, tc.want)
		}
	}
}
