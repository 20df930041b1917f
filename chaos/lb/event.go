package lb

import (
	"errors"
	"time"
)

// Why a stream ended out of order: what [Event].Err wraps, beside the errors of
// the upstream.
var (
	// ErrIdle says that IdleTimeout was reached.
	ErrIdle = errors.New("lb: idle timeout")
	// ErrHeaderTimeout says that HeaderTimeout was reached.
	ErrHeaderTimeout = errors.New("lb: no response headers in time")
	// ErrMaxDuration says that MaxDuration was reached.
	ErrMaxDuration = errors.New("lb: maximum duration reached")
	// ErrCut says that [LoadBalancer.Cut] was called.
	ErrCut = errors.New("lb: cut on request")
	// ErrClientLeft says that the client closed its connection, or the sending
	// half of it, or did not take what was written.
	ErrClientLeft = errors.New("lb: client left")
	// ErrStopped says that Run ended.
	ErrStopped = errors.New("lb: stopped")
)

// EventKind says what an [Event] reports.
type EventKind uint8

const (
	// Opened: the response headers have been passed to the client. In TCP mode:
	// the connection to the upstream is open.
	Opened EventKind = iota + 1
	// Cut: the response is about to be cut in the way that Expiry names. Err
	// wraps [ErrIdle], [ErrMaxDuration] or [ErrCut].
	Cut
	// Ended: the exchange is over in any other way. Err is nil where the
	// upstream ended its response in order; else it wraps [ErrClientLeft],
	// [ErrStopped] or the upstream's error. Status is 0 where the client left,
	// or Run ended, before there were response headers.
	Ended
	// Refused: the client is about to get a response of the load balancer's
	// own. Status is [Config].HeaderStatus when a limit was reached before the
	// response headers, 502 when the upstream gave no response, 501 for CONNECT.
	// Err says why. haproxy has other statuses of its own, 503 where it cannot
	// connect among them.
	Refused
)

var kindNames = [...]string{Opened: "opened", Cut: "cut", Ended: "ended", Refused: "refused"}

// String returns the kind in words, for logs.
func (k EventKind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "unknown"
}

// Event is one thing that happened to one request, or in TCP mode to one
// connection. The last one of a request is a Refused, a Cut or an Ended, and
// there is one of these; before a Cut or an Ended comes Opened, unless the
// headers of the response never reached the client.
//
// Engines haproxy and nginx report the last one only, when they have logged it,
// and nothing of what is under way when Run ends.
type Event struct {
	Kind EventKind
	// At is when it happened, or when it was read in the program's log.
	At time.Time
	// Stream numbers the requests of one LoadBalancer from 1, in the order in
	// which they arrived; for a program, in the order in which they ended.
	Stream uint64
	// Method and Path are the request's; empty in TCP mode, and where a program
	// could not read them.
	Method, Path string
	// Status is the status of the response, 0 for none.
	Status int
	// Bytes is how many bytes of the upstream's response body have been passed
	// on; in TCP mode, of everything; by haproxy, of the response's headers, too.
	Bytes int64
	// Expiry is what the client sees, for Cut only. It differs from what was asked
	// for where that cannot be done: see [RST] and [CleanEnd].
	Expiry Expiry
	// Err is why. nil for Opened and for an end in order.
	Err error
}
