package demo

import (
	"context"
	"net"
	"time"
)

// Demo is one run of the demo. It owns two ports from [New] until Run returns,
// or until Close.
type Demo struct {
	cfg       Config
	minute    time.Duration
	guarded   [2]bool         // which arms have the middleware; tests have it otherwise
	listeners [2]net.Listener // control, protected
}

// New checks the settings and binds the load balancers' addresses. It starts
// nothing. The caller either calls Run or Close. The errors are
// [*SettingError]s.
func New(cfg Config) (*Demo, error) {
	cfg, err := cfg.compile()
	if err != nil {
		return nil, err
	}
	d := &Demo{cfg: cfg, guarded: [2]bool{false, true}, minute: time.Duration(float64(time.Minute) / cfg.Scale).Round(time.Millisecond)}
	if err := d.listen(); err != nil {
		return nil, err
	}
	return d, nil
}

// listen binds the addresses.
func (d *Demo) listen() (err error) {
	for i, l := range []struct{ setting, addr string }{
		{SettingListenControl, d.cfg.ListenControl},
		{SettingListenProtected, d.cfg.ListenProtected},
	} {
		if d.listeners[i], err = listen(l.setting, l.addr); err != nil {
			d.Close()
			return err
		}
	}
	return nil
}

// Close frees the ports of a Demo that never ran.
func (d *Demo) Close() {
	for _, l := range d.listeners {
		if l != nil {
			l.Close()
		}
	}
}

// Minute is how long one minute of the record takes.
func (d *Demo) Minute() time.Duration { return d.minute }

// Run replays the records, one after the other, and reports what came of them.
// When it returns, all that it started has ended. Its error is why the run could
// not be completed; if ctx ended, it is the cause. Run works once.
func (d *Demo) Run(ctx context.Context) (*Report, error) {
	report := newReport(d.cfg, d.minute)
	for i, record := range d.cfg.Records {
		if i > 0 {
			// The load balancers of the record before have closed theirs.
			if err := d.listen(); err != nil {
				return nil, err
			}
		}
		d.cfg.Begin(record)
		f, err := d.replay(ctx, record)
		d.cfg.Doing("")
		if err != nil {
			return nil, err
		}
		report.add(f)
		d.cfg.End(f)
	}
	return report, nil
}

// replay replays one record.
func (d *Demo) replay(ctx context.Context, record *Record) (*Findings, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	c := clock{minute: d.minute}
	var arms [2]*arm
	for i, name := range []string{Control, Protected} {
		a, err := newArm(name, d.guarded[i], record.setup(c), d.listeners[i])
		if err != nil {
			d.Close()
			if i > 0 {
				arms[0].close()
			}
			return nil, err
		}
		arms[i] = a
	}
	c.start = time.Now()
	var stops [2]func()
	for i, a := range arms {
		stops[i] = a.serve(fail)
	}
	s := &script{record: record, clock: c, arms: arms, line: d.cfg.Line, doing: d.cfg.Doing}
	err := s.run(ctx)
	for _, stop := range stops {
		stop()
	}
	ended := time.Now()
	if err != nil {
		return nil, err
	}

	// Nothing happens any more: this is all there is.
	of := run{clock: c, ended: ended, timeline: c.timeline(s.entries)}
	of.control, _ = arms[0].rec.recording()
	of.protected, _ = arms[1].rec.recording()
	for i, a := range arms {
		of.counters[i] = middlewareReport(a.guard)
	}
	return record.findings(of), nil
}
