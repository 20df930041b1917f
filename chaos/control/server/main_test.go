package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/mocks"
	"github.com/revenant-mcp/revenant/chaos/control/server"
	"github.com/revenant-mcp/revenant/chaos/experiment"
	"github.com/stretchr/testify/mock"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// secret is the token of every server of these tests.
const secret = "correct-horse-battery-staple"

var anything = mock.Anything // that a test does not look at, such as a context

// newServer returns a server for a token, before a backend of which nothing is
// expected yet, with its log.
func newServer(t *testing.T, change ...func(*server.Config)) (*server.Server, *mocks.Backend, *bytes.Buffer) {
	t.Helper()
	backend, log := mocks.NewBackend(t), &bytes.Buffer{}
	cfg := server.Config{Backend: backend, Token: secret, Log: slog.New(slog.NewJSONHandler(log, nil))}
	for _, f := range change {
		f(&cfg)
	}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, backend, log
}

func onSocket(cfg *server.Config) { cfg.Unix, cfg.Token = true, "" }

// ask is a request. Its headers have the token, unless there is an Authorization,
// and the address is one of the server's own.
type ask struct {
	method, path, body string
	header             map[string]string
}

func (a ask) request() *http.Request {
	if a.method == "" {
		a.method = http.MethodGet
	}
	r := httptest.NewRequest(a.method, "http://127.0.0.1:8700/", strings.NewReader(a.body))
	path, query, _ := strings.Cut(a.path, "?")
	r.URL.RawQuery = query
	r.URL.RawPath = path
	r.URL.Path = path
	if strings.Contains(path, "%") {
		parsed, err := r.URL.Parse("http://127.0.0.1:8700" + path)
		if err != nil {
			panic(err)
		}
		r.URL.Path = parsed.Path
	}
	if a.body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	for name, value := range a.header {
		switch {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	return r
}

// send returns the answer, which has to be as openapi.yaml says, and so has a
// request that has a good one.
func (a ask) send(t *testing.T, s http.Handler) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := a.request()
	s.ServeHTTP(w, r)
	conforms(t, a, w)
	return w
}

// problem sends a request whose answer has to be a problem of this kind.
func (a ask) problem(t *testing.T, s http.Handler, want control.ProblemType) *control.Problem {
	t.Helper()
	w := a.send(t, s)
	var p control.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("%s %s answers %d %q, want a problem: %v", a.method, a.path, w.Code, w.Body, err)
	}
	if like := control.NewProblem(want, ""); p.Type != want || p.Status != like.Status || w.Code != like.Status || p.Title != like.Title {
		t.Errorf("%s %s answers %d %+v, want %d %s", a.method, a.path, w.Code, p, like.Status, want)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("%s %s answers with Content-Type %q, want application/problem+json", a.method, a.path, got)
	}
	return &p
}

var description, describedRoutes = describe()

func describe() (*openapi3.T, routers.Router) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(control.OpenAPI()))
	if err != nil {
		panic(err)
	}
	doc.Servers = nil
	router, err := legacy.NewRouter(doc)
	if err != nil {
		panic(err)
	}
	for _, plain := range []string{"text/html", "text/css", "text/event-stream", "application/yaml"} {
		openapi3filter.RegisterBodyDecoder(plain, openapi3filter.PlainBodyDecoder)
	}
	return doc, router
}

// conforms holds a request and its answer against the description.
func conforms(t *testing.T, a ask, w *httptest.ResponseRecorder) {
	t.Helper()
	r := a.request()
	r.URL.RawPath = ""
	found, params, err := describedRoutes.FindRoute(r)
	if err != nil { // only what is not there is not described
		if w.Code == http.StatusOK || w.Code == http.StatusCreated {
			t.Errorf("%s %s answers %d, and is not described: %v", r.Method, a.path, w.Code, err)
		}
		return
	}
	in := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, Route: found,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, MultiError: true},
	}
	if w.Code < 400 {
		if err := openapi3filter.ValidateRequest(context.Background(), in); err != nil {
			t.Errorf("%s %s answers %d, and the request is not as described: %v", r.Method, a.path, w.Code, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: w.Code, Header: w.Header(),
		Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())), Options: in.Options,
	}
	if err := openapi3filter.ValidateResponse(context.Background(), out); err != nil {
		t.Errorf("%s %s: the answer %d %q is not as described: %v", r.Method, a.path, w.Code, w.Body, err)
	}
}

// The values of the tests.
var (
	noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

	shop = control.Resource{
		Kind: control.Servers, Name: "shop", ID: "srv-1", Generation: 7, Created: noon, Updated: noon.Add(time.Minute),
		Spec:   json.RawMessage(`{"settings":{"session_ttl":"30m"}}`),
		Status: control.Status{State: control.Running, Addr: "127.0.0.1:9001", URL: "http://127.0.0.1:9001/mcp", Addrs: []string{"127.0.0.1:9001", "127.0.0.1:9002"}},
	}
	info = control.Info{
		Version: "v1.2.3", API: control.API, PID: 4711, DataDir: "/var/lib/revenant", Started: noon,
		Resources: map[control.Kind]int{control.Servers: 1}, ActiveRuns: 1,
	}
	run = control.Run{
		ID: "r-01", Experiment: "idle-cut", Generation: 3, Request: control.RunRequest{Seed: 7, Repeat: 2, Arms: []string{"control"}},
		State: control.Done, Verdict: "upheld", Reason: "3 of 3", Created: noon, Started: &noon, Ended: at(90 * time.Second), Journals: 2,
		Checks: control.Checks{{Arm: "protected", Client: "gosdk", Measure: "events_lost", Value: "0", Tolerance: "0", Met: true}},
	}
)

func at(after time.Duration) *time.Time {
	instant := noon.Add(after)
	return &instant
}

type (
	ctx              = context.Context
	experimentClient = experiment.ClientKind
)

// serve answers a request without a look at the description.
func serve(s http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}
