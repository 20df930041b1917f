package control_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/control"
)

const secret = "correct-horse-battery-staple"

func TestClientConfigReportsEveryFault(t *testing.T) {
	for _, test := range []struct {
		cfg  control.ClientConfig
		want []string
	}{
		{control.ClientConfig{}, []string{"neither Socket nor Endpoint"}},
		{control.ClientConfig{Socket: "/s", Endpoint: "http://localhost", Token: "a b", UserAgent: "a\n"}, []string{"one of the two", "Token has characters", `UserAgent "a\n"`}},
		{control.ClientConfig{Socket: "/s", HTTPClient: http.DefaultClient}, []string{"HTTPClient is for an Endpoint"}},
		{control.ClientConfig{Endpoint: "localhost:8700"}, []string{"is not http or https"}},
		{control.ClientConfig{Endpoint: "http://"}, []string{"has no host"}},
		{control.ClientConfig{Endpoint: "http://:8700"}, []string{"has no host"}},
		{control.ClientConfig{Endpoint: "http://a b"}, []string{"is no URL"}},
		{control.ClientConfig{Endpoint: "http://localhost/v1"}, []string{"more than a host"}},
		{control.ClientConfig{Endpoint: "http://localhost?a=b"}, []string{"more than a host"}},
		{control.ClientConfig{Endpoint: "http://me:hunter2@localhost"}, []string{"has a user in it", "…@localhost"}},
	} {
		_, err := control.New(test.cfg)
		if err == nil {
			t.Errorf("New(%+v) = nil error", test.cfg)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("New(%+v) = %v, want %q in it", test.cfg, err, want)
			}
		}
		if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "a b\"") && test.cfg.Token == "a b" {
			t.Errorf("New() = %v has a secret in it", err)
		}
	}
}

// daemon is a server that answers everything in one way, and a client for it.
func daemon(t *testing.T, answer http.HandlerFunc) *control.Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	client, err := control.New(control.ClientConfig{Endpoint: s.URL, Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func answerJSON(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func TestClientSaysWhoItIs(t *testing.T) {
	client := daemon(t, func(w http.ResponseWriter, r *http.Request) {
		for name, want := range map[string]string{"Authorization": "Bearer " + secret, "User-Agent": "revenant", "Accept": "application/json, application/problem+json"} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		answerJSON(200, "application/json", `{"api":1,"unknown":"is ignored"}`)(w, r)
	})
	if info, err := client.Handshake(t.Context()); err != nil || info.API != 1 {
		t.Errorf("Handshake() = %+v, %v", info, err)
	}
}

func TestHandshakeWithAnotherVersion(t *testing.T) {
	for api, want := range map[string]string{"2": "the daemon is newer", "0": "this program is newer"} {
		client := daemon(t, answerJSON(200, "application/json", `{"version":"v9","pid":4711,"api":`+api+`}`))
		_, err := client.Handshake(t.Context())
		var version *control.VersionError
		if !errors.As(err, &version) || version.Info.PID != 4711 || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "process 4711") {
			t.Errorf("Handshake() = %v, want a VersionError with %q", err, want)
		}
	}
}

func TestAnswersThatAreNotADaemons(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"a page", answerJSON(200, "text/html", "<p>"), `the answer is "text/html", want application/json`},
		{"no type", answerJSON(200, "/", "{}"), `the answer is "", want application/json`},
		{"a gateway", answerJSON(502, "text/html", "<p>bad gateway"), "502 Bad Gateway"},
		{"a problem without a type", answerJSON(404, "application/problem+json", `{"title":"x"}`), "404 Not Found"},
		{"a problem that is none", answerJSON(404, "application/problem+json", `{`), "404 Not Found"},
		{"half an answer", answerJSON(200, "application/json", `{"api":`), "unexpected end of JSON"},
		{"another shape", answerJSON(200, "application/json", `[]`), "cannot unmarshal"},
	} {
		_, err := daemon(t, test.answer).Info(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "GET /v1/info at http://127.0.0.1:") {
			t.Errorf("%s: Info() = %v, want %q in it", test.name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: Info() = %v has the token", test.name, err)
		}
	}
}

func TestProblemHasTheStatusOfItsAnswer(t *testing.T) {
	client := daemon(t, answerJSON(409, "application/problem+json; charset=utf-8", `{"type":"urn:revenant:conflict","status":200,"detail":"in use"}`))
	_, err := client.Info(t.Context())
	var p *control.Problem
	if !errors.As(err, &p) || p.Status != 409 || p.Detail != "in use" {
		t.Errorf("Info() = %#v, want the problem with status 409", err)
	}
}

// Nothing that is parsed is longer than its bound, and no more of it is read.
func TestAnswersAreBounded(t *testing.T) {
	written := make(chan int, 2)
	endless := func(status int, contentType, prefix string, size int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			io.WriteString(w, prefix)
			filler := bytes.Repeat([]byte("a"), 1<<16)
			n := 0
			for err := error(nil); err == nil && n < 4*size; n += len(filler) {
				_, err = w.Write(filler)
			}
			io.WriteString(w, `"}`)
			written <- n
		}
	}
	_, err := daemon(t, endless(200, "application/json", `{"version":"`, control.MaxAnswer)).Info(t.Context())
	if err == nil || !strings.Contains(err.Error(), "longer than 67108864 bytes") {
		t.Errorf("Info() = %v, want what is too long", err)
	}
	_, err = daemon(t, endless(404, "application/problem+json", `{"type":"urn:revenant:not-found","detail":"`, 32*control.MaxProblem)).Info(t.Context())
	if err == nil || control.Is(err, control.NotFound) {
		t.Errorf("Info() = %v, want a problem that is too long not to be read", err)
	}
	// Besides what is read, some is on its way in the buffers of the sockets.
	const inBuffers = 16 << 20
	for _, most := range []int{control.MaxAnswer, control.MaxProblem} {
		if n := <-written; n > most+inBuffers {
			t.Errorf("%d bytes were taken, want about %d", n, most)
		}
	}
}

