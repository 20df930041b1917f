package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/middleware"
)

// faults are Configs with one fault each, and what its message must say: the
// field, the value and what would be right.
var faults = []struct {
	cfg  middleware.Config
	says []string
}{
	{middleware.Config{SessionHeader: "My Session"}, []string{"Config.SessionHeader", `"My Session"`, "Mcp-Session-Id"}},
	{middleware.Config{SessionHeader: "Session:"}, []string{"Config.SessionHeader", `"Session:"`, "Mcp-Session-Id"}},
	{middleware.Config{SessionHeader: "S\u00e9ance"}, []string{"Config.SessionHeader", "Mcp-Session-Id"}},
	{middleware.Config{SessionHeader: "X\r\nY"}, []string{"Config.SessionHeader", `\r\n`, "Mcp-Session-Id"}},
	{middleware.Config{ProbeTimeout: -time.Second}, []string{"Config.ProbeTimeout", "-1s", "5s"}},
	{middleware.Config{ProbeTimeout: 3 * time.Second, ProbeBudget: 2 * time.Second}, []string{"Config.ProbeTimeout", "3s", "ProbeBudget", "2s"}},
	{middleware.Config{ProbeTimeout: 11 * time.Minute}, []string{"Config.Probe", "11m0s", "10m0s"}},
	{middleware.Config{ProbeBudget: -time.Minute}, []string{"Config.ProbeBudget", "-1m0s", "10m0s"}},
	{middleware.Config{ProbeBudget: 10*time.Minute + 1}, []string{"Config.ProbeBudget", "10m0.000000001s", "10m0s"}},
	{middleware.Config{AmbiguousRounds: -1}, []string{"Config.AmbiguousRounds", "-1", "1 to 1000", "3"}},
	{middleware.Config{AmbiguousRounds: 1001}, []string{"Config.AmbiguousRounds", "1001", "1 to 1000"}},
	{middleware.Config{MaxHeldBytes: 255}, []string{"Config.MaxHeldBytes", "255", "256 to 1073741824"}},
	{middleware.Config{MaxHeldBytes: 1<<30 + 1}, []string{"Config.MaxHeldBytes", "1073741825", "256 to 1073741824"}},
	{middleware.Config{MaxHeldBytes: math.MinInt}, []string{"Config.MaxHeldBytes", fmt.Sprint(math.MinInt), "256 to 1073741824"}},
	{middleware.Config{MaxEventBytes: 255}, []string{"Config.MaxEventBytes", "255", "256 to 1073741824"}},
	{middleware.Config{MaxEventBytes: math.MaxInt}, []string{"Config.MaxEventBytes", fmt.Sprint(math.MaxInt), "256 to 1073741824"}},
	{middleware.Config{MaxSessions: -4096}, []string{"Config.MaxSessions", "-4096", "1 to 16777216"}},
	{middleware.Config{MaxSessions: 1<<24 + 1}, []string{"Config.MaxSessions", "16777217", "1 to 16777216"}},
	{middleware.Config{LivenessLease: -time.Nanosecond}, []string{"Config.LivenessLease", "-1ns", "24h0m0s"}},
	{middleware.Config{LivenessLease: 24*time.Hour + 1}, []string{"Config.LivenessLease", "24h0m0.000000001s", "24h0m0s"}},
	{middleware.Config{Terminal: 2}, []string{"Config.Terminal", "2", "TerminalResponse", "TerminalError"}},
	{middleware.Config{Probe: middleware.Probe{DeadStatusCodes: []int{400, 399}}}, []string{"Config.Probe.DeadStatusCodes", "399", "400 to 599"}},
	{middleware.Config{Probe: middleware.Probe{DeadStatusCodes: []int{600}}}, []string{"Config.Probe.DeadStatusCodes", "600", "400 to 599"}},
	{middleware.Config{Probe: middleware.Probe{NewRequest: newRequest}}, []string{"Config.Probe.NewRequest", "Judge", "both or neither"}},
	{middleware.Config{Probe: middleware.Probe{Judge: judgeLive}}, []string{"Probe.Judge", "NewRequest", "both or neither"}},
	{middleware.Config{Probe: middleware.Probe{NewRequest: newRequest, Judge: judgeLive, Method: "ping"}}, []string{"Config.Probe.Method", "NewRequest"}},
	{middleware.Config{Probe: middleware.Probe{NewRequest: newRequest, Judge: judgeLive, LiveErrorCodes: []int{1}}}, []string{"Probe.LiveErrorCodes", "NewRequest"}},
}

