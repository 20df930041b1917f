output "url" {
  description = "The endpoint of the load balancer, to point a client of yours at."
  value       = revenant_load_balancer.this.url
}

output "server_url" {
  description = "The endpoint of the first server, past the load balancer."
  value       = revenant_mcp_server.this.url
}

output "verdict" {
  description = "What the experiment came to: upheld, deviated, inconclusive or aborted."
  value       = revenant_experiment.this.verdict
}

output "reason" {
  description = "Why that is the verdict."
  value       = revenant_experiment.this.reason
}

output "observations" {
  description = "What was held against the hypothesis."
  value       = revenant_experiment.this.observations
}

output "report_path" {
  description = "The file with the report, a page for a browser."
  value       = revenant_experiment.this.report_path
}

output "journal_path" {
  description = "The file with the journal, as JSON."
  value       = revenant_experiment.this.journal_path
}

output "gap" {
  description = "What the times say by themselves: dangerous, gap and explanation. A limit of the profile's is not in it."
  value       = provider::revenant::resumption_gap(var.session_ttl, var.event_retention, var.idle_timeout)
}
