package server_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/control"
)

func TestStartsARun(t *testing.T) {
	for _, test := range []struct {
		body, key string
		want      control.RunRequest
	}{
		{"", "", control.RunRequest{}},
		{`{"arms":["control"],"clients":["gosdk"],"seed":18446744073709551615,"repeat":3,"scale":60}`, "apply-1",
			control.RunRequest{Arms: []string{"control"}, Clients: []experimentClient{"gosdk"}, Seed: 1<<64 - 1, Repeat: 3, Scale: 60}},
	} {
		s, backend, _ := newServer(t)
		backend.EXPECT().Start(anything, "idle-cut", test.key, test.want).Return(run, nil)
		w := ask{method: "POST", path: "/v1/experiments/idle-cut/runs", body: test.body, header: map[string]string{"Idempotency-Key": test.key}}.send(t, s)
		var got control.Run
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusAccepted || !reflect.DeepEqual(got, run) {
			t.Errorf("%d %s, want 202 and the run (%v)", w.Code, w.Body, err)
		}
		if got := w.Header().Get("Location"); got != "/v1/runs/r-01" {
			t.Errorf("Location %q, want /v1/runs/r-01", got)
		}
	}
}

func TestRunsThatCannotBeBegunOrFound(t *testing.T) {
	post := func(key string) ask {
		return ask{method: "POST", path: "/v1/experiments/idle-cut/runs", header: map[string]string{"Idempotency-Key": key}}
	}
	for _, test := range []struct {
		ask
		want   control.ProblemType
		detail string
	}{
		{post("two words"), control.Malformed, control.IdempotencyKeyRule},
		{post(strings.Repeat("k", 129)), control.Malformed, control.IdempotencyKeyRule},
		{post("schlüssel"), control.Malformed, control.IdempotencyKeyRule},
		{ask{method: "POST", path: "/v1/experiments/Idle/runs"}, control.Malformed, control.NameRule},
		{ask{path: "/v1/experiments/idle-cut/runs"}, control.NotAllowed, "want POST"},
		{ask{path: "/v1/runs?limit=0"}, control.Malformed, "from 1 to 1000"},
		{ask{path: "/v1/runs?limit=1001"}, control.Malformed, "from 1 to 1000"},
		{ask{path: "/v1/runs?limit=ten"}, control.Malformed, "from 1 to 1000"},
		{ask{path: "/v1/runs?limit=1&limit=2"}, control.Malformed, "2 times"},
		{ask{path: "/v1/runs?experiment="}, control.Malformed, control.NameRule},
		{ask{path: "/v1/runs?experiment=%3Cb%3E"}, control.Malformed, control.NameRule},
		{ask{path: "/v1/runs?experiments=idle-cut"}, control.Malformed, "want one of experiment or limit"},
		{ask{path: "/v1/runs?a;b"}, control.Malformed, "query"},
		{ask{path: "/v1/runs/a.b"}, control.Malformed, control.IDRule},
		{ask{path: "/v1/runs/%2e%2e%2f%2e%2e"}, control.NotFound, "nothing at this path"},
		{ask{path: "/v1/runs/a%2f..%2f..%2fb"}, control.NotFound, "nothing at this path"},
		{ask{method: "POST", path: "/v1/runs/a%20b/cancel"}, control.Malformed, control.IDRule},
		{ask{path: "/v1/runs/r-01/events", header: map[string]string{"Last-Event-ID": "-1"}}, control.Malformed, "Last-Event-ID"},
		{ask{path: "/v1/runs/r-01/events", header: map[string]string{"Last-Event-ID": "x"}}, control.Malformed, "Last-Event-ID"},
		{ask{path: "/v1/runs/r-01/journals/0"}, control.Malformed, "from 1"},
		{ask{path: "/v1/runs/r-01/journals/01"}, control.Malformed, "from 1"},
		{ask{path: "/v1/runs/r-01/journals/1000001/report"}, control.Malformed, "from 1"},
		{ask{path: "/v1/runs/r-01/journals/%2e%2e%2f1/report"}, control.NotFound, "nothing at this path"},
	} {
		s, _, _ := newServer(t)
		p := test.problem(t, s, test.want)
		if !strings.Contains(p.Detail, test.detail) {
			t.Errorf("%s %s: detail %q, want %q in it", test.method, test.path, p.Detail, test.detail)
		}
	}
}

func TestListsRuns(t *testing.T) {
	for query, want := range map[string]struct {
		experiment string
		limit      int
	}{"": {"", 50}, "?limit=3&experiment=idle-cut": {"idle-cut", 3}} {
		s, backend, _ := newServer(t)
		backend.EXPECT().Runs(anything, want.experiment, want.limit).Return([]control.Run{run}, nil)
		var got control.RunList
		w := ask{path: "/v1/runs" + query}.send(t, s)
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !reflect.DeepEqual(got.Runs, []control.Run{run}) {
			t.Errorf("%q: %d %s, want the run (%v)", query, w.Code, w.Body, err)
		}
	}
}

