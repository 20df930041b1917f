package server_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/control"
)

func TestListsResourcesOfEachKind(t *testing.T) {
	for _, kind := range control.Kinds() {
		s, backend, _ := newServer(t)
		backend.EXPECT().List(anything, kind).Return([]control.Resource{shop}, nil)
		w := ask{path: "/v1/" + string(kind)}.send(t, s)
		var got control.ResourceList
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || !reflect.DeepEqual(got.Resources, []control.Resource{shop}) {
			t.Errorf("%s: %d %s, want the resource (%v)", kind, w.Code, w.Body, err)
		}
	}
}

func TestListOfNothingIsAList(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().List(anything, control.Servers).Return(nil, nil)
	backend.EXPECT().Runs(anything, "", 50).Return(nil, nil)
	for path, want := range map[string]string{"/v1/servers": `{"resources":[]}`, "/v1/runs": `{"runs":[]}`} {
		if got := strings.TrimSpace(ask{path: path}.send(t, s).Body.String()); got != want {
			t.Errorf("%s answers %s, want %s", path, got, want)
		}
	}
}

func TestResourceHasItsGenerationAsETag(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Get(anything, control.Servers, "shop").Return(shop, nil)
	w := ask{path: "/v1/servers/shop"}.send(t, s)
	if got := w.Header().Get("ETag"); w.Code != http.StatusOK || got != `"7"` {
		t.Errorf("%d with ETag %s, want 200 with \"7\"", w.Code, got)
	}
}

func TestPutHandsOnWhatWasSeen(t *testing.T) {
	for _, test := range []struct {
		name    string
		header  map[string]string
		seen    int64
		created bool
		status  int
	}{
		{"nothing", nil, -1, true, http.StatusCreated},
		{"nothing, and it was there", nil, -1, false, http.StatusOK},
		{"there is none", map[string]string{"If-None-Match": "*"}, 0, true, http.StatusCreated},
		{"a generation", map[string]string{"If-Match": `"7"`}, 7, false, http.StatusOK},
	} {
		s, backend, _ := newServer(t)
		// The spec arrives without blanks.
		backend.EXPECT().Put(anything, control.Servers, "shop", test.seen, []byte(`{"settings":{"session_ttl":"30m"}}`)).Return(shop, test.created, nil)
		w := ask{method: "PUT", path: "/v1/servers/shop", body: ` { "settings": {"session_ttl": "30m"} } `, header: test.header}.send(t, s)
		if w.Code != test.status || w.Header().Get("ETag") != `"7"` {
			t.Errorf("%s: %d with ETag %s, want %d with \"7\"", test.name, w.Code, w.Header().Get("ETag"), test.status)
		}
		if got, want := w.Header().Get("Location"), map[bool]string{true: "/v1/servers/shop"}[test.created]; got != want {
			t.Errorf("%s: Location %q, want %q", test.name, got, want)
		}
	}
}

func TestDeleteHandsOnWhatWasSeen(t *testing.T) {
	for tag, seen := range map[string]int64{"": -1, `"7"`: 7} {
		s, backend, _ := newServer(t)
		backend.EXPECT().Delete(anything, control.LoadBalancers, "edge", seen).Return(nil)
		w := ask{method: "DELETE", path: "/v1/load-balancers/edge", header: map[string]string{"If-Match": tag}}.send(t, s)
		if w.Code != http.StatusNoContent || w.Body.Len() > 0 {
			t.Errorf("If-Match %s: %d %q, want 204 and nothing", tag, w.Code, w.Body)
		}
	}
}

