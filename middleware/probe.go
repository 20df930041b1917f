package middleware

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Probe is how the middleware asks whether a session lives. The zero value
// posts a JSON-RPC ping and judges its answer as the MCP specification allows:
//
//   - 404 or 410, by the status alone, is Dead.
//   - 200 with a JSON-RPC response, as JSON or on an SSE stream, that has the
//     probe's own id and either a result or the error −32601 is Live: the
//     server dispatched the method for this session. If the answer names a
//     different session, that one was silently put in its place: Dead.
//   - Everything else is Ambiguous.
type Probe struct {
	_ struct{}

	// Method is the JSON-RPC method to call, without parameters. "": "ping".
	// It has to be one that the server checks against its session store and
	// that changes nothing.
	Method string

	// LiveErrorCodes are JSON-RPC error codes, besides −32601, with which one
	// particular server answers a live session. Some servers answer dead
	// sessions with the same codes, so there is no default.
	LiveErrorCodes []int

	// DeadStatusCodes are HTTP statuses, besides 404 and 410, with which one
	// particular server answers a dead session's probe, such as 400. There is
	// no default: a proxy answers with them as well. 400 to 599.
	DeadStatusCodes []int

	// NewRequest, if not nil, builds the probe of another protocol. reconnect
	// is the GET that is held, not to be changed; its context is not the
	// probe's. The request must carry the session.
	NewRequest func(ctx context.Context, reconnect *http.Request) (*http.Request, error)

	// Judge judges the answer to NewRequest's request; the two go together.
	// body is at most Config.MaxHeldBytes, and resp.Body is not to be used. A
	// status of 404 or 410 is Dead without asking it.
	Judge func(resp *http.Response, body []byte) Verdict
}

func (p *Probe) faults() (faults []error) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("middleware: Config.Probe."+format, args...))
	}
	if (p.NewRequest == nil) != (p.Judge == nil) {
		fault("NewRequest and Probe.Judge go together, want both or neither")
	}
	if p.NewRequest != nil && (p.Method != "" || len(p.LiveErrorCodes) > 0) {
		fault("Method and Probe.LiveErrorCodes belong to the JSON-RPC probe, want them empty with NewRequest")
	}
	for _, code := range p.DeadStatusCodes {
		if code < 400 || code > 599 {
			fault("DeadStatusCodes has %d, want 400 to 599", code)
		}
	}
	return faults
}

func (p *Probe) dead(status int) bool {
	if status == http.StatusNotFound || status == http.StatusGone {
		return true
	}
	for _, code := range p.DeadStatusCodes {
		if code == status {
			return true
		}
	}
	return false
}

// answer is what one attempt of a probe brought.
type answer struct {
	probed      bool // it is a probe's, and not the reconnecting GET's
	verdict     Verdict
	status      int
	contentType string
	detail      string
	err         error
	retry       bool          // another attempt may bring more
	after       time.Duration // not before this
	// extra is what else came on the probe's SSE answer: whole events that
	// belong to the stream, without their ids.
	extra []byte
}

const probeIDPrefix = "revenant-"

// newProbe builds one attempt from the request whose stream is held. Its id is
// nobody else's: an answer with it was made for this very request.
func (t *Transport) newProbe(ctx context.Context, from *http.Request, cookies []string) (req *http.Request, id string, err error) {
	p := &t.cfg.Probe
	if p.NewRequest != nil {
		req, err = p.NewRequest(ctx, from)
		if err != nil {
			return nil, "", fmt.Errorf("Probe.NewRequest: %w", err)
		}
		return req, "", nil
	}

	id = probeIDPrefix + rand.Text()
	method := p.Method
	if method == "" {
		method = "ping"
	}
	message, err := json.Marshal(struct {
		JSONRPC string `json:"jsonrpc"`
		ID      string `json:"id"`
		Method  string `json:"method"`
	}{"2.0", id, method})
	if err != nil {
		return nil, "", err
	}
	req, err = http.NewRequestWithContext(ctx, http.MethodPost, from.URL.String(), bytes.NewReader(message))
	if err != nil {
		return nil, "", err
	}
	// Whatever identifies the client and its tenant goes along: a server or a
	// gateway that answers the probe without it answers for somebody else.
	req.Header = from.Header.Clone()
	req.Host = from.Host
	for _, name := range []string{lastEventIDHeader, "Accept-Encoding", "Content-Length", "Content-Encoding", "Expect"} {
		req.Header.Del(name)
	}
	req.Header.Set("Content-Type", "application/json")
	// MCP 2025-11-25 basic/transports, sending messages: a client MUST list both.
	req.Header.Set("Accept", "application/json, text/event-stream")
	applyCookies(req, cookies)
	return req, id, nil
}

