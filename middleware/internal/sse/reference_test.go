package sse_test

import (
	"strings"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

// This file is the oracle: the steps of WHATWG HTML,
// #event-stream-interpretation, done the slow way over a whole stream. It uses
// nothing of the package but the type that both results have.

// outcome is what a client knows after an event has ended.
type outcome struct {
	Event  sse.Event
	LastID string
	Seen   bool
}

// linesOf splits s into lines. What follows the last line end is the last
// element, and is not a line.
func linesOf(s string) []string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	s = strings.ReplaceAll(s, "\r", "\n")
	return strings.Split(s, "\n")
}

// interpret returns the events of a stream, and whether its end tears one.
func interpret(stream string) (events []outcome, torn bool) {
	lines := linesOf(strings.TrimPrefix(stream, "\xEF\xBB\xBF"))
	rest := lines[len(lines)-1]

	var now outcome
	fields := 0
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if fields > 0 {
				if now.Event.HasID {
					now.LastID, now.Seen = now.Event.ID, true
				}
				events = append(events, now)
			}
			now.Event = sse.Event{}
			fields = 0
			continue
		}
		if strings.HasPrefix(line, ":") {
			continue
		}
		fields++
		interpretField(&now.Event, line)
	}
	return events, fields > 0 || rest != "" && rest[0] != ':'
}

func interpretField(e *sse.Event, line string) {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "event":
		e.Name = value
	case "data":
		if e.HasData {
			e.Data = append(e.Data, '\n')
		}
		e.Data = append(e.Data, value...)
		e.HasData = true
	case "id":
		if !strings.Contains(value, "\x00") {
			e.ID, e.HasID = value, true
		}
	case "retry":
		if value != "" && strings.Trim(value, "0123456789") == "" {
			e.Retry = value
		}
	}
}
