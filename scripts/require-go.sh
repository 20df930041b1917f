#!/usr/bin/env bash
# Says what to install where Go is missing, older than go.mod asks, or (with
# -race) without the C compiler that the race detector needs. Changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() {
	printf '%s\n' "$@" >&2
	exit 1
}

need=$(awk '$1 == "go" { print $2; exit }' go.mod)
command -v go >/dev/null 2>&1 ||
	die "Go is not installed (or not in PATH): install Go $need or later from https://go.dev/dl/"

# The version that runs here: with GOTOOLCHAIN=auto an older go command has
# fetched a newer one by now; where it may not or could not, this fails.
have=$(go version 2>/dev/null | awk '{ sub(/^go/, "", $3); print $3 }') || have=
[ -n "$have" ] || have=$(GOTOOLCHAIN=local go version | awk '{ sub(/^go/, "", $3); print $3 }')

older=$(awk -v have="$have" -v need="$need" 'BEGIN {
	split(have, h, "."); split(need, n, ".")
	for (i = 1; i <= 3; i++) {
		# "27rc1" counts as 27, and "devel" as new enough.
		if (h[1] !~ /^[0-9]/) { print "no"; exit }
		if (h[i] + 0 != n[i] + 0) { print (h[i] + 0 < n[i] + 0) ? "yes" : "no"; exit }
	}
	print "no"
}')
[ "$older" = no ] ||
	die "Go $have is too old, this needs $need or later: install it from https://go.dev/dl/," \
		"or let the go command fetch it: go env -w GOTOOLCHAIN=auto"

if [ "${1-}" = -race ] && [ "$(go env GOOS)" = linux ]; then
	cc=$(go env CC)
	if [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "${cc%% *}" >/dev/null 2>&1; then
		die "The race detector needs cgo and a C compiler: install gcc or clang and leave CGO_ENABLED alone," \
			"or run the tests without it: make test RACE="
	fi
fi
