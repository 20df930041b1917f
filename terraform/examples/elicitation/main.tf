# A tool asks a person before it deletes something, the load balancer cuts the stream
# in the meantime, and each replay asks again. About five seconds.

resource "revenant_mcp_server" "this" {
  name         = "elicitation"
  replay       = "inclusive"
  on_break     = "cancels"
  stale_answer = 202
  retry        = "15s"
}

resource "revenant_load_balancer" "this" {
  name         = "elicitation"
  server       = revenant_mcp_server.this.name
  idle_timeout = "60s"
  on_expiry    = "fin"
}

resource "revenant_experiment" "this" {
  name          = "elicitation"
  definition    = file("${path.module}/../../../experiments/elicitation.yaml")
  server        = revenant_mcp_server.this.name
  load_balancer = revenant_load_balancer.this.name

  # Run again when the settings of either change.
  triggers = {
    server        = revenant_mcp_server.this.generation
    load_balancer = revenant_load_balancer.this.generation
  }
}

output "url" {
  value = revenant_load_balancer.this.url
}

output "verdict" {
  value = revenant_experiment.this.verdict
}

output "observations" {
  description = "What was held against the hypothesis."
  value = [
    for o in revenant_experiment.this.observations :
    "${o.arm} ${o.client}: ${o.measure} = ${o.value} (${o.tolerance})"
  ]
}

output "report" {
  value = revenant_experiment.this.report_path
}
