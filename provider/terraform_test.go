//go:build unix

package provider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/revenant-mcp/revenant/chaos/control"
	"github.com/revenant-mcp/revenant/chaos/control/daemon"
	"github.com/revenant-mcp/revenant/chaos/control/server"
	"github.com/revenant-mcp/revenant/chaos/lb"
	"github.com/revenant-mcp/revenant/provider"
	"github.com/revenant-mcp/revenant/provider/local"
)

// built is the provider's program, and a configuration of Terraform's that has it
// used, which are made once.
var built = sync.OnceValues(func() (cli string, err error) {
	dir := filepath.Join(scratch, "provider")
	out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "terraform-provider-revenant"), "../cmd/terraform-provider-revenant").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	cli = filepath.Join(dir, "cli.tfrc")
	text := "disable_checkpoint = true\nprovider_installation {\n  dev_overrides {\n"
	for _, registry := range []string{"registry.terraform.io", "registry.opentofu.org"} {
		text += fmt.Sprintf("    %q = %q\n", registry+"/revenant-mcp/revenant", dir)
	}
	return cli, os.WriteFile(cli, []byte(text+"  }\n  direct {}\n}\n"), 0o600)
})

// command runs Terraform in a folder with the program that users have.
func command(t *testing.T, folder, dataDir string, env []string, args ...string) (string, error) {
	t.Helper()
	program := terraformProgram(t)
	cli, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(testContext(t), program, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+cli, "TF_IN_AUTOMATION=1", "TF_INPUT=0", provider.DataDirEnv+"="+dataDir)
	cmd.Env = append(cmd.Env, env...)
	// An interrupt has it finish, and the daemon is not its child.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, folder, dataDir string, args ...string) string {
	t.Helper()
	out, err := command(t, folder, dataDir, nil, args...)
	if err != nil {
		t.Fatalf("terraform %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// tree is a copy of what the examples and modules are made of, in which Terraform can
// write.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"terraform", "experiments"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join("..", name))); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "terraform")
}

const requirements = `
terraform {
  required_providers {
    revenant = {
      source = "revenant-mcp/revenant"
    }
  }
}
`

// folder is a configuration in a folder of its own.
func folder(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(requirements+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Each example is applied as it stands, and destroyed, after which nothing is left.
func TestExamples(t *testing.T) {
	terraformProgram(t)
	root := filepath.Join(tree(t), "examples")
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 5 {
		t.Fatalf("there are %d examples, %v, want 5", len(entries), err)
	}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			if engine := lb.Engine(e.Name()); engine == lb.HAProxy || engine == lb.NGINX {
				if err := lb.Available(engine); err != nil {
					t.Skipf("SKIPPED: %v", err)
				}
			}
			if testing.Short() && e.Name() == "session" {
				t.Skip("SKIPPED: it takes half a minute")
			}
			dir, data := filepath.Join(root, e.Name()), dataDir(t)
			must(t, dir, data, "get")
			out := must(t, dir, data, "apply", "-auto-approve", "-no-color")
			if n := strings.Count(out, `"upheld"`); n != 1 && n != 3 {
				t.Errorf("there are %d verdicts that are upheld, want one, or three of the profiles:\n%s", n, out)
			}
			if out := must(t, dir, data, "plan", "-no-color", "-detailed-exitcode"); !strings.Contains(out, "No changes") {
				t.Errorf("the plan after it is\n%s\nwant an empty one", out)
			}
			must(t, dir, data, "destroy", "-auto-approve", "-no-color")
		})
	}
}

// The modules' own tests are green, and leave nothing.
func TestModules(t *testing.T) {
	terraformProgram(t)
	root := filepath.Join(tree(t), "modules")
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 2 {
		t.Fatalf("there are %d modules, %v, want 2", len(entries), err)
	}
	for _, e := range entries {
		t.Run(e.Name(), func(t *testing.T) {
			out := must(t, filepath.Join(root, e.Name()), dataDir(t), "test", "-no-color")
			if !strings.Contains(out, "Success!") || strings.Contains(out, "skip") {
				t.Errorf("terraform test says\n%s", out)
			}
		})
	}
}

func TestFormat(t *testing.T) {
	terraformProgram(t)
	if out, err := command(t, "../terraform", t.TempDir(), nil, "fmt", "-check", "-diff", "-recursive", "."); err != nil {
		t.Errorf("terraform fmt: %v\n%s", err, out)
	}
}

// Applies at the same time share a daemon, which ends after the last of them has
// destroyed what it had.
func TestConcurrentApplies(t *testing.T) {
	terraformProgram(t)
	data := dataDir(t)
	text := func(name string) string {
		return fmt.Sprintf(`
resource "revenant_mcp_server" "this" {
  name = %q
}
resource "revenant_load_balancer" "this" {
  count  = 3
  name   = "%s-${count.index}"
  server = revenant_mcp_server.this.name
}
`, name, name)
	}
	folders := []string{folder(t, text("one")), folder(t, text("two")), folder(t, text("three"))}
	if _, err := built(); err != nil {
		t.Fatal(err)
	}
	all := func(args ...string) {
		t.Helper()
		var running sync.WaitGroup
		for _, dir := range folders {
			running.Go(func() {
				if out, err := command(t, dir, data, nil, args...); err != nil {
					t.Errorf("terraform %v: %v\n%s", args, err, out)
				}
			})
		}
		running.Wait()
	}
	all("apply", "-auto-approve", "-no-color")
	info, err := client(t, data).Info(testContext(t))
	if err != nil || info.Resources[control.Servers] != 3 || info.Resources[control.LoadBalancers] != 9 {
		t.Errorf("Info() = %+v, %v, want 3 servers and 9 load balancers", info, err)
	}
	all("destroy", "-auto-approve", "-no-color")
	log, err := os.ReadFile(filepath.Join(data, local.LogName))
	if n := strings.Count(string(log), "the daemon is ready"); err != nil || n != 1 {
		t.Errorf("there were %d daemons, %v, want one", n, err)
	}
}

// A daemon that was killed is there again with the next command, with all that it
// had: nothing is to be done.
func TestKilledDaemon(t *testing.T) {
	terraformProgram(t)
	data := dataDir(t)
	dir := folder(t, "resource \"revenant_mcp_server\" \"this\" {\n  name = \"one\"\n}\n")
	must(t, dir, data, "apply", "-auto-approve", "-no-color")
	process, err := os.FindProcess(daemonOf(data))
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if out := must(t, dir, data, "plan", "-no-color", "-detailed-exitcode"); !strings.Contains(out, "No changes") {
		t.Errorf("the plan is\n%s\nwant an empty one", out)
	}
	must(t, dir, data, "destroy", "-auto-approve", "-no-color")
}

// An interrupt at the terminal is for all processes there: the run is stopped, the
// state is saved, and the daemon, which is in a session of its own, stays.
func TestInterruptedApply(t *testing.T) {
	program := terraformProgram(t)
	data := dataDir(t)
	definition := small(t, "length: 1200ms", "length: 10m", "at: 900ms", "at: 9m")
	dir := folder(t, "resource \"revenant_experiment\" \"this\" {\n  name = \"small\"\n  definition = <<-EOT\n"+definition+"EOT\n}\n")
	cli, err := built()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(testContext(t), program, "apply", "-auto-approve", "-no-color")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TF_CLI_CONFIG_FILE="+cli, "TF_INPUT=0", provider.DataDirEnv+"="+data)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		info, err := client(t, data).Info(testContext(t))
		return err == nil && info.ActiveRuns == 1
	}, func() string { return "no run is active" })
	daemon := daemonOf(data)
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "is whole again") {
		t.Errorf("terraform ends with %v and says\n%s\nwant that the run was stopped", err, out.String())
	}
	if pid := daemonOf(data); pid != daemon {
		t.Errorf("the daemon is %d, want %d", pid, daemon)
	}
	state := must(t, dir, data, "show", "-no-color")
	if !regexp.MustCompile(`verdict\s+= "aborted"`).MatchString(state) || !strings.Contains(state, "tainted") {
		t.Errorf("the state is\n%s\nwant the run in it, aborted, and that it is to be made anew", state)
	}
	must(t, dir, data, "destroy", "-auto-approve", "-no-color")
}