func newRequest(ctx context.Context, reconnect *http.Request) (*http.Request, error) {
	req := reconnect.Clone(ctx)
	req.Header.Del("Last-Event-ID")
	return req, nil
}

func judgeLive(*http.Response, []byte) middleware.Verdict { return middleware.Live }

func TestNewNamesAFault(t *testing.T) {
	for _, fault := range faults {
		transport, err := middleware.New(fault.cfg)
		if transport != nil || err == nil {
			t.Errorf("New of a Config with a fault = %v, want an error that says %q", err, fault.says)
			continue
		}
		if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "middleware: ") {
			t.Errorf("New = %q, want one fault", err)
		}
		for _, say := range fault.says {
			if !strings.Contains(err.Error(), say) {
				t.Errorf("New = %q, want it to say %q", err, say)
			}
		}
	}
}

func TestNewNamesEveryFaultAtOnce(t *testing.T) {
	cfg := middleware.Config{
		SessionHeader: "a b", ProbeTimeout: -1, ProbeBudget: -2, AmbiguousRounds: -3, MaxHeldBytes: 4, MaxEventBytes: -5,
		LivenessLease: -6, Terminal: 7, MaxSessions: -8,
		Probe: middleware.Probe{Method: "x", NewRequest: newRequest, DeadStatusCodes: []int{9, 404, 10}},
	}
	_, err := middleware.New(cfg)
	if err == nil {
		t.Fatal("New = nil, want every fault")
	}
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("New = %T, want joined errors", err)
	}
	var names []string
	for _, fault := range all.Unwrap() {
		names = append(names, strings.TrimPrefix(strings.Fields(fault.Error())[1], "Config."))
	}
	want := "SessionHeader ProbeTimeout ProbeBudget AmbiguousRounds MaxHeldBytes MaxEventBytes MaxSessions LivenessLease Terminal " +
		"Probe.NewRequest Probe.Method Probe.DeadStatusCodes Probe.DeadStatusCodes"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("New names %q, want %q", got, want)
	}
}

func TestNewTakesEveryBound(t *testing.T) {
	for _, cfg := range []middleware.Config{
		{},
		{SessionHeader: "x-session"},
		{SessionHeader: "!#$%&'*+-.^_`|~09azAZ"},
		{ProbeTimeout: 1},
		{ProbeTimeout: 10 * time.Minute},
		{ProbeTimeout: time.Minute, ProbeBudget: time.Minute},
		{ProbeBudget: 1},
		{ProbeBudget: 10 * time.Minute},
		{AmbiguousRounds: 1},
		{AmbiguousRounds: 1000},
		{MaxHeldBytes: 256, MaxEventBytes: 256},
		{MaxHeldBytes: 1 << 30, MaxEventBytes: 1 << 30},
		{LivenessLease: 1},
		{LivenessLease: 24 * time.Hour},
		{Terminal: middleware.TerminalError},
		{MaxSessions: 1},
		{MaxSessions: 1 << 24},
		{Probe: middleware.Probe{Method: "tools/list", LiveErrorCodes: []int{-32600, 0, 7}, DeadStatusCodes: []int{400, 404, 599}}},
		{Probe: middleware.Probe{NewRequest: newRequest, Judge: judgeLive, DeadStatusCodes: []int{401}}},
	} {
		if transport, err := middleware.New(cfg); transport == nil || err != nil {
			t.Errorf("New(%+v) = %v, %v, want a Transport", cfg, transport, err)
		}
	}
}

