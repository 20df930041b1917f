// Package scene is what the examples meet, so that each of them can be about its
// client alone: an MCP server whose event log outlives its sessions, behind a
// load balancer that cuts streams. It ends the program where something fails.
package scene

import (
	"context"
	"errors"
	"log"
	"net/http"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/chaos/mcpserver"
)

// Scene is a server and its load balancer on loopback.
type Scene struct {
	server   *mcpserver.Server
	balancer *lb.LoadBalancer
	cuts     chan struct{}
	stop     func()
}

// Start starts a Scene. If that fails, or if the client waits for something that
// never comes, the program ends.
func Start() *Scene {
	time.AfterFunc(20*time.Second, func() { log.Fatal("scene: not over after 20 seconds") })
	s := &Scene{cuts: make(chan struct{})}
	var err error
	s.server, err = mcpserver.New(mcpserver.Config{Retry: 500 * time.Millisecond})
	check(err)
	s.balancer, err = lb.New(lb.Config{
		Upstream: s.server.Addr().String(),
		Observe: func(e lb.Event) {
			if e.Kind == lb.Cut && e.Method == http.MethodGet {
				s.cuts <- struct{}{}
			}
		},
	})
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { check(s.server.Run(ctx)) })
	running.Go(func() { check(s.balancer.Run(ctx)) })
	s.stop = func() { cancel(); running.Wait() }
	return s
}

// Stop stops both, and waits until they have.
func (s *Scene) Stop() { s.stop() }

// URL is the endpoint that clients use: the load balancer's.
func (s *Scene) URL() string { return s.balancer.URL() + "/mcp" }

// Emit sends a message on the session's standalone stream, once there is one.
// While no client reads it, the message waits in the event log.
func (s *Scene) Emit(session, text string) {
	_, err := s.server.Emit(session, text)
	for errors.Is(err, mcpserver.ErrNoStream) {
		time.Sleep(time.Millisecond)
		_, err = s.server.Emit(session, text)
	}
	check(err)
}

// Cut has the load balancer close the stream that is open, as it does with one
// that has been idle for too long.
func (s *Scene) Cut() {
	s.balancer.Cut(lb.FIN)
	<-s.cuts
}

// Lose deletes the session's record. The event log keeps its events.
func (s *Scene) Lose(session string) { s.server.Reap(session) }

func check(err error) {
	if err != nil {
		log.Fatal("scene: ", err)
	}
}
