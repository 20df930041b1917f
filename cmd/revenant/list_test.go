package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/revenant-mcp/revenant/chaos/experiment"
)

// What an experiment lacks here stands below it, in 80 columns.
func TestListOfWhatIsMissing(t *testing.T) {
	items := []libraryItem{
		{Name: "short", Title: "A title", Clients: []experiment.ClientKind{"gosdk"}, Takes: experiment.Millis(1500 * time.Millisecond), Available: true},
		{Name: "one-with-a-long-name", Title: strings.Repeat("many words ", 9), Clients: experiment.ClientKinds(),
			Takes: experiment.Millis(2 * time.Minute), Missing: []string{"the program haproxy: " + strings.Repeat("not found ", 9)}},
	}
	var out bytes.Buffer
	if err := listText(items, &out); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	for _, want := range []string{
		"NAME                   TAKES  CLIENTS              TITLE\n",
		"short                   1.5s  gosdk                A title\n",
		"one-with-a-long-name      2m  gosdk, mcpgo, naive  many words",
		"\n    not here: the program haproxy: not found",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 || strings.HasSuffix(line, " \n") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}
