package server_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/mocks"
)

// A client in front of a server in front of a backend is that backend: the same
// arguments arrive, and the same results and problems come back.
func TestClientIsTheBackendFromAfar(t *testing.T) {
	s, backend, _ := newServer(t, onSocket)
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	client, err := control.New(control.ClientConfig{Socket: socket})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		client.Close()
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
	}()

	spec := []byte(`{"settings":{"session_ttl":"30m"}}`)
	request := control.RunRequest{Arms: []string{"protected"}, Seed: 7, Repeat: 2, Scale: 1.5}
	// Each call is made twice: the second answer of the backend is a problem.
	problem := control.NewProblem(control.Conflict, "in use by load balancer %q", "edge")
	both := func(call func() (any, error), want any) {
		t.Helper()
		if got, err := call(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if _, err := call(); !reflect.DeepEqual(err, error(problem)) {
			t.Errorf("got error %v, want %v", err, problem)
		}
	}
	e := backend.EXPECT()
	e.Info(anything).Return(info, nil).Once()
	e.Info(anything).Return(control.Info{}, problem).Once()
	both(func() (any, error) { return client.Info(ctx) }, info)
	for _, kind := range control.Kinds() {
		e.List(anything, kind).Return([]control.Resource{shop}, nil).Once()
		e.List(anything, kind).Return(nil, problem).Once()
		both(func() (any, error) { return client.List(ctx, kind) }, []control.Resource{shop})
		e.Get(anything, kind, "shop").Return(shop, nil).Once()
		e.Get(anything, kind, "shop").Return(shop, problem).Once()
		both(func() (any, error) { return client.Get(ctx, kind, "shop") }, shop)
	}
	for _, seen := range []int64{-1, 0, 1<<63 - 1} {
		for _, created := range []bool{true, false} {
			e.Put(anything, control.Servers, "shop", seen, spec).Return(shop, created, nil).Once()
			e.Put(anything, control.Servers, "shop", seen, spec).Return(shop, created, problem).Once()
			both(func() (any, error) {
				r, c, err := client.Put(ctx, control.Servers, "shop", seen, spec)
				return []any{r, c}, err
			}, []any{shop, created})
		}
	}
	for _, seen := range []int64{-1, 7} {
		e.Delete(anything, control.Experiments, "idle-cut", seen).Return(nil).Once()
		e.Delete(anything, control.Experiments, "idle-cut", seen).Return(problem).Once()
		both(func() (any, error) { return nil, client.Delete(ctx, control.Experiments, "idle-cut", seen) }, nil)
	}
	for _, key := range []string{"", "key-1"} {
		e.Start(anything, "idle-cut", key, request).Return(run, nil).Once()
		e.Start(anything, "idle-cut", key, request).Return(run, problem).Once()
		both(func() (any, error) { return client.Start(ctx, "idle-cut", key, request) }, run)
	}
	e.Runs(anything, "idle-cut", 3).Return([]control.Run{run}, nil).Once()
	e.Runs(anything, "idle-cut", 3).Return(nil, problem).Once()
	both(func() (any, error) { return client.Runs(ctx, "idle-cut", 3) }, []control.Run{run})
	e.Runs(anything, "", 50).Return([]control.Run{run}, nil).Once()
	e.Runs(anything, "", 50).Return(nil, problem).Once()
	both(func() (any, error) { return client.Runs(ctx, "", 0) }, []control.Run{run})
	e.Run(anything, "r-01").Return(run, nil).Once()
	e.Run(anything, "r-01").Return(run, problem).Once()
	both(func() (any, error) { return client.Run(ctx, "r-01") }, run)
	e.Cancel(anything, "r-01").Return(run, nil).Once()
	e.Cancel(anything, "r-01").Return(run, problem).Once()
	both(func() (any, error) { return client.Cancel(ctx, "r-01") }, run)
	e.Halt(anything, "it burns").Return(info, nil).Once()
	e.Halt(anything, "it burns").Return(info, problem).Once()
	both(func() (any, error) { return client.Halt(ctx, "it burns") }, info)
	e.Resume(anything).Return(info, nil).Once()
	e.Resume(anything).Return(info, problem).Once()
	both(func() (any, error) { return client.Resume(ctx) }, info)

	writes := func(text string) func(context.Context, string, int, io.Writer) error {
		return func(_ context.Context, _ string, _ int, w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}
	}
	e.Journal(anything, "r-01", 2, anything).RunAndReturn(writes(`{"a":1}`)).Once()
	e.Journal(anything, "r-01", 2, anything).Return(problem).Once()
	e.Report(anything, "r-01", 2, anything).RunAndReturn(writes("<p>")).Once()
	e.Report(anything, "r-01", 2, anything).Return(problem).Once()
	both(func() (any, error) {
		var out bytes.Buffer
		err := client.Journal(ctx, "r-01", 2, &out)
		return out.String(), err
	}, `{"a":1}`)
	both(func() (any, error) {
		var out bytes.Buffer
		err := client.Report(ctx, "r-01", 2, &out)
		return out.String(), err
	}, "<p>")
}

func clientOf(t *testing.T, transport http.RoundTripper) *control.Client {
	t.Helper()
	client, err := control.New(control.ClientConfig{Endpoint: "http://localhost", Token: secret, HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

var _ control.Backend = (*mocks.Backend)(nil)

// A daemon that ends and comes back takes nothing from who follows a run.
func TestClientFollowsARunThroughARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := func() (n *news, stop func() error, via *http.Client) {
			s, backend, _ := newServer(t)
			_, via, stop = start(s)
			return expectNews(backend, event(1, "a"), event(2, "b")), stop, via
		}
		_, stop, via := begin()
		where := &detour{}
		where.to.Store(via.Transport.(*http.Transport))
		client := clientOf(t, where)
		var got []int
		heard := make(chan int)
		done := make(chan error, 1)
		go func() {
			done <- client.Events(t.Context(), "r-01", 0, func(e control.RunEvent) error {
				got = append(got, e.N)
				heard <- e.N
				return nil
			})
		}()
		<-heard
		<-heard
		if err := stop(); err != nil {
			t.Errorf("Serve() = %v, want nil", err)
		}
		time.Sleep(time.Second) // the client has tried, and failed
		n, stop, via := begin()
		where.to.Store(via.Transport.(*http.Transport))
		n.far <- event(3, "c")
		<-heard
		close(n.far)
		if err := <-done; err != nil {
			t.Errorf("Events() = %v, want nil", err)
		}
		if want := []int{1, 2, 3}; !reflect.DeepEqual(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
		stop()
	})
}

// detour leads to where the daemon is now.
type detour struct {
	to atomic.Pointer[http.Transport]
}

func (d *detour) RoundTrip(r *http.Request) (*http.Response, error) { return d.to.Load().RoundTrip(r) }

func TestEventsEndWithWhoeverFollowsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, backend, _ := newServer(t)
		_, via, stop := start(s)
		n := expectNews(backend, event(1, "a"), event(2, "b"))
		enough := errors.New("enough")
		calls := 0
		err := clientOf(t, via.Transport).Events(t.Context(), "r-01", 0, func(control.RunEvent) error { calls++; return enough })
		if !errors.Is(err, enough) || calls != 1 {
			t.Errorf("Events() = %v after %d calls, want the function's error after 1", err, calls)
		}
		<-n.ended
		stop()
	})
}
