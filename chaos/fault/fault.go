package fault

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind says what a [Fault] does. The zero Kind is not valid.
type Kind string

const (
	// FIN closes connections in order, as if the stream had ended.
	FIN Kind = "fin"
	// RST resets connections.
	RST Kind = "rst"
	// Blackhole swallows bytes and closes nothing.
	Blackhole Kind = "blackhole"
	// CutAfter cuts a connection after a number of bytes.
	CutAfter Kind = "cut_after"
	// CutInEvent cuts a connection inside a server-sent event.
	CutInEvent Kind = "cut_in_event"
	// Latency delays bytes.
	Latency Kind = "latency"
	// Bandwidth limits how fast bytes pass.
	Bandwidth Kind = "bandwidth"
	// Partition lets nothing pass. On a [Link] what is sent meanwhile arrives
	// later; on a [Network] packets are dropped, and TCP sends them again.
	Partition Kind = "partition"

	// SilentDrop forgets connections that have been idle, and drops their later
	// packets.
	SilentDrop Kind = "silent_drop"
	// SilentDropThenReset forgets connections that have been idle, and answers
	// each later packet with a reset.
	SilentDropThenReset Kind = "silent_drop_then_reset"
	// PacketLoss drops packets at random.
	PacketLoss Kind = "packet_loss"
	// Reset answers every packet with a reset, and drops it.
	Reset Kind = "reset"
)

// Direction is which way the bytes go that a [Fault] acts on.
type Direction string

const (
	// Both is the zero value. For a kind that acts on one direction at a time
	// ([CutAfter], [CutInEvent]) it means [ToClient].
	Both Direction = ""
	// ToClient is from the server to the client.
	ToClient Direction = "to_client"
	// ToServer is from the client to the server.
	ToServer Direction = "to_server"
)

// How is the way in which [CutAfter] and [CutInEvent] cut.
type How string

const (
	// HowFIN is the zero value: as [FIN] does.
	HowFIN How = ""
	// HowRST cuts as [RST] does.
	HowRST How = "rst"
	// HowBlackhole swallows what follows, in both directions, and closes nothing.
	HowBlackhole How = "blackhole"
)

// Fault is what to break, as a value: it may be copied, compared and written
// down. Only Kind is required by all; the comment of each other field says which
// kinds take it. A field that its kind does not take has to be zero.
type Fault struct {
	_ struct{}

	// Kind says what it does.
	Kind Kind `json:"kind" yaml:"kind"`

	// Direction is which way the bytes or packets go that it acts on. For FIN
	// and RST it is the side that sees it: with [ToClient] the client's
	// connection is closed, and the server's stays open and is swallowed.
	// Taken by all but SilentDrop and SilentDropThenReset. Zero: [Both].
	Direction Direction `json:"direction,omitempty" yaml:"direction,omitempty"`

	// Conn is the one connection that it acts on, as the Link numbers them from
	// 1. Taken by the kinds of a Link, so also by Partition, which a Network
	// then refuses. 0: all.
	Conn int `json:"conn,omitempty" yaml:"conn,omitempty"`

	// Limit is on how many connections it acts: those open when it is applied,
	// the oldest first, and then new ones. Taken as Conn is, and not with it.
	// 0: without limit.
	Limit int `json:"limit,omitempty" yaml:"limit,omitempty"`

	// Bytes is after how many bytes CutAfter cuts, counted from when the fault
	// was applied or the connection began, whichever is later. From 0.
	Bytes int64 `json:"bytes,omitempty" yaml:"bytes,omitempty"`

	// Event is which event CutInEvent cuts, counted from 1 among those that
	// begin after the fault was applied. Required.
	Event int `json:"event,omitempty" yaml:"event,omitempty"`

	// Offset is after how many bytes of that event CutInEvent cuts. 0: after all
	// of its lines, before the blank line that would complete it; that is also
	// where an event is cut that is not longer than Offset.
	Offset int64 `json:"offset,omitempty" yaml:"offset,omitempty"`

	// How is the way in which CutAfter and CutInEvent cut. Zero: with a FIN.
	How How `json:"how,omitempty" yaml:"how,omitempty"`

	// Delay is how long Latency delays each byte. More than 0.
	Delay time.Duration `json:"delay,omitempty" yaml:"delay,omitempty"`

	// Jitter is how much the delay varies, evenly and to both sides, from one
	// piece of bytes to the next; their order is kept. From 0 to Delay. The
	// seed is [LinkConfig].Seed.
	Jitter time.Duration `json:"jitter,omitempty" yaml:"jitter,omitempty"`

	// BytesPerSecond is the Bandwidth of each connection, in each direction.
	// More than 0.
	BytesPerSecond int64 `json:"bytes_per_second,omitempty" yaml:"bytes_per_second,omitempty"`

	// After is how long a connection has to be idle for SilentDrop and
	// SilentDropThenReset to forget it: whole seconds, as the kernel counts
	// them. 0: all connections are forgotten at once.
	After time.Duration `json:"after,omitempty" yaml:"after,omitempty"`

	// Probability is how likely PacketLoss drops a packet, in steps of a
	// millionth, more than 0 and up to 1. The kernel draws it: it has no seed.
	Probability float64 `json:"probability,omitempty" yaml:"probability,omitempty"`
}

// kindInfo is what a kind takes, and where it acts.
type kindInfo struct {
	kind           Kind
	link, network  bool
	params         []string // besides kind
	mustBePositive []string // of params
}

