//go:build unix

package provider_test

import (
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/revenant-mcp/revenant/chaos/control"
)

// acceptance runs steps with a data directory of their own; %[1]q in a configuration
// is that. Afterwards nothing is left.
func acceptance(t *testing.T, dir string, steps ...resource.TestStep) {
	t.Helper()
	resource.UnitTest(t, resource.TestCase{ProtoV6ProviderFactories: factories(t), Steps: steps})
}

func configuration(dir, text string) string {
	return fmt.Sprintf("provider \"revenant\" {\n  data_dir = %q\n}\n", dir) + text
}

// empty wants that nothing is to be done.
var empty = resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}

// action wants that something is to be done about a resource.
func action(address string, of plancheck.ResourceActionType) resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PreApply: []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, of)}}
}

// deleted takes a resource away behind Terraform's back.
func deleted(t *testing.T, dir string, kind control.Kind, name string) resource.TestCheckFunc {
	return func(*terraform.State) error {
		return client(t, dir).Delete(testContext(t), kind, name, -1)
	}
}

// remembers keeps an attribute, and same and other hold a later one against it.
type memory map[string]string

func (m memory) remembers(address, name string) resource.TestCheckFunc {
	return resource.TestCheckResourceAttrWith(address, name, func(value string) error {
		m[address+"."+name] = value
		return nil
	})
}

func (m memory) same(address, name string, is bool) resource.TestCheckFunc {
	return resource.TestCheckResourceAttrWith(address, name, func(value string) error {
		if (value == m[address+"."+name]) != is {
			return fmt.Errorf("%s of %s is %q and was %q, want the same: %v", name, address, value, m[address+"."+name], is)
		}
		return nil
	})
}

// answers wants an HTTP server at the url of a resource.
func answers(address string) resource.TestCheckFunc {
	return resource.TestCheckResourceAttrWith(address, "url", func(url string) error {
		transport := &http.Transport{DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: transport}).Post(url, "application/json", strings.NewReader("{}"))
		if err != nil {
			return err
		}
		return resp.Body.Close()
	})
}

const serverText = `
resource "revenant_mcp_server" "this" {
  name          = %q
  replicas      = %d
  session_ttl   = %q
  log_retention = "60m"
  rules = [
    { on = "post", status = 503, from = 100000, retry_after = %q },
    { on = "get_first", delay = "10ms" },
  ]
}
`

func TestMCPServer(t *testing.T) {
	terraformProgram(t)
	dir := dataDir(t)
	const address = "revenant_mcp_server.this"
	config := func(name string, replicas int, ttl, retryAfter string) string {
		return configuration(dir, fmt.Sprintf(serverText, name, replicas, ttl, retryAfter))
	}
	seen := memory{}
	acceptance(t, dir,
		resource.TestStep{ // create; that the plan is empty then, the framework sees to
			Config: config("one", 1, "60s", "60s"),
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr(address, "state", "running"),
				resource.TestCheckResourceAttr(address, "addrs.#", "1"),
				resource.TestCheckResourceAttr(address, "generation", "1"),
				seen.remembers(address, "url"), seen.remembers(address, "id"), answers(address)),
		},
		resource.TestStep{ // another text for the same time
			Config: config("one", 1, "1m", "1m"), ConfigPlanChecks: empty,
		},
		resource.TestStep{
			Config: config("one", 1, "2m", "1m"), ConfigPlanChecks: action(address, plancheck.ResourceActionUpdate),
			Check: resource.ComposeAggregateTestCheckFunc(
				seen.same(address, "url", true), seen.same(address, "id", true), resource.TestCheckResourceAttr(address, "generation", "2"), answers(address)),
		},
		resource.TestStep{
			Config: config("one", 3, "2m", "1m"), ConfigPlanChecks: action(address, plancheck.ResourceActionUpdate),
			Check: resource.TestCheckResourceAttr(address, "addrs.#", "3"),
		},
		resource.TestStep{
			ResourceName: address, ImportState: true, ImportStateId: "one", ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name",
		},
		resource.TestStep{ResourceName: address, ImportState: true, ImportStateId: "no-such", ExpectError: regexp.MustCompile("non-existent remote object")},
		resource.TestStep{ResourceName: address, ImportState: true, ImportStateId: "../one", ExpectError: regexp.MustCompile("That is no name")},
		resource.TestStep{
			Config: config("two", 1, "2m", "1m"), ConfigPlanChecks: action(address, plancheck.ResourceActionReplace),
			Check: seen.same(address, "id", false),
		},
		resource.TestStep{ // somebody takes it away
			Config: config("two", 1, "2m", "1m"), Check: deleted(t, dir, control.Servers, "two"), ExpectNonEmptyPlan: true,
		},
		resource.TestStep{
			Config: config("two", 1, "2m", "1m"), ConfigPlanChecks: action(address, plancheck.ResourceActionCreate), Check: answers(address),
		},
	)
}

