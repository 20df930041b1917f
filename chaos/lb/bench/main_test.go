//go:build linux

package bench_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		play(role)
	}
	goleak.VerifyTestMain(m)
}
