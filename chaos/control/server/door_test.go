package server_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/server"
)

func TestConfigReportsEveryFault(t *testing.T) {
	_, err := server.New(server.Config{Token: "short", AllowedHosts: []string{"chaos.example.com", "a:80", "*", ""}})
	for _, want := range []string{"Backend is nil", "Token has 5 characters, want at least 16", `"a:80"`, `"*"`, `""`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want %s in it", err, want)
		}
	}
	if err != nil && (strings.Contains(err.Error(), "short") || strings.Contains(err.Error(), `"chaos.example.com", want`)) {
		t.Errorf("New() = %v, want no token and no host that is right in it", err)
	}
	if _, err := server.New(server.Config{Unix: true, Token: secret}); err == nil || !strings.Contains(err.Error(), "Token is set with Unix") {
		t.Errorf("New() with Unix and a token = %v", err)
	}
	if _, err := server.New(server.Config{Token: secret + "\n"}); err == nil || !strings.Contains(err.Error(), "cannot be sent") {
		t.Errorf("New() with a line break in the token = %v", err)
	}
}

func TestHosts(t *testing.T) {
	allow := func(cfg *server.Config) { cfg.AllowedHosts = []string{"Chaos.Example.com", "192.0.2.7", "2001:DB8::7"} }
	for _, test := range []struct {
		host string
		ok   bool
	}{
		{"localhost", true}, {"localhost:8700", true}, {"LOCALHOST:8700", true}, {"localhost.:8700", true},
		{"127.0.0.1", true}, {"127.0.0.1:1", true}, {"[::1]", true}, {"[::1]:8700", true}, {"[0:0:0:0:0:0:0:1]:8700", true},
		{"chaos.example.com:8700", true}, {"192.0.2.7", true}, {"[2001:db8:0::7]:8700", true},
		{"evil.example", false}, {"evil.example:8700", false}, {"localhost.evil.example", false}, {"evil.example.localhost", false},
		{"127.0.0.2:8700", false}, {"127.0.0.1.evil.example", false}, {"0.0.0.0:8700", false}, {"[::]:8700", false},
		{"2130706433", false}, {"", false}, {"localhost:8700@evil.example", false}, {"local\thost", false},
	} {
		s, _, _ := newServer(t, allow)
		// It is asked before anything else, on every route, and for /healthz too.
		for _, path := range []string{"/healthz", "/login", "/nothing/here", "/v1/servers/../x"} {
			r := ask{path: path}.request()
			r.Host = test.host
			w := serve(s, r)
			if refused := w.Code == http.StatusForbidden; refused == test.ok {
				t.Errorf("Host %q at %s: %d %s, want it %s", test.host, path, w.Code, w.Body, map[bool]string{true: "let in", false: "refused"}[test.ok])
			} else if refused && !strings.Contains(w.Body.String(), string(control.Forbidden)) {
				t.Errorf("Host %q at %s: %s, want the problem %s", test.host, path, w.Body, control.Forbidden)
			}
		}
	}
	s, _, _ := newServer(t, onSocket)
	r := ask{path: "/healthz"}.request()
	r.Host = "whatever.example"
	if w := serve(s, r); w.Code != http.StatusOK {
		t.Errorf("on a socket: %d %s, want 200 for any host", w.Code, w.Body)
	}
}

func TestToken(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Info(anything).Return(info, nil).Maybe()
	for _, test := range []struct {
		header string
		ok     bool
	}{
		{"Bearer " + secret, true}, {"bearer " + secret, true},
		{"", false}, {"Bearer", false}, {"Bearer ", false}, {"Bearer " + secret + "x", false}, {"Bearer " + secret[1:], false},
		{"Bearer " + strings.ToUpper(secret), false}, {"Basic " + secret, false}, {secret, false}, {"Bearer  " + secret, false},
	} {
		w := ask{path: "/v1/info", header: map[string]string{"Authorization": test.header}}.send(t, s)
		if ok := w.Code == http.StatusOK; ok != test.ok || !ok && w.Header().Get("WWW-Authenticate") != `Bearer realm="revenant"` {
			t.Errorf("Authorization %q: %d with WWW-Authenticate %q", test.header, w.Code, w.Header().Get("WWW-Authenticate"))
		}
	}
	r := ask{path: "/v1/info"}.request()
	r.Header.Add("Authorization", "Bearer x")
	if w := serve(s, r); w.Code != http.StatusUnauthorized {
		t.Errorf("with two of Authorization: %d, want 401", w.Code)
	}
}

