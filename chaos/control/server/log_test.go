package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/revenant-mcp/revenant/chaos/control"
)

func TestRequestIsALineOfTheLog(t *testing.T) {
	s, backend, log := newServer(t)
	backend.EXPECT().Get(anything, control.Servers, "shop").Return(shop, nil)
	ask{path: "/v1/servers/shop"}.send(t, s)
	var line struct {
		Msg, Method, Route string
		Status             int
		Took               *int64
		Bytes              int
	}
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("log %s: %v", log, err)
	}
	if line.Msg != "request" || line.Method != "GET" || line.Route != "/v1/servers/{name}" || line.Status != http.StatusOK || line.Took == nil || line.Bytes == 0 {
		t.Errorf("log %s, want the method, route, status, duration and bytes", log)
	}
}

// Nothing that a request says is in the log, and so no secret is.
func TestLogHasNothingThatRequestsSay(t *testing.T) {
	s, backend, log := newServer(t)
	const private = "hunter2-hunter2-hunter2"
	expectPages(backend)
	backend.EXPECT().Put(anything, control.Servers, "shop", int64(-1), anything).Return(control.Resource{}, false, control.NewProblem(control.Invalid, "settings.liveness_token is %q", private))
	for _, a := range []ask{
		{path: "/v1/info"},
		{path: "/v1/info?token=" + private},
		{path: "/v1/" + private},
		{path: "/v1/servers/" + strings.ToUpper(private)},
		{path: "/v1/info", header: map[string]string{"Authorization": "Bearer " + private}},
		{path: "/v1/info", header: map[string]string{"Host": private}},
		{path: "/v1/info", header: map[string]string{"Authorization": "", "Cookie": "revenant-8700=" + private}},
		{method: private, path: "/v1/info"},
		{method: "PUT", path: "/v1/servers/shop", body: `{"settings":{"liveness_token":"` + private + `"}}`},
		{method: "PUT", path: "/v1/servers/shop", body: `{"` + private + `":1}`},
		{method: "POST", path: "/login", body: "token=" + private, header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
		{method: "POST", path: "/login", body: "token=" + secret, header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}},
	} {
		serve(s, a.request())
	}
	if n := strings.Count(log.String(), `"msg":"request"`); n != 12 {
		t.Errorf("%d lines for 12 requests", n)
	}
	for _, never := range []string{private, strings.ToUpper(private), secret} {
		if strings.Contains(log.String(), never) {
			t.Errorf("log has %q:\n%s", never, log)
		}
	}
}
