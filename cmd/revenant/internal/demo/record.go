package demo

import (
	"fmt"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// Record is one record from the field, as the demo replays it: what the arms
// are made of, what is done to them, and how what came of it is judged and told.
// It is immutable.
type Record struct {
	name     string // as the command line and the [Report] have it
	title    string
	intro    string         // for people, what stands behind the arms
	headings map[int]string // of its parts; none if it has one
	length   float64        // in the record's minutes, as is patience

	// patience is how long the method waits for something to happen, after the
	// moment for which it is planned, or after it began to wait if that is
	// later. It then goes on, and the verdict says what was missing.
	patience float64

	setup    func(c clock) setup
	method   func(s *script) []move
	criteria criteria
	detail   func(r run) detail
}

// setup is what an arm is made of. Who makes it fills in the addresses and the
// hooks.
type setup struct {
	server   mcpserver.Config
	balancer lb.Config
	guard    middleware.Config
	// callsOnly is for a client that opens no standalone stream.
	callsOnly bool
}

// run is one replay of a record, after its end.
type run struct {
	clock
	ended              time.Time
	control, protected *Recording
	counters           [2]*MiddlewareReport
	timeline           []Moment
}

// detail is what came of a record beside the verdict.
type detail interface {
	into(*Report)
	// show is the two arms side by side, for people.
	show(*Screen)
	// meaning is what an upheld verdict says.
	meaning() string
}

// Findings is what came of one record.
type Findings struct {
	Record *Record
	Verdict
	StartedAt time.Time
	Duration  time.Duration

	detail detail
}

// findings counts and judges.
func (r *Record) findings(of run) *Findings {
	return &Findings{
		Record: r, Verdict: r.Judge(of.control, of.protected),
		StartedAt: of.start, Duration: of.ended.Sub(of.start), detail: r.detail(of),
	}
}

// Name is the record's name on the command line.
func (r *Record) Name() string { return r.name }

// Takes is how long the record takes.
func (r *Record) Takes(minute time.Duration) time.Duration {
	return clock{minute: minute}.real(r.length)
}

// records are all there are, in the order in which they are replayed.
var records = []*Record{SessionRecord, ElicitationRecord}

// AllRecords is what stands for all of them on the command line.
const AllRecords = "all"

// ParseRecords reads the name of a record, or [AllRecords].
func ParseRecords(text string) ([]*Record, error) {
	if text == AllRecords {
		return records, nil
	}
	var names []string
	for _, r := range records {
		if r.name == text {
			return []*Record{r}, nil
		}
		names = append(names, r.name)
	}
	return nil, fmt.Errorf("want %s or %s", strings.Join(names, ", "), AllRecords)
}
