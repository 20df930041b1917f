package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
)

func minutes(n float64) experiment.Duration {
	return experiment.Duration(n * float64(time.Minute))
}

// The line is rewritten in place, tells how far the run is, and is taken away.
func TestProgressLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := &experiment.Definition{StartsAt: minutes(1), Length: minutes(41)}
		line := showProgress(&out, "session", d)
		for _, news := range []engine.Progress{
			{},
			{Phase: engine.Starting, Clock: minutes(0)},
			{Phase: engine.Method, Clock: minutes(21) + 1, Step: "two events"},
			{Phase: engine.Method, Clock: minutes(31)},
			{Phase: engine.RollingBack, Clock: minutes(50)},
		} {
			line.update(news)
			time.Sleep(drawEvery)
			synctest.Wait()
		}
		line.end()
		drawn := strings.Split(out.String(), "\r")
		want := []string{
			"",
			"session  starting      ..........  T+1m/41m",
			"session  starting      ..........  T+1m/41m",
			"session  method        #####.....  T+21m/41m  two events",
			"session  method        #######...  T+31m/41m  two events",
			"session  rolling back  ##########  T+41m/41m",
			"", "",
		}
		if len(drawn) != len(want) {
			t.Fatalf("drawn %q, want %q", drawn, want)
		}
		for i, got := range drawn {
			if strings.TrimRight(got, " ") != want[i] {
				t.Errorf("line %d is %q, want %q", i, got, want[i])
			}
			if i > 0 && i < len(drawn)-1 && utf8.RuneCountInString(got) != columns-1 {
				t.Errorf("line %d has %d columns, want %d, over what was there", i, utf8.RuneCountInString(got), columns-1)
			}
		}
	})
}

// A long name, and a step whose name would move the cursor.
func TestProgressLineFits(t *testing.T) {
	d := &experiment.Definition{Length: experiment.Duration(100*time.Hour + 59*time.Minute + 59*time.Second)}
	line := &progressLine{name: strings.Repeat("very-long-", 6) + " 100/100", length: d.Length}
	line.update(engine.Progress{Phase: engine.Method, Clock: d.Length, Step: strings.Repeat("many\nwords\x1b[2J ", 20)})
	got := line.text()
	if n := utf8.RuneCountInString(got); n != columns-1 || strings.ContainsAny(got, "\n\x1b") || !strings.HasSuffix(got, "…") {
		t.Errorf("%d columns: %q, want %d, without control characters", n, got, columns-1)
	}
}

// A run that is too short to be drawn leaves nothing on the screen.
func TestProgressLineOfNothing(t *testing.T) {
	var out bytes.Buffer
	showProgress(&out, "x", &experiment.Definition{}).end()
	if out.Len() > 0 {
		t.Errorf("drawn %q, want nothing", out.String())
	}
}
