package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// access is who may use a route.
type access int

const (
	// forToken: who brings the token. A browser's cookie is enough to read.
	forToken access = iota
	// forAll: everybody who asks for the right host.
	forAll
	// forForm: who sends a form of a page.
	forForm
)

// route is a method and a path, and what they do.
type route struct {
	method, path string
	access       access
	// page is whether a browser is to have problems as a page, and the form to log
	// in when it has not.
	page bool
	// stream is whether the answer has no end that could be waited for.
	stream bool
	// body is the most bytes of the request's body.
	body  int64
	serve func(w http.ResponseWriter, r *request) error
}

// maxForm is the most bytes of a form.
const maxForm = 16 << 10

// routes are all there are; openapi.yaml has the same.
func (s *Server) routes() []route {
	get, put, post, del := http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete
	routes := []route{
		{method: get, path: "/v1/info", serve: s.info},
		{method: post, path: "/v1/halt", serve: s.halt, body: control.MaxBody},
		{method: post, path: "/v1/resume", serve: s.resume},

		{method: post, path: "/v1/experiments/{name}/runs", serve: s.startRun, body: control.MaxBody},
		{method: get, path: "/v1/runs", serve: s.listRuns},
		{method: get, path: "/v1/runs/{id}", serve: s.getRun},
		{method: post, path: "/v1/runs/{id}/cancel", serve: s.cancelRun},
		{method: get, path: "/v1/runs/{id}/events", serve: s.runEvents, stream: true},
		{method: get, path: "/v1/runs/{id}/journals/{n}", serve: s.journal, stream: true},
		{method: get, path: "/v1/runs/{id}/journals/{n}/report", serve: s.report, stream: true, page: true},

		{method: get, path: "/metrics", serve: s.showMetrics},
		{method: get, path: "/openapi.yaml", serve: s.openAPI},
		{method: get, path: "/healthz", serve: s.healthy, access: forAll},

		{method: get, path: "/{$}", serve: s.overviewPage, page: true},
		{method: get, path: "/runs/{id}", serve: s.runPage, page: true},
		{method: post, path: "/runs/{id}/cancel", serve: s.cancelForm, page: true, access: forForm, body: maxForm},
		{method: post, path: "/halt", serve: s.haltForm, page: true, access: forForm, body: maxForm},
		{method: post, path: "/resume", serve: s.resumeForm, page: true, access: forForm, body: maxForm},
		{method: get, path: "/login", serve: s.loginPage, page: true, access: forAll},
		{method: post, path: "/login", serve: s.loginForm, page: true, access: forAll, body: maxForm},
		{method: post, path: "/logout", serve: s.logoutForm, page: true, access: forForm, body: maxForm},
		{method: get, path: "/style.css", serve: s.style, access: forAll},
	}
	for _, kind := range control.Kinds() {
		r := resources{s, kind}
		path := "/v1/" + string(kind)
		routes = append(routes,
			route{method: get, path: path, serve: r.list},
			route{method: get, path: path + "/{name}", serve: r.get},
			route{method: put, path: path + "/{name}", serve: r.put, body: control.MaxBody},
			route{method: del, path: path + "/{name}", serve: r.delete},
		)
	}
	return routes
}

var errNothingHere = control.NewProblem(control.NotFound, "there is nothing at this path; /openapi.yaml says what there is")

// newMux has the routes, and answers for every other request in the way of the
// API.
func (s *Server) newMux() *http.ServeMux {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, r := range s.routes() {
		mux.Handle(r.method+" "+r.path, s.handler(r))
		methods[r.path] = append(methods[r.path], r.method)
		if r.method == http.MethodGet {
			methods[r.path] = append(methods[r.path], http.MethodHead)
		}
	}
	for path, allowed := range methods {
		slices.Sort(allowed)
		allow := strings.Join(allowed, ", ")
		refuse := func(w http.ResponseWriter, r *request) error {
			w.Header().Set("Allow", allow)
			return control.NewProblem(control.NotAllowed, "the method is %.16q, want %s", r.Method, allow)
		}
		mux.Handle(path, s.handler(route{path: path, body: control.MaxBody, page: !strings.HasPrefix(path, "/v1/"), serve: refuse}))
	}
	mux.Handle("/", s.handler(route{body: control.MaxBody, page: true, serve: func(http.ResponseWriter, *request) error {
		return errNothingHere
	}}))
	return mux
}