// kinds is in the order of the documentation.
var kinds = []kindInfo{
	{FIN, true, false, []string{"direction", "conn", "limit"}, nil},
	{RST, true, false, []string{"direction", "conn", "limit"}, nil},
	{Blackhole, true, false, []string{"direction", "conn", "limit"}, nil},
	{CutAfter, true, false, []string{"direction", "conn", "limit", "bytes", "how"}, nil},
	{CutInEvent, true, false, []string{"direction", "conn", "limit", "event", "offset", "how"}, []string{"event"}},
	{Latency, true, false, []string{"direction", "conn", "limit", "delay", "jitter"}, []string{"delay"}},
	{Bandwidth, true, false, []string{"direction", "conn", "limit", "bytes_per_second"}, []string{"bytes_per_second"}},
	{Partition, true, true, []string{"direction", "conn", "limit"}, nil},
	{SilentDrop, false, true, []string{"after"}, nil},
	{SilentDropThenReset, false, true, []string{"after"}, nil},
	{PacketLoss, false, true, []string{"direction", "probability"}, []string{"probability"}},
	{Reset, false, true, []string{"direction"}, nil},
}

// info returns nil for a Kind that is none of the constants.
func (k Kind) info() *kindInfo {
	if i := slices.IndexFunc(kinds, func(i kindInfo) bool { return i.kind == k }); i >= 0 {
		return &kinds[i]
	}
	return nil
}

// Kinds returns all kinds.
func Kinds() []Kind {
	all := make([]Kind, len(kinds))
	for i, info := range kinds {
		all[i] = info.kind
	}
	return all
}

// OnLink reports whether a [Link] can do it.
func (k Kind) OnLink() bool { i := k.info(); return i != nil && i.link }

// OnNetwork reports whether a [Network] can do it. A kind that is OnNetwork and
// not OnLink needs what [Available] asks for.
func (k Kind) OnNetwork() bool { i := k.info(); return i != nil && i.network }

// Validate returns every fault of f's form, joined, or nil. Each error names the
// field, its value and what would be right.
func (f Fault) Validate() error {
	info := f.Kind.info()
	if info == nil {
		return fmt.Errorf("fault: kind is %q, want one of %q", f.Kind, Kinds())
	}
	var faults []error
	wrong := func(name string, value any, want string) {
		faults = append(faults, fmt.Errorf("fault: %s: %s is %v, want %s", f.Kind, name, value, want))
	}
	for _, p := range params {
		value := p.format(&f)
		switch {
		case !slices.Contains(info.params, p.name):
			if p.sign(&f) != 0 {
				wrong(p.name, value, fmt.Sprintf("none: %s takes %s", f.Kind, strings.Join(info.params, ", ")))
			}
		case slices.Contains(info.mustBePositive, p.name):
			if p.sign(&f) <= 0 {
				wrong(p.name, value, "more than 0")
			}
		case p.sign(&f) < 0:
			wrong(p.name, value, "0 or more")
		}
	}
	if d := f.Direction; d != Both && d != ToClient && d != ToServer {
		wrong("direction", fmt.Sprintf("%q", d), fmt.Sprintf("%q, %q, or none for both", ToClient, ToServer))
	}
	if f.Kind == CutInEvent && f.Direction == ToServer {
		wrong("direction", f.Direction, fmt.Sprintf("%q or none: events go to the client", ToClient))
	}
	if h := f.How; h != HowFIN && h != HowRST && h != HowBlackhole {
		wrong("how", fmt.Sprintf("%q", h), fmt.Sprintf("%q, %q, or none for a FIN", HowRST, HowBlackhole))
	}
	if f.Conn > 0 && f.Limit > 0 {
		wrong("limit", f.Limit, "none beside conn: that is one connection already")
	}
	if f.Jitter > f.Delay && f.Delay > 0 {
		wrong("jitter", f.Jitter, fmt.Sprintf("no more than delay, %v", f.Delay))
	}
	if f.After > maxAfter || f.After%time.Second != 0 {
		wrong("after", f.After, fmt.Sprintf("whole seconds, no more than %v", maxAfter))
	}
	if p := f.Probability; p != p || p > 1 || p > 0 && lossPerMillion(p) == 0 {
		wrong("probability", p, "from 0.000001 to 1")
	}
	return errors.Join(faults...)
}

// maxAfter is well beyond any load balancer's idle limit.
const maxAfter = 24 * time.Hour

// lossPerMillion is a probability as the kernel's rule has it.
func lossPerMillion(p float64) uint32 { return uint32(p*1e6 + 0.5) }

// Target is what a fault can be applied to: a [*Link] or a [*Network].
type Target interface {
	// Inject puts f, which is valid, in force. The caller calls undo once, and
	// may do so after the target has been closed. It is [Fault.Apply] that
	// callers want.
	Inject(ctx context.Context, f Fault) (undo func() error, err error)
}

// Apply puts f in force on target. It returns an error, and f is not in force,
// if f is not valid, if target cannot do it, or if ctx has ended; ctx does not
// end the fault. undo takes f back and may be called from any goroutine and more
// than once: each call returns what the first one did. The caller has to call
// it; a [Stack] does so whatever happens.
func (f Fault) Apply(ctx context.Context, target Target) (undo func() error, err error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("fault: %v: %w", f, err)
	}
	takeBack, err := target.Inject(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("fault: %v: %w", f, err)
	}
	return sync.OnceValue(func() error {
		if err := takeBack(); err != nil {
			return fmt.Errorf("fault: undo of %v: %w", f, err)
		}
		return nil
	}), nil
}
