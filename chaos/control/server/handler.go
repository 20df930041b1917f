package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// answerTime is how long the backend has for an answer that is no stream.
const answerTime = 100 * time.Second

// request is one that was let in.
type request struct {
	*http.Request
	entry entry
	// data is the body, all of it.
	data []byte
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w, began: time.Now()}
	defer s.finish(rec, r)
	defer s.rescue(rec, r)
	secure(rec.Header())
	if p := s.door.host(r); p != nil {
		s.fail(route{}, rec, r, p)
		return
	}
	// The mux would redirect to what such a path means.
	if r.URL.Path == "" || path.Clean(r.URL.Path) != r.URL.Path {
		s.fail(route{}, rec, r, errNothingHere)
		return
	}
	s.mux.ServeHTTP(rec, r)
}

// secure sets the headers that every answer has.
func secure(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	// With no-referrer a browser would send the forms with the Origin "null".
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// handler is a route behind the door.
func (s *Server) handler(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := w.(*recorder)
		rec.route, rec.stream = rt.path, rt.stream
		if err := s.serve(rt, rec, r); err != nil {
			s.fail(rt, rec, r, err)
		}
	})
}

func (s *Server) serve(rt route, w http.ResponseWriter, r *http.Request) error {
	in := &request{Request: r, entry: s.door.enter(r)}
	changes := r.Method != http.MethodGet && r.Method != http.MethodHead
	if changes {
		if err := s.origins.Check(r); err != nil {
			return control.NewProblem(control.Forbidden, "the request comes from a page of another origin: %v", err)
		}
	}
	if rt.access != forAll && !in.entry.ok {
		return control.NewProblem(control.Unauthorized, "want the daemon's token, in the header Authorization: Bearer")
	}
	if changes && in.entry.cookie != "" {
		if rt.access == forToken {
			return control.NewProblem(control.Unauthorized, "a browser's cookie is for the pages; changes by the API want the daemon's token, in the header Authorization: Bearer")
		}
		// Who sends a cookie and is no browser has no business with it.
		if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
			return control.NewProblem(control.Forbidden, "the request has a cookie, and neither Origin nor Sec-Fetch-Site, which every browser sends with it")
		}
	}
	if err := in.read(w, rt); err != nil {
		return err
	}
	if rt.access == forForm && !s.door.sent(in.entry, in.PostForm.Get("form")) {
		return control.NewProblem(control.Forbidden, "the form is not, or no longer, one of this server's pages; load the page again")
	}
	if !rt.stream {
		ctx, cancel := context.WithTimeout(r.Context(), answerTime)
		defer cancel()
		in.Request = r.WithContext(ctx)
	}
	return rt.serve(w, in)
}

// read reads the body, whose bound is the route's.
func (r *request) read(w http.ResponseWriter, rt route) error {
	data, err := readBody(w, r.Request, rt.body)
	if err != nil {
		return err
	}
	r.data = data
	form := rt.page && r.Method == http.MethodPost
	if len(data) == 0 && !form {
		return nil
	}
	want := "application/json"
	if form {
		want = "application/x-www-form-urlencoded"
	}
	if got, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); rt.body > 0 && (err != nil || got != want) {
		return control.NewProblem(control.Malformed, "Content-Type is %.80q, want %s", r.Header.Get("Content-Type"), want)
	}
	if form {
		return r.parseForm()
	}
	return nil
}

// fail answers with what went wrong. An answer that has begun cannot say it any
// more: it is broken off.
func (s *Server) fail(rt route, w *recorder, r *http.Request, err error) {
	p := s.problem(w, r, err)
	if w.status != 0 {
		panic(http.ErrAbortHandler)
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="revenant"`)
	}
	if rt.page && wantsPage(r) {
		s.problemPage(w, r, p)
		return
	}
	writeProblem(w, p)
}

// problem is what an error means to whoever asked.
func (s *Server) problem(w *recorder, r *http.Request, err error) *control.Problem {
	var p *control.Problem
	switch {
	case errors.As(err, &p):
		if http.StatusText(p.Status) != "" && p.Status >= 400 {
			return p
		}
		err = fmt.Errorf("a problem with status %d, want one from 400: %w", p.Status, err)
	case r.Context().Err() != nil:
		return control.NewProblem(control.Unavailable, "the request was given up")
	case errors.Is(err, context.DeadlineExceeded):
		return control.NewProblem(control.Unavailable, "there was no answer within %v; it may still come about: look before you ask again", answerTime)
	}
	s.log.LogAttrs(r.Context(), slog.LevelError, "internal error", slog.String("route", w.route), slog.Any("err", err))
	return control.NewProblem(control.Internal, "the daemon's log says more")
}

// rescue answers for a handler that panics.
func (s *Server) rescue(w *recorder, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler {
		w.aborted = true
		panic(v)
	}
	s.log.LogAttrs(r.Context(), slog.LevelError, "panic", slog.String("route", w.route), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
	if w.status != 0 {
		w.aborted = true
		panic(http.ErrAbortHandler)
	}
	writeProblem(w, control.NewProblem(control.Internal, "the daemon's log says more"))
}

// finish puts an answer into the log and the metrics.
func (s *Server) finish(w *recorder, r *http.Request) {
	took := time.Since(w.began)
	method, route := r.Method, w.route
	if !slices.Contains(methods, method) {
		method = "other"
	}
	if route == "" {
		route = "none"
	}
	status := w.status
	if status == 0 {
		status = http.StatusOK // what net/http answers for a handler that writes nothing
	}
	s.metrics.observe(route, method, status, took, w.stream)
	s.log.LogAttrs(r.Context(), slog.LevelInfo, "request",
		slog.String("method", method), slog.String("route", route), slog.Int("status", status),
		slog.Duration("took", took), slog.Int64("bytes", w.bytes), slog.Bool("broken_off", w.aborted))
}

var methods = strings.Fields("GET HEAD POST PUT PATCH DELETE OPTIONS CONNECT TRACE")

// recorder remembers what is answered.
type recorder struct {
	http.ResponseWriter
	began   time.Time
	route   string
	stream  bool
	status  int // 0 until the answer has begun
	bytes   int64
	aborted bool
}

func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *recorder) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}

// Unwrap is for [http.ResponseController].
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
