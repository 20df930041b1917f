//go:build unix

package provider_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/revenant-mcp/revenant/chaos/control"
)

const experimentAddress = "revenant_experiment.this"

// experimentConfig is an experiment with a definition and other attributes.
func experimentConfig(dir, definition, more string) string {
	return configuration(dir, fmt.Sprintf(`
resource "revenant_experiment" "this" {
  name       = "small"
  definition = <<-EOT
%sEOT
  %s
}
`, definition, more))
}

// resultText is the result of it.
const resultText = `
data "revenant_experiment_result" "this" {
  experiment = revenant_experiment.this.name
  depends_on = [revenant_experiment.this]
}
`

// written wants a file at an attribute.
func written(name, with string) resource.TestCheckFunc {
	return resource.TestCheckResourceAttrWith(experimentAddress, name, func(path string) error {
		data, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(data), with) {
			err = fmt.Errorf("%s has no %q", path, with)
		}
		return err
	})
}

func TestExperiment(t *testing.T) {
	terraformProgram(t)
	dir := dataDir(t)
	definition := small(t)
	seen := memory{}
	const result = "data.revenant_experiment_result.this"
	acceptance(t, dir,
		resource.TestStep{
			Config: experimentConfig(dir, definition, "seed = 7") + resultText,
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr(experimentAddress, "verdict", "upheld"),
				resource.TestCheckResourceAttr(experimentAddress, "observations.#", "4"),
				resource.TestCheckResourceAttr(experimentAddress, "observations.0.met", "true"),
				resource.TestMatchResourceAttr(experimentAddress, "reason", regexp.MustCompile("the protected arm held")),
				written("report_path", "</html>"), written("journal_path", `"seed"`),
				resource.TestCheckResourceAttrPair(result, "run_id", experimentAddress, "run_id"),
				resource.TestCheckResourceAttr(result, "verdict", "upheld"),
				resource.TestCheckResourceAttr(result, "seed", "7"),
				resource.TestCheckResourceAttr(result, "state", "done"),
				seen.remembers(experimentAddress, "run_id"), seen.remembers(experimentAddress, "id")),
		},
		resource.TestStep{ // what is no input runs nothing
			Config:           experimentConfig(dir, definition, "seed = 7\n  on_deviation = \"warn\"\n  timeouts {\n    create = \"1m\"\n  }"),
			ConfigPlanChecks: action(experimentAddress, plancheck.ResourceActionUpdate),
			Check:            seen.same(experimentAddress, "run_id", true),
		},
		resource.TestStep{
			Config:           experimentConfig(dir, definition, "seed = 7\n  triggers = { release = \"v2\" }"),
			ConfigPlanChecks: action(experimentAddress, plancheck.ResourceActionUpdate),
			Check: resource.ComposeAggregateTestCheckFunc(
				seen.same(experimentAddress, "run_id", false), seen.same(experimentAddress, "id", true), seen.remembers(experimentAddress, "run_id")),
		},
		resource.TestStep{ // a report that somebody has lost is written again
			PreConfig: func() {
				if err := os.RemoveAll(filepath.Join(dir, "reports")); err != nil {
					t.Error(err)
				}
			},
			Config: experimentConfig(dir, definition, "seed = 7\n  triggers = { release = \"v2\" }"), ConfigPlanChecks: empty,
			Check: resource.ComposeAggregateTestCheckFunc(written("report_path", "</html>"), seen.same(experimentAddress, "run_id", true)),
		},
		resource.TestStep{
			ResourceName: experimentAddress, ImportState: true, ImportStateId: "small", ImportStateVerify: true,
			ImportStateVerifyIdentifierAttribute: "name", ImportStateVerifyIgnore: []string{"triggers"},
		},
		resource.TestStep{ // somebody changes the definition
			PreConfig: func() {
				_, _, err := client(t, dir).Put(testContext(t), control.Experiments, "small", -1, []byte(fmt.Sprintf(`{"definition": %q}`, strings.Replace(definition, "title: A", "title: No", 1))))
				if err != nil {
					t.Error(err)
				}
			},
			Config:           experimentConfig(dir, definition, "seed = 7\n  triggers = { release = \"v2\" }"),
			ConfigPlanChecks: action(experimentAddress, plancheck.ResourceActionUpdate),
			Check:            seen.same(experimentAddress, "run_id", false),
		},
		resource.TestStep{
			Config: experimentConfig(dir, definition, "seed = 7\n  repeat = 2\n  clients = [\"gosdk\"]\n  arms = [\"control\", \"protected\"]"),
			Check:  resource.ComposeAggregateTestCheckFunc(resource.TestCheckResourceAttr(experimentAddress, "verdict", "upheld"), written("report_path", "</html>")),
		},
		resource.TestStep{
			ResourceName: experimentAddress, ImportState: true, ImportStateId: "small", ImportStateVerify: true, ImportStateVerifyIdentifierAttribute: "name",
		},
		resource.TestStep{
			Config: experimentConfig(dir, definition, ""), Check: deleted(t, dir, control.Experiments, "small"), ExpectNonEmptyPlan: true,
		},
		resource.TestStep{
			Config: experimentConfig(dir, definition, ""), ConfigPlanChecks: action(experimentAddress, plancheck.ResourceActionCreate),
			Check: seen.same(experimentAddress, "id", false),
		},
	)
}

