#!/usr/bin/env bash
# Runs the official MCP conformance suite (docs/conformance.md). The first time,
# npm installs the suite, and Node.js where there is none or an older one than
# 22, into the user's cache directory. Where they cannot be had, this says so and
# ends with 0.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The sdk is what the suite's servers and clients are made of: an ordinary
# dependency of it, pinned because a newer one may behave differently.
suite_version=0.1.16
sdk_version=1.32.2
node_version=22.23.3

skip() {
	printf 'SKIPPED, nothing was tested: %s\n' "$1" >&2
	exit 0
}

is_22() {
	local version
	version=$("$1" --version 2>/dev/null) || return 1
	version=${version#v}
	[ "${version%%.*}" -ge 22 ] 2>/dev/null
}

cache=${XDG_CACHE_HOME:-${HOME:?conformance: set HOME or XDG_CACHE_HOME, for a place to install the suite}/.cache}/revenant/conformance
mkdir -p "$cache"

# One folder for each set of versions, put in its place when it is complete.
set -- "@modelcontextprotocol/conformance@$suite_version" "@modelcontextprotocol/sdk@$sdk_version"
installed=$cache/$suite_version-sdk-$sdk_version
node=$(command -v node || true)
if [ -z "$node" ] || ! is_22 "$node"; then
	node=
	set -- "$@" "node@$node_version"
	installed=$installed-node-$node_version
fi
if [ ! -d "$installed" ]; then
	command -v npm >/dev/null 2>&1 || skip "npm is not installed: install Node.js 22 or later from https://nodejs.org"
	incoming=$(mktemp -d "$cache/incoming.XXXXXX")
	npm=
	stop() {
		trap - EXIT
		if [ -n "$npm" ]; then
			kill -- "-$npm" 2>/dev/null || true
			wait "$npm" 2>/dev/null || true
		fi
		rm -rf "$incoming"
	}
	trap stop EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM

	echo "installing $* into $installed"
	# In the background, so that a signal need not wait for it, and in a process
	# group of its own (set -m), so that it can be stopped with its children.
	set -m
	npm install --prefix "$incoming" --no-audit --no-fund --loglevel=error "$@" >"$incoming/npm.log" 2>&1 &
	npm=$!
	set +m
	wait "$npm" || {
		npm=
		skip "npm install $*: $(grep -m 1 'npm error' "$incoming/npm.log" || echo "see npm's configuration")"
	}
	npm=
	mv "$incoming" "$installed"
	trap - EXIT INT TERM
fi

if [ -z "$node" ]; then
	node=$installed/node_modules/.bin/node
	is_22 "$node" || skip "node@$node_version of npm does not run on this machine: install Node.js 22 or later from https://nodejs.org"
fi

# Not by go run, which passes no signal on; and exec, so that there is one
# process to stop, and it stops what it starts.
go build -o "$cache/conformance" ./interop/conformance
exec "$cache/conformance" -node "$node" \
	-suite "$installed/node_modules/@modelcontextprotocol/conformance/dist/index.js"
