package mcpserver

import (
	"fmt"
	"strconv"
	"strings"
)

// Refresh says which requests give a session its full SessionTTL again.
type Refresh uint8

const (
	// RefreshPOST: the POSTs for which mcp-go asks the session store. It does
	// not for a POST that it refuses first, nor for an empty result that
	// answers nothing that is pending.
	RefreshPOST Refresh = iota
	// RefreshAny: every request that carries the session's id. What is sent
	// on a stream that is open already refreshes nothing.
	RefreshAny
	// RefreshNever: none; a session ends SessionTTL after its beginning.
	RefreshNever
)

var refreshes = knob[Refresh]{"Refresh", "refresh", []string{RefreshPOST: "post", RefreshAny: "any", RefreshNever: "never"}}

// ParseRefresh is the inverse of [Refresh.String].
func ParseRefresh(text string) (Refresh, error) { return refreshes.parse(text) }

// String is "post", "any" or "never".
func (r Refresh) String() string { return refreshes.text(r) }

// MarshalText writes what [ParseRefresh] reads. It fails for a value that is
// none of the constants.
func (r Refresh) MarshalText() ([]byte, error) { return refreshes.marshal(r) }

// UnmarshalText is [ParseRefresh].
func (r *Refresh) UnmarshalText(text []byte) error { return refreshes.unmarshal(r, text) }

// Replay says where the replay begins that a resumed stream is given.
type Replay uint8

const (
	// ReplayExclusive: after the event that the cursor names.
	ReplayExclusive Replay = iota
	// ReplayInclusive: with the event that the cursor names, although the
	// client has it.
	ReplayInclusive
	// ReplayFull: with the first event that the log has of the stream, wherever
	// the cursor is. A GET without a cursor gets the standalone stream from its
	// first event, too, as go-sdk's server does it.
	ReplayFull
)

var replays = knob[Replay]{"Replay", "replay", []string{ReplayExclusive: "exclusive", ReplayInclusive: "inclusive", ReplayFull: "full"}}

// ParseReplay is the inverse of [Replay.String].
func ParseReplay(text string) (Replay, error) { return replays.parse(text) }

// String is "exclusive", "inclusive" or "full".
func (r Replay) String() string { return replays.text(r) }

// MarshalText writes what [ParseReplay] reads. It fails for a value that is
// none of the constants.
func (r Replay) MarshalText() ([]byte, error) { return replays.marshal(r) }

// UnmarshalText is [ParseReplay].
func (r *Replay) UnmarshalText(text []byte) error { return replays.unmarshal(r, text) }

// OnBreak says what becomes of the server-to-client requests that are pending
// on a stream when that breaks. A stream breaks when the connection ends that
// it is on, or when a client resumes it while the server still holds that
// connection for good. A request that is sent while its stream is broken counts
// as pending on it when it broke.
type OnBreak uint8

const (
	// BreakKeeps: they stay pending. The client may resume the stream, answer,
	// and get the result of its call.
	BreakKeeps OnBreak = iota
	// BreakCancels: the server waits for them no longer. Nothing is written: a
	// replay has the requests like before, and nothing that withdraws them; an
	// answer gets [Config.StaleAnswer]. Nor does the call that asked come to an
	// end: its stream stays open, and has no more events until the client
	// cancels the call.
	BreakCancels
	// BreakCancelsNoted: the server waits for them no longer, and says so.
	// `notifications/cancelled` with the request's id, and then the result of
	// the call with `isError`, follow the request on its stream and in every
	// replay of it. On the standalone stream there is no call to end.
	BreakCancelsNoted
)

var breaks = knob[OnBreak]{"OnBreak", "on_break", []string{BreakKeeps: "keeps", BreakCancels: "cancels", BreakCancelsNoted: "cancels_noted"}}

// ParseOnBreak is the inverse of [OnBreak.String].
func ParseOnBreak(text string) (OnBreak, error) { return breaks.parse(text) }

// String is "keeps", "cancels" or "cancels_noted".
func (b OnBreak) String() string { return breaks.text(b) }

// MarshalText writes what [ParseOnBreak] reads. It fails for a value that is
// none of the constants.
func (b OnBreak) MarshalText() ([]byte, error) { return breaks.marshal(b) }

// UnmarshalText is [ParseOnBreak].
func (b *OnBreak) UnmarshalText(text []byte) error { return breaks.unmarshal(b, text) }

// oneOf is `"a", "b" or "c"`.
func oneOf(texts []string) string {
	quoted := make([]string, len(texts))
	for i, t := range texts {
		quoted[i] = strconv.Quote(t)
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

// knob is what the types of constants share: values from 0, each with a text.
type knob[T ~uint8] struct {
	typ   string   // its name
	wire  string   // what it is called where it is read as text
	texts []string // by value
}

func (k knob[T]) has(v T) bool { return int(v) < len(k.texts) }

func (k knob[T]) text(v T) string {
	if !k.has(v) {
		return fmt.Sprintf("%s(%d)", k.typ, uint8(v))
	}
	return k.texts[v]
}

func (k knob[T]) parse(text string) (T, error) {
	for v, t := range k.texts {
		if t == text {
			return T(v), nil
		}
	}
	return 0, fmt.Errorf("mcpserver: %s is %q: want %s", k.wire, text, oneOf(k.texts))
}

func (k knob[T]) marshal(v T) ([]byte, error) {
	if !k.has(v) {
		return nil, fmt.Errorf("mcpserver: %s has no text", k.text(v))
	}
	return []byte(k.texts[v]), nil
}

func (k knob[T]) unmarshal(into *T, text []byte) error {
	v, err := k.parse(string(text))
	if err == nil {
		*into = v
	}
	return err
}
