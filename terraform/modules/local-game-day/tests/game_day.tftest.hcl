variables {
  name       = "module-test"
  definition = file("tests/small.yaml")
  retry      = "200ms"
  on_expiry  = "fin"
}

run "names_are_checked" {
  command = plan

  variables {
    name = "No Name"
  }

  expect_failures = [var.name]
}

run "on_deviation_is_checked" {
  command = plan

  variables {
    on_deviation = "shrug"
  }

  expect_failures = [var.on_deviation]
}

run "replicas_are_checked" {
  command = plan

  variables {
    replicas = 1.5
  }

  expect_failures = [var.replicas]
}

run "it_is_upheld" {
  variables {
    session_ttl     = "30m"
    event_retention = "60m"
    idle_timeout    = "60s"
  }

  assert {
    condition     = output.verdict == "upheld"
    error_message = "The verdict is ${output.verdict}: ${output.reason}"
  }

  assert {
    condition     = startswith(output.url, "http://127.0.0.1:") && output.url != output.server_url
    error_message = "The load balancer is at ${output.url}, the server at ${output.server_url}."
  }

  assert {
    condition     = alltrue([for o in output.observations : o.met]) && length(output.observations) == 4
    error_message = "The observations are ${jsonencode(output.observations)}."
  }

  assert {
    condition     = fileexists(output.report_path) && fileexists(output.journal_path)
    error_message = "There is no report at ${output.report_path}, or no journal at ${output.journal_path}."
  }

  assert {
    condition     = output.gap.dangerous && output.gap.gap == "30m"
    error_message = "The gap is ${jsonencode(output.gap)}."
  }
}

run "other_settings_run_it_again" {
  variables {
    session_ttl     = "20m"
    event_retention = "60m"
    idle_timeout    = "60s"
  }

  assert {
    condition     = output.report_path != run.it_is_upheld.report_path
    error_message = "It was not run again: the report is still ${output.report_path}."
  }

  assert {
    condition     = output.url == run.it_is_upheld.url
    error_message = "The load balancer has moved to ${output.url}."
  }
}
