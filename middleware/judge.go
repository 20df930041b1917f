package middleware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

// methodNotFound is the JSON-RPC error that proves life: who answers it has
// looked at the method, for this session.
const methodNotFound = -32601

// judge decides what a probe's answer says. It reads at most
// Config.MaxHeldBytes of the body and does not close it.
func (t *Transport) judge(resp *http.Response, sessionID, probeID string) answer {
	a := answer{status: resp.StatusCode, contentType: contentType(resp)}
	p := &t.cfg.Probe
	switch status := resp.StatusCode; {
	case p.dead(status):
		a.verdict = Dead
		a.detail = fmt.Sprintf("the probe was answered %d", status)
		return a
	case p.Judge != nil:
		body, err := io.ReadAll(io.LimitReader(resp.Body, int64(t.cfg.MaxHeldBytes)))
		if err != nil {
			a.err, a.retry, a.detail = err, true, "the probe's answer broke off"
			return a
		}
		if a.verdict = p.Judge(resp, body); a.verdict == Ambiguous {
			a.retry, a.after = transient(status), retryAfter(resp.Header, time.Now())
			a.detail = fmt.Sprintf("the probe was answered %d", status)
		}
		return a
	case status != http.StatusOK:
		a.retry = transient(status)
		a.after = retryAfter(resp.Header, time.Now())
		a.detail = fmt.Sprintf("the probe was answered %d", status)
		return a
	}

	if other := resp.Header.Get(t.cfg.SessionHeader); other != "" && other != sessionID {
		a.verdict = Dead
		a.detail = "the probe was answered in the name of another session"
		return a
	}
	if resp.Header.Get("Content-Encoding") != "" {
		a.detail = fmt.Sprintf("the probe's answer has the unknown encoding %q", clip(resp.Header.Get("Content-Encoding")))
		return a
	}
	j := jsonRPCJudge{id: probeID, liveCodes: p.LiveErrorCodes}
	switch mediaType(resp.Header) {
	case "application/json":
		j.readJSON(resp.Body, t.cfg.MaxHeldBytes)
	case "text/event-stream":
		j.readSSE(resp.Body, t.cfg.MaxHeldBytes, t.cfg.MaxEventBytes)
	default:
		a.detail = "the probe's answer is not JSON-RPC"
		return a
	}
	a.verdict, a.retry, a.detail, a.err, a.extra = j.verdict, j.retry, j.detail, j.err, j.extra
	return a
}

// jsonRPCJudge looks for the answer to one probe among what a server sends.
type jsonRPCJudge struct {
	id        string
	liveCodes []int

	verdict Verdict
	found   bool // a response with the probe's id was there
	retry   bool
	detail  string
	err     error
	extra   []byte
}

func (j *jsonRPCJudge) readJSON(r io.Reader, limit int) {
	body, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		j.err, j.retry, j.detail = err, true, "the probe's answer broke off"
	case len(body) > limit:
		j.detail = fmt.Sprintf("the probe's answer exceeds %d bytes", limit)
	default:
		// Another message in a JSON answer belongs to no stream.
		if !slices.ContainsFunc(messages(body), func(m json.RawMessage) bool { return j.single(m) }) {
			j.detail = "the probe's answer is not the response to it"
		}
	}
}

// readSSE reads until the response has come. Whole events before it are the
// stream's: mcp-go's server hands queued notifications to whichever POST comes
// next.
func (j *jsonRPCJudge) readSSE(r io.Reader, limit, maxEvent int) {
	splitter := sse.Splitter{Max: maxEvent}
	var block []byte
	chunk := make([]byte, 4<<10)
	for total := 0; ; {
		n, err := r.Read(chunk)
		total += n
		for b := chunk[:n]; len(b) > 0; {
			k, kind, err := splitter.Next(b)
			if err != nil {
				j.detail = "the probe's answer has an event that is too large"
				return
			}
			block = append(block, b[:k]...)
			b = b[k:]
			switch kind {
			case sse.Pass:
				block = block[:0] // a comment, which may have come in pieces
				continue
			case sse.EventEnd:
			default:
				continue
			}
			data := sse.Parse(block).Data
			batch := messages(data)
			others := batch[:0:0]
			for _, m := range batch {
				if j.single(m) {
					continue
				}
				if j.ofTheStream(m) {
					others = append(others, m)
				}
			}
			switch {
			case len(others) == 0:
			case len(others) == len(batch):
				j.extra = append(j.extra, sse.Strip(block)...)
			default:
				for _, m := range others {
					j.extra = fmt.Appendf(j.extra, "data: %s\n\n", bytes.ReplaceAll(m, []byte{'\n'}, nil))
				}
			}
			if j.found {
				return
			}
			block = block[:0]
		}
		switch {
		case errors.Is(err, io.EOF):
			j.retry, j.detail = true, "the probe's answer ended without the response to it"
			return
		case err != nil:
			j.err, j.retry, j.detail = err, true, "the probe's answer broke off"
			return
		case total > limit:
			j.detail = fmt.Sprintf("the probe's answer exceeds %d bytes", limit)
			return
		}
	}
}

// ofTheStream reports whether a message beside the probe's answer belongs to
// the stream: a request or notification of the server's, or the response to
// something that is not a probe.
func (j *jsonRPCJudge) ofTheStream(message []byte) bool {
	m, ok := parseRPC(message)
	if !ok || string(m["jsonrpc"]) != `"2.0"` || strings.HasPrefix(unquote(m["id"]), probeIDPrefix) {
		return false
	}
	response := m.has("result") != m.has("error") && m.has("id") && string(m["id"]) != "null"
	return m.has("method") || response
}

// single reports whether one message is the response to the probe, and judges
// it.
func (j *jsonRPCJudge) single(data []byte) bool {
	m, ok := parseRPC(data)
	if !ok || m.has("method") || string(m["jsonrpc"]) != `"2.0"` {
		return false
	}
	// A null or foreign id answers somebody else, if anybody.
	var id string
	if json.Unmarshal(m["id"], &id) != nil || !isString(m["id"]) || id != j.id {
		return false
	}
	j.found = true
	result, failed := m.has("result"), m.has("error")
	switch {
	case result && !failed:
		j.verdict = Live
	case failed && !result:
		e, ok := parseRPC(m["error"])
		if !ok || !e.has("code") {
			j.detail = "the probe was answered with an error without a code"
			break
		}
		code, err := strconv.Atoi(string(e["code"]))
		if err == nil && (code == methodNotFound || slices.Contains(j.liveCodes, code)) {
			j.verdict = Live
			break
		}
		// One vendor answers live sessions with such a code and another dead
		// ones: see Probe.LiveErrorCodes.
		j.detail = "the probe was answered with the error " + clip(string(e["code"]))
	default:
		j.detail = "the probe's answer is not a JSON-RPC response"
	}
	return true
}

// mediaType is the media type without its parameters, "" for none. Parameters
// that do not parse do not keep a type from being known.
func mediaType(h http.Header) string {
	t, _, _ := strings.Cut(first(h["Content-Type"]), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// transient reports whether a status may be another one a moment later.
func transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// retryAfter reads Retry-After, RFC 9110 section 10.2.3: seconds or a date. 0
// for none, for the past and for nonsense.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if v == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