// The token is in no state, plan, output or log, whatever goes wrong.
func TestTokenIsKeptSecret(t *testing.T) {
	terraformProgram(t)
	const token = "hunter2-hunter2-hunter2"
	endpoint := serve(t, token)
	dir := folder(t, fmt.Sprintf(`
variable "token" {
  type      = string
  default   = null
  sensitive = true
}
provider "revenant" {
  endpoint = %q
  token    = var.token
}
resource "revenant_mcp_server" "this" {
  name = "one"
}
`, endpoint))
	data := t.TempDir()
	log := filepath.Join(dir, "trace.log")
	env := func(from, token string) []string {
		return []string{from + "=" + token, "TF_LOG=TRACE", "TF_LOG_PATH=" + log}
	}
	var said []string
	for _, from := range []string{provider.TokenEnv, "TF_VAR_token"} {
		for _, args := range [][]string{
			{"plan", "-no-color", "-out=plan"}, {"show", "-json", "plan"}, {"apply", "-no-color", "plan"}, {"show", "-json"}, {"state", "pull"},
			{"destroy", "-auto-approve", "-no-color"},
		} {
			out, err := command(t, dir, data, env(from, token), args...)
			if err != nil {
				t.Fatalf("terraform %v: %v\n%s", args, err, out)
			}
			if from != provider.TokenEnv && len(args) == 3 && args[2] == "plan" && args[0] == "show" {
				continue // Terraform keeps variables in a plan that is saved, for its apply
			}
			said = append(said, out)
		}
	}
	out, err := command(t, dir, data, env(provider.TokenEnv, "another-"+token), "apply", "-auto-approve", "-no-color")
	if err == nil || !strings.Contains(out, "Set the provider's token") {
		t.Errorf("with another token: %v\n%s\nwant that it is refused, and what to do", err, out)
	}
	said = append(said, out)
	for _, name := range []string{"terraform.tfstate", "terraform.tfstate.backup", "trace.log"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, string(text))
	}
	for _, text := range said {
		if at := strings.Index(text, token); at >= 0 {
			t.Errorf("the token is in %q", text[max(0, at-300):at+len(token)])
		}
	}
	if entries, err := os.ReadDir(data); err != nil || len(entries) > 0 {
		t.Errorf("the data directory has %v, %v, want nothing with somebody else's daemon", entries, err)
	}
}

