package mcpserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// gateBody is an answer to a request that nobody made. mcp-go puts it through
// every check that it makes of an answer, where it would wave an empty result
// through.
const gateBody = `{"jsonrpc":"2.0","id":0,"result":true}`

// takeAnswer serves a client's answer to a server-to-client request: one JSON
// object. mcp-go takes no array of them, as 2025-03-26 allows, and answers 400.
//
// Whether the POST is a good one, and its session alive, is mcp-go's to say. It
// knows nothing of the requests, which are this package's.
func (s *process) takeAnswer(a *answer, r *http.Request, c *call, body []byte) {
	id := c.rpc.askID()
	p := s.asks.pending(c.session, id)
	ours := p != nil || s.cfg.StaleAnswer != 0
	if ours {
		r.Body = io.NopCloser(bytes.NewReader([]byte(gateBody)))
	}
	gate := &heldResponse{header: make(http.Header), status: http.StatusOK}
	s.mcp.ServeHTTP(gate, r)

	record := Answer{At: time.Now(), Request: c.n, SessionID: c.sent, ID: string(c.rpc.ID), Status: gate.status}
	if !ours || !c.admitted {
		s.oracle.tell(s.oracle.answered(id, record))
		gate.pass(a)
		return
	}
	record.Status, record.Taken = http.StatusAccepted, true
	if p != nil && s.asks.answer(p, json.RawMessage(body), record) {
		a.WriteHeader(http.StatusAccepted)
		return
	}
	record.Status, record.Taken = s.cfg.StaleAnswer, false
	if record.Status == 0 {
		record.Status = http.StatusBadRequest // It was settled a moment ago.
	}
	s.oracle.tell(s.oracle.answered(id, record))
	if record.Status < 300 {
		a.WriteHeader(record.Status)
		return
	}
	http.Error(a, "no request with that id is pending", record.Status)
}

// askID is the id of a response, if it can be one that this server gave to a
// request, or 0.
func (h rpcHead) askID() int64 {
	var id int64
	if json.Unmarshal(h.ID, &id) != nil {
		return 0
	}
	return id
}

// heldResponse keeps a response until it is known whether it counts.
type heldResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *heldResponse) Header() http.Header         { return h.header }
func (h *heldResponse) WriteHeader(status int)      { h.status = status }
func (h *heldResponse) Write(p []byte) (int, error) { return h.body.Write(p) }

// pass hands the response on.
func (h *heldResponse) pass(w http.ResponseWriter) {
	for name, values := range h.header {
		w.Header()[name] = values
	}
	w.WriteHeader(h.status)
	_, _ = w.Write(h.body.Bytes())
}
