package provider

import (
	"strings"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

func TestGapOf(t *testing.T) {
	const forever = experiment.NoLimit
	minutes := func(n float64) experiment.Limit { return experiment.Limit(n * float64(time.Minute)) }
	for _, c := range []struct {
		ttl, retention, idle experiment.Limit
		dangerous            bool
		gap, says            string
	}{
		{minutes(30), minutes(60), minutes(1), true, "30m", "come back in between"},
		{minutes(30), forever, minutes(5), true, unlimited, "for ever"},
		{minutes(30), minutes(60), minutes(59), true, "30m", "come back in between"},
		{minutes(30), minutes(60), minutes(60), false, "30m", "forgotten everything"},
		{minutes(30), minutes(60), forever, false, "30m", "no reason to come back"},
		{minutes(30), forever, forever, false, unlimited, "no reason to come back"},
		{minutes(30), minutes(30), minutes(1), false, "0s", "the log has forgotten"},
		{minutes(30), minutes(5), minutes(1), false, "0s", "the log has forgotten"},
		{forever, forever, minutes(1), false, "0s", "No session expires"},
		{forever, minutes(5), minutes(1), false, "0s", "No session expires"},
	} {
		got := gapOf(c.ttl, c.retention, c.idle)
		if got.dangerous != c.dangerous || got.length != c.gap || !strings.Contains(got.explanation, c.says) {
			t.Errorf("gapOf(%v, %v, %v) = %+v, want dangerous %v, a gap of %s, and %q", c.ttl, c.retention, c.idle, got, c.dangerous, c.gap, c.says)
		}
	}
}