// serve is a daemon on an address that wants a token.
func serve(t *testing.T, token string) (endpoint string) {
	t.Helper()
	d, err := daemon.Open(t.Context(), daemon.Config{DataDir: filepath.Join(t.TempDir(), "data")})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{Backend: d, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := d.Serve(ctx); err != nil {
			t.Error(err)
		}
	})
	running.Go(func() {
		if err := s.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { end(); running.Wait() })
	return "http://" + l.Addr().String()
}

// What the provider is, other programs read, too.
func TestProviderSchema(t *testing.T) {
	terraformProgram(t)
	out := must(t, folder(t, "provider \"revenant\" {}\n"), dataDir(t), "providers", "schema", "-json")
	var schema struct {
		Schemas map[string]struct {
			Resources map[string]any `json:"resource_schemas"`
			Data      map[string]any `json:"data_source_schemas"`
			Functions map[string]any `json:"functions"`
		} `json:"provider_schemas"`
	}
	if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &schema); err != nil {
		t.Fatal(err)
	}
	for _, s := range schema.Schemas {
		if len(s.Resources) != 3 || len(s.Data) != 1 || len(s.Functions) != 1 {
			t.Errorf("the schema has %d resources, %d data sources and %d functions, want 3, 1 and 1", len(s.Resources), len(s.Data), len(s.Functions))
		}
	}
}
