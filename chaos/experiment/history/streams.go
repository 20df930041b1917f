package history

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment/client"
)

// conn is one connection that a client had for one stream, as it was at the edge.
type conn struct {
	*Exchange
	headed time.Duration
	// stream is the server's name for it, "" if nothing tells.
	stream string
	// after is the place in the log of the event after which it brings the stream,
	// -1 for its beginning. Without a cursor it brings what is stored from headed
	// on.
	after      int
	cursorless bool
}

// connsOf are the connections of a client that carried a stream, in the order in
// which they were asked for.
func (x *index) connsOf(i int) []conn {
	c := &x.Clients[i]
	var all []conn
	for n := range c.Exchanges {
		e := &c.Exchanges[n]
		if e.Layer != client.Edge || e.Headed == nil || !strings.HasPrefix(e.Type, "text/event-stream") {
			continue
		}
		k := conn{Exchange: e, headed: *e.Headed, after: -1}
		if len(e.Delivered) > 0 {
			if at, ok := x.byID[e.Delivered[0].ID]; ok {
				k.stream = x.Oracle.Events[at].Stream
			}
		}
		if e.Method == http.MethodGet {
			cursor := e.Cursor
			if cursor == "" {
				cursor = restored(c, e)
			}
			if at, ok := x.byID[cursor]; ok {
				k.after, k.stream = at, x.Oracle.Events[at].Stream
			} else {
				k.cursorless = true
			}
		}
		all = append(all, k)
	}
	// A stream without a cursor is a session's standalone one, whichever of its
	// connections shows its name.
	standalone := map[string]string{}
	for _, k := range all {
		if k.cursorless && k.stream != "" {
			standalone[k.Session] = k.stream
		}
	}
	for n := range all {
		if all[n].cursorless && all[n].stream == "" {
			all[n].stream = standalone[all[n].Session]
		}
	}
	return all
}

// restored is the cursor that the middleware has put back on a GET, or "".
func restored(c *Client, edge *Exchange) (cursor string) {
	for n := range c.Exchanges {
		if w := &c.Exchanges[n]; w.wire() && w.Method == http.MethodGet && w.Session == edge.Session && w.At >= edge.At && w.At <= *edge.Headed {
			cursor = w.Cursor
		}
	}
	return cursor
}

// brings is whether the event with that place in the log is one that the
// connection brings if it lasts.
func (k conn) brings(e Event, place int) bool {
	switch {
	case k.Session != e.Session || k.stream != e.Stream:
		return false
	case k.cursorless:
		return e.At >= k.headed
	}
	return place > k.after
}

// delivered is when the event came on the connection.
func (k conn) delivered(id string) (at time.Duration, ok bool) {
	n := slices.IndexFunc(k.Delivered, func(d Delivered) bool { return d.ID == id })
	if n < 0 {
		return 0, false
	}
	return k.Delivered[n].At, true
}

// overtaken is whether an event came on the connection, by the horizon, that is
// later in the same stream than that with the place.
func (x *index) overtaken(k conn, place int, horizon time.Duration) bool {
	return slices.ContainsFunc(k.Delivered, func(d Delivered) bool {
		at, ok := x.byID[d.ID]
		return ok && at > place && d.At <= horizon && x.Oracle.Events[at].Stream == k.stream
	})
}
