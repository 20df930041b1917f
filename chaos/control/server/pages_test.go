package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/mocks"
)

// expectPages lets a backend have something to show.
func expectPages(backend *mocks.Backend) {
	backend.EXPECT().Info(anything).Return(info, nil).Maybe()
	for _, kind := range control.Kinds() {
		backend.EXPECT().List(anything, kind).Return([]control.Resource{shop}, nil).Maybe()
	}
	backend.EXPECT().Runs(anything, "", anything).Return([]control.Run{run}, nil).Maybe()
	backend.EXPECT().Run(anything, "r-01").Return(run, nil).Maybe()
	backend.EXPECT().Events(anything, "r-01", 0, anything).Return(nil).Maybe()
}

// show returns a page, which must have no script and nothing that is not allowed
// by its own policy.
func show(t *testing.T, s http.Handler, path string) string {
	t.Helper()
	w := ask{path: path, header: map[string]string{"Accept": "text/html"}}.send(t, s)
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("%s: %d %s %s", path, w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	checkPage(t, path, w)
	return w.Body.String()
}

var forbidden = regexp.MustCompile(`(?i)<script|<style|<iframe|<img|\son[a-z]+=|\sstyle=|javascript:`)

func checkPage(t *testing.T, path string, w *httptest.ResponseRecorder) {
	t.Helper()
	if found := forbidden.FindString(w.Body.String()); found != "" {
		t.Errorf("%s has %q", path, found)
	}
	policy := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "style-src 'self'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("%s: policy %q, want %s in it", path, policy, want)
		}
	}
}

func TestOverviewShowsWhatThereIs(t *testing.T) {
	s, backend, _ := newServer(t)
	expectPages(backend)
	page := show(t, s, "/")
	for _, want := range []string{
		"Servers", "Load balancers", "Experiments", "shop", "http://127.0.0.1:9001/mcp", "127.0.0.1:9002", "running",
		`href="/runs/r-01"`, "upheld", "3 of 3", "1 min 30 s",
		`href="/v1/runs/r-01/journals/1/report"`, `href="/v1/runs/r-01/journals/2/report"`, `action="/halt"`, "v1.2.3", "4711", "/var/lib/revenant",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	for _, never := range []string{"Halted", `action="/resume"`, "refresh"} {
		if strings.Contains(page, never) {
			t.Errorf("%q on the page", never)
		}
	}
}

// An overview that loads itself again takes away what somebody writes into the
// form to halt, which is when there is no time to write it twice.
func TestOverviewStaysAsItIsWhileARunIsActive(t *testing.T) {
	s, backend, _ := newServer(t)
	active := run
	active.State = control.Active
	backend.EXPECT().Runs(anything, "", 50).Return([]control.Run{active}, nil)
	expectPages(backend)
	if page := show(t, s, "/"); strings.Contains(page, "refresh") || !strings.Contains(page, `action="/halt"`) {
		t.Error("the page is loaded again, or has no form to halt")
	}
}

func TestHaltWithoutAReason(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Halt(anything, "on the page, without a reason").Return(info, nil)
	w := ask{method: "POST", path: "/halt", body: "form=&reason=+", header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}.send(t, s)
	if w.Code != http.StatusSeeOther {
		t.Errorf("%d %s, want 303", w.Code, w.Body)
	}
}

func TestOverviewWithoutAnything(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Info(anything).Return(control.Info{}, nil)
	backend.EXPECT().List(anything, anything).Return(nil, nil)
	backend.EXPECT().Runs(anything, "", 50).Return(nil, nil)
	page := show(t, s, "/")
	for _, want := range []string{"There is no server yet.", "There is no load balancer yet.", "There is no experiment yet.", "Nothing has been run yet.", "No run is active."} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
}

func TestHaltedDaemonSaysSo(t *testing.T) {
	s, backend, _ := newServer(t)
	halted := info
	halted.Halted, halted.HaltReason = true, "it burns"
	backend.EXPECT().Info(anything).Return(halted, nil)
	expectPages(backend)
	for _, path := range []string{"/", "/runs/r-01"} {
		page := show(t, s, path)
		for _, want := range []string{"Halted", "it burns", `action="/resume"`} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: no %q on the page", path, want)
			}
		}
		if strings.Contains(page, `action="/halt"`) {
			t.Errorf("%s: a form to halt on the page of a daemon that is", path)
		}
	}
}