func TestJournalThatIsBrokenOffIsAnError(t *testing.T) {
	client := daemon(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"journal_version":`)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	var out bytes.Buffer
	if err := client.Journal(t.Context(), "r-01", 1, &out); err == nil {
		t.Errorf("Journal() = nil after %q, want an error", out.String())
	}
}

// The token goes to nobody that a daemon, or who plays one, names.
func TestRedirectsAreNotFollowed(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer other.Close()
	redirect := http.RedirectHandler(other.URL, http.StatusTemporaryRedirect)
	client := daemon(t, redirect.ServeHTTP)
	if _, err := client.Info(t.Context()); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("Info() = %v, want the 307", err)
	}
	// With somebody else's client, which is left as it was, neither.
	s := httptest.NewServer(redirect)
	defer s.Close()
	theirs := s.Client()
	client, err := control.New(control.ClientConfig{Endpoint: s.URL, HTTPClient: theirs})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Info(t.Context()); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("Info() = %v, want the 307", err)
	}
	if theirs.CheckRedirect != nil {
		t.Error("the client that was given was changed")
	}
	theirs.CloseIdleConnections()
}

func TestNobodyThere(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "gone")
	client, err := control.New(control.ClientConfig{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Info(t.Context())
	var dial *net.OpError
	if !errors.As(err, &dial) || !strings.Contains(err.Error(), "GET /v1/info at "+socket) {
		t.Errorf("Info() = %v, want the socket's name and the error of the dial", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Info(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Info() = %v, want context.Canceled", err)
	}
	// A stream that never was is not tried again.
	if err := client.Events(t.Context(), "r-01", 0, nil); !errors.As(err, &dial) {
		t.Errorf("Events() = %v, want the error of the dial", err)
	}
}

// What could not be a name does not become part of a path.
func TestNamesAreCheckedBeforeTheyAreSent(t *testing.T) {
	client := daemon(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s was sent", r.Method, r.URL) })
	ctx := t.Context()
	for _, bad := range []string{"", "..", "../info", "a/b", "a?b", "a b", "%2e"} {
		var errs []error
		_, err := client.Get(ctx, control.Servers, bad)
		errs = append(errs, err)
		_, _, err = client.Put(ctx, control.Servers, bad, -1, nil)
		errs = append(errs, err, client.Delete(ctx, control.Servers, bad, -1))
		_, err = client.Start(ctx, bad, "", control.RunRequest{})
		errs = append(errs, err)
		_, err = client.Run(ctx, bad)
		errs = append(errs, err)
		_, err = client.Cancel(ctx, bad)
		errs = append(errs, err, client.Journal(ctx, bad, 1, io.Discard), client.Report(ctx, bad, 1, io.Discard), client.Events(ctx, bad, 0, nil))
		for i, err := range errs {
			if !control.Is(err, control.Malformed) {
				t.Errorf("name %q, call %d: %v, want a problem", bad, i, err)
			}
		}
	}
	if _, err := client.Start(ctx, "idle-cut", "two words", control.RunRequest{}); !control.Is(err, control.Malformed) {
		t.Errorf("Start() with a key of two words = %v, want a problem", err)
	}
	if _, err := client.List(ctx, "../info"); !control.Is(err, control.NotFound) {
		t.Errorf("List() of no kind = %v, want a problem", err)
	}
	if _, err := client.Get(ctx, "runs", "r"); !control.Is(err, control.NotFound) {
		t.Errorf("Get() of no kind = %v, want a problem", err)
	}
}