func TestGetsAndCancelsARun(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Run(anything, "r-01").Return(run, nil)
	backend.EXPECT().Cancel(anything, "r-01").Return(run, nil)
	for _, a := range []ask{{path: "/v1/runs/r-01"}, {method: "POST", path: "/v1/runs/r-01/cancel"}} {
		var got control.Run
		w := a.send(t, s)
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || !reflect.DeepEqual(got, run) {
			t.Errorf("%s: %d %s, want the run (%v)", a.path, w.Code, w.Body, err)
		}
	}
	// A field of a check is spelled as all others are.
	if body := (ask{path: "/v1/runs/r-01"}).send(t, s).Body.String(); !strings.Contains(body, `"measure":"events_lost"`) {
		t.Errorf("body %s, want a check with \"measure\"", body)
	}
}

func TestJournalAndReport(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Journal(anything, "r-01", 2, anything).RunAndReturn(func(_ ctx, _ string, _ int, w io.Writer) error {
		_, err := io.WriteString(w, `{"journal_version":1}`)
		return err
	})
	backend.EXPECT().Report(anything, "r-01", 2, anything).RunAndReturn(func(_ ctx, _ string, _ int, w io.Writer) error {
		io.WriteString(w, "<!DOCTYPE html>")
		_, err := io.WriteString(w, "<title>x</title>")
		return err
	})
	w := ask{path: "/v1/runs/r-01/journals/2"}.send(t, s)
	if w.Code != http.StatusOK || w.Body.String() != `{"journal_version":1}` || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("journal: %d %q %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	w = ask{path: "/v1/runs/r-01/journals/2/report"}.send(t, s)
	if w.Code != http.StatusOK || w.Body.String() != "<!DOCTYPE html><title>x</title>" || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("report: %d %q %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	policy := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "style-src 'unsafe-inline'", "sandbox", "form-action 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("report's policy %q, want %s in it", policy, want)
		}
	}
	for _, never := range []string{"script", "'self'"} {
		if strings.Contains(policy, never) {
			t.Errorf("report's policy %q has %s", policy, never)
		}
	}
}

func TestMissingJournalIsAProblem(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Report(anything, "r-01", 3, anything).Return(control.NewProblem(control.NotFound, "run r-01 has 2 journals"))
	ask{path: "/v1/runs/r-01/journals/3/report"}.problem(t, s, control.NotFound)
}

// An answer that has begun and cannot be completed must not look complete.
func TestJournalThatBreaksIsBrokenOff(t *testing.T) {
	s, backend, log := newServer(t)
	backend.EXPECT().Journal(anything, "r-01", 1, anything).RunAndReturn(func(_ ctx, _ string, _ int, w io.Writer) error {
		io.WriteString(w, `{"journal_version":`)
		return errors.New("disk I/O error")
	})
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("recover() = %v, want http.ErrAbortHandler", v)
		}
		if !strings.Contains(log.String(), "disk I/O error") || !strings.Contains(log.String(), `"broken_off":true`) {
			t.Errorf("log %s, want the error, and that the answer was broken off", log)
		}
	}()
	serve(s, ask{path: "/v1/runs/r-01/journals/1"}.request())
}

func TestDaemon(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Info(anything).Return(info, nil)
	backend.EXPECT().Halt(anything, "slow gateway").Return(info, nil)
	backend.EXPECT().Halt(anything, "").Return(info, nil)
	backend.EXPECT().Resume(anything).Return(info, nil)
	for _, a := range []ask{
		{path: "/v1/info"},
		{method: "POST", path: "/v1/halt", body: `{"reason":"slow gateway"}`},
		{method: "POST", path: "/v1/halt"},
		{method: "POST", path: "/v1/resume"},
	} {
		var got control.Info
		w := a.send(t, s)
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || !reflect.DeepEqual(got, info) {
			t.Errorf("%s %s: %d %s, want the info (%v)", a.path, a.body, w.Code, w.Body, err)
		}
	}
	if w := (ask{path: "/openapi.yaml"}).send(t, s); w.Body.String() != control.OpenAPI() || w.Header().Get("Content-Type") != "application/yaml" {
		t.Errorf("/openapi.yaml: %d %q, %d bytes", w.Code, w.Header().Get("Content-Type"), w.Body.Len())
	}
	if w := (ask{path: "/healthz", header: map[string]string{"Authorization": ""}}).send(t, s); w.Body.String() != "ok\n" {
		t.Errorf("/healthz: %d %q, want ok", w.Code, w.Body)
	}
}
