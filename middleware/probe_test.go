package middleware_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// probed is one probe as the server saw it.
type probed struct {
	host, uri, body string
	header          http.Header
	length          int64
}

// probes makes the server keep every probe that it is sent, and answer with h.
func (w *world) probes(h http.HandlerFunc) func() []probed {
	var mu sync.Mutex
	var all []probed
	w.post = func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		mu.Lock()
		all = append(all, probed{r.Host, r.RequestURI, string(body), r.Header.Clone(), r.ContentLength})
		mu.Unlock()
		h(rw, r)
	}
	return func() []probed {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

// C21: the probe goes as the client's own request, or a gateway answers for
// somebody else.
func TestProbeCarriesTheReconnectsHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.url = "http://mcp.test/tenants/7/mcp?region=eu%2Fwest&x=1"
		w.get = sseAnswer(replayed)
		seen := w.probes(alive)

		req := w.request(t.Context(), "GET", "e-19", "")
		req.Host = "tenant-7.example"
		for k, v := range map[string][]string{
			"Authorization":     {"Bearer t0ken"},
			"Cookie":            {`csrf="a b"; theme=dark`},
			"X-Tenant":          {"acme"},
			"X-Forwarded-For":   {"10.0.0.1", "10.0.0.2"},
			"Traceparent":       {"00-4bf92f35-01"},
			"User-Agent":        {"agent/3"},
			"Accept":            {"text/event-stream"},
			"Accept-Encoding":   {"gzip, zstd"},
			"X-Lower-In-Source": {""},
		} {
			req.Header[k] = v
		}
		sent := req.Header.Clone()
		isUntouched(t, must(t, func() (*http.Response, error) { return w.transport.RoundTrip(req) }), 200, replayed)
		if !reflect.DeepEqual(req.Header, sent) {
			t.Errorf("the client's request has the header %v now, want %v", req.Header, sent)
		}

		probes := seen()
		if len(probes) != 1 {
			t.Fatalf("%d probes, want 1", len(probes))
		}
		p := probes[0]
		if p.host != "tenant-7.example" || p.uri != "/tenants/7/mcp?region=eu%2Fwest&x=1" {
			t.Errorf("the probe went to %q of host %q", p.uri, p.host)
		}
		want := sent.Clone()
		want.Del("Last-Event-ID")
		want.Set("Content-Type", "application/json")
		got := p.header.Clone()
		for _, list := range []string{"application/json", "text/event-stream"} {
			if !strings.Contains(got.Get("Accept"), list) {
				t.Errorf("Accept = %q, want %s in it", got.Get("Accept"), list)
			}
		}
		if v := got.Values("Accept-Encoding"); len(v) > 0 && !slices.Equal(v, []string{"gzip"}) {
			t.Errorf("Accept-Encoding = %q, want none but what the transport decodes itself", v)
		}
		for _, name := range []string{"Accept", "Accept-Encoding", "Content-Length"} {
			want.Del(name)
			got.Del(name)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the probe's header is %v, want %v", got, want)
		}

		var message map[string]any
		if err := json.Unmarshal([]byte(p.body), &message); err != nil {
			t.Fatalf("the probe is %q: %v", p.body, err)
		}
		id, _ := message["id"].(string)
		if len(message) != 3 || message["jsonrpc"] != "2.0" || message["method"] != "ping" || id == "" || p.length != int64(len(p.body)) {
			t.Errorf("the probe is %q of length %d, want a JSON-RPC ping with a string id", p.body, p.length)
		}
	})
}

func TestProbeMethodIsConfigurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{Probe: middleware.Probe{Method: "resources/list"}})
		defer w.close()
		w.get, w.post = sseAnswer(replayed), alive
		isUntouched(t, w.resume(t, "7"), 200, replayed)
		if got, want := w.requests(), []string{"GET 7", "POST resources/list"}; !reflect.DeepEqual(got, want) {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
	})
}

// An answer with the probe's id was made for this probe, and for no other, not
// even for another attempt.
func TestProbeIDsAreUnique(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = sseAnswer(replayed)
		seen := w.probes(inTurn(status(502, "", ""), status(502, "", ""), alive))
		for range 20 {
			isUntouched(t, w.resume(t, "7"), 200, replayed)
		}
		ids := make(map[string]bool)
		for _, p := range seen() {
			ids[rpcID(p.body)] = true
		}
		if len(ids) != 22 || ids[""] || ids[`"7"`] {
			t.Errorf("22 probes had %d ids: %v", len(ids), ids)
		}
	})
}

