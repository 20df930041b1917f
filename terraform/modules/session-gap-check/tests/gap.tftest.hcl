run "the_log_outlives_the_session" {
  command = plan

  variables {
    session_ttl     = "30m"
    event_retention = "60m"
    idle_timeout    = "60s"
  }

  expect_failures = [check.resumption_gap]
}

run "its_length" {
  command = plan

  variables {
    session_ttl     = "30m"
    event_retention = "60m"
    idle_timeout    = null
  }

  assert {
    condition     = output.gap == "30m" && !output.dangerous
    error_message = "The gap is ${output.gap}, want 30m, which is no danger where nothing cuts streams."
  }
}

run "the_log_is_forgotten_first" {
  command = plan

  variables {
    session_ttl     = "30m"
    event_retention = "5m"
    idle_timeout    = "60s"
  }

  assert {
    condition     = output.gap == "0s" && !output.dangerous
    error_message = "The gap is ${output.gap}, want none."
  }
}

run "a_log_without_end" {
  command = plan

  variables {
    session_ttl     = "30m"
    event_retention = null
    idle_timeout    = "350s"
  }

  expect_failures = [check.resumption_gap]
}
