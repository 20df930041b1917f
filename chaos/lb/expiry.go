package lb

import "fmt"

// Expiry is what a client sees when the idle limit is reached in the middle of
// a response. Whatever it is, the request to the upstream is cancelled at once.
type Expiry uint8

const (
	// FIN closes the client's connection without the terminating chunk, as
	// haproxy, nginx and apache do: a Go client reads an unexpected EOF.
	FIN Expiry = iota
	// RST resets the client's connection, as AWS ALB and toxiproxy can. A
	// connection without a way to reset it, such as one in memory, is closed
	// as with FIN, and the [Event] says FIN.
	RST
	// CleanEnd ends the body with its terminating chunk, as caddy does: the
	// client cannot tell it from a response that is complete. A response with a
	// Content-Length has no such end, nor has one whose last bytes the client
	// did not take; they are cut as with FIN, and the [Event] says FIN.
	CleanEnd
	// Silent forwards nothing more and says nothing, as AWS NLB, Azure LB and
	// any NAT that has forgotten the connection do. The client's connection
	// stays open, and what the client sends on it is discarded, until the
	// client leaves or Run ends. (The client's kernel still gets its ACKs: to
	// lose those too takes a packet filter.)
	Silent
)

var expiryNames = [...]string{FIN: "fin", RST: "rst", CleanEnd: "clean_end", Silent: "silent"}

// ParseExpiry returns the Expiry that has this name: "fin", "rst", "clean_end"
// or "silent".
func ParseExpiry(name string) (Expiry, error) {
	for e, n := range expiryNames {
		if n == name {
			return Expiry(e), nil
		}
	}
	return 0, fmt.Errorf("lb: expiry is %q, want one of %q", name, expiryNames)
}

// String returns the name that [ParseExpiry] takes, or "Expiry(n)" for a value
// that is none of the constants.
func (e Expiry) String() string {
	if !e.valid() {
		return fmt.Sprintf("Expiry(%d)", uint8(e))
	}
	return expiryNames[e]
}

// MarshalText returns the name. It refuses a value that is none of the
// constants.
func (e Expiry) MarshalText() ([]byte, error) {
	if !e.valid() {
		return nil, fmt.Errorf("lb: %v has no name", e)
	}
	return []byte(expiryNames[e]), nil
}

// UnmarshalText sets e to the Expiry that has this name. On an error e keeps
// its value.
func (e *Expiry) UnmarshalText(text []byte) error {
	parsed, err := ParseExpiry(string(text))
	if err != nil {
		return err
	}
	*e = parsed
	return nil
}

func (e Expiry) valid() bool { return int(e) < len(expiryNames) }
