# A question that comes back looking open, behind the real nginx: the daemon starts it
# from PATH, with a configuration of its own, on a port of this machine.

resource "revenant_mcp_server" "this" {
  name         = "behind-nginx"
  replay       = "inclusive"
  on_break     = "cancels"
  stale_answer = 202
  retry        = "15s"
}

resource "revenant_load_balancer" "this" {
  name         = "nginx"
  server       = revenant_mcp_server.this.name
  engine       = "nginx"
  idle_timeout = "60s"
}

resource "revenant_experiment" "this" {
  name          = "elicitation-behind-nginx"
  definition    = file("${path.module}/../../../experiments/elicitation.yaml")
  server        = revenant_mcp_server.this.name
  load_balancer = revenant_load_balancer.this.name
}

output "url" {
  value = revenant_load_balancer.this.url
}

output "verdict" {
  value = revenant_experiment.this.verdict
}

output "report" {
  value = revenant_experiment.this.report_path
}
