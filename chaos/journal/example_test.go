package journal_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/revenant-mcp/revenant/chaos/journal"
)

// A run of 30 s at sixty times the clock's pace: what is in the pictures and in
// the tables is in the experiment's minutes.
func Example() {
	dir, err := os.MkdirTemp("", "report")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	sessionID := "5f0c21ab-9e7d-4c55-8a10-1d6f9b0e2c77" // a credential: it does not go in as it is
	began := time.Date(2026, 11, 12, 9, 30, 0, 0, time.UTC)
	run := &journal.Journal{
		Name: "session-liveness", Start: began, End: began.Add(30 * time.Second), Scale: 60,
		Status: journal.Completed, Verdict: journal.Upheld,
		Reason: "The replay of the dead session was quarantined.",
		After:  []journal.Check{{Arm: journal.Protected, Client: "gosdk", Measure: "dead_session_events_applied", Value: "0", Tolerance: "0", Met: true}},
		Arms: []journal.Arm{{Name: journal.Protected, Client: "gosdk", Lanes: []journal.Lane{{
			Name: "Session", Kind: journal.SessionLane,
			Spans: []journal.Span{{From: time.Minute, To: 21 * time.Minute, State: journal.StateAlive, Label: journal.Abbreviate(sessionID)}},
			Marks: []journal.Mark{{At: 21 * time.Minute, Kind: journal.MarkDied}},
		}}}},
	}
	if err := run.Write(dir); err != nil {
		log.Fatal(err)
	}
	read, err := journal.Read(filepath.Join(dir, journal.FileJSON))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(read.Verdict, read.Arms[0].Lanes[0].Spans[0].Label, read.Arms[0].Lanes[0].Spans[0].To)
	// Output: upheld 5f0c21ab… 21m0s
}
