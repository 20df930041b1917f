package fault_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/revenant-mcp/revenant/chaos/fault"
)

var three = []fault.Fault{{Kind: fault.FIN}, {Kind: fault.RST}, {Kind: fault.Blackhole}}

// stackOfThree applies three faults to target.
func stackOfThree(t *testing.T, ctx context.Context, target fault.Target) (*fault.Stack, []func() error) {
	t.Helper()
	s := fault.NewStack(ctx)
	var undos []func() error
	for _, f := range three {
		undo, err := s.Apply(ctx, f, target)
		if err != nil {
			t.Fatal(err)
		}
		undos = append(undos, undo)
	}
	return s, undos
}

const allUndone = "[apply fin apply rst apply blackhole undo blackhole undo rst undo fin]"

func TestCloseUndoesAllInReverse(t *testing.T) {
	target := new(recorder)
	s, undos := stackOfThree(t, t.Context(), target)
	if got := fmt.Sprint(s.InForce()); got != "[fin rst blackhole]" {
		t.Errorf("InForce() = %v", got)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	}
	undos[1]()
	if got := fmt.Sprint(target.log); got != allUndone {
		t.Errorf("the target saw %v, want %v", got, allUndone)
	}
	if got := s.InForce(); len(got) > 0 {
		t.Errorf("InForce() = %v after Close", got)
	}
	if _, err := s.Apply(t.Context(), three[0], target); !errors.Is(err, fault.ErrStackClosed) {
		t.Errorf("Apply() after Close = %v, want %v", err, fault.ErrStackClosed)
	}
}

func TestUndoBeforeClose(t *testing.T) {
	target := new(recorder)
	s, undos := stackOfThree(t, t.Context(), target)
	undos[1]()
	undos[1]()
	if got := fmt.Sprint(s.InForce()); got != "[fin blackhole]" {
		t.Errorf("InForce() = %v", got)
	}
	s.Close()
	if got, want := fmt.Sprint(target.log), "[apply fin apply rst apply blackhole undo rst undo blackhole undo fin]"; got != want {
		t.Errorf("the target saw %v, want %v", got, want)
	}
}

func TestFailuresDoNotStopTheUndoing(t *testing.T) {
	broken := errors.New("broken")
	target := &recorder{undo: func(f fault.Fault) error {
		switch f.Kind {
		case fault.Blackhole:
			panic("out of hand")
		case fault.FIN:
			return broken
		}
		return nil
	}}
	s, _ := stackOfThree(t, t.Context(), target)
	err := s.Close()
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "undo of blackhole panicked: out of hand") {
		t.Errorf("Close() = %v, want both", err)
	}
	if got := fmt.Sprint(target.log); got != allUndone {
		t.Errorf("the target saw %v, want %v", got, allUndone)
	}
	if again := s.Close(); again.Error() != err.Error() {
		t.Errorf("second Close() = %v, want the same", again)
	}
}

func TestAPanicUndoesAll(t *testing.T) {
	target := new(recorder)
	func() {
		defer func() { recover() }()
		s, _ := stackOfThree(t, t.Context(), target)
		defer s.Close()
		panic("the experiment")
	}()
	if got := fmt.Sprint(target.log); got != allUndone {
		t.Errorf("the target saw %v, want %v", got, allUndone)
	}
}

func TestTheEndOfTheContextUndoesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		target := new(recorder)
		stackOfThree(t, ctx, target)
		cancel()
		synctest.Wait()
		if got := fmt.Sprint(target.log); got != allUndone {
			t.Errorf("the target saw %v, want %v", got, allUndone)
		}
	})
}

func TestStackOfAnEndedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s := fault.NewStack(ctx)
		synctest.Wait()
		if _, err := s.Apply(context.Background(), three[0], new(recorder)); !errors.Is(err, fault.ErrStackClosed) {
			t.Errorf("Apply() = %v, want %v", err, fault.ErrStackClosed)
		}
	})
}

// What is being applied while the stack closes is not in force afterwards.
func TestCloseWhileApplying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := &recorder{inject: func(ctx context.Context) {
			<-ctx.Done()            // told to give up,
			time.Sleep(time.Second) // but too late
		}}
		s := fault.NewStack(context.Background())
		got := make(chan error, 1)
		go func() {
			_, err := s.Apply(context.Background(), three[0], target)
			got <- err
		}()
		synctest.Wait()
		if err := s.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
		if log := fmt.Sprint(target.log); log != "[apply fin undo fin]" {
			t.Errorf("the target saw %v when Close returned", log)
		}
		if err := <-got; !errors.Is(err, fault.ErrStackClosed) {
			t.Errorf("Apply() = %v, want %v", err, fault.ErrStackClosed)
		}
	})
}

func TestPush(t *testing.T) {
	var log []string
	s := fault.NewStack(t.Context())
	push := func(what string) error {
		_, err := s.Push(what, func() error {
			log = append(log, what)
			return nil
		})
		return err
	}
	if err := errors.Join(push("one"), push("two")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := push("three"); !errors.Is(err, fault.ErrStackClosed) {
		t.Errorf("Push() after Close = %v, want %v", err, fault.ErrStackClosed)
	}
	if got := fmt.Sprint(log); got != "[two one three]" {
		t.Errorf("undone: %v, want two, one, and three at once", got)
	}
}
