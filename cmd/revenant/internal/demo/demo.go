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
	for i, l := range []struct{ setting, addr string }{
		{SettingListenControl, cfg.ListenControl},
		{SettingListenProtected, cfg.ListenProtected},
	} {
		if d.listeners[i], err = listen(l.setting, l.addr); err != nil {
			d.Close()
			return nil, err
		}
	}
	return d, nil
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

// Run replays the record and reports what came of it. When it returns, all that
// it started has ended. Its error is why the run could not be completed; if ctx
// ended, it is the cause. Run works once.
func (d *Demo) Run(ctx context.Context) (*Report, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	c := clock{minute: d.minute}
	var arms [2]*arm
	for i, name := range []string{Control, Protected} {
		a, err := newArm(name, d.guarded[i], c, d.listeners[i])
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
	s := &script{clock: c, arms: arms, line: d.cfg.Line, doing: d.cfg.Doing}
	err := s.run(ctx)
	d.cfg.Doing("")
	for _, stop := range stops {
		stop()
	}
	ended := time.Now()
	if err != nil {
		return nil, err
	}

	// Nothing happens any more: this is all there is.
	var recs [2]*Recording
	for i, a := range arms {
		recs[i], _ = a.rec.recording()
	}
	r := newReport(d.cfg, c, ended, recs[0], recs[1])
	r.Timeline = c.timeline(s.entries)
	r.Arms.Control.Middleware = middlewareReport(arms[0].guard)
	r.Arms.Protected.Middleware = middlewareReport(arms[1].guard)
	return r, nil
}
