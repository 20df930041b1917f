package mcpserver

import (
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

	o.sessionCreated("first", testTime)
	for range oracleLimit {
		o.sessionCreated("next", testTime)
	}
	if _, ok := o.lives["first"]; ok {
		t.Error("the oracle still looks for the session that it has forgotten")
	}
	o.sessionDied("first", testTime, WhyReaped)
	if at, dead := o.DiedAt("first"); dead {
		t.Errorf("DiedAt() of a forgotten session = %v, want nothing", at)
	}
}
