package lb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	// A copy buffer starts small, because most of many streams are idle, and
	// becomes large for a stream that fills it.
	smallCopy = 4 << 10
	largeCopy = 64 << 10
	// keepBack is how much of a response buffering keeps back: what nginx does
	// with two of its pages.
	keepBack = 8 << 10
)

// accelBuffering is the header with which a response is exempted from buffering.
const accelBuffering = "X-Accel-Buffering"

// cleanEndGrace is how long a clean end waits for a write under way: half a
// chunk cannot be followed by a terminating one.
const cleanEndGrace = 250 * time.Millisecond

// errUpstreamEnded is the cause of a stream that ended in order.
var errUpstreamEnded = errors.New("lb: upstream ended the response")

// longAgo is the deadline that makes a read or a write give up at once.
var longAgo = time.Unix(1, 0)

// stream is one request and its response.
//
// How it ends is decided once, by whoever is the first to cancel ctx: the
// upstream's end or failure, the client, the idle clock, Cut, Run. Whatever
// follows from the decision is done by the goroutine that serves the request.
type stream struct {
	// Immutable.
	proxy *httpProxy
	id    uint64
	run   context.Context // ends with Run
	w     http.ResponseWriter
	rc    *http.ResponseController
	r     *http.Request

	ctx    context.Context // of the request to the upstream; its cause is the decision
	cancel context.CancelCauseFunc
	clock  *idleClock
	body   *requestBody

	// Owned by the goroutine that serves the request.
	upstream    int // the one that the request went to
	conn        *upstreamConn
	bound       bool // to it, by affinity
	status      int
	length      int64 // of the response body, -1: not known beforehand
	bytes       int64 // of it passed on
	chunked     bool  // the client gets the body in chunks
	opened      bool  // the headers have been passed on
	writeFailed bool  // the client has at most a part of what was written last
	unwatch     func() bool
	unblocked   chan struct{} // closed when writes to the client have been made to fail
}

// serve is the handler of all requests.
func (p *httpProxy) serve(run context.Context, w http.ResponseWriter, r *http.Request) {
	p.serving.Add(1)
	defer p.serving.Done()

	s := &stream{proxy: p, id: p.requests.Add(1), run: run, w: w, rc: http.NewResponseController(w), r: r}
	s.ctx, s.cancel = context.WithCancelCause(r.Context())
	defer s.cancel(nil)
	s.clock = s.limit(p.cfg.IdleTimeout, ErrIdle)
	defer s.clock.stop()
	defer s.limit(p.cfg.MaxDuration, ErrMaxDuration).stop()
	s.body = newRequestBody(r.Body, s.clock.touch, func() { s.rc.SetReadDeadline(longAgo) })
	s.body.ended.Store(r.ContentLength == 0)
	defer s.body.detach()
	// The transport does not return before the body does.
	defer context.AfterFunc(s.ctx, s.body.abort)()

	// The response must not wait until the client has sent the whole request.
	// HTTP/1 supports it; there is no error.
	s.rc.EnableFullDuplex()

	if r.Method == http.MethodConnect {
		s.refuse(http.StatusNotImplemented, errors.New("lb: CONNECT is not supported"))
		return
	}
	headers := s.limit(p.cfg.HeaderTimeout, ErrHeaderTimeout)
	res, err := s.roundTrip()
	headers.stop()
	if err == nil && s.ctx.Err() != nil {
		// It came too late: HeaderTimeout is over, if nothing else.
		res.Body.Close()
		err = context.Cause(s.ctx)
	}
	if err == nil && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body.Close()
		err = errors.New("101, though no upgrade was asked for")
	}
	if err != nil {
		s.noResponse(fmt.Errorf("lb: upstream: %w", err))
		return
	}
	s.clock.touch()
	err = s.pass(res)
	res.Body.Close()
	s.finish(err, res.Trailer)
}

// limit starts a clock that cuts the stream when it is not touched for that
// long. Its caller stops it.
func (s *stream) limit(d time.Duration, why error) *idleClock {
	return startIdleClock(d, func() { s.decide(&cut{how: s.proxy.cfg.OnExpiry.underWay(), why: why}) })
}

