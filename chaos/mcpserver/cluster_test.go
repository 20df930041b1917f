package mcpserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/revenant-mcp/revenant/chaos/mcpserver"
	"github.com/revenant-mcp/revenant/internal/memnettest"
)

// fleet is a running cluster, with a bed for each replica.
type fleet struct {
	*mcpserver.Cluster
	t    *testing.T
	beds []*bed
	stop func() error
}

// clustered runs f in virtual time against a running cluster.
func clustered(t *testing.T, cfg mcpserver.ClusterConfig, f func(t *testing.T, c *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &fleet{t: t}
		for range max(cfg.Replicas, 2) {
			l := memnettest.New()
			cfg.Listeners = append(cfg.Listeners, l)
			c.beds = append(c.beds, &bed{t: t, dial: l, client: &http.Client{Transport: &http.Transport{DialContext: l.DialContext}}})
		}
		cfg.Server.Observe = func(r mcpserver.Record) {
			b := c.beds[0]
			b.mu.Lock()
			defer b.mu.Unlock()
			b.observed = append(b.observed, r)
		}
		cluster, err := mcpserver.NewCluster(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.Cluster = cluster
		for i, b := range c.beds {
			b.server = c.Replica(i)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ran := make(chan error, 1)
		go func() { ran <- c.Run(ctx) }()
		c.stop = sync.OnceValue(func() error {
			cancel()
			for _, b := range c.beds {
				defer b.client.CloseIdleConnections()
			}
			return <-ran
		})
		t.Cleanup(func() {
			if err := c.stop(); err != nil {
				t.Errorf("Run() = %v, want nil", err)
			}
		})
		f(t, c)
	})
}

// emit sends at the session's home.
func (c *fleet) emit(session, text string) mcpserver.Stamp {
	c.t.Helper()
	stamp, err := c.Emit(session, text)
	if err != nil {
		c.t.Fatalf("Emit(%q) = %v, want nil", text, err)
	}
	return stamp
}

// The canonical scenario: one log for all, and to each its own sessions.
func TestOtherReplicaReplaysASessionThatItDoesNotKnow(t *testing.T) {
	clustered(t, mcpserver.ClusterConfig{Replicas: 3}, func(t *testing.T, c *fleet) {
		a, b := c.beds[0], c.beds[1]
		if urls := c.URLs(); c.Size() != 3 || len(urls) != 3 || urls[1] != b.server.URL() {
			t.Errorf("Size() = %d, URLs() = %q, want those of 3", c.Size(), urls)
		}
		session := a.initialize()
		if i, ok := c.Home(session); i != 0 || !ok {
			t.Errorf("Home() = %d, %v, want 0", i, ok)
		}
		stream := a.listen(session)
		c.emit(session, "one")
		c.emit(session, "two")
		cursor := stream.next().id

		replay := b.open("GET", session, cursor, "")
		if got, ended := replay.settled(); !slices.Equal(texts(t, got), []string{"two"}) || !ended {
			t.Errorf("replay elsewhere: %q, ended %v, want [two] and the end", texts(t, got), ended)
		}
		if status := b.ping(session); status != 404 {
			t.Errorf("ping elsewhere: %d, want 404", status)
		}
		if status := a.ping(session); status != 200 {
			t.Errorf("ping at home: %d, want 200", status)
		}
		requests := c.Oracle().History().Requests
		at := map[int]int{}
		for _, r := range requests {
			at[r.Replica]++
		}
		resume := requests[3]
		if resume.LastEventID != cursor || resume.Replica != 1 || resume.SessionAlive || at[0] != 4 || at[1] != 2 {
			t.Errorf("requests %+v, want 4 at replica 0, and 2 at 1, to which the session is unknown", requests)
		}
		if _, dead := c.Oracle().DiedAt(session); dead {
			t.Error("DiedAt() says dead, want that it lives at home")
		}

		// A session of its own does not share an id with anything.
		other := b.initialize()
		theirs := b.listen(other)
		stamp := c.emit(other, "three")
		f := theirs.next()
		stream.settled()
		if home, _ := c.Home(other); home != 1 || f.id != "3" || stamp.Seq != 3 {
			t.Errorf("first event of replica %d has id %s, stamp %+v, want the cluster's third", home, f.id, stamp)
		}
		_, q0 := a.confirm(session, 1, `{"message":"?"}`)
		_, q1 := b.confirm(other, 1, `{"message":"?"}`)
		if id0, id1 := q0.asked(t).ID, q1.asked(t).ID; id0 == id1 {
			t.Errorf("questions have the ids %d and %d, want two", id0, id1)
		}
		if status := b.reply(session, q0.asked(t).ID, yes); status != 404 {
			t.Errorf("an answer at the wrong replica: %d, want 404", status)
		}
		if status := a.reply(session, q0.asked(t).ID, yes); status != 202 {
			t.Errorf("an answer at home: %d, want 202", status)
		}
		sessions := c.Oracle().History().Sessions
		if len(sessions) != 2 || sessions[0].Replica != 0 || sessions[1].Replica != 1 {
			t.Errorf("sessions %+v, want one of replica 0 and one of 1", sessions)
		}
	})
}

func TestClusterReachesTheSessionsHome(t *testing.T) {
	clustered(t, mcpserver.ClusterConfig{}, func(t *testing.T, c *fleet) {
		session := c.beds[1].initialize()
		c.beds[0].listen(session).cut() // It makes nobody its home.
		stream := c.beds[1].listen(session)
		answered := make(chan error, 1)
		go func() {
			_, err := c.Ask(t.Context(), session, "?")
			answered <- err
		}()
		q := stream.next()
		if status := c.beds[1].reply(session, q.asked(t).ID, yes); status != 202 {
			t.Errorf("answer: %d, want 202", status)
		}
		if err := <-answered; err != nil {
			t.Errorf("Ask() = %v, want nil", err)
		}
		if !c.Reap(session) || c.Reap(session) {
			t.Error("Reap() twice, want true and then false")
		}
		if status := c.beds[1].ping(session); status != 404 {
			t.Errorf("ping: %d, want 404", status)
		}
		if _, err := c.Emit(session, "x"); !errors.Is(err, mcpserver.ErrSessionGone) {
			t.Errorf("Emit() = %v, want ErrSessionGone", err)
		}
		if _, ok := c.Home(session); ok {
			t.Error("Home() of a dead session = true, want false")
		}
	})
}

func TestHomeOfASessionOfSeveralIsWhereItsStreamIs(t *testing.T) {
	cfg := mcpserver.ClusterConfig{Server: mcpserver.Config{UnknownSession: mcpserver.UnknownAdopt}}
	clustered(t, cfg, func(t *testing.T, c *fleet) {
		session := c.beds[0].initialize()
		if status := c.beds[1].ping(session); status != 200 {
			t.Errorf("ping at the other: %d, want 200 as it adopts", status)
		}
		if i, ok := c.Home(session); i != 0 || !ok {
			t.Errorf("Home() = %d, %v, want the first that has it", i, ok)
		}
		stream := c.beds[1].listen(session)
		c.emit(session, "one")
		if i, _ := c.Home(session); i != 1 {
			t.Errorf("Home() = %d, want 1, where its stream is", i)
		}
		if got, _ := stream.settled(); len(got) != 1 {
			t.Errorf("its stream: %+v, want the event", got)
		}
	})
}

func TestDELETEAtTheWrongReplicaDeletesNothing(t *testing.T) {
	for unknown, want := range map[mcpserver.UnknownSession]int{
		mcpserver.UnknownNotFound: 404, mcpserver.UnknownUnauthorized: 401, mcpserver.UnknownAdopt: 404,
	} {
		cfg := mcpserver.ClusterConfig{Server: mcpserver.Config{UnknownSession: unknown}}
		clustered(t, cfg, func(t *testing.T, c *fleet) {
			a, b := c.beds[0], c.beds[1]
			session := a.initialize()
			stream := a.listen(session)
			c.emit(session, "one")
			c.emit(session, "two")
			cursor := stream.next().id
			b.listen(session).cut() // What that leaves behind is let go of, and no event with it.
			synctest.Wait()
			if resp, _ := b.do("DELETE", session, "", ""); resp.StatusCode != want {
				t.Errorf("%v: DELETE at the wrong replica: %s, want %d", unknown, resp.Status, want)
			}
			if status := a.ping(session); status != 200 {
				t.Errorf("%v: ping: %d, want 200", unknown, status)
			}
			if got, _ := b.open("GET", session, cursor, "").settled(); len(got) != 1 {
				t.Errorf("%v: replay: %+v, want one event", unknown, got)
			}
			c.emit(session, "three")
			if resp, _ := a.do("DELETE", session, "", ""); resp.StatusCode != 200 {
				t.Errorf("%v: DELETE at home: %s, want 200", unknown, resp.Status)
			}
			if status := b.get(session, cursor); status != 400 {
				t.Errorf("%v: replay after it: %d, want 400", unknown, status)
			}
		})
	}
}

func TestRestartOfOneReplicaLeavesTheOthersAlone(t *testing.T) {
	clustered(t, mcpserver.ClusterConfig{}, func(t *testing.T, c *fleet) {
		a, b := c.beds[0], c.beds[1]
		lost, kept := a.initialize(), b.initialize()
		first, second := a.listen(lost), b.listen(kept)
		c.emit(lost, "one")
		c.emit(lost, "two")
		cursor := first.next().id
		restart(t, c.Replica(0))
		if _, ended := first.settled(); !ended || first.err == nil {
			t.Errorf("stream of the restarted one: ended %v (%v), want that it breaks", ended, first.err)
		}
		c.emit(kept, "three")
		if got, ended := second.settled(); len(got) != 1 || ended {
			t.Errorf("stream of the other: %+v, ended %v, want it undisturbed", got, ended)
		}
		for i, bed := range c.beds {
			if got, _ := bed.open("GET", lost, cursor, "").settled(); len(got) != 1 {
				t.Errorf("replay at replica %d: %+v, want one event", i, got)
			}
			if status := bed.ping(lost); status != 404 {
				t.Errorf("ping at replica %d: %d, want 404", i, status)
			}
		}
		if resp, _ := a.do("DELETE", kept, "", ""); resp.StatusCode != 404 {
			t.Errorf("DELETE of the other's session at the restarted one: %s, want 404", resp.Status)
		}
		sessions := c.Oracle().History().Sessions
		if sessions[0].Why != mcpserver.WhyRestarted || !sessions[1].Died.IsZero() {
			t.Errorf("sessions %+v, want the first alone gone", sessions)
		}
	})
}

func TestRollingRestartTakesOneAfterTheOther(t *testing.T) {
	clustered(t, mcpserver.ClusterConfig{Replicas: 3}, func(t *testing.T, c *fleet) {
		began := time.Now()
		for _, b := range c.beds {
			b.initialize()
		}
		if err := c.RollingRestart(t.Context(), 10*time.Second); err != nil {
			t.Errorf("RollingRestart() = %v, want nil", err)
		}
		for i, s := range c.Oracle().History().Sessions {
			if want := began.Add(time.Duration(i) * 10 * time.Second); !s.Died.Equal(want) || s.Why != mcpserver.WhyRestarted {
				t.Errorf("session of replica %d died %v (%s), want %v", i, s.Died, s.Why, want)
			}
		}
		stopped := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(15*time.Second, func() { cancel(stopped) })
		survivor := c.beds[2].initialize()
		if err := c.RollingRestart(ctx, 10*time.Second); err != stopped {
			t.Errorf("RollingRestart() = %v, want the context's cause", err)
		}
		if status := c.beds[2].ping(survivor); status != 200 {
			t.Errorf("ping at the third: %d, want 200: it was not restarted", status)
		}
		time.AfterFunc(5*time.Second, func() { c.Close() })
		if err := c.RollingRestart(t.Context(), time.Hour); !errors.Is(err, mcpserver.ErrClosed) {
			t.Errorf("RollingRestart() of what is closed meanwhile = %v, want ErrClosed", err)
		}
	})
}

// Whatever a restart meets, everything ends, and what comes later works.
func TestRollingRestartsAmidTraffic(t *testing.T) {
	cfg := mcpserver.ClusterConfig{Server: mcpserver.Config{Retry: time.Millisecond, LogRetention: time.Second}}
	clustered(t, cfg, func(t *testing.T, c *fleet) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		send := func(b *bed, method, session, body string) string {
			resp, err := b.client.Do(b.request(method, session, "", body).WithContext(ctx))
			if err != nil {
				return ""
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
			return resp.Header.Get(sessionHeader)
		}
		for i := range 8 {
			b := c.beds[i%2]
			wg.Go(func() {
				for ctx.Err() == nil {
					session := send(b, "POST", "", initializeBody)
					wg.Go(func() { send(b, "GET", session, "") })
					wg.Go(func() {
						send(b, "POST", session, toolCall(1, "work", `{"events":50,"interval_ms":7,"detached":true}`))
					})
					elapse(time.Millisecond)
					_, _ = c.Emit(session, "x")
					send(c.beds[(i+1)%2], "POST", session, pingBody)
					elapse(100 * time.Millisecond)
				}
			})
		}
		for range 5 {
			if err := c.RollingRestart(t.Context(), 33*time.Millisecond); err != nil {
				t.Errorf("RollingRestart() = %v, want nil", err)
			}
			elapse(33 * time.Millisecond)
		}
		cancel()
		wg.Wait()
		if err := c.RollingRestart(t.Context(), 0); err != nil {
			t.Errorf("RollingRestart() = %v, want nil", err)
		}
		elapse(time.Minute)
		synctest.Wait()
		if n := pumps(); n != 0 {
			t.Errorf("mcp-go keeps %d sessions in the end, want 0", n)
		}
		for _, r := range c.Oracle().History().Requests {
			if r.Ended.IsZero() {
				t.Errorf("request %+v has not ended, want all ended", r)
			}
		}
		for i, b := range c.beds {
			if status := b.ping(b.initialize()); status != 200 {
				t.Errorf("ping at replica %d: %d, want 200", i, status)
			}
		}
	})
}

func TestSharedSessionsAreServedEverywhere(t *testing.T) {
	cfg := mcpserver.ClusterConfig{SharedSessions: true, Server: mcpserver.Config{SessionTTL: time.Minute, GETChecksSession: true}}
	clustered(t, cfg, func(t *testing.T, c *fleet) {
		a, b := c.beds[0], c.beds[1]
		session := a.initialize()
		stream := a.listen(session)
		c.emit(session, "one")
		cursor := stream.next().id
		work := a.open("POST", session, "", toolCall(1, "work", `{"events":3,"interval_ms":1000,"detached":true}`))
		worked := work.next().id

		// Its connections are all that a restart takes from it.
		restart(t, c.Replica(0))
		if _, ended := stream.settled(); !ended || stream.err == nil {
			t.Errorf("stream: ended %v (%v), want that it breaks", ended, stream.err)
		}
		if _, ended := work.settled(); !ended || work.err == nil {
			t.Errorf("call's stream: ended %v (%v), want that it breaks", ended, work.err)
		}
		c.emit(session, "two")
		stream = b.open("GET", session, cursor, "")
		c.emit(session, "three")
		if got, ended := stream.settled(); !slices.Equal(texts(t, got), []string{"two", "three"}) || ended {
			t.Errorf("resumed elsewhere: %q, ended %v, want [two three] and open", texts(t, got), ended)
		}
		work = b.open("GET", session, worked, "")
		elapse(3 * time.Second)
		if got, ended := work.settled(); len(got) != 3 || !ended {
			t.Errorf("call resumed elsewhere: %+v, ended %v, want the other 2, the answer and the end", got, ended)
		}
		for i, bed := range c.beds {
			if status := bed.ping(session); status != 200 {
				t.Errorf("ping at replica %d: %d, want 200", i, status)
			}
		}
		if sessions := c.Oracle().History().Sessions; len(sessions) != 1 || !sessions[0].Died.IsZero() {
			t.Errorf("sessions %+v, want one, alive", sessions)
		}
		elapse(time.Minute)
		synctest.Wait()
		if n := len(c.beds[0].records(mcpserver.SessionDied)); n != 1 {
			t.Errorf("%d deaths observed after the TTL, want 1", n)
		}
		if status := b.get(session, cursor); status != 404 {
			t.Errorf("GET of the dead session: %d, want 404", status)
		}
	})
}

func TestReplicaThatIsClosedAloneTakesNothingWithIt(t *testing.T) {
	for _, shared := range []bool{false, true} {
		cfg := mcpserver.ClusterConfig{SharedSessions: shared, Server: mcpserver.Config{SessionTTL: time.Minute}}
		clustered(t, cfg, func(t *testing.T, c *fleet) {
			a, b := c.beds[0], c.beds[1]
			lost, kept := a.initialize(), b.initialize()
			first, second := a.listen(lost), b.listen(kept)
			synctest.Wait()
			if err := c.Replica(0).Close(); err != nil {
				t.Errorf("Close() = %v, want nil", err)
			}
			if _, ended := first.settled(); !ended || first.err != nil {
				t.Errorf("shared %v: stream of the closed one: ended %v (%v), want a clean end", shared, ended, first.err)
			}
			c.emit(kept, "one")
			if got, ended := second.settled(); len(got) != 1 || ended {
				t.Errorf("shared %v: stream of the other: %+v, ended %v, want it undisturbed", shared, got, ended)
			}
			if i, ok := c.Home(lost); ok != shared || shared && i != 1 {
				t.Errorf("shared %v: Home() = %d, %v, want that the closed one is nobody's", shared, i, ok)
			}
			refused := httptest.NewRecorder()
			if c.Replica(0).Handler().ServeHTTP(refused, a.request("POST", kept, "", pingBody)); refused.Code != 503 {
				t.Errorf("shared %v: its Handler answers %d, want 503", shared, refused.Code)
			}
			if err := c.Replica(0).Restart(); !errors.Is(err, mcpserver.ErrClosed) {
				t.Errorf("shared %v: Restart() of it = %v, want ErrClosed", shared, err)
			}
			elapse(time.Minute)
			synctest.Wait()
			died := b.server.Oracle().History().Sessions
			if at := died[1].Died; at.IsZero() {
				t.Errorf("shared %v: sessions %+v, want that the other's died on time", shared, died)
			}
		})
	}
}

func TestEventsAreForgottenAtAllReplicas(t *testing.T) {
	cfg := mcpserver.ClusterConfig{Server: mcpserver.Config{SessionTTL: time.Minute, LogRetention: time.Hour}}
	clustered(t, cfg, func(t *testing.T, c *fleet) {
		a, b := c.beds[0], c.beds[1]
		session := a.initialize()
		stream := a.listen(session)
		there := b.listen(session)
		c.emit(session, "one")
		cursor := stream.next().id
		stream.cut()
		there.cut()
		elapse(time.Hour - time.Nanosecond)
		synctest.Wait()
		if n := pumps(); n != 2 {
			t.Errorf("before the log has forgotten, mcp-go keeps %d sessions, want one at each replica", n)
		}
		elapse(time.Nanosecond)
		synctest.Wait()
		if n := pumps(); n != 0 {
			t.Errorf("when the log has forgotten, mcp-go keeps %d sessions, want 0", n)
		}
		if status := b.get(session, cursor); status != 400 {
			t.Errorf("GET when the log has forgotten: %d, want 400", status)
		}
	})
}

func TestCookieNamesTheReplica(t *testing.T) {
	cfg := mcpserver.ClusterConfig{Server: mcpserver.Config{
		Cookie: "route", Rules: []mcpserver.Rule{{On: mcpserver.OnDELETE, Status: 503}},
	}}
	clustered(t, cfg, func(t *testing.T, c *fleet) {
		for i, b := range c.beds {
			session := b.initialize()
			want := map[int]string{0: "route=0; Path=/", 1: "route=1; Path=/"}[i]
			for _, r := range []*http.Request{
				b.request("POST", session, "", pingBody),
				b.request("POST", "nobody", "", pingBody),
				b.request("GET", session, "", ""),
				b.request("DELETE", session, "", ""),
			} {
				r.AddCookie(&http.Cookie{Name: "other", Value: "x"})
				r.AddCookie(&http.Cookie{Name: "route", Value: "7"})
				resp, err := b.client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if got := resp.Header["Set-Cookie"]; len(got) != 1 || got[0] != want {
					t.Errorf("replica %d: %s answers %s with the cookies %q, want %s", i, r.Method, resp.Status, got, want)
				}
			}
		}
		for _, r := range c.Oracle().History().Requests {
			if sent := !strings.HasPrefix(r.RPC, "initialize") && !strings.HasPrefix(r.RPC, "notif"); (r.Cookie == "7") != sent {
				t.Errorf("request %+v, want the cookie that it had", r)
			}
		}
	})
}

func TestRuleIsForOneReplicaOrForAll(t *testing.T) {
	ping := mcpserver.Rule{On: mcpserver.OnPOST, RPC: "ping"}
	configured, injected, one := ping, ping, ping
	configured.Count, configured.From, configured.To, configured.Status = mcpserver.CountServer, 2, 2, 500
	injected.Count, injected.From, injected.Status = mcpserver.CountServer, 3, 503
	one.Status = 418
	cfg := mcpserver.ClusterConfig{Server: mcpserver.Config{Rules: []mcpserver.Rule{configured}}}
	clustered(t, cfg, func(t *testing.T, c *fleet) {
		a, b := c.beds[0], c.beds[1]
		here, there := a.initialize(), b.initialize()
		got := []int{a.ping(here), b.ping(there), a.ping(here)}
		removeOne, err := c.Replica(1).Inject(one)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, a.ping(here), b.ping(there))
		removeOne()
		remove, err := c.Inject(injected)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, a.ping(here), b.ping(there), a.ping(here), b.ping(there))
		remove()
		got = append(got, a.ping(here))
		if want := []int{200, 500, 200, 200, 418, 200, 200, 503, 503, 200}; !slices.Equal(got, want) {
			t.Errorf("pings: %v, want %v", got, want)
		}
		if _, err := c.Inject(mcpserver.Rule{}); err == nil {
			t.Error("Inject() of a bad rule = nil, want an error")
		}
	})
}

