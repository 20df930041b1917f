//go:build unix

package provider_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"go.uber.org/goleak"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon"
	"github.com/revenant-mcp/revenant/provider"
	"github.com/revenant-mcp/revenant/provider/local"
)

// With this argument the program of the tests is a daemon.
const daemonCommand = "daemon"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == daemonCommand {
		os.Exit(runDaemon(os.Args[2:]))
	}
	os.Exit(runTests(m))
}

// scratch is a folder for all tests, which goes with them.
var scratch string

// runTests gives Terraform a configuration of its own: an inherited one may point
// nowhere.
func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "revenant")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	scratch = dir
	cli := filepath.Join(dir, "cli.tfrc")
	if err := os.WriteFile(cli, []byte("disable_checkpoint = true\n"), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("TF_CLI_CONFIG_FILE", cli)
	os.Setenv("CHECKPOINT_DISABLE", "1")
	useTerraform()
	for _, name := range []string{provider.EndpointEnv, provider.TokenEnv, provider.DataDirEnv} {
		os.Unsetenv(name)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	return code
}

func runDaemon(args []string) int {
	flags := flag.NewFlagSet(daemonCommand, flag.ExitOnError)
	dir := flags.String("data-dir", "", "")
	flags.Parse(args)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := local.Serve(ctx, local.ServeConfig{DataDir: *dir, Version: "test", Idle: time.Second, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	switch {
	case err == nil:
		return local.ExitOK
	case errors.Is(err, daemon.ErrInUse):
		return local.ExitInUse
	}
	fmt.Fprintln(os.Stderr, err)
	return local.ExitFailed
}

// testTime bounds what a test waits for.
const testTime = 2 * time.Minute

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	t.Cleanup(cancel)
	return ctx
}

// programs are what Terraform may be called.
var programs = []string{"terraform", "tofu"}

// terraformProgram is the program, Terraform or OpenTofu. Without one a test is
// skipped.
func terraformProgram(t *testing.T) string {
	t.Helper()
	for _, name := range programs {
		if program, err := exec.LookPath(name); err == nil {
			return program
		}
	}
	t.Skip("SKIPPED: neither terraform nor tofu is on PATH: what the provider does there is not tried on this machine")
	return ""
}

// useTerraform tells the test framework which program that is.
func useTerraform() {
	for _, name := range programs {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		os.Setenv("TF_ACC_TERRAFORM_PATH", program)
		if name == "tofu" {
			os.Setenv("TF_ACC_PROVIDER_NAMESPACE", "hashicorp")
			os.Setenv("TF_ACC_PROVIDER_HOST", "registry.opentofu.org")
		}
		return
	}
}

// factories are the provider in this process, whose daemons are this program again.
func factories(t *testing.T) map[string]func() (tfprotov6.ProviderServer, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := provider.Config{Version: "test", Program: program, Args: []string{daemonCommand}}
	return map[string]func() (tfprotov6.ProviderServer, error){
		"revenant": providerserver.NewProtocol6WithError(provider.New(cfg)()),
	}
}

// dataDir is a data directory in which nothing but the log is left when the test has
// ended, and nothing runs.
func dataDir(t *testing.T) string {
	t.Helper()
	parent, err := os.MkdirTemp("", "revenant") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "data")
	t.Cleanup(func() {
		defer os.RemoveAll(parent)
		if _, err := os.Stat(dir); err == nil && !t.Failed() {
			settled(t, dir)
		}
		if pid := daemonOf(dir); pid > 0 {
			if !t.Failed() {
				t.Errorf("the daemon %d is still there", pid)
			}
			syscall.Kill(pid, syscall.SIGKILL)
		}
		log, _ := os.ReadFile(filepath.Join(dir, local.LogName))
		for _, match := range readyForm.FindAllSubmatch(log, -1) {
			pid, _ := strconv.Atoi(string(match[1]))
			eventually(t, func() bool { return ended(pid) }, func() string { return fmt.Sprintf("the daemon %d has not ended", pid) })
		}
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", log)
		}
	})
	return dir
}

// readyForm is the line of the log with which a daemon begins.
var readyForm = regexp.MustCompile(`the daemon is ready.* pid=(\d+)`)

// ended is whether a process is no more, or waits for nothing but its parent.
func ended(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	return err == nil && strings.HasPrefix(after, "Z")
}

// settled waits until there is nothing in a directory but the log.
func settled(t *testing.T, dir string) {
	t.Helper()
	var names []string
	eventually(t, func() bool {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		names = nil
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return slices.Equal(names, []string{local.LogName})
	}, func() string { return fmt.Sprintf("%v is left in %s, want the log alone", names, dir) })
}

// daemonOf is the process that answers in a directory, 0 for none.
func daemonOf(dir string) int {
	c, err := control.New(control.ClientConfig{Socket: filepath.Join(dir, local.SocketName)})
	if err != nil {
		return 0
	}
	defer c.Close()
	info, err := c.Info(context.Background())
	if err != nil {
		return 0
	}
	return info.PID
}

// client talks to the daemon of a directory.
func client(t *testing.T, dir string) *control.Client {
	t.Helper()
	c, err := control.New(control.ClientConfig{Socket: filepath.Join(dir, local.SocketName)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// eventually waits until something is so.
func eventually(t *testing.T, is func() bool, otherwise func() string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatal(otherwise())
		}
	}
}

// small is an experiment of a second.
func small(t *testing.T, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile("../terraform/modules/local-game-day/tests/small.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(string(text), changes[i]) {
			t.Fatalf("the definition has no %q to change", changes[i])
		}
	}
	return strings.NewReplacer(changes...).Replace(string(text))
}
