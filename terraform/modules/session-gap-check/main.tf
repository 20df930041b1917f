# Says at plan time, and at each apply, whether clients can come back to dead sessions
# and be answered as if they lived. It starts nothing and makes nothing.

variable "session_ttl" {
  description = "How long your server keeps a session after its last request, such as \"30m\". null: for ever."
  type        = string
  nullable    = true
}

variable "event_retention" {
  description = "How long your event log keeps an event, such as \"60m\". null: for ever."
  type        = string
  nullable    = true
}

variable "idle_timeout" {
  description = "After how long without a byte your load balancer cuts a stream, such as \"60s\"; of an aws_lb, \"$${aws_lb.this.idle_timeout}s\". null: never."
  type        = string
  nullable    = true
}

locals {
  result = provider::revenant::resumption_gap(var.session_ttl, var.event_retention, var.idle_timeout)
}

check "resumption_gap" {
  assert {
    condition     = !local.result.dangerous
    error_message = local.result.explanation
  }
}

output "dangerous" {
  description = "Whether a client can come back to a dead session and be answered 200."
  value       = local.result.dangerous
}

output "gap" {
  description = "How long the log answers in the name of a dead session: a duration, or \"unlimited\"."
  value       = local.result.gap
}

output "explanation" {
  description = "The same in words, with what to do."
  value       = local.result.explanation
}