func TestLoadBalancer(t *testing.T) {
	terraformProgram(t)
	dir := dataDir(t)
	const address = "revenant_load_balancer.this"
	config := func(server, name, more string) string {
		return configuration(dir, fmt.Sprintf(`
resource "revenant_mcp_server" "this" {
  name = %q
}
resource "revenant_load_balancer" "this" {
  name   = %q
  server = revenant_mcp_server.this.name
  %s
}
`, server, name, more))
	}
	seen := memory{}
	acceptance(t, dir,
		resource.TestStep{
			Config: config("one", "lb", "idle_timeout = \"60s\"\non_expiry = 503"),
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr(address, "on_expiry", "503"), resource.TestCheckResourceAttr(address, "state", "running"),
				seen.remembers(address, "id"), seen.remembers(address, "url"), answers(address)),
		},
		resource.TestStep{Config: config("one", "lb", "idle_timeout = \"1m0s\"\non_expiry = \"503\""), ConfigPlanChecks: empty},
		resource.TestStep{
			Config: config("one", "lb", "idle_timeout = \"none\"\nprofile = \"aws-alb\""), ConfigPlanChecks: action(address, plancheck.ResourceActionUpdate),
			Check: resource.ComposeAggregateTestCheckFunc(seen.same(address, "url", true), resource.TestCheckNoResourceAttr(address, "on_expiry"), answers(address)),
		},
		resource.TestStep{ResourceName: address, ImportState: true, ImportStateId: "lb", ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name"},
		// The server cannot go while the load balancer stands before it, which goes, too.
		resource.TestStep{
			Config: config("two", "lb", "profile = \"aws-alb\""), ConfigPlanChecks: action(address, plancheck.ResourceActionReplace),
			Check: resource.ComposeAggregateTestCheckFunc(seen.same(address, "id", false), answers(address)),
		},
		resource.TestStep{
			Config: config("two", "lb", "profile = \"aws-alb\""), Check: deleted(t, dir, control.LoadBalancers, "lb"), ExpectNonEmptyPlan: true,
		},
		resource.TestStep{
			Config: config("two", "lb", "profile = \"aws-alb\""), ConfigPlanChecks: action(address, plancheck.ResourceActionCreate), Check: answers(address),
		},
		resource.TestStep{
			Config: configuration(dir, "resource \"revenant_load_balancer\" \"this\" {\n  name = \"lb\"\n  upstreams = [\"127.0.0.1:9\"]\n}\n"),
			Check:  resource.TestCheckResourceAttr(address, "upstreams.#", "1"),
		},
		resource.TestStep{ResourceName: address, ImportState: true, ImportStateId: "lb", ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name"},
	)
}

// What cannot listen is in the state as failed, and the next apply puts it right.
func TestPortThatIsTaken(t *testing.T) {
	terraformProgram(t)
	dir := dataDir(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config := configuration(dir, fmt.Sprintf("resource \"revenant_mcp_server\" \"this\" {\n  name = \"one\"\n  addrs = [%q]\n}\n", l.Addr()))
	acceptance(t, dir,
		resource.TestStep{Config: config, ExpectError: regexp.MustCompile(`(?s)"one" does not run.*address already in use`)},
		resource.TestStep{
			PreConfig: func() { l.Close() }, Config: config,
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr("revenant_mcp_server.this", "addrs.0", l.Addr().String()), answers("revenant_mcp_server.this")),
		},
	)
}

// What is wrong is said when Terraform plans, at the attribute, and no daemon is
// started for it.
func TestPlanTimeValidation(t *testing.T) {
	terraformProgram(t)
	dir := dataDir(t)
	server := func(text string) string {
		return "resource \"revenant_mcp_server\" \"this\" {\n  name = \"one\"\n  " + text + "\n}\n"
	}
	balancer := func(text string) string {
		return "resource \"revenant_load_balancer\" \"this\" {\n  name = \"one\"\n  " + text + "\n}\n"
	}
	experiment := func(definition, text string) string {
		return "resource \"revenant_experiment\" \"this\" {\n  name = \"one\"\n  definition = <<-EOT\n" + definition + "EOT\n  " + text + "\n}\n"
	}
	var steps []resource.TestStep
	for _, c := range []struct{ config, want string }{
		{"resource \"revenant_mcp_server\" \"this\" {\n  name = \"No Name\"\n}\n", `name is\s+"No Name", want lower-case`},
		{server(`session_ttl = "90"`), `session_ttl is "90" is no duration|session_ttl is\s+"90"`},
		{server(`session_ttl = "1ms"`), `too\s+short\s+for\s+an\s+ordinary\s+machine`},
		{server(`refresh = "evry"`), `(?s)refresh.*must\s+be\s+one\s+of`},
		{server(`shared_sessions = true`), `shared_sessions\s+is\s+true,\s+want\s+more\s+than\s+one\s+of\s+replicas`},
		{server(`rules = [{ on = "post" }]`), `(?s)with revenant_mcp_server.this.*rules\[0\]\s+has\s+no\s+effect`},
		{server(`addrs = ["127.0.0.1:7001", "127.0.0.1:7002"]`), `addrs\s+has\s+2\s+addresses,\s+want\s+1`},
		{server(`addrs = ["0.0.0.0:7001"]`), `only\s+this\s+machine\s+can\s+reach`},
		{server(`addrs = ["127.0.0.1:0"]`), `no\s+address\s+at\s+all`},
		{balancer(``), `Neither server nor upstreams`},
		{balancer("server = \"s\"\n  upstreams = [\"10.0.0.1:80\"]"), `want\s+one\s+of\s+the\s+two`},
		{balancer(`upstreams = ["10.0.0.1"]`), `want\s+a\s+host\s+and\s+a\s+port`},
		{balancer("server = \"s\"\n  idle_timeout = \"0s\""), `is\s+no\s+limit`},
		{balancer("server = \"s\"\n  engine = \"nginx\"\n  mode = \"tcp\""), `(?s)mode\s+is`},
		{balancer("server = \"s\"\n  on_expiry = \"shrug\""), `(?s)on_expiry`},
		{experiment("name: x\nlengthy: 3\n", ""), `Line 2, column 1: definition:2:1: lengthy`},
		{experiment(small(t), `clients = ["naive"]`), `clients\s+has\s+"naive",\s+want\s+one\s+that\s+the\s+definition\s+has`},
		{experiment(small(t), `arms = ["left"]`), `(?s)arms.*must\s+be\s+one\s+of`},
		{experiment(small(t), `time_scale = 500`), `time_scale\s+is\s+500,\s+with\s+which`},
		{experiment(small(t), `repeat = 101`), `between\s+1\s+and\s+100`},
		{experiment(small(t), `on_deviation = "shrug"`), `(?s)on_deviation.*must\s+be\s+one\s+of`},
		// With a server of which nothing is known yet the rest is still read.
		{experiment(strings.Replace(small(t), "at: 900ms", "at: 900", 1), `server = "s"`), `at\s+is\s+900,\s+want\s+a\s+duration`},
		{"provider \"revenant\" {\n  endpoint = \"ftp://x\"\n}\n" + server(""), `(?s)endpoint.*must\s+be\s+unix:///`},
		{"provider \"revenant\" {\n  endpoint = \"unix:///tmp/x\"\n  token = \"sixteen-characters\"\n}\n" + server(""), `a\s+Unix\s+socket\s+wants\s+none`},
		{"provider \"revenant\" {\n  data_dir = \"/" + strings.Repeat("x", 100) + "\"\n}\n" + server(""), `no\s+more\s+than\s+103`},
	} {
		if !strings.HasPrefix(c.config, "provider") {
			c.config = configuration(dir, c.config)
		}
		steps = append(steps, resource.TestStep{Config: c.config, PlanOnly: true, ExpectError: regexp.MustCompile(c.want)})
	}
	// What is not known yet is no fault, nor what depends on it.
	steps = append(steps, resource.TestStep{
		Config: configuration(dir, `
resource "terraform_data" "later" {
  input = 2
}
resource "revenant_mcp_server" "this" {
  name            = "one"
  replicas        = terraform_data.later.output
  shared_sessions = true
}
`), PlanOnly: true, ExpectNonEmptyPlan: true,
	})
	acceptance(t, dir, steps...)
}