// roundTrip sends the request to an upstream, and to the next one if it cannot
// connect.
func (s *stream) roundTrip() (*http.Response, error) {
	pool := s.proxy.pool
	s.upstream, s.bound = pool.choose(s.r)
	for tries := 1; ; tries++ {
		res, conn, err := s.proxy.upstream.roundTrip(s.outgoing(pool.addrs[s.upstream]))
		s.conn = conn
		var unreachable *dialError
		if tries < len(pool.addrs) && errors.As(err, &unreachable) && s.ctx.Err() == nil {
			s.upstream, s.bound = (s.upstream+1)%len(pool.addrs), false
			continue
		}
		return res, err
	}
}

// outgoing returns the request to the upstream.
func (s *stream) outgoing(addr string) *http.Request {
	r := s.r.WithContext(s.ctx)
	r.URL = &url.URL{
		Scheme:     "http",
		Host:       addr,
		Path:       s.r.URL.Path,
		RawPath:    s.r.URL.RawPath,
		RawQuery:   s.r.URL.RawQuery,
		ForceQuery: s.r.URL.ForceQuery,
	}
	r.Close = false // that was about the client's connection
	r.Header = s.r.Header.Clone()
	removeHopByHop(r.Header)
	appendForwardedFor(r.Header, s.r.RemoteAddr)
	if s.proxy.cfg.Balance == CookieAffinity {
		removeAffinityCookie(r.Header)
	}
	if _, ok := r.Header["User-Agent"]; !ok {
		r.Header.Set("User-Agent", "") // keeps the transport from naming itself
	}
	r.Body = s.body
	if r.ContentLength == 0 {
		r.Body = nil
	}
	return r
}

// pass hands the response on, its headers at once and each piece of its body as
// it comes, unless it is to be kept back. It returns nil at the end of the body.
func (s *stream) pass(res *http.Response) error {
	s.status, s.length = res.StatusCode, res.ContentLength
	s.chunked = s.length < 0 && s.r.ProtoAtLeast(1, 1) && s.r.Method != http.MethodHead &&
		s.status != http.StatusNoContent && s.status != http.StatusNotModified
	keep := *s.proxy.cfg.Buffering && res.Header.Get(accelBuffering) != "no"
	s.bind(res.Header)
	copyResponseHeader(s.w.Header(), res)

	s.watch()
	s.proxy.underWay.add(s)
	size := keepBack
	if !keep {
		size = smallCopy
		if err := s.open(); err != nil {
			return err
		}
	}
	held := newBatch(size, s.forward)
	defer held.finish()
	// A connection whose response has no body may be another request's by now.
	if !keep && res.Body != http.NoBody {
		defer s.conn.flushFirst(held.beforeWait)()
	}
	for {
		n, err := held.read(res.Body)
		switch {
		case held.err != nil:
			return held.err
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx) // what comes after the decision is not passed on
		case n > 0:
			s.clock.touch()
		}
		if full := held.full(); full || err == io.EOF || err != nil && !keep {
			if err := held.flush(); err != nil {
				return err
			}
			if full && !keep {
				held.grow(largeCopy)
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("lb: upstream: %w", err)
		}
	}
}

// bind sees to it that the client's next request can find the same upstream.
func (s *stream) bind(h http.Header) {
	cfg := &s.proxy.cfg
	if cfg.Balance == CookieAffinity && !s.bound {
		h.Add("Set-Cookie", affinityCookie(s.upstream))
	}
	if !s.bound {
		s.proxy.pool.learn(s.r.Header.Get(sessionHeader), s.upstream)
	}
	s.proxy.pool.learn(h.Get(sessionHeader), s.upstream)
	if *cfg.Buffering {
		h.Del(accelBuffering) // it was for the load balancer
	}
}

// open passes the headers on, if they have not been.
func (s *stream) open() error {
	if s.opened {
		return nil
	}
	s.w.WriteHeader(s.status)
	if err := s.flush(); err != nil {
		return err
	}
	s.opened = true
	s.emit(Event{Kind: Opened})
	return nil
}

