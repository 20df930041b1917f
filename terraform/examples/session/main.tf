# Sessions live 30 minutes, the event log keeps 60, and a load balancer cuts streams
# that are idle for four: a client that comes back to a dead session is answered 200.
# The experiment shows what becomes of it, 150 times faster than in the record,
# which makes about 17 seconds.

module "session" {
  source = "../../modules/local-game-day"

  name            = "session"
  definition      = file("${path.module}/../../../experiments/session.yaml")
  session_ttl     = "30m"
  event_retention = "60m"
  idle_timeout    = "4m"
  on_expiry       = "fin"
  refresh         = "never"
  retry           = "1m"
}

output "url" {
  description = "The endpoint of the load balancer, to point a client of yours at."
  value       = module.session.url
}

output "verdict" {
  value = module.session.verdict
}

output "report" {
  description = "A page with the timeline of both arms."
  value       = module.session.report_path
}

output "gap" {
  value = module.session.gap
}