// applyCookies puts cookies that an answer has just set over those that the
// request carries already, every other one as it stands. [http.Client] does
// this above the RoundTripper, too late for a probe: without a load balancer's
// affinity cookie it would reach another replica, whose 404 says nothing.
func applyCookies(req *http.Request, setCookie []string) {
	if len(setCookie) == 0 {
		return
	}
	var names []string
	pairs := make(map[string]string) // name=value, "" for a cookie that is deleted
	put := func(name, pair string) {
		if _, ok := pairs[name]; !ok {
			names = append(names, name)
		}
		pairs[name] = pair
	}
	for _, line := range req.Header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			if pair = strings.TrimSpace(pair); pair != "" {
				name, _, _ := strings.Cut(pair, "=")
				put(name, pair)
			}
		}
	}
	for _, line := range setCookie {
		c, err := http.ParseSetCookie(line)
		if err != nil || c.Secure && req.URL.Scheme != "https" {
			continue
		}
		pair, _, _ := strings.Cut(line, ";")
		if c.MaxAge < 0 || c.MaxAge == 0 && !c.Expires.IsZero() && c.Expires.Before(time.Now()) {
			pair = ""
		}
		put(c.Name, strings.TrimSpace(pair))
	}
	var all []string
	for _, name := range names {
		if pairs[name] != "" {
			all = append(all, pairs[name])
		}
	}
	req.Header.Del("Cookie")
	if len(all) > 0 {
		req.Header.Set("Cookie", strings.Join(all, "; "))
	}
}

// probeOnce sends one attempt and judges its answer. The caller calls settle
// once it has passed the answer on: it gives the connection back, which may
// take a moment where the server has not yet ended its stream.
func (t *Transport) probeOnce(ctx context.Context, s *session, from *http.Request, cookies []string) (a answer, settle func()) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.ProbeTimeout)
	req, id, err := t.newProbe(ctx, from, cookies)
	if err != nil {
		return answer{err: err, detail: "the probe could not be built: " + err.Error()}, cancel
	}
	if !s.depart() {
		return answer{detail: "the session is over"}, cancel
	}
	t.counters.probes.Add(1)
	resp, err := t.cfg.Base.RoundTrip(req)
	s.arrive()
	if err != nil {
		detail := "the probe got no answer"
		if ctx.Err() != nil {
			detail = fmt.Sprintf("the probe got no answer within %v", t.cfg.ProbeTimeout)
		}
		return answer{err: err, detail: detail, retry: true}, cancel
	}
	a = t.judge(resp, req.Header.Get(t.cfg.SessionHeader), id)
	return a, func() {
		drain(resp.Body, cancel)
		cancel()
	}
}

// drain reads what little is left of a body, so that its connection can be
// used again, and closes it. A body that does not end is cut off by cancel.
func drain(body io.ReadCloser, cancel context.CancelFunc) {
	stop := time.AfterFunc(drainTimeout, cancel)
	defer stop.Stop()
	_, _ = io.CopyN(io.Discard, body, drainBytes)
	body.Close()
}

const (
	drainTimeout = 100 * time.Millisecond
	drainBytes   = 64 << 10
)