// forward passes a piece of the body on, which may be empty.
func (s *stream) forward(piece []byte) error {
	if err := s.open(); err != nil || len(piece) == 0 {
		return err
	}
	if _, err := s.w.Write(piece); err != nil {
		return s.clientErr(err)
	}
	if err := s.flush(); err != nil {
		return err
	}
	s.bytes += int64(len(piece))
	return nil
}

func (s *stream) flush() error {
	if err := s.rc.Flush(); err != nil {
		return s.clientErr(err)
	}
	s.clock.touch()
	return nil
}

func (s *stream) clientErr(err error) error {
	s.writeFailed = true
	return fmt.Errorf("%w: %w", ErrClientLeft, err)
}

// decide settles how the stream ends, unless that is settled already, and
// reports whether it did.
func (s *stream) decide(cause error) bool {
	s.cancel(cause)
	return context.Cause(s.ctx) == cause
}

// watch makes writes to the client fail once the end is decided: they may be
// waiting for a client that does not read.
func (s *stream) watch() {
	s.unblocked = make(chan struct{})
	s.unwatch = context.AfterFunc(s.ctx, func() {
		defer close(s.unblocked)
		deadline := longAgo
		if c, ok := context.Cause(s.ctx).(*cut); ok && c.how == CleanEnd {
			deadline = time.Now().Add(cleanEndGrace)
		}
		s.rc.SetWriteDeadline(deadline)
	})
}

// settle is the end of forwarding. It returns how the stream ends: as err says,
// unless something else was decided before. Nothing but the caller touches the
// client's connection any more, apart from reads of the request body.
func (s *stream) settle(err error) error {
	if s.unwatch != nil && !s.unwatch() {
		<-s.unblocked
	}
	s.decide(err)
	s.clock.stop()
	s.proxy.underWay.remove(s)
	cause := context.Cause(s.ctx)
	if cause == context.Canceled { // by net/http, the only one to give no cause
		cause = ErrClientLeft
	}
	return cause
}

// noResponse is the end of a stream whose upstream has sent no response headers.
func (s *stream) noResponse(err error) {
	err = s.settle(err)
	var limit *cut
	switch {
	case errors.As(err, &limit):
		s.refuse(s.proxy.cfg.HeaderStatus, err)
	case err == ErrClientLeft, err == ErrStopped:
		s.emit(Event{Kind: Ended, Err: err})
		panic(http.ErrAbortHandler)
	default:
		s.refuse(http.StatusBadGateway, err)
	}
}

// refuse answers in place of the upstream.
func (s *stream) refuse(status int, err error) {
	s.status = status
	s.emit(Event{Kind: Refused, Err: err})
	if !s.body.detach() {
		s.w.Header().Set("Connection", "close")
	}
	text := strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status))) + "\n"
	s.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	s.w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	s.w.WriteHeader(status)
	io.WriteString(s.w, text)
	s.terminate(nil)
}

// finish is the end of a stream whose response was under way.
func (s *stream) finish(err error, trailer http.Header) {
	if err == nil {
		err = errUpstreamEnded
	}
	err = s.settle(err)
	if c, ok := err.(*cut); ok {
		s.perform(c)
		return
	}
	if err == errUpstreamEnded {
		s.emit(Event{Kind: Ended})
		s.terminate(trailer)
		return
	}
	s.emit(Event{Kind: Ended, Err: err})
	if errors.Is(err, ErrClientLeft) || err == ErrStopped {
		panic(http.ErrAbortHandler)
	}
	s.openLate()
	fin(s.run, s.hijack()) // the client is to know that this is not the end
}

// emit calls the hook with e and what is the same in all events of the stream.
func (s *stream) emit(e Event) {
	if s.proxy.cfg.Observe == nil {
		return
	}
	e.At = time.Now()
	e.Stream, e.Method, e.Path = s.id, s.r.Method, s.r.URL.Path
	e.Status, e.Bytes = s.status, s.bytes
	s.proxy.cfg.Observe(e)
}