// A late answer to an earlier attempt says nothing about this one.
func TestAnswerToAnEarlierAttemptIsForeign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{ProbeBudget: 4 * time.Second, ProbeTimeout: time.Second})
		defer w.close()
		w.get = sseAnswer(replayed)
		var first atomic.Value
		w.probes(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if first.CompareAndSwap(nil, rpcID(string(body))) {
				status(503, "", "")(rw, r)
				return
			}
			status(200, "application/json", `{"jsonrpc":"2.0","id":`+first.Load().(string)+`,"result":{}}`)(rw, r)
		})
		isAmbiguous(t, w.resume(t, "7"), "7")
	})
}

// GET first, probe second: a server may prune on a POST what it has not
// replayed yet, and a probe from before says nothing of the replay. C24.
func TestProbeIsSentOnlyOnceTheReplayHasOpened(t *testing.T) {
	for name, delay := range map[string]time.Duration{"at once": 0, "soon": 40 * time.Millisecond, "late": 8 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{})
				defer w.close()
				var attached, pruned atomic.Bool
				w.get = func(rw http.ResponseWriter, r *http.Request) {
					time.Sleep(delay)
					if pruned.Load() {
						gone(rw, r)
						return
					}
					attached.Store(true)
					sseAnswer(replayed)(rw, r)
				}
				w.post = func(rw http.ResponseWriter, r *http.Request) {
					if !attached.Load() {
						pruned.Store(true)
					}
					alive(rw, r)
				}
				start := time.Now()
				isUntouched(t, w.resume(t, "0"), 200, replayed)
				if took := time.Since(start); took < delay || took > delay+moment {
					t.Errorf("the answer came after %v, want %v", took, delay)
				}
				if pruned.Load() {
					t.Error("the probe reached the server before the replay had opened")
				}
				if got, want := w.requests(), []string{"GET 0", "POST ping"}; !reflect.DeepEqual(got, want) {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
			})
		})
	}
}

// C32: without the cookie that the GET's answer has just set, the probe
// reaches another replica.
func TestProbeCookies(t *testing.T) {
	for name, tc := range map[string]struct {
		scheme string
		sent   []string // Cookie lines of the GET
		set    []string // Set-Cookie lines of its answer
		want   []string // what the probe carries, sorted
	}{
		"none":                 {"http", nil, nil, nil},
		"the client's":         {"http", []string{"a=1; b=2"}, nil, []string{"a=1", "b=2"}},
		"a new one":            {"http", nil, []string{"node=n3; Path=/; HttpOnly"}, []string{"node=n3"}},
		"beside":               {"http", []string{"a=1"}, []string{"node=n3"}, []string{"a=1", "node=n3"}},
		"over":                 {"http", []string{"node=n1; a=1"}, []string{"node=n3; Path=/"}, []string{"a=1", "node=n3"}},
		"over, among several":  {"http", []string{"node=n1; a=1", "c=4"}, []string{"node=n3", "c=5"}, []string{"a=1", "c=5", "node=n3"}},
		"names have a case":    {"http", []string{"Node=n1"}, []string{"node=n3"}, []string{"Node=n1", "node=n3"}},
		"deleted":              {"http", []string{"node=n1; a=1"}, []string{"node=; Max-Age=0"}, []string{"a=1"}},
		"deleted, negative":    {"http", []string{"node=n1"}, []string{"node=x; Max-Age=-5"}, nil},
		"deleted by date":      {"http", []string{"node=n1; a=1"}, []string{"node=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT"}, []string{"a=1"}},
		"with an age":          {"http", nil, []string{"node=n3; Max-Age=60"}, []string{"node=n3"}},
		"secure, over http":    {"http", []string{"a=1"}, []string{"node=n3; Secure"}, []string{"a=1"}},
		"secure, over https":   {"https", []string{"a=1"}, []string{"node=n3; Secure"}, []string{"a=1", "node=n3"}},
		"set twice":            {"http", nil, []string{"node=n3", "node=n4"}, []string{"node=n4"}},
		"quoted by the server": {"http", nil, []string{`node="n3"`}, []string{`node="n3"`}},
		"others stay verbatim": {"http", []string{`sso="q7=="; prefs={"k":1,"l":2}; node=n1`}, []string{"node=n3"},
			[]string{"node=n3", `prefs={"k":1,"l":2}`, `sso="q7=="`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *world
				w = newWorld(t, middleware.Config{Base: baseFunc(func(req *http.Request) (*http.Response, error) {
					plain := req.Clone(req.Context()) // the test server has no TLS
					plain.URL.Scheme = "http"
					return w.base.RoundTrip(plain)
				})})
				defer w.close()
				w.url = tc.scheme + "://mcp.test/mcp"
				w.get = sseAnswer(replayed)
				var pairs []string
				for _, c := range tc.set {
					pairs = append(pairs, "Set-Cookie", c)
				}
				w.get = withHeader(w.get, pairs...)
				seen := w.probes(alive)
				req := w.request(t.Context(), "GET", "7", "")
				req.Header["Cookie"] = tc.sent
				resp := must(t, func() (*http.Response, error) { return w.transport.RoundTrip(req) })
				if got := resp.Header.Values("Set-Cookie"); len(got) != len(tc.set) {
					t.Errorf("the client gets the cookies %q, want %q", got, tc.set)
				}
				isUntouched(t, resp, 200, replayed)
				var got []string
				for _, line := range seen()[0].header["Cookie"] {
					got = append(got, strings.Split(line, "; ")...)
				}
				slices.Sort(got)
				if !slices.Equal(got, tc.want) {
					t.Errorf("cookies of the probe = %q, want %q", got, tc.want)
				}
			})
		})
	}
}

