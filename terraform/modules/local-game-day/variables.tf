variable "name" {
  description = "Names the server, the load balancer and the experiment: lower-case letters, digits and single dashes between them."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9]+(-[a-z0-9]+)*$", var.name)) && length(var.name) <= 63
    error_message = "name is \"${var.name}\", want lower-case letters, digits and single dashes between them, at most 63."
  }
}

variable "definition" {
  description = "The experiment's definition, as YAML or JSON, such as file(\"my.yaml\"). Its servers and its load balancer have the settings below in place of its own."
  type        = string
}

variable "session_ttl" {
  description = "How long a session lives after its last refresh. null: for ever."
  type        = string
  default     = null
}

variable "event_retention" {
  description = "How long the event log keeps an event. null: for ever."
  type        = string
  default     = null
}

variable "refresh" {
  description = "What prolongs a session: post, any or never. null: post."
  type        = string
  default     = null
}

variable "retry" {
  description = "The time after which a client should come back, sent on every stream. null: none, and clients have delays of their own."
  type        = string
  default     = null
}

variable "replicas" {
  description = "How many servers there are, over one event log."
  type        = number
  default     = 1

  validation {
    condition     = var.replicas >= 1 && var.replicas <= 64 && floor(var.replicas) == var.replicas
    error_message = "replicas is ${var.replicas}, want a whole number from 1 to 64."
  }
}

variable "shared_sessions" {
  description = "Whether every replica knows every session. null: no."
  type        = bool
  default     = null
}

variable "engine" {
  description = "The load balancer: embedded, or haproxy or nginx if it is installed. null: embedded."
  type        = string
  default     = null
}

variable "profile" {
  description = "The product whose defaults fill what is not set of the load balancer, such as aws-alb. null: none."
  type        = string
  default     = null
}

variable "idle_timeout" {
  description = "After how long without a byte the load balancer cuts a stream, or none. null: the profile's, or else none."
  type        = string
  default     = null
}

variable "on_expiry" {
  description = "What a client sees of that, such as fin or rst. null: the profile's, or else what the engine does."
  type        = string
  default     = null
}

variable "on_deviation" {
  description = "What a verdict other than upheld does to the apply: fail, warn or ignore."
  type        = string
  default     = "fail"

  validation {
    condition     = contains(["fail", "warn", "ignore"], var.on_deviation)
    error_message = "on_deviation is \"${var.on_deviation}\", want fail, warn or ignore."
  }
}

variable "triggers" {
  description = "Whatever is to have the experiment run again when it changes, beside the settings above."
  type        = map(string)
  default     = {}
}
