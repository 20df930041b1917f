# A matrix: the same experiment behind the defaults of several products. What is not
# set of a load balancer, its profile fills in. They are run one after another, since
# they share this machine's time.

variable "profiles" {
  description = "The products whose defaults are tried."
  type        = set(string)
  default     = ["aws-alb", "haproxy", "heroku"]
}

resource "revenant_mcp_server" "this" {
  name         = "profiles"
  replay       = "inclusive"
  on_break     = "cancels"
  stale_answer = 202
  retry        = "15s"
}

resource "revenant_load_balancer" "this" {
  for_each = var.profiles

  name    = each.key
  server  = revenant_mcp_server.this.name
  profile = each.key
}

resource "revenant_experiment" "this" {
  for_each = revenant_load_balancer.this

  name          = "elicitation-${each.key}"
  definition    = file("${path.module}/../../../experiments/elicitation.yaml")
  server        = revenant_mcp_server.this.name
  load_balancer = each.value.name

  # The matrix is to be whole, whatever one of them comes to.
  on_deviation = "warn"
}

output "verdicts" {
  value = { for profile, e in revenant_experiment.this : profile => e.verdict }
}

output "reports" {
  value = { for profile, e in revenant_experiment.this : profile => e.report_path }
}