// The whole of C32: a balancer moves a client whose node is gone.
func TestProbeReachesTheNodeOfTheReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get = withHeader(sseAnswer(replayed), "Set-Cookie", "LB=node-2; Path=/; HttpOnly")
		w.post = func(rw http.ResponseWriter, r *http.Request) {
			if c, err := r.Cookie("LB"); err != nil || c.Value != "node-2" {
				gone(rw, r)
				return
			}
			alive(rw, r)
		}
		req := w.request(t.Context(), "GET", "7", "")
		req.Header.Set("Cookie", "LB=node-1; lang=de")
		isUntouched(t, must(t, func() (*http.Response, error) { return w.transport.RoundTrip(req) }), 200, replayed)
	})
}

// The probe is the client's but its deadline is not: C78.
func TestProbeHasADeadlineOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		var w *world
		w = newWorld(t, middleware.Config{ProbeTimeout: 3 * time.Second, Base: baseFunc(func(req *http.Request) (*http.Response, error) {
			if req.Method == "POST" {
				if d, ok := req.Context().Deadline(); !ok || time.Until(d) != 3*time.Second {
					t.Errorf("the probe's deadline is %v, %v, want in 3s", d, ok)
				}
				if got := req.Context().Value(key{}); got != "trace" {
					t.Errorf("the probe's context has the value %v, want the client's", got)
				}
			}
			return w.base.RoundTrip(req)
		})})
		defer w.close()
		w.get, w.post = sseAnswer(replayed), alive
		ctx := context.WithValue(t.Context(), key{}, "trace")
		isUntouched(t, must(t, func() (*http.Response, error) {
			return w.transport.RoundTrip(w.request(ctx, "GET", "7", ""))
		}), 200, replayed)
	})
}

// A client that leaves while the session is probed gets its own error at once,
// and the probe ends with it. C87.
func TestClientThatLeavesDuringTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		var left atomic.Int32
		leaves := func(h http.HandlerFunc) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) { h(rw, r); left.Add(1) }
		}
		w.get, w.post = leaves(openSSE(replayed)), leaves(silent)
		ctx, cancel := context.WithTimeout(t.Context(), 1300*time.Millisecond)
		defer cancel()
		start := time.Now()
		_, err := w.transport.RoundTrip(w.request(ctx, "GET", "7", ""))
		if took := time.Since(start); err == nil || err != ctx.Err() || took != 1300*time.Millisecond {
			t.Errorf("RoundTrip = %v after %v, want %v after 1.3s", err, took, ctx.Err())
		}
		synctest.Wait()
		if got := left.Load(); got != 2 {
			t.Errorf("%d of the GET and the probe have ended, want both", got)
		}
		if err := w.transport.SessionErr(sid); err != nil {
			t.Errorf("SessionErr(%q) = %v, want nil", sid, err)
		}
	})
}

// A Base with a single connection leaves none for the probe: see Config.Base.
func TestSingleConnectionEndsUndecided(t *testing.T) {
	for name, get := range map[string]http.HandlerFunc{"stream stays open": openSSE(replayed), "byte-less": openSSE()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{ProbeTimeout: 2 * time.Second, ProbeBudget: 5 * time.Second})
				defer w.close()
				w.base.MaxConnsPerHost = 1
				w.get, w.post = get, alive
				start := time.Now()
				resp := w.resume(t, "7")
				if took := time.Since(start); took > 5*time.Second+200*time.Millisecond || took < 2*time.Second {
					t.Errorf("the answer came after %v, want 2s to 5s", took)
				}
				e, _ := isAmbiguous(t, resp, "7")
				if e.Phase != middleware.PhaseProbe || e.StatusCode != 0 {
					t.Errorf("error is of phase %q, status %d, want probe, 0", e.Phase, e.StatusCode)
				}
				// The connection is free again.
				if resp := must(t, func() (*http.Response, error) { return w.call("tools/list") }); resp.StatusCode != 200 {
					t.Errorf("the next call got %s, want 200", resp.Status)
				} else {
					read(t, resp)
				}
				if got, want := w.requests(), []string{"GET 7", "POST tools/list"}; !reflect.DeepEqual(got, want) {
					t.Errorf("on the wire: %q, want %q", got, want)
				}
			})
		})
	}
}
