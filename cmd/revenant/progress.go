package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/engine"
)

// drawEvery is the time between two pictures of the progress line.
const drawEvery = 100 * time.Millisecond

// progressLine shows on a terminal how far a run is. It draws in a goroutine of
// its own, so that a terminal that has been stopped does not hold up the run.
type progressLine struct {
	// Immutable.
	out              io.Writer
	name             string
	startsAt, length experiment.Duration
	stop             chan struct{} // closed by end
	done             sync.WaitGroup

	mu     sync.Mutex
	latest engine.Progress // the zero value before the first
	step   string          // the latest that was new
}

// showProgress shows a run of d, which is called name, until end.
func showProgress(out io.Writer, name string, d *experiment.Definition) *progressLine {
	p := &progressLine{out: out, name: name, startsAt: d.StartsAt, length: d.Length, stop: make(chan struct{})}
	p.done.Go(p.draw)
	return p
}

// update takes the engine's news.
func (p *progressLine) update(news engine.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = news
	if news.Step != "" {
		p.step = news.Step
	}
}

// end takes the line away.
func (p *progressLine) end() {
	close(p.stop)
	p.done.Wait()
}

func (p *progressLine) draw() {
	ticker := time.NewTicker(drawEvery)
	defer ticker.Stop()
	shown := false
	for {
		select {
		case <-ticker.C:
			// One column less than there are, so that no terminal begins a new line.
			fmt.Fprintf(p.out, "\r%-*s", columns-1, p.text())
			shown = true
		case <-p.stop:
			if shown {
				fmt.Fprintf(p.out, "\r%*s\r", columns-1, "")
			}
			return
		}
	}
}

// text is the line.
func (p *progressLine) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	const cells, longestName = 10, 30
	now := min(max(p.latest.Clock, p.startsAt), p.length)
	full := int(cells * float64(now-p.startsAt) / float64(max(1, p.length-p.startsAt)))
	phase := p.latest.Phase
	if phase == "" {
		phase = engine.Starting
	}
	second := experiment.Duration(time.Duration(now).Truncate(time.Second))
	// What changes its width comes last.
	text := fmt.Sprintf("%s  %-*s  %s%s  T+%v/%v", cut(p.name, longestName), len(engine.RollingBack), phase,
		strings.Repeat("#", full), strings.Repeat(".", cells-full), second, p.length)
	if p.step != "" && phase == engine.Method {
		text += "  " + cut(p.step, columns)
	}
	// Not by cut alone, which would take the double spaces away.
	if r := []rune(plain(text)); len(r) > columns-1 {
		return string(r[:columns-2]) + "…"
	}
	return plain(text)
}

// isTerminal reports whether out is a terminal, or another device that does not
// mind carriage returns.
func isTerminal(out io.Writer) bool {
	f, ok := out.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