// By default a verdict other than upheld fails the apply when the state is saved,
// and the next apply runs the experiment again, until it is upheld or nobody minds.
func TestExperimentThatDeviates(t *testing.T) {
	terraformProgram(t)
	dir := dataDir(t)
	upheld := small(t)
	deviating := small(t, "    dead_session_events_applied: 0\n", "    dead_session_events_applied: 0\n    sessions_begun: 77\n")
	toothless := small(t, `">= 3"`, `">= 30"`)
	failed := regexp.MustCompile(`(?s)The experiment "small": deviated.*The protected arm did not hold.*protected gosdk: sessions_begun = \d+, want 77.*` + regexp.QuoteMeta(filepath.Join(dir, "reports")) + `/\S+/report.html`)
	seen := memory{}
	acceptance(t, dir,
		resource.TestStep{Config: experimentConfig(dir, deviating, ""), ExpectError: failed},
		resource.TestStep{ // what could not be made whole is made anew
			Config: experimentConfig(dir, upheld, ""), ConfigPlanChecks: action(experimentAddress, plancheck.ResourceActionReplace),
			Check: resource.TestCheckResourceAttr(experimentAddress, "verdict", "upheld"),
		},
		resource.TestStep{Config: experimentConfig(dir, deviating, ""), ExpectError: failed},
		resource.TestStep{ // the same again: that the state has its inputs is not enough
			Config: experimentConfig(dir, deviating, ""), ConfigPlanChecks: action(experimentAddress, plancheck.ResourceActionUpdate), ExpectError: failed,
		},
		resource.TestStep{ // that nobody minds is no input
			Config: experimentConfig(dir, deviating, `on_deviation = "warn"`), ConfigPlanChecks: action(experimentAddress, plancheck.ResourceActionUpdate),
			Check: resource.ComposeAggregateTestCheckFunc(resource.TestCheckResourceAttr(experimentAddress, "verdict", "deviated"), seen.remembers(experimentAddress, "run_id")),
		},
		resource.TestStep{Config: experimentConfig(dir, deviating, `on_deviation = "warn"`), ConfigPlanChecks: empty, Check: seen.same(experimentAddress, "run_id", true)},
		resource.TestStep{
			Config: experimentConfig(dir, toothless, ""), ExpectError: regexp.MustCompile(`(?s)The experiment "small": inconclusive.*The control arm did not fail`),
		},
		resource.TestStep{
			Config: experimentConfig(dir, toothless, `on_deviation = "ignore"`),
			Check:  resource.TestCheckResourceAttr(experimentAddress, "verdict", "inconclusive"),
		},
		resource.TestStep{
			Config:      experimentConfig(dir, small(t, "length: 1200ms", "length: 10m", "at: 900ms", "at: 9m"), "timeouts {\n    update = \"1s\"\n  }"),
			ExpectError: regexp.MustCompile(`(?s)it\s+was\s+stopped.*the\s+timeout\s+of\s+1s`),
		},
		resource.TestStep{
			PreConfig: func() {
				if _, err := client(t, dir).Halt(testContext(t), "the fire alarm"); err != nil {
					t.Error(err)
				}
			},
			Config: experimentConfig(dir, upheld, ""), ExpectError: regexp.MustCompile(`(?s)the\s+fire\s+alarm.*revenant\s+resume`),
		},
		resource.TestStep{
			PreConfig: func() {
				if _, err := client(t, dir).Resume(testContext(t)); err != nil {
					t.Error(err)
				}
			},
			Config: experimentConfig(dir, upheld, ""), Check: resource.TestCheckResourceAttr(experimentAddress, "verdict", "upheld"),
		},
	)
}

