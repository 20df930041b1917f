package middleware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/revenant-mcp/revenant/middleware/internal/sse"
)

// methodNotFound is the JSON-RPC error that proves life: who answers it has
// looked at the method, for this session.
const methodNotFound = -32601

// judge decides what a probe's answer says. It reads at most
// Config.MaxHeldBytes of the body and does not close it.
func (t *Transport) judge(resp *http.Response, sessionID, probeID string) answer {
	a := answer{status: resp.StatusCode, contentType: resp.Header.Get("Content-Type")}
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
		a.verdict = p.Judge(resp, body)
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
		a.detail = fmt.Sprintf("the probe's answer has the unknown encoding %q", resp.Header.Get("Content-Encoding"))
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
		if !j.message(body) {
			// A message of its own in a JSON answer belongs to no stream.
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
			if kind != sse.Pass || len(block) > 0 {
				block = append(block, b[:k]...)
			}
			b = b[k:]
			if kind != sse.EventEnd {
				continue
			}
			event := sse.Parse(block)
			if len(event.Data) > 0 {
				if j.message(event.Data) {
					return
				}
				j.extra = append(j.extra, sse.Strip(block)...)
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

// message looks at one JSON-RPC message or batch and reports whether the
// response to the probe was in it.
func (j *jsonRPCJudge) message(data []byte) bool {
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		var batch []json.RawMessage
		if json.Unmarshal(trimmed, &batch) != nil {
			return false
		}
		return slices.ContainsFunc(batch, func(m json.RawMessage) bool { return j.single(m) })
	}
	return j.single(data)
}

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
	result, failed := m.has("result"), m.has("error")
	switch {
	case result && !failed:
		j.verdict = Live
	case failed && !result:
		var e struct {
			Code *json.Number `json:"code"`
		}
		if json.Unmarshal(m["error"], &e) != nil || e.Code == nil {
			j.detail = "the probe was answered with an error without a code"
			break
		}
		code, err := strconv.Atoi(e.Code.String())
		if err == nil && (code == methodNotFound || slices.Contains(j.liveCodes, code)) {
			j.verdict = Live
			break
		}
		// One vendor answers live sessions with such a code and another dead
		// ones: see Probe.LiveErrorCodes.
		j.detail = "the probe was answered with the error " + e.Code.String()
	default:
		j.detail = "the probe's answer is not a JSON-RPC response"
	}
	return true
}

// rpc is a JSON object with its member names as they stand: encoding/json would
// take "ID" for "id" when it fills a struct.
type rpc map[string]json.RawMessage

func parseRPC(data []byte) (rpc, bool) {
	var m rpc
	if json.Unmarshal(data, &m) != nil || m == nil {
		return nil, false
	}
	return m, true
}

func (m rpc) has(name string) bool { _, ok := m[name]; return ok }

// isString keeps null, for which Unmarshal leaves a string alone, from passing
// as one.
func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

// mediaType is the media type without its parameters, "" for none that parses.
func mediaType(h http.Header) string {
	t, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return t
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
