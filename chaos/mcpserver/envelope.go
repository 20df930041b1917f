package mcpserver

import (
	"bytes"
	"encoding/json"

	"github.com/mark3labs/mcp-go/mcp"
)

// mcp-go puts no request on a call's stream but elicitation/create, chooses its
// id when it is too late to know it, and drops the `_meta` of most. What does go
// everywhere is a notification. So a request travels through mcp-go inside one,
// and is taken out of it where it is stored and where it is written.
const envelopeMethod = "revenant/request"

var (
	envelopeHead  = []byte(`{"jsonrpc":"2.0","method":"` + envelopeMethod + `","params":{"request":`)
	envelopeTail  = []byte(`}}`)
	envelopeFrame = append([]byte("event: message\ndata: "), envelopeHead...)
	frameEnd      = []byte("\n\n")
)

// wireRequest is a server-to-client request as it is sent.
type wireRequest struct {
	JSONRPC string         `json:"jsonrpc"`
	ID      int64          `json:"id"`
	Method  string         `json:"method"`
	Params  map[string]any `json:"params"`
}

// wrap puts a request into its envelope.
func wrap(r wireRequest) (mcp.JSONRPCNotification, error) {
	message, err := json.Marshal(r)
	n := mcp.JSONRPCNotification{JSONRPC: mcp.JSONRPC_VERSION}
	n.Method = envelopeMethod
	n.Params.AdditionalFields = map[string]any{"request": json.RawMessage(message)}
	return n, err
}

// unwrap returns a message without the envelope, and the id of the request if it
// had one; 0 if not.
func unwrap(message json.RawMessage) (json.RawMessage, int64) {
	inside, ok := bytes.CutPrefix(message, envelopeHead)
	if !ok {
		return message, 0
	}
	inside = bytes.TrimSuffix(inside, envelopeTail)
	var head struct {
		ID int64 `json:"id"`
	}
	_ = json.Unmarshal(inside, &head) // wrap made it.
	return inside, head.ID
}

// unwrapFrame does the same to an SSE event, in the form that mcp-go writes.
func unwrapFrame(frame []byte) []byte {
	if !bytes.HasPrefix(frame, envelopeFrame) {
		return frame
	}
	start := len(envelopeFrame) - len(envelopeHead)
	inside, _ := unwrap(bytes.TrimSuffix(frame[start:], frameEnd))
	return append(append(frame[:start:start], inside...), frameEnd...)
}
