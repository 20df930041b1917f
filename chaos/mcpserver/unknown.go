package mcpserver

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// UnknownSession says what a request gets that carries the id of a dead session,
// or of one that never was. It concerns every POST but initialize, and with
// [Config.GETChecksSession] every GET. A DELETE always gets 200, but see
// [Cluster]. A request without an id gets what mcp-go answers.
type UnknownSession uint8

const (
	// UnknownNotFound: 404, as the specification has it. Of POSTs, mcp-go is the
	// judge, and waves an empty result that answers nothing through with 202.
	UnknownNotFound UnknownSession = iota
	// UnknownGone: 410.
	UnknownGone
	// UnknownBadRequest: 400 with a JSON-RPC error, code −32000 and no id.
	UnknownBadRequest
	// UnknownUnauthorized: 401 without WWW-Authenticate.
	UnknownUnauthorized
	// UnknownUnavailable: 503 without Retry-After.
	UnknownUnavailable
	// UnknownErrorIn200: 200 with a JSON-RPC error, code −32001, and the id of
	// the request, or null where it has none.
	UnknownErrorIn200
	// UnknownAdopt: the server registers the id anew, and answers as if nothing
	// had been. What has waited for the client of the earlier session waits no
	// longer all the same.
	UnknownAdopt
	// UnknownReplace: the server begins another session, answers in its name, and
	// gives its id in the answer's Mcp-Session-Id, as it does with all later
	// requests with that id. A GET gets the other session's standalone stream,
	// where its cursor means nothing.
	UnknownReplace
)

var unknowns = knob[UnknownSession]{"UnknownSession", "unknown_session", []string{
	UnknownNotFound:     "not_found",
	UnknownGone:         "gone",
	UnknownBadRequest:   "bad_request",
	UnknownUnauthorized: "unauthorized",
	UnknownUnavailable:  "unavailable",
	UnknownErrorIn200:   "error_in_200",
	UnknownAdopt:        "adopt",
	UnknownReplace:      "replace",
}}

// ParseUnknownSession is the inverse of [UnknownSession.String].
func ParseUnknownSession(text string) (UnknownSession, error) { return unknowns.parse(text) }

// String is "not_found", "gone", "bad_request", "unauthorized", "unavailable",
// "error_in_200", "adopt" or "replace".
func (u UnknownSession) String() string { return unknowns.text(u) }

// MarshalText writes what [ParseUnknownSession] reads. It fails for a value that
// is none of the constants.
func (u UnknownSession) MarshalText() ([]byte, error) { return unknowns.marshal(u) }

// UnmarshalText is [ParseUnknownSession].
func (u *UnknownSession) UnmarshalText(text []byte) error { return unknowns.unmarshal(u, text) }

// admit decides on a request whose session may be none. It reports false after
// it has answered the request.
func (s *process) admit(a *answer, r *http.Request, c *call) bool {
	unknown := s.cfg.UnknownSession
	if c.session == "" {
		return true
	}
	switch c.method {
	case http.MethodPost:
		if c.rpc.Method == string(mcp.MethodInitialize) || unknown == UnknownNotFound {
			return true // mcp-go asks, at the moment that it thinks right.
		}
	case http.MethodGet:
		if !s.cfg.GETChecksSession {
			return true
		}
	case http.MethodDelete:
		if s.strict && !s.sessions.known(c.session) {
			s.refuseUnknown(a, c)
			return false
		}
		return true
	default:
		return true
	}

	// What is decided here stands: the session may die before mcp-go asks.
	c.checked = unknown != UnknownNotFound
	switch {
	case s.sessions.alive(c.session):
		return true
	case unknown == UnknownAdopt:
		s.settle()
		if created, ok := s.sessions.adopt(c.session, c.server.replica); ok {
			s.log.reopen(c.session)
			s.nudge()
			s.oracle.tell(created)
		}
		return true
	case unknown == UnknownReplace:
		by, created := s.sessions.replace(c.session, c.server.replica)
		if created != nil {
			s.nudge()
			s.oracle.tell(*created)
		}
		s.answerAs(a, r, c, by)
		return true
	default:
		s.refuseUnknown(a, c)
		return false
	}
}

// answerAs makes a request one of another session.
func (s *process) answerAs(a *answer, r *http.Request, c *call, session string) {
	c.session, c.cursor = session, ""
	r.Header.Del(mcp.HeaderLastEventID)
	a.Header().Set(server.HeaderKeySessionID, session)
	s.oracle.updateRequest(c.n, 0, time.Time{}, func(r *Request) { r.AnsweredAs = session })
}

// refuseUnknown answers a request whose session is none.
func (s *process) refuseUnknown(a *answer, c *call) {
	text := "Invalid session ID" // mcp-go's words.
	if s.sessions.known(c.session) {
		text = "Session terminated"
	}
	status := http.StatusNotFound
	switch s.cfg.UnknownSession {
	case UnknownGone:
		status = http.StatusGone
	case UnknownBadRequest:
		status = http.StatusBadRequest
	case UnknownUnauthorized:
		status, text = http.StatusUnauthorized, "Unauthorized: Session not found"
	case UnknownUnavailable:
		status, text = http.StatusServiceUnavailable, "Session not available"
	case UnknownErrorIn200:
		status = http.StatusOK
	}
	if c.method == http.MethodPost && c.rpc.isResponse() {
		s.oracle.tell(s.oracle.answered(c.rpc.askID(), Answer{
			At: time.Now(), Request: c.n, SessionID: c.sent, ID: string(c.rpc.ID), Status: status,
		}))
	}
	switch s.cfg.UnknownSession {
	case UnknownBadRequest:
		writeError(a, status, nil, -32000, "Bad Request: No valid session ID provided")
	case UnknownErrorIn200:
		writeError(a, status, json.RawMessage(c.rpc.callID()), -32001, "Session not found")
	default:
		http.Error(a, text, status)
	}
}

// writeError answers with a JSON-RPC error. An empty id is null.
func writeError(a *answer, status int, id json.RawMessage, code int, message string) {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	type rpcError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	body, _ := json.Marshal(struct { // It cannot fail: the id is what was read.
		JSONRPC string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{mcp.JSONRPC_VERSION, id, rpcError{code, message}})
	a.Header().Set("Content-Type", "application/json")
	a.WriteHeader(status)
	_, _ = a.Write(body)
}
