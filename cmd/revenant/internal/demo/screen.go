package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// width is what every terminal has.
const width = 80

// Screen shows a run to people: the timeline of each record while it is
// replayed, then what came of it. Its methods are called from one goroutine.
type Screen struct {
	// Immutable.
	color    bool
	progress bool

	out writer

	record *Record   // that is replayed, nil before the first
	part   int       // of the latest line
	start  time.Time // T+0, for the progress line
	scale  float64

	stop chan struct{} // closed to end the progress line; nil if there is none
	done sync.WaitGroup

	mu    sync.Mutex // guards what follows, and out while there is a progress line
	doing string
	shown bool // the progress line is on the screen
}

// writer remembers its first error.
type writer struct {
	w   io.Writer
	err error
}

func (w *writer) print(text string) {
	if w.err == nil {
		_, w.err = io.WriteString(w.w, text)
	}
}

// NewScreen returns a Screen that writes to out. Where that is a terminal, it
// has a progress line and, if color is set, colors.
func NewScreen(out io.Writer, terminal, color bool) *Screen {
	return &Screen{out: writer{w: out}, progress: terminal, color: terminal && color}
}

// Begin tells what is going to be seen of a record. Its clock starts about now.
func (s *Screen) Begin(r *Record, client string, scale float64, minute time.Duration) {
	about := r.intro
	if s.record == nil {
		about = fmt.Sprintf("Two applications use the same client: %s, unmodified. %q has the middleware between the client "+
			"and the network, %q has not; there is no other difference. Each has its own server and its own load balancer. ",
			client, Protected, Control) + about
	} else {
		s.out.print("\n\n")
	}
	s.record, s.part, s.start, s.scale = r, 0, time.Now(), scale
	s.out.print(s.bold(r.title) + "\n\n" + wrap(fmt.Sprintf("%s A minute of the clock below takes %v, the whole %v.",
		about, minute, r.Takes(minute).Round(time.Second)), width-1, ""))
	if len(r.headings) == 0 {
		s.out.print("\n")
	}
	if s.progress {
		s.stop = make(chan struct{})
		s.done.Go(s.tick)
	}
}

// Line shows one line of the timeline.
func (s *Screen) Line(l Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
	if heading := s.record.headings[l.Part]; l.Part != s.part && heading != "" {
		s.heading(heading)
	}
	s.part = l.Part
	text := l.Text
	switch l.Tone {
	case Harm:
		text = s.paint("31", text)
	case Good:
		text = s.paint("32", text)
	}
	s.out.print(fmt.Sprintf("%s  %-9s  %s\n", Clock(l.Clock), l.Arm, text))
}

// Doing says what is going on until the next line.
func (s *Screen) Doing(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doing = text
}

// Abort ends the screen of a run that was not completed.
func (s *Screen) Abort() { s.quiet() }

// quiet takes the progress line away.
func (s *Screen) quiet() {
	if s.stop == nil {
		return
	}
	close(s.stop)
	s.done.Wait()
	s.stop = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLocked()
}

// Err is the first error of writing.
func (s *Screen) Err() error { return s.out.err }

// tick draws the progress line until the end.
func (s *Screen) tick() {
	stop := s.stop
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			s.draw()
		}
	}
}

func (s *Screen) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Duration(float64(time.Since(s.start)) * s.scale)
	const cells = 10
	full := min(int(float64(cells)*now.Minutes()/s.record.length), cells)
	s.out.print("\r" + s.dim(fmt.Sprintf("%s  %s%s  %-57.57s",
		Clock(now), strings.Repeat("#", full), strings.Repeat(".", cells-full), s.doing)))
	s.shown = true
}

func (s *Screen) clearLocked() {
	if s.shown {
		s.out.print("\r" + strings.Repeat(" ", width-1) + "\r")
		s.shown = false
	}
}

func (s *Screen) bold(text string) string { return s.paint("1", text) }
func (s *Screen) dim(text string) string  { return s.paint("2", text) }

func (s *Screen) paint(code, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// wrap breaks a text into lines of at most so many columns.
func wrap(text string, columns int, indent string) string {
	return wrapAtMost(1<<10, text, columns, indent)
}

// wrapAtMost does so, and ends after so many lines.
func wrapAtMost(lines int, text string, columns int, indent string) string {
	columns -= len(indent)
	var out []string
	var line []rune
	for _, word := range strings.Fields(text) {
		w := []rune(word)
		if len(line) > 0 && len(line)+1+len(w) > columns {
			out, line = append(out, string(line)), nil
		}
		if len(line) > 0 {
			line = append(line, ' ')
		}
		line = append(line, w...)
		for len(line) > columns {
			out, line = append(out, string(line[:columns])), line[columns:]
		}
	}
	out = append(out, string(line))
	if len(out) > lines {
		out = out[:lines]
		last := []rune(out[lines-1])
		out[lines-1] = string(last[:min(len(last), columns-2)]) + " …"
	}
	var b strings.Builder
	for _, l := range out {
		b.WriteString(indent + l + "\n")
	}
	return b.String()
}

// abbreviate shortens a session's id in a text, as the middleware does in its
// own: an id is all that a server asks for.
func abbreviate(text, sessionID string) string {
	const keep = 8
	if len(sessionID) <= keep {
		return text
	}
	return strings.ReplaceAll(text, sessionID, "…"+sessionID[len(sessionID)-keep:])
}
