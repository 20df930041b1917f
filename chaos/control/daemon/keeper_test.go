package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// fake is a thing that runs for a while, or is not even built.
type fake struct {
	runs time.Duration // 0: it is not built; -1: until it is stopped
	err  error
}

func (f fake) run(ctx context.Context, ready func()) error {
	ready()
	if f.runs < 0 {
		<-ctx.Done()
		return nil
	}
	timer := time.NewTimer(f.runs)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return f.err
}

// keeping makes a keeper of things, the last of them again and again, which notes
// when each was built.
func keeping(built *[]time.Duration, things ...fake) *keeper {
	k := newKeeper(slog.New(slog.DiscardHandler), make(chan struct{}, 1), nil, nil, fakes(built, things))
	k.start(context.Background())
	return k
}

func fakes(built *[]time.Duration, things []fake) func([]net.Listener) (thing, error) {
	began := time.Now()
	return func([]net.Listener) (thing, error) {
		next := things[min(len(*built), len(things)-1)]
		*built = append(*built, time.Since(began))
		if next.runs == 0 {
			return nil, next.err
		}
		return next, nil
	}
}

func wantBuilt(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("it was started at %v, want at %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("it was started at %v, want at %v", got, want)
		}
	}
}

func TestPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []time.Duration
		k := keeping(&built, fake{0, errors.New("no")})
		if state, reason, err := k.wait(t.Context()); state != control.Failed || reason != "no" || err != nil {
			t.Errorf("wait() = %s, %q, %v, want that it has failed", state, reason, err)
		}
		time.Sleep(36 * time.Second)
		k.stop()
		const ms = time.Millisecond
		wantBuilt(t, built, 0, 100*ms, 300*ms, 700*ms, 1500*ms, 3100*ms, 6300*ms, 12700*ms, 22700*ms, 32700*ms)
	})
}

func TestWhatEndsIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []time.Duration
		k := keeping(&built, fake{time.Second, nil}, fake{longestPause, errors.New("killed")}, fake{-1, nil})
		time.Sleep(time.Second + time.Millisecond)
		if state, reason, _ := k.wait(t.Context()); state != control.Failed || reason != "it ended by itself" {
			t.Errorf("after its end it is %s (%q), want failed", state, reason)
		}
		time.Sleep(time.Minute)
		if state, reason, _ := k.wait(t.Context()); state != control.Running || reason != "" {
			t.Errorf("it is %s (%q), want running", state, reason)
		}
		k.stop()
		// What has run for long begins with the shortest pause again, though it was
		// the second time.
		wantBuilt(t, built, 0, 1100*time.Millisecond, 11200*time.Millisecond)
	})
}

func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []time.Duration
		no := fake{0, errors.New("no")}
		k := keeping(&built, no, no, no, no, fake{-1, nil})
		time.Sleep(time.Second) // the next is at 1.5 s
		asked := time.Now()
		k.retry()
		if state, reason, err := k.wait(t.Context()); state != control.Running || err != nil || time.Since(asked) > 0 {
			t.Errorf("wait() = %s, %q, %v after %v, want it to run at once", state, reason, err, time.Since(asked))
		}
		k.retry() // it runs
		synctest.Wait()
		k.stop()
		wantBuilt(t, built, 0, 100*time.Millisecond, 300*time.Millisecond, 700*time.Millisecond, time.Second)
	})
}

// At a daemon's start a port may still be taken by what the one before has left. For
// a while that is no failure.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var built []time.Duration
		things := []fake{{0, syscall.EADDRINUSE}, {0, syscall.EADDRINUSE}, {-1, nil}}
		k := newKeeper(slog.New(slog.DiscardHandler), make(chan struct{}, 1), nil, nil, fakes(&built, things))
		k.patient = true
		k.start(context.Background())
		if state, reason, _ := k.wait(t.Context()); state != control.Running {
			t.Errorf("it is %s (%q), want it to run at the third attempt", state, reason)
		}
		k.stop()
		wantBuilt(t, built, 0, 100*time.Millisecond, 200*time.Millisecond)

		built = nil
		k = newKeeper(slog.New(slog.DiscardHandler), make(chan struct{}, 1), nil, nil, fakes(&built, things[:1]))
		k.patient = true
		began := time.Now()
		k.start(context.Background())
		if state, _, _ := k.wait(t.Context()); state != control.Failed || time.Since(began) != patience {
			t.Errorf("it is %s after %v, want failed after %v", state, time.Since(began), patience)
		}
		k.stop()
	})
}

// Who waits for what is about to start is told when that is stopped.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := make(chan struct{}, 1)
		slots <- struct{}{}
		k := newKeeper(slog.New(slog.DiscardHandler), slots, nil, nil, nil)
		k.start(context.Background())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := k.wait(ctx); err == nil {
			t.Error("wait() = nil though nothing is known, want the end of its context")
		}
		go func() {
			time.Sleep(time.Second)
			k.stop()
		}()
		if state, _, err := k.wait(t.Context()); state != control.Failed || err != nil {
			t.Errorf("wait() = %s, %v, want failed", state, err)
		}
	})
}

func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := turns{taken: make(map[key]chan struct{})}
		a, b := key{control.Servers, "a"}, key{control.Servers, "b"}
		done, _ := turns.take(t.Context(), a)
		if other, err := turns.take(t.Context(), b); err != nil {
			t.Errorf("take(b) = %v", err)
		} else {
			other()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := turns.take(ctx, a); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("take(a) = %v though it is taken, want the end of its context", err)
		}
		inside, most := 0, 0
		for range 10 {
			go func() {
				done, _ := turns.take(context.Background(), a)
				defer done()
				inside++
				most = max(most, inside)
				time.Sleep(time.Millisecond)
				inside--
			}()
		}
		synctest.Wait()
		done()
		time.Sleep(time.Second)
		synctest.Wait()
		if most != 1 || len(turns.taken) != 0 {
			t.Errorf("%d had the turn at once, and %d still do, want 1 and 0", most, len(turns.taken))
		}
	})
}
