package main

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

// scene is what a client meets in the field: an MCP server whose event log
// outlives its sessions, behind a load balancer that cuts streams. Each example
// has a copy of it.
type scene struct {
	server   *mcpserver.Server
	balancer *lb.LoadBalancer
	cuts     chan struct{}
	stop     func() // stops both, and waits until they have
}

// newScene starts the scene on loopback. If it fails, or the client waits for
// something that never comes, the program ends.
func newScene() *scene {
	time.AfterFunc(20*time.Second, func() { log.Fatal("scene: not over after 20 seconds") })
	s := &scene{cuts: make(chan struct{})}
	var err error
	s.server, err = mcpserver.New(mcpserver.Config{})
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

// url is the endpoint that clients use: the load balancer's.
func (s *scene) url() string { return s.balancer.URL() + "/mcp" }

// emit sends a message on the session's standalone stream, once there is one.
// While no client reads it, the message waits in the event log.
func (s *scene) emit(session, text string) {
	_, err := s.server.Emit(session, text)
	for errors.Is(err, mcpserver.ErrNoStream) {
		time.Sleep(time.Millisecond)
		_, err = s.server.Emit(session, text)
	}
	check(err)
}

// cut has the load balancer close the stream that is open, as it does with one
// that has been idle for too long.
func (s *scene) cut() {
	s.balancer.Cut(lb.FIN)
	<-s.cuts
}

// lose deletes the session's record. The event log keeps its events.
func (s *scene) lose(session string) { s.server.Reap(session) }

func check(err error) {
	if err != nil {
		log.Fatal("scene: ", err)
	}
}