// Nothing of these reaches the backend.
func TestRequestsThatCannotBeRead(t *testing.T) {
	put := func(path, body string, header ...string) ask {
		a := ask{method: "PUT", path: path, body: body, header: map[string]string{}}
		for i := 0; i < len(header); i += 2 {
			a.header[header[i]] = header[i+1]
		}
		return a
	}
	long := strings.Repeat("a", 64)
	for _, test := range []struct {
		ask
		want   control.ProblemType
		detail string // part of it
	}{
		{put("/v1/servers/shop", ""), control.Malformed, "empty"},
		{put("/v1/servers/shop", "{"), control.Malformed, "not JSON: byte 1"},
		{put("/v1/servers/shop", "{} {}"), control.Malformed, "not JSON"},
		{put("/v1/servers/shop", "[]"), control.Malformed, "is a list, want an object"},
		{put("/v1/servers/shop", "null"), control.Malformed, "is null, want an object"},
		{put("/v1/servers/shop", "{\"addrs\": [\"\xff\"]}"), control.Malformed, "UTF-8"},
		{put("/v1/servers/shop", "{}", "Content-Type", "text/plain"), control.Malformed, `"text/plain", want application/json`},
		{put("/v1/servers/shop", "{}", "Content-Type", ""), control.Malformed, "want application/json"},
		{put("/v1/servers/shop", "{}", "If-Match", "7"), control.Malformed, "If-Match"},
		{put("/v1/servers/shop", "{}", "If-Match", `W/"7"`), control.Malformed, "If-Match"},
		{put("/v1/servers/shop", "{}", "If-Match", `"0"`), control.Malformed, "If-Match"},
		{put("/v1/servers/shop", "{}", "If-Match", `"07"`), control.Malformed, "If-Match"},
		{put("/v1/servers/shop", "{}", "If-Match", "*"), control.Malformed, "If-Match"},
		{put("/v1/servers/shop", "{}", "If-None-Match", `"7"`), control.Malformed, "If-None-Match"},
		{put("/v1/servers/shop", "{}", "If-None-Match", "*", "If-Match", `"7"`), control.Malformed, "want one"},
		{put("/v1/servers/Shop", "{}"), control.Malformed, control.NameRule},
		{put("/v1/servers/-shop", "{}"), control.Malformed, control.NameRule},
		{put("/v1/servers/a--b", "{}"), control.Malformed, control.NameRule},
		{put("/v1/servers/"+long, "{}"), control.Malformed, control.NameRule},
		{put("/v1/servers/%2e%2e%2fpasswd", "{}"), control.NotFound, "nothing at this path"},
		{put("/v1/servers/..%2f..%2fetc", "{}"), control.NotFound, "nothing at this path"},
		{put("/v1/servers/a%2fb", "{}"), control.Malformed, `"a/b"`},
		{put("/v1/servers/a%5c..%5cb", "{}"), control.Malformed, control.NameRule},
		{put("/v1/servers/a%00b", "{}"), control.Malformed, control.NameRule},
		{put("/v1/servers/%3Cscript%3E", "{}"), control.Malformed, control.NameRule},
		{ask{path: "/v1/servers/../../etc/passwd"}, control.NotFound, "nothing at this path"},
		{ask{path: "/v1//servers"}, control.NotFound, "nothing at this path"},
		{ask{path: "/v1/gateways/shop"}, control.NotFound, "nothing at this path"},
		{ask{path: "/v1/servers/"}, control.NotFound, "nothing at this path"},
		{ask{method: "DELETE", path: "/v1/servers/shop", header: map[string]string{"If-None-Match": "*"}}, control.Malformed, "If-None-Match"},
		{ask{method: "DELETE", path: "/v1/servers/shop", body: "{}"}, control.TooLarge, "want none"},
		{ask{method: "POST", path: "/v1/servers/shop", body: "{}"}, control.NotAllowed, "want DELETE, GET, HEAD, PUT"},
		{put("/v1/servers/shop", `{"x":"`+strings.Repeat("a", control.MaxBody)+`"}`), control.TooLarge, "1048576 bytes"},
	} {
		s, _, _ := newServer(t)
		p := test.problem(t, s, test.want)
		if !strings.Contains(p.Detail, test.detail) {
			t.Errorf("%s %.60s %.40q: detail %q, want %q in it", test.method, test.path, test.body, p.Detail, test.detail)
		}
	}
}

func TestBodyOfUnknownLengthIsBounded(t *testing.T) {
	s, _, _ := newServer(t)
	a := ask{method: "PUT", path: "/v1/servers/shop", body: `{"x":"` + strings.Repeat("a", control.MaxBody) + `"}`}
	r := a.request()
	r.ContentLength = -1
	w := serve(s, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d, want 413", w.Code)
	}
}