func TestEveryRouteButFourWantsTheToken(t *testing.T) {
	s, _, _ := newServer(t)
	open := map[string]bool{"GET /healthz": true, "GET /login": true, "POST /login": true, "GET /style.css": true}
	fill := strings.NewReplacer("{name}", "shop", "{id}", "r-01", "{n}", "1")
	for _, r := range s.Routes() {
		a := ask{method: r.Method, path: fill.Replace(r.Path), header: map[string]string{"Authorization": ""}}
		if r.Method == "POST" && !strings.HasPrefix(r.Path, "/v1/") {
			a.body = "token=x"
			a.header["Content-Type"] = "application/x-www-form-urlencoded"
		}
		w := serve(s, a.request())
		if want := !open[r.Method+" "+r.Path]; (w.Code == http.StatusUnauthorized) != want && r.Path != "/login" {
			t.Errorf("%s %s without a token: %d", r.Method, r.Path, w.Code)
		}
	}
	for _, path := range []string{"/nothing", "/v1/nothing", "/v1/runs/r-01/nothing"} {
		ask{path: path, header: map[string]string{"Authorization": ""}}.problem(t, s, control.Unauthorized)
	}
}

func TestHeadersOfEveryAnswer(t *testing.T) {
	s, backend, _ := newServer(t)
	backend.EXPECT().Info(anything).Return(info, nil)
	for _, a := range []ask{{path: "/v1/info"}, {path: "/healthz"}, {path: "/login"}, {path: "/nothing"}, {path: "/a/../b"}, {path: "/v1/info", header: map[string]string{"Host": "evil.example"}}} {
		h := a.send(t, s).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", a.path, name, got, want)
			}
		}
		policy := h.Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "script") {
			t.Errorf("%s: policy %q", a.path, policy)
		}
		for name := range h {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: has %s", a.path, name)
			}
		}
	}
}

// browser has a cookie, as a browser has, and no token.
type browser struct {
	t      *testing.T
	s      *server.Server
	host   string
	cookie *http.Cookie
	header map[string]string
}

func newBrowser(t *testing.T, s *server.Server) *browser {
	return &browser{t: t, s: s, host: "localhost:8700", header: map[string]string{"Sec-Fetch-Site": "same-origin"}}
}

func (b *browser) send(r *http.Request) *httptest.ResponseRecorder {
	b.t.Helper()
	r.Host = b.host
	r.Header.Del("Authorization")
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	for name, value := range b.header {
		r.Header.Set(name, value)
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	w := serve(b.s, r)
	for _, c := range w.Result().Cookies() {
		b.cookie = c
	}
	return w
}

func (b *browser) get(path string) *httptest.ResponseRecorder {
	b.t.Helper()
	return b.send(ask{path: path}.request())
}

func (b *browser) post(path string, form url.Values) *httptest.ResponseRecorder {
	b.t.Helper()
	return b.send(ask{method: "POST", path: path, body: form.Encode(), header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}.request())
}

func (b *browser) login() {
	b.t.Helper()
	if w := b.post("/login", url.Values{"token": {secret}}); w.Code != http.StatusSeeOther || b.cookie == nil {
		b.t.Fatalf("POST /login: %d %s", w.Code, w.Body)
	}
}

// form is the token of the forms on the first page.
func (b *browser) form() string {
	b.t.Helper()
	found := regexp.MustCompile(`name="form" value="([0-9a-f]{64})"`).FindStringSubmatch(b.get("/").Body.String())
	if found == nil {
		b.t.Fatal("no token of a form on the page")
	}
	return found[1]
}

func TestBrowserLogsInOnce(t *testing.T) {
	s, backend, log := newServer(t)
	expectPages(backend)
	b := newBrowser(t, s)
	if w := b.get("/runs/r-01"); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/login?next=%2Fruns%2Fr-01" {
		t.Fatalf("without a cookie: %d to %q", w.Code, w.Header().Get("Location"))
	}
	w := b.get("/login?next=%2Fruns%2Fr-01")
	if !strings.Contains(w.Body.String(), `name="next" value="/runs/r-01"`) || !strings.Contains(w.Body.String(), `type="password"`) {
		t.Errorf("the form to log in: %s", w.Body)
	}
	if w := b.post("/login", url.Values{"token": {"wrong-" + secret}}); w.Code != http.StatusUnauthorized || b.cookie != nil || !strings.Contains(w.Body.String(), "not the token") {
		t.Errorf("with a wrong token: %d, cookie %v, %s", w.Code, b.cookie, w.Body)
	}
	w = b.post("/login", url.Values{"token": {" " + secret + "\n"}, "next": {"/runs/r-01"}})
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/runs/r-01" {
		t.Errorf("with the token: %d to %q", w.Code, w.Header().Get("Location"))
	}
	c := b.cookie
	if c == nil || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Name != "revenant-8700" || c.Path != "/" || c.Domain != "" || strings.Contains(c.Value, secret) || c.MaxAge != 12*3600 {
		t.Fatalf("cookie %+v", c)
	}
	if w := b.get("/runs/r-01"); w.Code != http.StatusOK {
		t.Errorf("with the cookie: %d %s", w.Code, w.Body)
	}
	if w := b.get("/v1/info"); w.Code != http.StatusOK {
		t.Errorf("reading the API with the cookie: %d %s", w.Code, w.Body)
	}
	if w := b.post("/logout", url.Values{"form": {b.form()}}); w.Code != http.StatusSeeOther || b.cookie.MaxAge >= 0 {
		t.Errorf("POST /logout: %d, cookie %+v", w.Code, b.cookie)
	}
	if strings.Contains(log.String(), secret) || strings.Contains(log.String(), c.Value) {
		t.Errorf("log %s has a secret in it", log)
	}
}