// The zero Config guards what http.DefaultTransport sends.
func TestAZeroConfigWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		defer func(old http.RoundTripper) { http.DefaultTransport = old }(http.DefaultTransport)
		http.DefaultTransport = w.base
		transport, err := middleware.New(middleware.Config{})
		if err != nil {
			t.Fatal(err)
		}
		w.transport = transport
		w.get, w.post = openSSE(replayed), gone
		resp, err := w.reconnect("3")
		if e := problem(t, resp, err); e.QuarantinedEvents != 2 {
			t.Errorf("%d events quarantined, want 2", e.QuarantinedEvents)
		}
		resp, err = w.reconnect("3")
		problem(t, resp, err)
		if got, want := strings.Join(w.requests(), ", "), "GET 3, POST ping"; got != want {
			t.Errorf("on the wire: %q, want %q", got, want)
		}
	})
}

func TestDefaultRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		w.get, w.post = sseAnswer(block(1)), status(400, "", "")
		for i := 1; i <= middleware.DefaultAmbiguousRounds; i++ {
			resp, _ := w.spin("c-0")
			if got := resp.StatusCode == 404; got != (i == middleware.DefaultAmbiguousRounds) {
				t.Errorf("round %d: status %d, want 404 in round %d", i, resp.StatusCode, middleware.DefaultAmbiguousRounds)
			}
		}
	})
}

// How long a session that gets no answer takes to be undecided, and in how
// many attempts.
func TestTimeoutAndBudget(t *testing.T) {
	for _, test := range []struct {
		timeout, budget time.Duration
		takes           time.Duration // at least, and a second more at most
		attempts        int
	}{
		{0, 0, 10 * time.Second, 3},
		{0, 2 * time.Second, 2 * time.Second, 1},
		{20 * time.Second, 0, 20 * time.Second, 1},
		{time.Second, 0, 12 * time.Second, 8},
		{time.Second, 2500 * time.Millisecond, 2 * time.Second, 3},
		{7 * time.Second, 7 * time.Second, 7 * time.Second, 1},
	} {
		t.Run(fmt.Sprint(test.timeout, " of ", test.budget), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{ProbeTimeout: test.timeout, ProbeBudget: test.budget})
				defer w.close()
				w.get, w.post = openSSE(block(1)), silent
				start := time.Now()
				resp, _ := w.spin("c-0")
				budget := test.budget
				if budget == 0 {
					budget = max(test.timeout, middleware.DefaultProbeBudget)
				}
				if took := time.Since(start); took < test.takes || took > budget+200*time.Millisecond {
					t.Errorf("RoundTrip took %v, want %v to %v", took, test.takes, budget)
				}
				if err := middleware.ErrorFrom(resp); !errors.Is(err, middleware.ErrLivenessUnknown) {
					t.Errorf("ErrorFrom = %v, want %v", err, middleware.ErrLivenessUnknown)
				}
				if n := w.count("POST ping"); n < min(test.attempts, 2) || n > test.attempts {
					t.Errorf("%d attempts, want %d", n, test.attempts)
				}
			})
		})
	}
}

// By default there is no lease: a stream that is open passes for ever.
func TestByDefaultThereIsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, middleware.Config{})
		defer w.close()
		f := newFeed()
		w.get, w.post = f.ServeHTTP, gone
		stream := follow(w.open(), 64)
		time.Sleep(100 * 24 * time.Hour)
		f.pieces <- block(1)
		synctest.Wait()
		if got := stream.text(); got != block(1) || w.count("POST") != 0 {
			t.Errorf("stream = %q after %d probes, want the event and none", got, w.count("POST"))
		}
		stream.body.Close()
	})
}

