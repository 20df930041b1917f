package server

import (
	"bytes"
	"context"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
)

//go:embed templates
var templateFiles embed.FS

// templates are the pages. Whatever a daemon says reaches them as plain strings,
// which html/template escapes for the place where they stand.
var templates = template.Must(template.New("").Funcs(template.FuncMap{"clean": clean, "capital": capital}).ParseFS(templateFiles, "templates/*.tmpl"))

// pagePolicy lets a page have the style and send the forms of this server. There
// is no script.
const pagePolicy = "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// refresh is after how many seconds the page of a run that is not over is loaded
// again.
const refresh = 3

// peek is how long a page waits for the events of a run that go on.
const peek = 200 * time.Millisecond

// frame is what is around a page.
type frame struct {
	Title string
	// Refresh is after how many seconds the page is loaded again, 0 for never.
	Refresh int
	// Form is the token of its forms, and Browser whether somebody is logged in who
	// can leave.
	Form    string
	Browser bool
	// Away is whether there is no daemon to name.
	Away bool
	Info control.Info
	Page any
}

// showPage writes all of a page or nothing.
func (s *Server) showPage(w http.ResponseWriter, r *request, status int, name string, f frame) error {
	f.Form, f.Browser = s.door.form(r.entry.cookie), r.entry.cookie != ""
	var out bytes.Buffer
	if err := templates.ExecuteTemplate(&out, name, f); err != nil {
		return err
	}
	w.Header().Set("Content-Security-Policy", pagePolicy)
	write(w, status, "text/html; charset=utf-8", out.Bytes())
	return nil
}

func (s *Server) overviewPage(w http.ResponseWriter, r *request) error {
	info, err := s.backend.Info(r.Context())
	if err != nil {
		return err
	}
	var kinds []kindView
	for _, kind := range control.Kinds() {
		list, err := s.backend.List(r.Context(), kind)
		if err != nil {
			return err
		}
		kinds = append(kinds, viewKind(kind, list))
	}
	runs, err := s.backend.Runs(r.Context(), "", control.DefaultRuns)
	if err != nil {
		return err
	}
	view := overview{Kinds: kinds, Started: instant(info.Started)}
	for _, run := range runs {
		view.Runs = append(view.Runs, viewRun(run))
	}
	view.More = len(runs) == control.DefaultRuns
	// It is not loaded again by itself: that would take from the form to halt what
	// somebody is writing there.
	return s.showPage(w, r, http.StatusOK, "overview.tmpl", frame{Title: "Overview", Info: info, Page: &view})
}

func (s *Server) runPage(w http.ResponseWriter, r *request) error {
	id, err := idOf(r)
	if err != nil {
		return err
	}
	info, err := s.backend.Info(r.Context())
	if err != nil {
		return err
	}
	run, err := s.backend.Run(r.Context(), id)
	if err != nil {
		return err
	}
	view := viewRun(run)
	if err := s.progress(r.Context(), &view, run); err != nil {
		return err
	}
	f := frame{Title: "Run of " + run.Experiment, Info: info, Page: &view}
	if !run.State.Final() {
		f.Refresh = refresh
	}
	return s.showPage(w, r, http.StatusOK, "run.tmpl", f)
}

// progress puts the events so far into a view. Those of a run that is not over
// have no end to wait for: what has come after a moment is what there is.
func (s *Server) progress(ctx context.Context, view *runView, run control.Run) error {
	within, cancel := context.WithTimeout(ctx, peek)
	defer cancel()
	err := s.backend.Events(within, run.ID, 0, func(e control.RunEvent) error {
		view.add(e)
		return nil
	})
	// A moment that is over says nothing of the request.
	if err != nil && (within.Err() == nil || ctx.Err() != nil) {
		return err
	}
	return nil
}

func (s *Server) haltForm(w http.ResponseWriter, r *request) error {
	reason := strings.TrimSpace(r.PostForm.Get("reason"))
	if reason == "" {
		reason = "on the page, without a reason"
	}
	if _, err := s.backend.Halt(r.Context(), clip(clean(reason))); err != nil {
		return err
	}
	return see(w, "/")
}

func (s *Server) resumeForm(w http.ResponseWriter, r *request) error {
	if _, err := s.backend.Resume(r.Context()); err != nil {
		return err
	}
	return see(w, "/")
}

func (s *Server) cancelForm(w http.ResponseWriter, r *request) error {
	id, err := idOf(r)
	if err != nil {
		return err
	}
	if _, err := s.backend.Cancel(r.Context(), id); err != nil {
		return err
	}
	return see(w, "/runs/"+id)
}

// login is what the form to log in shows.
type login struct {
	Next  string
	Wrong bool
}

func (s *Server) loginPage(w http.ResponseWriter, r *request) error {
	next := nextOf(r.URL.Query().Get("next"))
	if r.entry.ok {
		return see(w, next)
	}
	return s.showPage(w, r, http.StatusOK, "login.tmpl", frame{Title: "Log in", Away: true, Page: login{Next: next}})
}

func (s *Server) loginForm(w http.ResponseWriter, r *request) error {
	next := nextOf(r.PostForm.Get("next"))
	if !s.door.known(strings.TrimSpace(r.PostForm.Get("token"))) {
		return s.showPage(w, r, http.StatusUnauthorized, "login.tmpl", frame{Title: "Log in", Away: true, Page: login{Next: next, Wrong: true}})
	}
	setCookie(w, r.Request, s.door.newSession())
	return see(w, next)
}

func (s *Server) logoutForm(w http.ResponseWriter, r *request) error {
	setCookie(w, r.Request, "")
	return see(w, "/login")
}

// pagePath are the pages that a browser may be led to after it has logged in.
var pagePath = regexp.MustCompile(`^/(runs/[A-Za-z0-9_-]{1,64}|v1/runs/[A-Za-z0-9_-]{1,64}/journals/[0-9]{1,7}/report)?$`)

func nextOf(path string) string {
	if pagePath.MatchString(path) {
		return path
	}
	return "/"
}

// see leads a browser on, with a GET.
func see(w http.ResponseWriter, path string) error {
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// wantsPage is whether a problem is for a browser to show. Who asks for a page and
// can read a problem is a program.
func wantsPage(r *http.Request) bool {
	page := false
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		kind, _, _ := strings.Cut(part, ";")
		switch strings.TrimSpace(kind) {
		case "application/problem+json":
			return false
		case "text/html":
			page = true
		}
	}
	return page
}

// problemPage shows a problem to a person, or leads to the form to log in.
func (s *Server) problemPage(w http.ResponseWriter, r *http.Request, p *control.Problem) {
	if p.Type == control.Unauthorized && r.Method == http.MethodGet {
		see(w, "/login?next="+url.QueryEscape(nextOf(r.URL.Path)))
		return
	}
	in := &request{Request: r, entry: s.door.enter(r)}
	if s.showPage(w, in, p.Status, "problem.tmpl", frame{Title: p.Title, Away: true, Page: p}) != nil {
		writeProblem(w, p)
	}
}

//go:embed templates/style.css
var styleSheet []byte

func (s *Server) style(w http.ResponseWriter, r *request) error {
	w.Header().Set("Cache-Control", "max-age=60")
	write(w, http.StatusOK, "text/css; charset=utf-8", styleSheet)
	return nil
}