func TestFieldsThatCannotBeMeantAreReportedAtOnce(t *testing.T) {
	for _, test := range []struct {
		method, path, body string
		want               []control.FieldError
	}{
		{"PUT", "/v1/servers/shop", `{"adrs": [], "Addrs": [], "settings": {}}`, []control.FieldError{
			{Field: "adrs", Detail: "is not a field, want one of addrs or settings"},
			{Field: "Addrs", Detail: "is not a field, want one of addrs or settings"},
		}},
		{"PUT", "/v1/servers/shop", `{"addrs": "127.0.0.1:1"}`, []control.FieldError{{Field: "addrs", Detail: "is string, want a list"}}},
		{"PUT", "/v1/servers/shop", `{"addrs": [], "addrs": []}`, []control.FieldError{{Field: "addrs", Detail: "is there twice, want it once"}}},
		{"PUT", "/v1/load-balancers/edge", `{"server": 3, "upstreams": [true]}`, []control.FieldError{
			{Field: "server", Detail: "is number, want a string"}, {Field: "upstreams", Detail: "is bool, want a string"},
		}},
		{"PUT", "/v1/experiments/idle-cut", `{"definition": {}}`, []control.FieldError{{Field: "definition", Detail: "is object, want a string"}}},
		{"POST", "/v1/experiments/idle-cut/runs", `{"seed": -1, "repeat": 1.5, "scale": "2", "arm": []}`, []control.FieldError{
			{Field: "seed", Detail: "is number -1, want a whole number from 0"}, {Field: "repeat", Detail: "is number 1.5, want a whole number"},
			{Field: "scale", Detail: "is string, want a number"}, {Field: "arm", Detail: "is not a field, want one of arms, clients, seed, repeat or scale"},
		}},
		{"POST", "/v1/halt", `{"why": "x"}`, []control.FieldError{{Field: "why", Detail: "is not a field, want reason"}}},
	} {
		s, _, _ := newServer(t)
		p := ask{method: test.method, path: test.path, body: test.body}.problem(t, s, control.Invalid)
		if !reflect.DeepEqual(p.Fields, test.want) {
			t.Errorf("%s %s %s: fields\n%q, want\n%q", test.method, test.path, test.body, p.Fields, test.want)
		}
	}
}

// Each kind of problem of a backend is answered as it is.
func TestProblemsOfTheBackend(t *testing.T) {
	for _, kind := range []control.ProblemType{
		control.Invalid, control.Malformed, control.NotFound, control.Conflict, control.Stale, control.Halted, control.Unavailable, control.Internal,
	} {
		s, backend, _ := newServer(t)
		problem := control.NewProblem(kind, "because of %s", "that")
		problem.Fields = []control.FieldError{{Field: "settings.session_ttl", Detail: `is "soon", want a duration`}}
		backend.EXPECT().Put(anything, control.Servers, "shop", int64(-1), []byte("{}")).Return(control.Resource{}, false, errors.Join(errors.New("wrapped"), problem))
		p := ask{method: "PUT", path: "/v1/servers/shop", body: "{}"}.problem(t, s, kind)
		if p.Detail != problem.Detail || !reflect.DeepEqual(p.Fields, problem.Fields) {
			t.Errorf("%s: %+v, want %+v", kind, p, problem)
		}
	}
}

func TestErrorsOfTheBackendAreForItsLogAlone(t *testing.T) {
	s, backend, log := newServer(t)
	backend.EXPECT().Get(anything, control.Servers, "shop").Return(control.Resource{}, errors.New("sqlite: disk I/O error at /var/lib/revenant"))
	p := ask{path: "/v1/servers/shop"}.problem(t, s, control.Internal)
	if strings.Contains(p.Detail, "sqlite") || !strings.Contains(log.String(), "disk I/O error") {
		t.Errorf("detail %q and log %s, want the error in the log alone", p.Detail, log)
	}
}

func TestProblemOfNoKnownKindIsInternal(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Get(anything, control.Servers, "shop").Return(control.Resource{}, &control.Problem{Type: "urn:else", Status: 7})
	ask{path: "/v1/servers/shop"}.problem(t, s, control.Internal)
}

func TestPanicIsAnInternalProblem(t *testing.T) {
	s, backend, log := newServer(t)
	backend.EXPECT().Get(anything, control.Servers, "shop").RunAndReturn(func(ctx ctx, _ control.Kind, _ string) (control.Resource, error) { panic("boo") })
	ask{path: "/v1/servers/shop"}.problem(t, s, control.Internal)
	for _, want := range []string{`"panic":"boo"`, "resources_test.go", `"status":500`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log %s, want %s in it", log, want)
		}
	}
}

// A body that says that it is too long is not read.
func TestBodyOfALengthThatIsTooMuchIsNotRead(t *testing.T) {
	s, _, _ := newServer(t)
	r := ask{method: "PUT", path: "/v1/servers/shop", body: "{}"}.request()
	r.ContentLength = control.MaxBody + 1
	body := &countingBody{}
	r.Body = body
	if w := serve(s, r); w.Code != http.StatusRequestEntityTooLarge || body.reads > 0 {
		t.Errorf("status %d after %d reads, want 413 after none", w.Code, body.reads)
	}
}

type countingBody struct{ reads int }

func (b *countingBody) Read([]byte) (int, error) { b.reads++; return 0, errors.New("read") }
func (b *countingBody) Close() error             { return nil }