func TestDefaultMaxEventBytes(t *testing.T) {
	for _, over := range []int{0, 1} {
		text := sized(middleware.DefaultMaxEventBytes + over)
		base := baseFunc(func(req *http.Request) (*http.Response, error) {
			return fakeAnswer(req, 200, "text/event-stream", io.NopCloser(strings.NewReader(text))), nil
		})
		transport, err := middleware.New(middleware.Config{Base: base})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://mcp.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Mcp-Session-Id", sid)
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if over == 0 && (n != int64(len(text)) || err != nil) {
			t.Errorf("Copy = %d, %v, want %d, nil", n, err, len(text))
		}
		if over > 0 && (n != 0 || !errors.Is(err, middleware.ErrReplayTooLarge)) {
			t.Errorf("Copy = %d, %v, want 0, %v", n, err, middleware.ErrReplayTooLarge)
		}
		resp.Body.Close()
	}
}

func TestDefaultMaxSessions(t *testing.T) {
	base := baseFunc(func(req *http.Request) (*http.Response, error) {
		return fakeAnswer(req, 202, "", http.NoBody), nil
	})
	transport, err := middleware.New(middleware.Config{Base: base})
	if err != nil {
		t.Fatal(err)
	}
	for i := range middleware.DefaultMaxSessions + 10 {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://mcp.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Mcp-Session-Id", fmt.Sprint("s-", i))
		if _, err := transport.RoundTrip(req); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(transport.Sessions()); got != middleware.DefaultMaxSessions {
		t.Errorf("len(Sessions()) = %d, want %d", got, middleware.DefaultMaxSessions)
	}
}

// Any server with a session header of another name, however it is spelled.
func TestSessionHeaderOfAnotherName(t *testing.T) {
	for _, spelled := range []string{"X-Session-Token", "x-session-token", "X-SESSION-TOKEN"} {
		t.Run(spelled, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, middleware.Config{SessionHeader: spelled})
				defer w.close()
				w.get, w.post = openSSE(replayed), gone
				req := w.request(t.Context(), "GET", "3", "")
				req.Header.Set("X-Session-Token", "tok-4711-secret")
				resp, err := w.transport.RoundTrip(req)
				if e := problem(t, resp, err); e.SessionID != "tok-4711-secret" {
					t.Errorf("SessionID = %q, want that of %s", e.SessionID, spelled)
				}
				if got := w.last(); got.rpc != "ping" || got.header.Get("X-Session-Token") != "tok-4711-secret" {
					t.Errorf("last on the wire: %v %v, want the probe with its token", got, got.header)
				}
				if err := w.transport.SessionErr(sid); err != nil {
					t.Errorf("SessionErr(%q) = %v, want nil: it is not that header's", sid, err)
				}
				// What is not its header is not its business.
				w.get, w.post = gone, gone
				if resp, err := w.reconnect("3"); err != nil || middleware.ErrorFrom(resp) != nil || read(t, resp) != "Session not found" {
					t.Errorf("RoundTrip = %v, %v, want the server's own 404", resp, err)
				}
			})
		})
	}
}

// "A Config is copied by New and may be changed afterwards."
func TestAConfigMayBeChangedAfterNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := middleware.Config{Probe: middleware.Probe{DeadStatusCodes: []int{451}, LiveErrorCodes: []int{-32600}}}
		w := newWorld(t, cfg)
		defer w.close()
		cfg.Probe.DeadStatusCodes[0], cfg.Probe.LiveErrorCodes[0] = 400, -1
		w.get = sseAnswer(block(1))
		w.post = func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(rw, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600}}`, rpcID(string(body)))
		}
		if _, text := w.spin("c-0"); text != block(1) {
			t.Errorf("after -32600 the replay is %q, want it released", text)
		}
		w.post = status(400, "", "")
		if resp, _ := w.spin("c-0"); resp.StatusCode != 200 {
			t.Errorf("after 400 the answer is %s, want it undecided", resp.Status)
		}
		w.post = status(451, "", "")
		resp, err := w.reconnect("c-0")
		deadErr(t, problem(t, resp, err))
	})
}
