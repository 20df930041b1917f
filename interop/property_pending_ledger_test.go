package interop_test

import (
	"fmt"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// This file is the table of DESIGN 4.5 as an automaton: how a request of the
// server's may stand with a session, and what may become of it when it comes
// again. Where the model cannot know in which order things were noted, or
// whether, it is in several standings at once.

// phase is how far a request has come.
type phase int

const (
	neverSeen phase = iota
	outstanding
	answeredOnce
	answerLost
	over
)

func (p phase) String() string {
	return [...]string{"never seen", "delivered", "answered", "answer lost", "over"}[p]
}

// standing is how one request stands.
type standing struct {
	phase phase
	// Of a delivery that the client has not read to its end: by which trip,
	// from 1, and whether it was a second one.
	by    int
	again bool

	token, prior string // it was last delivered with, and before that
	call         *call  // that it belongs to, nil for none that is known
	st           *stream

	at         time.Time // when the server took the answer
	replays    int       // since then, without progress
	turn       int       // the trip of the last of them
	progressed bool

	callFailed bool
	fails      bool // its call is to be told, once
}

// certainty is whether something is so.
type certainty int

const (
	surelyNot certainty = iota
	perhaps
	surely
)

func (c certainty) values() []bool {
	return [...][]bool{surelyNot: {false}, perhaps: {false, true}, surely: {true}}[c]
}

func certain(sure, possible bool) certainty {
	switch {
	case sure:
		return surely
	case possible:
		return perhaps
	}
	return surelyNot
}

type inputKind int

const (
	sighting inputKind = iota
	progress
	bodyEnds
	answerReturns
	withdrawal // by the server
	callOver
)

// input is something that matters to one request. It happens between lo and
// hi; those of one trip happen in their order.
type input struct {
	kind   inputKind
	trip   int // from 1, 0 for one of those in no order
	lo, hi moment
	what   string // for the report

	// Of a sighting.
	fate     fate
	st       *stream
	call     *call // the stream's
	token    string
	replayed certainty
	moot     certainty
	loose    bool // the middleware may not know which stream it is
	siblings bool // its call has asked other things, too

	sure bool // that it happens at all, or that it was noted

	reception reception // of an answer
	ended     endOfCall
}

type endOfCall int

const (
	wasAnswered endOfCall = iota
	wasFailed
	wasWithdrawn
)

// step returns all that can come of an input.
func (s standing) step(in *input, policy middleware.Pending, grace time.Duration) (next []standing) {
	if !in.sure {
		next = append(next, s)
	}
	switch in.kind {
	case sighting:
		for _, replayed := range in.replayed.values() {
			for _, moot := range in.moot.values() {
				for _, r := range s.sight(in, replayed, moot, policy, grace) {
					if r.fate == in.fate || in.fate == unseen {
						next = append(next, r.standing)
					}
				}
			}
		}
	case progress:
		if s.phase == answeredOnce && s.st == in.st {
			s.progressed = true
		}
		next = append(next, s)
	case bodyEnds:
		if s.phase == outstanding && s.by == in.trip {
			if s.again {
				s = standing{phase: answerLost, token: s.prior, call: s.call, st: s.st, callFailed: s.callFailed}
			} else {
				s = standing{callFailed: s.callFailed}
			}
		}
		next = append(next, s)
	case answerReturns:
		next = append(next, s.reply(in))
	case withdrawal:
		if s.phase != neverSeen {
			s = s.ended()
		}
		next = append(next, s)
	case callOver:
		if s.phase != neverSeen && s.call == in.call {
			s = s.ended()
		}
		if s.callFailed && in.ended == wasWithdrawn {
			next = append(next, s) // it may be known as failed or as withdrawn
		}
		s.callFailed = in.ended == wasFailed
		next = append(next, s)
	}
	return next
}

// ended is a request that nothing more comes of. What its call is owed stays.
func (s standing) ended() standing {
	return standing{phase: over, call: s.call, callFailed: s.callFailed, fails: s.fails}
}

func (s standing) reply(in *input) standing {
	if in.reception == postponed || in.reception == nothing || s.phase != outstanding && s.phase != answerLost {
		return s
	}
	switch {
	case in.reception == taken && s.call == nil:
		return s.ended()
	case in.reception == taken:
		return standing{phase: answeredOnce, at: in.lo.at, token: s.token, call: s.call, st: s.st, callFailed: s.callFailed}
	case in.reception == unknown:
		return standing{phase: answerLost, token: s.token, call: s.call, st: s.st, callFailed: s.callFailed}
	}
	s.fails = s.call != nil && !s.callFailed
	return s.ended()
}

type option struct {
	fate fate
	standing
}

// sight is what becomes of a request that comes.
func (s standing) sight(in *input, replayed, moot bool, policy middleware.Pending, grace time.Duration) []option {
	kept := func(s standing) []option { return []option{{keptBack, s}} }
	deliver := func(again bool) []option {
		d := standing{
			phase: outstanding, again: again, prior: s.token, token: in.token,
			call: s.call, st: s.st, callFailed: s.callFailed,
		}
		if !again {
			d.call, d.st, d.prior = in.call, in.st, ""
		}
		if s.by == in.trip && s.phase == outstanding { // what it was before this body still counts
			d.again, d.prior = s.again, s.prior
		}
		if in.fate == unseen {
			d.by = in.trip
		}
		all := []option{{handedOn, d}}
		if in.loose && d.call != nil {
			d.call = nil
			all = append(all, option{handedOn, d})
		}
		return all
	}
	strict := policy == middleware.PendingStrict
	asserted := in.token != "" && in.token != s.token
	switch {
	case s.phase == over:
		return kept(s)
	case moot, s.phase == neverSeen && s.callFailed && in.call != nil:
		return kept(s.ended())
	case s.phase == neverSeen && strict && replayed:
		s.call, s.st = in.call, in.st
		return s.stale(in)
	case s.phase == neverSeen:
		return deliver(false)
	case (strict || s.phase == answerLost) && asserted:
		return deliver(true)
	case strict, s.phase == answerLost:
		return s.stale(in)
	case s.phase == outstanding:
		return kept(s)
	}
	// Answered, and its call is open.
	var all []option
	if s.progressed {
		s.replays, s.progressed = 0, false
	}
	if s.turn != in.trip {
		s.turn, s.replays = in.trip, min(s.replays+1, 2)
	}
	early, late := in.lo.at.Sub(s.at) >= grace, in.hi.at.Sub(s.at) >= grace
	if s.replays == 2 && late {
		all = append(all, s.stale(in)...)
	}
	if s.replays < 2 || !early || in.loose || in.siblings {
		all = append(all, option{keptBack, s})
	}
	if in.siblings { // While the application has another question of the call, nothing is counted.
		s.replays = 0
		all = append(all, option{keptBack, s})
	}
	return all
}

// stale is a request that nobody waits for. Where it has come on another stream
// than that of its call, its call may be told there.
func (s standing) stale(in *input) []option {
	s.fails = s.call != nil && !s.callFailed
	e := s.ended()
	switch {
	case !s.fails:
		return []option{{keptBack, e}}
	case in.st == s.st && !in.loose:
		return []option{{failedCall, e}}
	}
	all := []option{{failedCall, e}, {keptBack, e}}
	if in.loose {
		e.fails = false
		all = append(all, option{keptBack, e})
	}
	return all
}

const (
	maxInputs = 60
	maxNodes  = 4000
)

// node is what has been taken in, and where that leaves a request.
type node struct {
	taken uint64
	standing
}

// walk takes the inputs in, in every order that is possible. It returns the
// standings in the end, nil if there is none, and then why. ok is false where
// there is too much to tell.
func walk(inputs []*input, policy middleware.Pending, grace time.Duration) (ends []standing, why string, ok bool) {
	if len(inputs) > maxInputs {
		return nil, "", false
	}
	before := make([]uint64, len(inputs))
	for i, in := range inputs {
		for j, other := range inputs {
			if i != j && (other.hi.before(in.lo) || other.trip == in.trip && in.trip != 0 && j < i) {
				before[i] |= 1 << j
			}
		}
	}
	frontier := map[node]bool{{}: true}
	for range inputs {
		next := make(map[node]bool)
		for at := range frontier {
			for i, in := range inputs {
				if at.taken&(1<<i) != 0 || before[i]&^at.taken != 0 {
					continue
				}
				for _, s := range at.step(in, policy, grace) {
					next[node{at.taken | 1<<i, s}] = true
				}
			}
			if len(next) > maxNodes {
				return nil, "", false
			}
		}
		if len(next) == 0 {
			return nil, explain(frontier, inputs, before, policy, grace), true
		}
		frontier = next
	}
	for at := range frontier {
		ends = append(ends, at.standing)
	}
	return ends, "", true
}

// explain says what was expected of the sightings that could come next.
func explain(frontier map[node]bool, inputs []*input, before []uint64, policy middleware.Pending, grace time.Duration) (why string) {
	for at := range frontier {
		for i, in := range inputs {
			if at.taken&(1<<i) != 0 || before[i]&^at.taken != 0 || in.kind != sighting {
				continue
			}
			want := map[fate]bool{}
			for _, replayed := range in.replayed.values() {
				for _, moot := range in.moot.values() {
					for _, r := range at.sight(in, replayed, moot, policy, grace) {
						want[r.fate] = true
					}
				}
			}
			why += fmt.Sprintf("\n\t%s: it was %v, want %v; before it was %v (replays %d, answer at %v)",
				in.what, in.fate, want, at.phase, at.replays, at.at)
		}
		if len(why) > 2000 {
			break
		}
	}
	return why
}
