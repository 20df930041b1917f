package mcpserver

import (
	"strconv"
	"testing"
	"time"
)

var testTime = time.Unix(1, 0)

// In the package, because filling the oracle from outside takes 100,000 requests.
func TestOracleForgetsTheOldestAndSaysSo(t *testing.T) {
	var r ring[int]
	for n := range oracleLimit + 10 {
		if got := r.add(n); got != n {
			t.Fatalf("add(%d) = %d, want its number", n, got)
		}
	}
	if r.at(9) != nil || *r.at(10) != 10 || *r.at(oracleLimit + 9) != oracleLimit+9 || r.at(oracleLimit+10) != nil || r.at(-1) != nil {
		t.Error("at() does not hold the latest, want exactly those")
	}
	if *r.oldest() != 10 || r.dropped() != 10 {
		t.Errorf("oldest %d, dropped %d, want 10 and 10", *r.oldest(), r.dropped())
	}
	if all := r.snapshot(); len(all) != oracleLimit || all[0] != 10 || all[oracleLimit-1] != oracleLimit+9 {
		t.Errorf("snapshot of %d from %d, want %d from 10", len(all), all[0], oracleLimit)
	}

	o := newOracle(nil, func() {})
	for range oracleLimit + 10 {
		o.requestArrived(Request{Method: "GET"})
	}
	now := func(r *Request) { r.Status = 200 }
	if rec := o.updateRequest(10, RequestEnded, testTime, now); rec.Request != (Request{N: 10, Status: 200}) {
		t.Errorf("update of a forgotten request told %+v, want its number and the news", rec.Request)
	}
	h := o.History()
	if h.Dropped != 10 || h.Requests[0].N != 11 || h.Requests[0].Status != 0 {
		t.Errorf("History: dropped %d, first request %+v, want 10 and number 11 untouched", h.Dropped, h.Requests[0])
	}

	o.sessionCreated(Session{ID: "first", Created: testTime})
	for range oracleLimit {
		o.sessionCreated(Session{ID: "next", Created: testTime})
	}
	if _, ok := o.lives["first"]; ok {
		t.Error("the oracle still looks for the session that it has forgotten")
	}
	o.sessionDied("first", testTime, WhyReaped)
	if at, dead := o.DiedAt("first"); dead {
		t.Errorf("DiedAt() of a forgotten session = %v, want nothing", at)
	}
}

func TestOracleKnowsTheLaterLifeWhenItHasForgottenTheEarlier(t *testing.T) {
	o := newOracle(nil, func() {})
	o.sessionCreated(Session{ID: "twice", Created: testTime})
	o.sessionCreated(Session{ID: "twice", Created: testTime, Adopted: true})
	for range oracleLimit - 1 {
		o.sessionCreated(Session{ID: "next", Created: testTime})
	}
	o.sessionDied("twice", testTime, WhyReaped)
	if at, dead := o.DiedAt("twice"); !dead || !at.Equal(testTime) {
		t.Errorf("DiedAt() = %v, %v, want %v", at, dead, testTime)
	}
}

func TestRulebookForgetsTheOldestOfVeryManySessions(t *testing.T) {
	b := newRulebook([]Rule{{On: OnPOST, From: 2, Status: 503}})
	post := func(session string) int {
		_, n := b.match(&call{method: "POST", session: session})
		return n
	}
	post("first")
	for i := range oracleLimit {
		post(strconv.Itoa(i))
	}
	if n := post("first"); n != 0 {
		t.Errorf("second POST of the oldest session is rule %d's, want it forgotten", n)
	}
	if n := post(strconv.Itoa(oracleLimit - 1)); n != 1 {
		t.Errorf("second POST of the newest session is rule %d's, want 1", n)
	}
	if len(b.sessions) > oracleLimit || len(b.order) > oracleLimit {
		t.Errorf("%d sessions and %d in order, want %d at most", len(b.sessions), len(b.order), oracleLimit)
	}
}