func TestPageOfARunThatIsOver(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Events(anything, "r-01", 0, anything).RunAndReturn(func(_ ctx, _ string, _ int, f func(control.RunEvent) error) error {
		f(control.RunEvent{N: 1, State: control.Active, Phase: "method", Clock: 3725, Step: "cut the connection", Repeat: 1})
		return nil
	})
	expectPages(backend)
	page := show(t, s, "/runs/r-01")
	for _, want := range []string{
		"idle-cut", "Upheld", "events_lost", "T+1:02:05", "cut the connection", "1 min 30 s", "Repeat 2",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
	for _, never := range []string{"refresh", `action="/runs/r-01/cancel"`} {
		if strings.Contains(page, never) {
			t.Errorf("%q on the page of a run that is over", never)
		}
	}
}

// The events of a run that goes on have no end; the page does not wait for it.
func TestPageOfARunThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend, _ := newServer(t)
		active := run
		active.State, active.Verdict, active.Reason, active.Ended, active.Journals, active.Checks = control.Active, "", "", nil, 0, nil
		active.Started = &[]time.Time{time.Now().Add(-42 * time.Second)}[0]
		backend.EXPECT().Run(anything, "r-01").Return(active, nil)
		backend.EXPECT().Events(anything, "r-01", 0, anything).RunAndReturn(func(ctx ctx, _ string, _ int, f func(control.RunEvent) error) error {
			for n := range 250 {
				f(control.RunEvent{N: n + 1, State: control.Active, Phase: "method", Clock: float64(n), Step: fmt.Sprintf("step %d.", n), Repeat: 1})
			}
			<-ctx.Done()
			return ctx.Err()
		})
		expectPages(backend)
		began := time.Now()
		page := show(t, s, "/runs/r-01")
		if took := time.Since(began); took > time.Second {
			t.Errorf("the page took %v", took)
		}
		for _, want := range []string{
			`http-equiv="refresh" content="3"`, `action="/runs/r-01/cancel"`, "Running", "repeat 1 of 2: method, T&#43;04:09", "step 249.", "step 50.", "50 earlier steps", "42 s",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("no %q on the page", want)
			}
		}
		if strings.Contains(page, "step 49.") {
			t.Error("step 49 on the page, want the latest 200 alone")
		}
	})
}

// Whatever has text of somebody else's in it is text on the page.
func TestTextOfOthersIsText(t *testing.T) {
	s, backend, _ := newServer(t)
	const evil = `"'><script>alert(1)</script><img src=x onerror=alert(1)>` + "\u202e\x07"
	bad := control.Resource{
		Kind: control.Servers, Name: evil, ID: evil, Generation: 1,
		Status: control.Status{State: control.State(evil), Reason: evil, Addr: evil, URL: "javascript:alert(1)" + evil, Addrs: []string{evil, evil}, LastRun: evil, Verdict: evil},
	}
	badRun := control.Run{
		ID: evil, Experiment: evil, State: control.RunState(evil), Reason: evil, Journals: 1, Started: &noon,
		Request: control.RunRequest{Arms: []string{evil}, Clients: []experimentClient{evil}, Repeat: 2},
		Checks:  control.Checks{{Arm: evil, Client: evil, Measure: evil, Value: evil, Tolerance: evil, Problem: evil}},
	}
	badInfo := control.Info{Version: evil, DataDir: evil, Halted: true, HaltReason: evil}
	backend.EXPECT().Info(anything).Return(badInfo, nil)
	backend.EXPECT().List(anything, anything).Return([]control.Resource{bad}, nil)
	backend.EXPECT().Runs(anything, "", 50).Return([]control.Run{badRun}, nil)
	backend.EXPECT().Run(anything, "r-01").Return(badRun, nil)
	backend.EXPECT().Events(anything, evil, 0, anything).RunAndReturn(func(_ ctx, _ string, _ int, f func(control.RunEvent) error) error {
		return f(control.RunEvent{N: 1, Phase: evil, Step: evil, Clock: 1, Repeat: 1})
	})
	for _, path := range []string{"/", "/runs/r-01"} {
		w := ask{path: path, header: map[string]string{"Accept": "text/html"}}.send(t, s)
		page := w.Body.String()
		// The text itself has these words; as a tag or an attribute they would not be
		// escaped.
		for _, never := range []string{"<script", "<img", `"'>`, `href="javascript:`, "\u202e", "\x07"} {
			if strings.Contains(page, never) {
				t.Errorf("%s has %q", path, never)
			}
		}
		if w.Code != http.StatusOK || !strings.Contains(page, "&lt;script&gt;") {
			t.Errorf("%s: %d %s, want the text on the page", path, w.Code, page)
		}
		for _, href := range regexp.MustCompile(`(?:href|action)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			if !regexp.MustCompile(`^(/[a-zA-Z0-9./_-]*|data:,)$`).MatchString(href[1]) {
				t.Errorf("%s leads to %q", path, href[1])
			}
		}
	}
}

func TestProblemsAreAPageForABrowser(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Run(anything, "r-02").Return(control.Run{}, control.NewProblem(control.NotFound, `there is no run "<b>r-02</b>"`))
	backend.EXPECT().Info(anything).Return(info, nil)
	a := ask{path: "/runs/r-02", header: map[string]string{"Accept": "text/html"}}
	w := a.send(t, s)
	checkPage(t, a.path, w)
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "There is no run &#34;&lt;b&gt;r-02") {
		t.Errorf("%d %s, want a page that says what is missing", w.Code, w.Body)
	}
	a.header = nil
	a.problem(t, s, control.NotFound)
	if w := (ask{path: "/nothing", header: map[string]string{"Accept": "text/html"}}).send(t, s); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "<h1>Not found") {
		t.Errorf("/nothing: %d %s", w.Code, w.Body)
	}
}

func TestPageOfABackendThatFails(t *testing.T) {
	s, backend, log := newServer(t)
	backend.EXPECT().Info(anything).Return(control.Info{}, errors.New("disk I/O error"))
	w := ask{path: "/", header: map[string]string{"Accept": "text/html"}}.send(t, s)
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "disk") || !strings.Contains(log.String(), "disk I/O error") {
		t.Errorf("%d %s with log %s, want the error in the log alone", w.Code, w.Body, log)
	}
}

func TestStyleIsForEverybody(t *testing.T) {
	s, _, _ := newServer(t)
	w := ask{path: "/style.css", header: map[string]string{"Authorization": ""}}.send(t, s)
	for _, want := range []string{"prefers-color-scheme: dark", "@media print"} {
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d, want a style with %s", w.Code, want)
		}
	}
}
