package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// The times of a connection.
const (
	headerTime = 10 * time.Second
	readTime   = 30 * time.Second
	idleTime   = 2 * time.Minute
	// answerTime and what it takes to read the answer.
	answered = answerTime + 20*time.Second

	maxHeader = 32 << 10

	// grace is how long requests have for their end when the server ends, and
	// lastWords how long their handlers have after that.
	grace     = 10 * time.Second
	lastWords = 5 * time.Second
)

// Serve answers the requests of a listener until ctx ends, and closes it. Streams
// then end at once, and other requests within ten seconds, or they are broken off,
// which is an error. It returns when no handler runs any more.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	base, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	streams, endStreams := context.WithCancel(base)
	base = context.WithValue(base, streamsKey{}, streams)

	var gate gate
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !gate.enter() {
				panic(http.ErrAbortHandler)
			}
			defer gate.leave()
			s.ServeHTTP(w, r)
		}),
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: headerTime,
		ReadTimeout:       readTime,
		WriteTimeout:      answered,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()

	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("server: %w", err)
		failed <- nil
	case <-ctx.Done():
	}
	endStreams()
	limit, stop := context.WithTimeout(base, grace)
	defer stop()
	if server.Shutdown(limit) != nil {
		err = errors.Join(err, fmt.Errorf("server: requests were broken off that took longer than %v to end", grace))
	}
	// The end of a connection does not end the context of a request after which
	// another one has begun to arrive.
	abandon()
	server.Close()
	<-failed

	last := time.NewTimer(lastWords)
	defer last.Stop()
	select {
	case <-gate.shut():
	case <-last.C:
		err = errors.Join(err, fmt.Errorf("server: handlers still run %v after their requests were broken off", lastWords))
	}
	return err
}
