package mcpserver

import (
	"encoding/json"
	"math"
)

// StampKey is the key of a [Stamp] in a message's _meta.
const StampKey = "revenant/stamp"

// Stamp is the oracle's mark on one message of the server. It stands in the
// `_meta` of the params of a notification or a request, and of the result of a
// tool call.
type Stamp struct {
	// Session is the id of the session that the message belongs to.
	Session string `json:"session"`
	// Seq is from 1, and no two messages of one server share it.
	Seq int `json:"seq"`
}

// StampOf reads the stamp from the `_meta` of a message, as a client's JSON
// decoder has left it. It reports false if there is none or it is malformed.
func StampOf(meta map[string]any) (Stamp, bool) {
	switch v := meta[StampKey].(type) {
	case Stamp:
		return v, v.valid()
	case map[string]any:
		seq, ok := wholeNumber(v["seq"])
		session, _ := v["session"].(string)
		s := Stamp{Session: session, Seq: seq}
		return s, ok && s.valid()
	}
	return Stamp{}, false
}

func (s Stamp) valid() bool { return s.Session != "" && s.Seq > 0 }

func wholeNumber(v any) (int, bool) {
	switch n := v.(type) {
	case int:
		return n, true
	case int64:
		return int(n), true
	case float64:
		// Beyond 2⁵³ a float64 no longer tells neighbours apart.
		return int(n), n == math.Trunc(n) && math.Abs(n) <= 1<<53
	case json.Number:
		i, err := n.Int64()
		return int(i), err == nil
	}
	return 0, false
}

// stampIn finds the stamp of a message of this server, in its params or in its
// result. It returns the zero Stamp if it has none.
func stampIn(message json.RawMessage) Stamp {
	type carrier struct {
		Meta struct {
			Stamp Stamp `json:"revenant/stamp"`
		} `json:"_meta"`
	}
	var m struct {
		Params carrier `json:"params"`
		Result carrier `json:"result"`
	}
	if json.Unmarshal(message, &m) != nil {
		return Stamp{}
	}
	if s := m.Params.Meta.Stamp; s.valid() {
		return s
	}
	return m.Result.Meta.Stamp
}
