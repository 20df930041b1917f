package middleware

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
)

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

func unquote(raw json.RawMessage) string {
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}

// messages takes a batch apart, which MCP 2025-03-26 allows.
func messages(data []byte) []json.RawMessage {
	if !isBatch(data) {
		return []json.RawMessage{data}
	}
	var batch []json.RawMessage
	if json.Unmarshal(data, &batch) != nil {
		return nil
	}
	return batch
}

func isBatch(data []byte) bool {
	trimmed := bytes.TrimLeft(data, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '['
}

// messageKind is what the ledger has to know of a message.
type messageKind uint8

const (
	otherMessage messageKind = iota // nothing that the ledger follows
	requestMessage
	responseMessage
	cancelMessage
)

// message is one JSON-RPC message of either side.
type message struct {
	kind   messageKind
	raw    json.RawMessage
	id     rpcID // of the request, of the request that is answered, or of the one that is cancelled
	method string
	meta   json.RawMessage // a request's params._meta
	ok     bool            // a response with a result
}

// readMessage tells what one message is. The methods of MCP that ask something
// of a client have a slash. A ping, which has none, is no request for the
// ledger: it may be answered as often as it comes, and must be.
func readMessage(raw json.RawMessage) message {
	m, ok := parseRPC(raw)
	if !ok {
		return message{raw: raw}
	}
	msg := message{raw: raw, id: readID(m["id"]), method: unquote(m["method"])}
	switch {
	case m.has("method") && msg.id.key != "":
		if strings.Contains(msg.method, "/") && !strings.HasPrefix(msg.method, "notifications/") {
			msg.kind = requestMessage
			params, _ := parseRPC(m["params"])
			msg.meta = params["_meta"]
		}
	case msg.method == "notifications/cancelled":
		params, _ := parseRPC(m["params"])
		if msg.id = readID(params["requestId"]); msg.id.key != "" {
			msg.kind = cancelMessage
		}
	case !m.has("method") && msg.id.key != "" && m.has("result") != m.has("error"):
		msg.kind, msg.ok = responseMessage, m.has("result")
	}
	return msg
}

// rpcID is the id of a JSON-RPC request. The peer may write the same number in
// another way, so ids are compared by their keys.
type rpcID struct {
	key string // "" for no id
	raw string // as it was written
}

const (
	maxIDBytes  = 1 << 10 // of an id that can be answered to
	maxKeyBytes = 64
)

// readID reads a string or a number, JSON-RPC 2.0 section 4. Null, by which
// nothing can be answered, and everything else is no id.
func readID(raw json.RawMessage) rpcID {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return rpcID{}
	}
	var key string
	switch c := raw[0]; {
	case c == '"':
		key = "s" + unquote(raw)
	case c == '-' || c >= '0' && c <= '9':
		key = "n" + string(raw)
		if f, err := strconv.ParseFloat(string(raw), 64); err == nil && f == float64(int64(f)) && bytes.ContainsAny(raw, ".eE") {
			key = "n" + strconv.FormatInt(int64(f), 10)
		}
	default:
		return rpcID{}
	}
	if len(key) > maxKeyBytes {
		sum := sha256.Sum256([]byte(key))
		key = "h" + hex.EncodeToString(sum[:])
	}
	id := rpcID{key: key}
	if len(raw) <= maxIDBytes {
		id.raw = string(raw)
	}
	return id
}
