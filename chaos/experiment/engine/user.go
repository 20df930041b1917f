package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/revenant-mcp/revenant/chaos/experiment/client"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/middleware"
)

// user is one client with its transport and its log.
type user struct {
	c      *cell
	name   string
	log    *client.Log
	client *client.Client
	base   *http.Transport
	// attempts are the calls of each named step, by their numbers in the log.
	// Guarded by the cell's mu.
	attempts map[string][]int
}

func (c *cell) newUser(name string) (*user, error) {
	d, top := c.r.d, c.top
	of := d.Clients.Of(c.kind)
	u := &user{c: c, name: name, log: client.NewLog(), base: top.transport(), attempts: map[string][]int{}}
	wire := u.log.Wire(u.base)
	cfg := client.Config{
		Kind: client.Kind(c.kind), Endpoint: top.endpoint(), Transport: wire, Log: u.log, CallsOnly: !of.Streams(),
		Cookies: top.cookies, Reinitialize: of.OnSessionEnd != experiment.DoNothing, Person: person(d),
	}
	if c.arm == experiment.Protected {
		guard := d.Guard()
		guard.Base, guard.Observe = wire, u.log.Observe
		transport, err := middleware.New(guard)
		if err != nil {
			return nil, err
		}
		cfg.Transport = transport
	}
	var err error
	u.client, err = client.New(cfg)
	return u, err
}

func person(d *experiment.Definition) client.Person {
	var p client.Person
	for _, r := range d.Person.Replies {
		p.Replies = append(p.Replies, client.Reply{After: d.Real(r.After), Action: client.Action(r.Action)})
	}
	return p
}

const (
	// welcomeLimit bounds how long the first event takes to a client.
	welcomeLimit = 30 * time.Second
	// welcomeRetry is the time between two looks for a stream that opens.
	welcomeRetry = 2 * time.Millisecond
	// welcomeAgain is after how long another first event is sent.
	welcomeAgain = 2 * time.Second
	// idleLimit bounds how long a client that is to begin a session waits for what
	// it is about.
	idleLimit = 2 * time.Second
)

// begin has the client begin a session, in place of the one that it may have, and
// returns when it was handed the session's first event: from then on it has a
// cursor.
func (u *user) begin(ctx context.Context) error {
	if u.client.SessionID() != "" {
		// An application that was just told of a death is about to begin one itself.
		idle, cancel := context.WithTimeout(ctx, idleLimit)
		_ = u.client.WaitIdle(idle)
		cancel()
		if id := u.client.SessionID(); id != "" && !u.wasOver(id) {
			if err := u.client.Disconnect(false); err != nil && !errors.Is(err, client.ErrNoSession) {
				return err
			}
		}
	}
	if err := u.client.Connect(ctx); err != nil {
		return fmt.Errorf("no session: %w", err)
	}
	if !u.c.r.d.Clients.Of(u.c.kind).Streams() {
		return nil
	}
	return u.welcome(ctx)
}

// wasOver is whether the application was told that a session is over.
func (u *user) wasOver(id string) bool {
	return slices.ContainsFunc(u.log.Records(), func(r client.Record) bool { return r.Kind == client.SessionOver && r.SessionID == id })
}

func (u *user) welcome(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, welcomeLimit, fmt.Errorf("no first event within %v", welcomeLimit))
	defer cancel()
	session := u.client.SessionID()
	for {
		stamp, err := u.c.top.cluster.Emit(session, "welcome")
		pause := welcomeRetry
		switch {
		case err == nil:
			waiting, stop := context.WithTimeout(ctx, welcomeAgain)
			_, err = u.log.Until(waiting, func(all []client.Record) bool { return applied(all, stamp) })
			stop()
			if err == nil {
				return nil
			}
			// The stream was cut before the event came, and a client without a cursor
			// cannot ask for it.
			pause = 0
		case !errors.Is(err, mcpserver.ErrNoStream):
			return fmt.Errorf("the first event: %w", err)
		}
		if err := sleepUntil(ctx, time.Now().Add(pause)); err != nil {
			return err
		}
	}
}

// applied looks from the end, where it is.
func applied(all []client.Record, stamp mcpserver.Stamp) bool {
	for i := len(all) - 1; i >= 0; i-- {
		if r := all[i]; r.Kind == client.Applied && r.Stamp == stamp {
			return true
		}
	}
	return false
}

// leave ends the use of the client's session. To have none is no fault.
func (u *user) leave(vanish bool) error {
	if err := u.client.Disconnect(vanish); err != nil && !errors.Is(err, client.ErrNoSession) {
		return err
	}
	return nil
}

func (u *user) close() error {
	err := u.client.Close()
	u.base.CloseIdleConnections()
	return err
}
