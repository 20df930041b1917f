package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// maxJournals bounds the number of a journal.
const maxJournals = 1_000_000

func (s *Server) startRun(w http.ResponseWriter, r *request) error {
	name, err := nameOf(r)
	if err != nil {
		return err
	}
	keys := r.Header.Values("Idempotency-Key")
	if len(keys) > 1 {
		return control.NewProblem(control.Malformed, "there are %d of Idempotency-Key, want one", len(keys))
	}
	key := r.Header.Get("Idempotency-Key")
	if len(keys) == 1 && key == "" || !control.ValidIdempotencyKey(key) {
		return control.NewProblem(control.Malformed, "Idempotency-Key is %.80q, want %s", key, control.IdempotencyKeyRule)
	}
	var req control.RunRequest
	if len(r.data) > 0 {
		if err := decode(r.data, &req); err != nil {
			return err
		}
	}
	run, err := s.backend.Start(r.Context(), name, key, req)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/runs/"+run.ID)
	return writeJSON(w, http.StatusAccepted, run)
}

func (s *Server) listRuns(w http.ResponseWriter, r *request) error {
	query, err := params(r, "experiment", "limit")
	if err != nil {
		return err
	}
	experiment, ok := query["experiment"]
	if ok && !control.ValidName(experiment) {
		return control.NewProblem(control.Malformed, "experiment is %.80q, want %s", experiment, control.NameRule)
	}
	limit := control.DefaultRuns
	if text, ok := query["limit"]; ok {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > control.MaxRuns {
			return control.NewProblem(control.Malformed, "limit is %.80q, want a number from 1 to %d", text, control.MaxRuns)
		}
	}
	list, err := s.backend.Runs(r.Context(), experiment, limit)
	if err != nil {
		return err
	}
	if list == nil {
		list = []control.Run{}
	}
	return writeJSON(w, http.StatusOK, control.RunList{Runs: list})
}

func (s *Server) getRun(w http.ResponseWriter, r *request) error {
	return withRun(w, r, s.backend.Run)
}

func (s *Server) cancelRun(w http.ResponseWriter, r *request) error {
	return withRun(w, r, s.backend.Cancel)
}

func withRun(w http.ResponseWriter, r *request, do func(ctx context.Context, id string) (control.Run, error)) error {
	id, err := idOf(r)
	if err != nil {
		return err
	}
	run, err := do(r.Context(), id)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, run)
}

func (s *Server) journal(w http.ResponseWriter, r *request) error {
	id, n, err := journalOf(r)
	if err != nil {
		return err
	}
	return s.backend.Journal(r.Context(), id, n, &patient{w: w, contentType: "application/json"})
}

// reportPolicy lets a report have its own style, and nothing else: it is complete
// in itself, and what it says comes from elsewhere. The sandbox leaves it its
// origin, or no link from it would carry the cookie.
const reportPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox allow-same-origin"

func (s *Server) report(w http.ResponseWriter, r *request) error {
	id, n, err := journalOf(r)
	if err != nil {
		return err
	}
	return s.backend.Report(r.Context(), id, n, &patient{w: w, contentType: "text/html; charset=utf-8", policy: reportPolicy})
}

// idOf is the id in a path.
func idOf(r *request) (string, error) {
	id := r.PathValue("id")
	if !control.ValidID(id) {
		return "", control.NewProblem(control.Malformed, "the run is %.80q, want %s", id, control.IDRule)
	}
	return id, nil
}

func journalOf(r *request) (id string, n int, err error) {
	if id, err = idOf(r); err != nil {
		return "", 0, err
	}
	text := r.PathValue("n")
	if n, err = strconv.Atoi(text); err != nil || n < 1 || n > maxJournals || strconv.Itoa(n) != text {
		return "", 0, control.NewProblem(control.Malformed, "the journal is %.80q, want a number from 1 to %d", text, maxJournals)
	}
	return id, n, nil
}

// streamsKey is the context value that ends when streams are to end.
type streamsKey struct{}

var errClosing = control.NewProblem(control.Unavailable, "the daemon is about to end; the run's events go on when it is back")

// runEvents is the stream of a run's events.
func (s *Server) runEvents(w http.ResponseWriter, r *request) error {
	id, err := idOf(r)
	if err != nil {
		return err
	}
	after := 0
	if text := r.Header.Get("Last-Event-ID"); text != "" {
		if after, err = strconv.Atoi(text); err != nil || after < 0 {
			return control.NewProblem(control.Malformed, "Last-Event-ID is %.80q, want the id of an event, a number from 0", text)
		}
	}
	if _, err := s.backend.Run(r.Context(), id); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy of nginx would hold the events back
	if r.Method == http.MethodHead {
		return nil
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if streams, ok := ctx.Value(streamsKey{}).(context.Context); ok {
		defer context.AfterFunc(streams, func() { cancel(errClosing) })()
	}
	out := openStream(w, cancel)
	err = s.backend.Events(ctx, id, after, func(e control.RunEvent) error {
		return out.send(control.EventRun, e.N, e)
	})
	out.quiet()
	if errors.Is(context.Cause(ctx), errClosing) {
		err = errClosing
	}
	if err == nil {
		out.send(control.EventEnd, 0, struct{}{})
		return nil
	}
	out.send(control.EventProblem, 0, s.problem(w.(*recorder), r.Request, err))
	return nil
}

// stream writes an event stream. A reader who takes longer than writeTime over an
// event is given up.
type stream struct {
	// Immutable after openStream.
	w      http.ResponseWriter
	give   func(error) // up
	ticker *time.Ticker
	stop   chan struct{} // closed by quiet
	done   chan struct{} // closed by keepAlive

	mu sync.Mutex // for writes
}

// openStream begins the answer and keeps it alive until quiet.
func openStream(w http.ResponseWriter, give func(error)) *stream {
	s := &stream{
		w: w, give: give,
		ticker: time.NewTicker(control.KeepAlive * time.Second),
		stop:   make(chan struct{}), done: make(chan struct{}),
	}
	w.WriteHeader(http.StatusOK)
	s.write([]byte(": the events of a run\n\n"))
	go s.keepAlive()
	return s
}

func (s *stream) keepAlive() {
	defer close(s.done)
	defer s.ticker.Stop()
	for {
		select {
		case <-s.ticker.C:
			s.write([]byte(": alive\n\n"))
		case <-s.stop:
			return
		}
	}
}

// quiet ends the comments, and returns when none is being written.
func (s *stream) quiet() {
	close(s.stop)
	<-s.done
}

// send writes an event, with an id from 1.
func (s *stream) send(name string, id int, v any) error {
	data, err := json.Marshal(v) // has no line breaks
	if err != nil {
		return err
	}
	text := "event: " + name + "\n"
	if id > 0 {
		text = "id: " + strconv.Itoa(id) + "\n" + text
	}
	return s.write(fmt.Appendf(nil, "%sdata: %s\n\n", text, data))
}

func (s *stream) write(data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	control := http.NewResponseController(s.w)
	control.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := s.w.Write(data)
	if err == nil {
		err = control.Flush()
	}
	if err != nil {
		s.give(err)
	}
	return err
}