func TestBrowserIsLedToPagesOfThisServerAlone(t *testing.T) {
	s, _, _ := newServer(t)
	for _, next := range []string{"//evil.example", "https://evil.example/", `/\evil.example`, "/logout", "/v1/info", "/runs/../../x", "/runs/a?b", "javascript:alert(1)", "/runs/a\r\nSet-Cookie: x=y"} {
		w := newBrowser(t, s).post("/login", url.Values{"token": {secret}, "next": {next}})
		if got := w.Header().Get("Location"); got != "/" {
			t.Errorf("next %q leads to %q, want /", next, got)
		}
	}
}

func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend, _ := newServer(t)
		expectPages(backend)
		b := newBrowser(t, s)
		b.login()
		time.Sleep(server.SessionLength - time.Second)
		if w := b.get("/"); w.Code != http.StatusOK {
			t.Errorf("just before its end: %d", w.Code)
		}
		time.Sleep(time.Second)
		if w := b.get("/"); w.Code != http.StatusSeeOther {
			t.Errorf("after its end: %d, want 303 to the form to log in", w.Code)
		}
	})
}

func TestCookiesThatAreNotTheServers(t *testing.T) {
	s, _, _ := newServer(t)
	b, other := newBrowser(t, s), newBrowser(t, func() *server.Server { s, _, _ := newServer(t); return s }())
	b.login()
	other.login()
	good := b.cookie.Value
	ends, proof, _ := strings.Cut(good, ".")
	for what, value := range map[string]string{
		"another server's": other.cookie.Value, "the token": secret, "empty": "", "without a proof": ends, "with an empty proof": ends + ".",
		"with a later end": "9" + ends + "." + proof, "a longer proof": good + "0", "a form's proof": ends + "." + strings.Repeat("0", 64),
	} {
		b.cookie.Value = value
		if w := b.get("/"); w.Code != http.StatusSeeOther {
			t.Errorf("cookie %s: %d, want 303 to the form to log in", what, w.Code)
		}
	}
	// A wrong bearer is not made good by a cookie.
	b.cookie.Value = good
	r := ask{path: "/v1/info", header: map[string]string{"Authorization": "Bearer wrong"}}.request()
	r.Host = b.host
	r.AddCookie(b.cookie)
	if w := serve(s, r); w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong token beside a cookie: %d, want 401", w.Code)
	}
}

func TestFormsOfOtherPagesAreRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		header map[string]string
		form   string // "" for the right one
		ok     bool
	}{
		{"same origin", map[string]string{"Sec-Fetch-Site": "same-origin"}, "", true},
		{"an old browser's origin", map[string]string{"Origin": "http://localhost:8700"}, "", true},
		{"neither header", nil, "", false},
		{"another site", map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}, "", false},
		{"another port, which is the same site", map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://localhost:3000"}, "", false},
		{"an old browser on another port", map[string]string{"Origin": "http://localhost:3000"}, "", false},
		{"an origin that is hidden", map[string]string{"Origin": "null"}, "", false},
		{"no token of a form", map[string]string{"Sec-Fetch-Site": "same-origin"}, "x", false},
		{"another's token of a form", map[string]string{"Sec-Fetch-Site": "same-origin"}, strings.Repeat("a", 64), false},
	} {
		s, backend, _ := newServer(t)
		expectPages(backend)
		if test.ok {
			backend.EXPECT().Halt(anything, "it burns").Return(info, nil).Once()
			backend.EXPECT().Resume(anything).Return(info, nil).Once()
			backend.EXPECT().Cancel(anything, "r-01").Return(run, nil).Once()
		}
		b := newBrowser(t, s)
		b.login()
		form := b.form()
		if test.form != "" {
			form = test.form
		}
		b.header = test.header
		for path, to := range map[string]string{"/halt": "/", "/resume": "/", "/runs/r-01/cancel": "/runs/r-01"} {
			w := b.post(path, url.Values{"form": {form}, "reason": {"it burns"}})
			if test.ok && (w.Code != http.StatusSeeOther || w.Header().Get("Location") != to) || !test.ok && w.Code != http.StatusForbidden {
				t.Errorf("%s to %s: %d to %q", test.name, path, w.Code, w.Header().Get("Location"))
			}
		}
	}
}

func TestCookieChangesNothingByTheAPI(t *testing.T) {
	s, _, _ := newServer(t)
	b := newBrowser(t, s)
	b.login()
	fill := strings.NewReplacer("{name}", "shop", "{id}", "r-01", "{n}", "1")
	for _, route := range s.Routes() {
		if route.Method == http.MethodGet || !strings.HasPrefix(route.Path, "/v1/") {
			continue
		}
		r := ask{method: route.Method, path: fill.Replace(route.Path), body: "{}"}.request()
		if w := b.send(r); w.Code != http.StatusUnauthorized {
			t.Errorf("%s %s with a cookie: %d, want 401", route.Method, route.Path, w.Code)
		}
	}
}

// On a socket there is no cookie to go by, and there may be something before it
// that a browser reaches.
func TestBrowserOnASocket(t *testing.T) {
	s, backend, _ := newServer(t, onSocket)
	expectPages(backend)
	backend.EXPECT().Halt(anything, "it burns").Return(info, nil).Once()
	b := newBrowser(t, s)
	form := b.form()
	if w := b.get("/login"); w.Code != http.StatusSeeOther {
		t.Errorf("/login: %d, want 303 to the first page", w.Code)
	}
	if w := b.post("/halt", url.Values{"form": {form}, "reason": {"it burns"}}); w.Code != http.StatusSeeOther {
		t.Errorf("the form of the page: %d %s", w.Code, w.Body)
	}
	if w := b.post("/halt", url.Values{"reason": {"it burns"}}); w.Code != http.StatusForbidden {
		t.Errorf("without the token of the form: %d, want 403", w.Code)
	}
	b.header = map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
	if w := b.send(ask{method: "POST", path: "/v1/halt"}.request()); w.Code != http.StatusForbidden {
		t.Errorf("a page of another origin: %d, want 403", w.Code)
	}
	b.header = nil
	if w := b.post("/login", url.Values{"token": {""}}); w.Code != http.StatusUnauthorized || b.cookie != nil {
		t.Errorf("an empty token: %d, cookie %v", w.Code, b.cookie)
	}
}

func TestFormsHaveToBeForms(t *testing.T) {
	s, _, _ := newServer(t)
	for _, test := range []struct {
		body, contentType string
		want              control.ProblemType
	}{
		{`{"token":"x"}`, "application/json", control.Malformed},
		{"", "", control.Malformed},
		{"token=%zz", "application/x-www-form-urlencoded", control.Malformed},
		{"token=" + strings.Repeat("a", 16<<10), "application/x-www-form-urlencoded", control.TooLarge},
	} {
		ask{method: "POST", path: "/login", body: test.body, header: map[string]string{"Content-Type": test.contentType}}.problem(t, s, test.want)
	}
}
