#!/usr/bin/env bash
# Measures the middleware against the bare transport, in turn in one run, and
# prints each figure beside its goal. Nothing here passes or fails: machines
# differ, and a figure is for a person to judge.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go test -run '^$' -bench . -benchtime 1x ./interop