// roundRobin sends each request to the next replica.
type roundRobin struct {
	mu   sync.Mutex
	next int
	to   []http.RoundTripper
}

func (rr *roundRobin) RoundTrip(r *http.Request) (*http.Response, error) {
	rr.mu.Lock()
	to := rr.to[rr.next%len(rr.to)]
	rr.next++
	rr.mu.Unlock()
	return to.RoundTrip(r)
}

func TestSDKClientWithoutAffinityNeedsSharedSessions(t *testing.T) {
	for _, shared := range []bool{false, true} {
		clustered(t, mcpserver.ClusterConfig{SharedSessions: shared}, func(t *testing.T, c *fleet) {
			rr := &roundRobin{}
			for _, b := range c.beds {
				rr.to = append(rr.to, b.client.Transport)
			}
			session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
				&mcp.StreamableClientTransport{Endpoint: c.URLs()[0], HTTPClient: &http.Client{Transport: rr}},
				&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			if err != nil {
				t.Fatal(err) // By chance, all that it sends comes to the first, but for the GET, which nobody checks.
			}
			defer session.Close()
			var missing bool
			for range 4 {
				_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "emit", Arguments: map[string]any{"count": 2}})
				missing = missing || errors.Is(err, mcp.ErrSessionMissing)
				if shared && err != nil {
					t.Errorf("CallTool() = %v, want nil", err)
				}
			}
			if missing == shared {
				t.Errorf("shared %v: a session was missing: %v, want the opposite", shared, missing)
			}
		})
	}
}

