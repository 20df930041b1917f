resource "revenant_mcp_server" "this" {
  name            = var.name
  replicas        = var.replicas
  shared_sessions = var.shared_sessions
  session_ttl     = var.session_ttl
  log_retention   = var.event_retention
  refresh         = var.refresh
  retry           = var.retry
}

resource "revenant_load_balancer" "this" {
  name         = var.name
  server       = revenant_mcp_server.this.name
  engine       = var.engine
  profile      = var.profile
  idle_timeout = var.idle_timeout
  on_expiry    = var.on_expiry
}

resource "revenant_experiment" "this" {
  name          = var.name
  definition    = var.definition
  server        = revenant_mcp_server.this.name
  load_balancer = revenant_load_balancer.this.name
  on_deviation  = var.on_deviation

  triggers = merge(var.triggers, {
    server        = revenant_mcp_server.this.generation
    load_balancer = revenant_load_balancer.this.generation
  })
}
