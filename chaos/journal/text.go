package journal

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// clean makes text fit for XML and for a page: what XML 1.0 forbids becomes
// U+FFFD, and so do the characters that turn the direction of the text round,
// with which a name could pretend to be another. Tabs and ends of lines stay.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return '\n'
		case unicode.IsControl(r), r == 0xFFFE, r == 0xFFFF,
			unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, strings.ReplaceAll(strings.ToValidUTF8(s, string(unicode.ReplacementChar)), "\r\n", "\n"))
}

// paragraphs is clean text in which only an empty line, or one that is indented or
// begins a list, begins a new line: it comes from a file that ends its lines where
// an editor's window did.
func paragraphs(s string) string {
	var out strings.Builder
	for i, l := range strings.Split(strings.TrimSpace(clean(s)), "\n") {
		own := l == "" || strings.HasPrefix(l, " ") || strings.HasPrefix(l, "\t") || strings.HasPrefix(l, "- ") || strings.HasPrefix(l, "* ")
		switch {
		case i == 0:
		case own || strings.HasSuffix(out.String(), "\n"):
			out.WriteString("\n")
		default:
			out.WriteString(" ")
		}
		out.WriteString(l)
	}
	return out.String()
}

// line is text on one line.
func line(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }

// short is text on one line of at most n characters.
func short(s string, n int) string {
	runes := []rune(line(s))
	if len(runes) > n {
		return string(runes[:n-1]) + "…"
	}
	return string(runes)
}

// clock writes a moment of the experiment's time: T+31:00. Tenths of a second
// stand where there are any.
func clock(d time.Duration) string {
	sign := "+"
	if d < 0 {
		sign, d = "−", -d
	}
	tenths := (d + 50*time.Millisecond) / (100 * time.Millisecond)
	text := fmt.Sprintf("T%s%02d:%02d", sign, tenths/600, tenths/10%60)
	if tenths%10 != 0 {
		text += fmt.Sprintf(".%d", tenths%10)
	}
	return text
}

// length writes a length of time for people: 41 min, 1 min 30 s, 2.4 s.
func length(d time.Duration) string {
	switch {
	case d < 0:
		return "−" + length(-d)
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	case d < time.Minute:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Round(100*time.Millisecond).Seconds()), ".0") + " s"
	}
	d = d.Round(time.Second)
	units := []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	var parts []string
	for _, u := range units {
		if n := d / u.of; n > 0 && len(parts) < 2 {
			parts = append(parts, fmt.Sprintf("%d %s", n, u.name))
		}
		d %= u.of
	}
	return strings.Join(parts, " ")
}

// plural writes a number of things: 1 mark, 3 marks.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

// grouped writes a number with its thousands apart.
func grouped(n int) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// compact writes a number in at most 4 characters, if it is less than ten
// million: 999, 1.2k, 15k.
func compact(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 9_950:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e3), ".0") + "k"
	case n < 999_500:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.0fM", float64(n)/1e6)
}

// words is a name for programs as people write it.
func words(name string) string { return strings.ReplaceAll(line(name), "_", " ") }
