package lb

import (
	"fmt"
	"net/http"
	"strconv"
)

// Expiry is what a client sees when a limit is reached in the middle of a
// response (in TCP mode: of a connection). Whatever it is, the request to the
// upstream is cancelled at once. The zero value is no Expiry: in a [Config] it
// is the profile's, or else what the engine does.
//
// An HTTP status is an Expiry, too: Expiry(503), as text "503". It is what a
// client is answered that has no response headers yet, in place of 504; a
// response under way is then cut as with [FIN].
type Expiry uint16

const (
	// FIN closes the client's connection without the terminating chunk, as
	// haproxy, nginx and apache do: a Go client reads an unexpected EOF.
	FIN Expiry = iota + 1
	// RST resets the client's connection, as AWS ALB and toxiproxy can; towards
	// an HTTP/2 client, which engine nginx can serve, the stream. A connection
	// without a way to reset it, such as one in memory, is closed as with FIN,
	// and the [Event] says FIN.
	RST
	// CleanEnd ends the body with its terminating chunk, as caddy does: the
	// client cannot tell it from a response that is complete. A response with a
	// Content-Length has no such end, nor has one whose last bytes the client
	// did not take; they are cut as with FIN, and the [Event] says FIN.
	CleanEnd
	// Silent forwards nothing more and says nothing, as Azure LB and any NAT
	// that has forgotten the connection do. The client's connection stays open,
	// and what the client sends on it is discarded, until the client leaves or
	// Run ends. (The client's kernel still gets its ACKs: to lose those too
	// takes a packet filter.)
	Silent
	// SilentThenRST is Silent until the client sends something: that is
	// answered with a reset, as AWS NLB does. A client that is in the middle of
	// its request is reset at once, because it does send.
	SilentThenRST
)

var expiryNames = [...]string{
	FIN: "fin", RST: "rst", CleanEnd: "clean_end", Silent: "silent", SilentThenRST: "silent_then_rst",
}

// wantExpiry is for errors.
var wantExpiry = oneOf(expiryNames[FIN:]) + ", or an HTTP status from 400 to 599"

// ParseExpiry returns the Expiry that has this text: "fin", "rst", "clean_end",
// "silent", "silent_then_rst", or an HTTP status from "400" to "599".
func ParseExpiry(text string) (Expiry, error) {
	for e, name := range expiryNames {
		if name == text && name != "" {
			return Expiry(e), nil
		}
	}
	if n, err := strconv.ParseUint(text, 10, 16); err == nil && len(text) == 3 && Expiry(n).Status() != 0 {
		return Expiry(n), nil
	}
	return 0, fmt.Errorf("lb: expiry is %q, want %s", text, wantExpiry)
}

// String returns the text that [ParseExpiry] takes, "" for the zero value, and
// "Expiry(n)" for a value that is no Expiry.
func (e Expiry) String() string {
	switch {
	case e == 0:
		return ""
	case e.Status() != 0:
		return strconv.Itoa(int(e))
	case !e.valid():
		return fmt.Sprintf("Expiry(%d)", uint16(e))
	}
	return expiryNames[e]
}

// Status returns the HTTP status that e is, or 0.
func (e Expiry) Status() int {
	if e >= http.StatusBadRequest && e <= 599 {
		return int(e)
	}
	return 0
}

// MarshalText returns what String does. It refuses a value that is no Expiry.
func (e Expiry) MarshalText() ([]byte, error) {
	if e != 0 && !e.valid() {
		return nil, fmt.Errorf("lb: %v has no name", e)
	}
	return []byte(e.String()), nil
}

// UnmarshalText sets e to the Expiry that has this text; "" is the zero value.
// On an error e keeps its value.
func (e *Expiry) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*e = 0
		return nil
	}
	parsed, err := ParseExpiry(string(text))
	if err != nil {
		return err
	}
	*e = parsed
	return nil
}

// valid: one of the constants, or a status.
func (e Expiry) valid() bool { return e.cuts() || e.Status() != 0 }

// cuts: one of the constants.
func (e Expiry) cuts() bool { return e >= FIN && int(e) < len(expiryNames) }

// underWay is how e cuts a response under way.
func (e Expiry) underWay() Expiry {
	if e.cuts() {
		return e
	}
	return FIN
}
