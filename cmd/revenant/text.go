package main

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// columns is how wide the output for people is.
const columns = 80

// wrapped is a text behind one indent, and what does not fit behind another, each
// line with its end. A word that is too long for a line stays whole: it may be a
// path. What would move a terminal's cursor, or turn the text round, is not passed
// on: a text may come from a file.
func wrapped(first, rest, text string) string {
	var b strings.Builder
	line := first
	for _, word := range strings.Fields(plain(text)) {
		if utf8.RuneCountInString(line)+utf8.RuneCountInString(word) > columns && line != rest {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = rest
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}

// plain is text without what a terminal would act on.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) || unicode.Is(unicode.Bidi_Control, r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

// cut is text on one line, of at most so many columns.
func cut(text string, columns int) string {
	r := []rune(strings.Join(strings.Fields(plain(text)), " "))
	if len(r) > columns {
		return string(r[:columns-1]) + "…"
	}
	return string(r)
}

// took is a real time for people: "12.3 s", "2 min 5 s".
func took(d time.Duration) string {
	if d = d.Round(100 * time.Millisecond); d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	d = d.Round(time.Second)
	return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
}
