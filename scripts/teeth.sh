#!/usr/bin/env bash
# Tries each broken version of the middleware (interop/teeth) in each experiment of
# the library, and in the middleware's own tests, and prints which refutes which.
# Progress is on standard error. It fails where a mutant survives an experiment that
# is named to refute it, or where the middleware as it is is not upheld.
# MUTANTS and EXPERIMENTS, names separated by commas, try those alone; JOBS mutants
# are tried at the same time (2).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Not by go test, which passes standard error on only at the end.
go test -c -o "$dir/teeth.test" ./interop/teeth
status=0
(
	cd interop/teeth
	"$dir/teeth.test" -test.run '^TestWholeTable$' -test.timeout 0 -table "$dir/table" \
		-mutants "${MUTANTS-}" -experiments "${EXPERIMENTS-}" -jobs "${JOBS:-2}" >"$dir/log"
) || status=$?
if [ "$status" -ne 0 ]; then
	cat "$dir/log" >&2
fi
if [ -f "$dir/table" ]; then
	cat "$dir/table"
fi
exit "$status"