func TestNewClusterNamesEveryFaultAtOnce(t *testing.T) {
	_, err := mcpserver.NewCluster(mcpserver.ClusterConfig{
		Replicas:  65,
		Addrs:     []string{"127.0.0.1:0", "nowhere"},
		Listeners: []net.Listener{nil},
		Server:    mcpserver.Config{Listener: memnettest.New(), SessionTTL: -1},
	})
	if err == nil {
		t.Fatal("NewCluster() = nil, want an error")
	}
	want := []string{
		`mcpserver: Replicas is 65: want 0 (2) to 64`,
		`mcpserver: Addrs is 2 addresses: want none, or 65, one for each replica`,
		`mcpserver: Listeners is 1 listeners: want none, or 65, one for each replica`,
		`mcpserver: Addrs[1] is "nowhere": want host:port with a port from 0 to 65535`,
		`mcpserver: Listeners[0] is nil: want a listener`,
		`mcpserver: Server.Listener is 127.0.0.1:1: want nil: Listeners has one for each replica`,
		`mcpserver: SessionTTL is -1ns: want 0 (sessions never expire) or more`,
	}
	if err.Error() != strings.Join(want, "\n") {
		t.Errorf("NewCluster() =\n%s\nwant\n%s", err, strings.Join(want, "\n"))
	}
	for _, cfg := range []mcpserver.ClusterConfig{
		{Replicas: -1},
		{Server: mcpserver.Config{Addr: "127.0.0.1:4711"}},
	} {
		if c, err := mcpserver.NewCluster(cfg); err == nil {
			c.Close()
			t.Errorf("NewCluster(%+v) = nil, want an error", cfg)
		}
	}
}