// An experiment has the settings of what it names, and runs again when they change
// if they are among its triggers.
func TestExperimentOfResources(t *testing.T) {
	terraformProgram(t)
	dir := dataDir(t)
	config := func(ttl string) string {
		return configuration(dir, fmt.Sprintf(`
resource "revenant_mcp_server" "this" {
  name        = "one"
  retry       = "200ms"
  session_ttl = %q
}
resource "revenant_load_balancer" "this" {
  name      = "one"
  server    = revenant_mcp_server.this.name
  on_expiry = "fin"
}
resource "revenant_experiment" "this" {
  name          = "small"
  definition    = <<-EOT
%sEOT
  server        = revenant_mcp_server.this.name
  load_balancer = revenant_load_balancer.this.name
  triggers      = { server = revenant_mcp_server.this.generation }
}
`, ttl, small(t, "  servers: {retry: 200ms}\n", "", "  load_balancer: {on_expiry: fin}\n", "")))
	}
	seen := memory{}
	acceptance(t, dir,
		resource.TestStep{
			Config: config("30m"),
			Check: resource.ComposeAggregateTestCheckFunc(
				resource.TestCheckResourceAttr(experimentAddress, "verdict", "upheld"), seen.remembers(experimentAddress, "run_id")),
		},
		resource.TestStep{
			Config: config("20m"), ConfigPlanChecks: action(experimentAddress, plancheck.ResourceActionUpdate),
			Check: seen.same(experimentAddress, "run_id", false),
		},
	)
}

func TestResultOfNothing(t *testing.T) {
	terraformProgram(t)
	dir := dataDir(t)
	acceptance(t, dir, resource.TestStep{
		Config:      configuration(dir, "data \"revenant_experiment_result\" \"this\" {\n  experiment = \"no-such\"\n}\n"),
		ExpectError: regexp.MustCompile(`(?s)Cannot\s+read\s+the\s+result\s+of\s+the\s+experiment\s+"no-such"`),
	})
}

func TestResumptionGapInACheck(t *testing.T) {
	terraformProgram(t)
	dir := dataDir(t)
	acceptance(t, dir,
		resource.TestStep{
			Config: `
output "gap" {
  value = provider::revenant::resumption_gap("30m", null, "60s")
}
`,
			Check: func(s *terraform.State) error {
				got := fmt.Sprint(s.RootModule().Outputs["gap"].Value)
				if !strings.Contains(got, "dangerous:true") || !strings.Contains(got, "gap:unlimited") {
					return errors.New("the output is " + got)
				}
				return nil
			},
		},
		resource.TestStep{
			Config:      "output \"gap\" {\n  value = provider::revenant::resumption_gap(\"30m\", \"60\", \"60s\")\n}\n",
			ExpectError: regexp.MustCompile(`(?s)event_retention.*"60"\s+is\s+no\s+duration`),
		},
	)
	if _, err := os.Stat(dir); err == nil {
		t.Error("a daemon was started for a function")
	}
}
