package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// Action is what a person does about a prompt. Its text is its value, and "" is
// [Accept].
type Action string

// The actions.
const (
	Accept  Action = "accept"
	Decline Action = "decline"
	Cancel  Action = "cancel"
	// Never leaves the prompt where it is.
	Never Action = "never"
)

var actions = []Action{Accept, Decline, Cancel, Never}

// Reply is what a person does about one prompt.
type Reply struct {
	// After is how long it takes.
	After time.Duration `json:"after,omitzero"`
	// Action is what is done then. "": [Accept].
	Action Action `json:"action,omitzero"`
}

// Person sits before the client and answers prompts, several at a time if need
// be. A model that samples, and a list of roots, is as slow as the person is. The
// zero Person accepts everything at once.
type Person struct {
	// Replies has the reply to the n-th prompt of the client's life, in the order
	// in which they are shown. The last one is that to all further prompts.
	Replies []Reply `json:"replies,omitzero"`
}

func (p Person) validate() error {
	var faults []error
	for i, r := range p.Replies {
		if r.After < 0 {
			faults = append(faults, fmt.Errorf("client: Person.Replies[%d].After is %v: want 0 or more", i, r.After))
		}
		if r.Action != "" && !slices.Contains(actions, r.Action) {
			faults = append(faults, fmt.Errorf("client: Person.Replies[%d].Action is %q: want one of %q", i, r.Action, actions))
		}
	}
	return errors.Join(faults...)
}

// reply is the one to the n-th prompt, from 1.
func (p Person) reply(n int) Reply {
	r := Reply{}
	if len(p.Replies) > 0 {
		r = p.Replies[min(n, len(p.Replies))-1]
	}
	if r.Action == "" {
		r.Action = Accept
	}
	return r
}

// prompt shows the person a request of the server's, and waits for what is done
// about it, as long as ctx and the session last.
func (c *Client) prompt(ctx context.Context, of *life, method string, stamp mcpserver.Stamp) (Action, error) {
	c.mu.Lock()
	c.prompts++
	n := c.prompts
	c.mu.Unlock()
	reply := c.cfg.Person.reply(n)
	about := Record{SessionID: of.name(), Stamp: stamp, Ref: n, Method: method}
	add := func(kind RecordKind, change func(*Record)) {
		r := about
		r.Kind = kind
		change(&r)
		c.log.add(r)
	}
	add(Prompted, func(*Record) {})
	if reply.Action != Never {
		c.idle.enter()
		defer c.idle.leave()
	}

	timer := time.NewTimer(reply.After)
	defer timer.Stop()
	answered := timer.C
	if reply.Action == Never {
		answered = nil
	}
	var err error
	select {
	case <-answered:
		add(Answered, func(r *Record) { r.Action = reply.Action })
		return reply.Action, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-of.ctx.Done():
		err = context.Cause(of.ctx)
	}
	add(Withdrawn, func(r *Record) { r.Err = err })
	return "", err
}
