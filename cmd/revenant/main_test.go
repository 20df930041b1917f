package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"revenant": func() {
		if os.Getenv(fakeEngineEnv) != "" {
			runExperiment = fakeEngine
		}
		main()
	}})
}

// leakChecked looks for goroutines after the tests, as goleak.VerifyTestMain
// does, which would not come back to testscript.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}