func TestNewClusterThatCannotBindLeavesNothingOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	cfg := mcpserver.ClusterConfig{Addrs: []string{free.Addr().String(), taken.Addr().String()}}
	if c, err := mcpserver.NewCluster(cfg); err == nil || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Fatalf("NewCluster() = %v, %v, want that it cannot listen on %v", c, err, taken.Addr())
	}
	again, err := net.Listen("tcp", free.Addr().String())
	if err != nil {
		t.Errorf("Listen() = %v, want that the first address is free again", err)
	} else {
		again.Close()
	}
}

func TestClusterEndsWithItsRunOrItsClose(t *testing.T) {
	for _, shared := range []bool{false, true} {
		clustered(t, mcpserver.ClusterConfig{SharedSessions: shared}, func(t *testing.T, c *fleet) {
			a, b := c.beds[0], c.beds[1]
			session, other := a.initialize(), b.initialize()
			streams := []*stream{
				a.listen(session), b.listen(other),
				b.open("POST", other, "", toolCall(1, "work", `{"events":1000,"interval_ms":1000,"detached":true}`)),
			}
			synctest.Wait()
			began := time.Now()
			if err := c.stop(); err != nil {
				t.Errorf("Run() = %v, want nil", err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("Run took %v to end, want at most 1s", took)
			}
			for i, s := range streams {
				if _, ended := s.settled(); !ended || s.err != nil {
					t.Errorf("shared %v: stream %d ended %v (%v), want a clean end", shared, i, ended, s.err)
				}
			}
			if n := pumps(); n != 0 {
				t.Errorf("shared %v: mcp-go keeps %d sessions, want 0", shared, n)
			}
			if err := c.Run(t.Context()); err == nil {
				t.Error("Run() again = nil, want an error")
			}
			if err := c.Close(); err != nil {
				t.Errorf("Close() after Run = %v, want nil", err)
			}
			if err := c.Replica(0).Restart(); !errors.Is(err, mcpserver.ErrClosed) {
				t.Errorf("Restart() after Run = %v, want ErrClosed", err)
			}
		})

		synctest.Test(t, func(t *testing.T) {
			c, err := mcpserver.NewCluster(mcpserver.ClusterConfig{
				SharedSessions: shared, Listeners: []net.Listener{memnettest.New(), memnettest.New(), memnettest.New()},
			})
			if err != nil {
				t.Fatal(err)
			}
			if c.Size() != 3 {
				t.Errorf("Size() = %d, want one for each listener", c.Size())
			}
			c.Close()
			c.Close()
			if err := c.Run(t.Context()); err == nil {
				t.Error("Run() after Close = nil, want an error")
			}
		})
	}
}

func TestClusterEndsWhenOneAddressFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := memnettest.New()
		c, err := mcpserver.NewCluster(mcpserver.ClusterConfig{Listeners: []net.Listener{memnettest.New(), broken}})
		if err != nil {
			t.Fatal(err)
		}
		broken.Close()
		if err := c.Run(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Run() = %v, want that it cannot serve", err)
		}
	})
}

func TestClusterOnLoopback(t *testing.T) {
	c, err := mcpserver.NewCluster(mcpserver.ClusterConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- c.Run(context.Background()) }()
	transport := &http.Transport{}
	var beds []*bed
	for i := range c.Size() {
		beds = append(beds, &bed{t: t, server: c.Replica(i), client: &http.Client{Transport: transport}})
	}
	session := beds[0].initialize()
	if one, two := beds[0].ping(session), beds[1].ping(session); one != 200 || two != 404 {
		t.Errorf("pings: %d and %d, want 200 and 404", one, two)
	}
	if urls := c.URLs(); urls[0] == urls[1] {
		t.Errorf("URLs() = %q, want two", urls)
	}
	c.Close()
	if err := <-ran; err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
	transport.CloseIdleConnections()
}
