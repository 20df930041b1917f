#!/usr/bin/env bash
# Measures the middleware against the bare transport, and the load balancers
# against each other, in turn in one run, and prints each figure beside its goal.
# Nothing fails here: machines differ, and a figure is for a person to judge.
# RAW=1 prints what go test prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What the load balancers are compared with, besides haproxy and nginx. It is no
# dependency: it is built outside this module, and kept between runs.
toxiproxy=2.5.0

work=$(mktemp -d)
running=
cleanup() {
	# The helpers of the benchmarks end with them.
	if [ -n "$running" ]; then kill "$running" 2>/dev/null || true; fi
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# measure PACKAGE runs its benchmarks, with the rest as arguments, into $work/out.
measure() {
	local package=$1
	shift
	go test -c -o "$work/bench.test" "$package"
	# In the background, so that a signal is not kept waiting.
	(cd "$package" && exec "$work/bench.test" -test.run '^$' -test.bench . -test.benchtime 1x "$@") >"$work/out" &
	running=$!
	if ! wait "$running"; then
		cat "$work/out" >&2
		exit 1
	fi
	running=
	if [ -n "${RAW-}" ]; then cat "$work/out"; fi
}

missing() {
	printf '%s\n' \
		"################################################################" \
		"bench: NOT MEASURED: $1" \
		"################################################################" >&2
}

measure ./interop
[ -n "${RAW-}" ] || awk '
	function row(what, value, unit, goal, met) {
		printf "%-44s %10s %-4s goal %-10s %s\n", what, value, unit, goal, met ? "met" : "missed"
		rows++
	}
	/^cpu:/ { print }
	/^Benchmark/ {
		name = $1
		sub(/-[0-9]+$/, "", name)
		sub(/^Benchmark/, "", name)
		split("", m)
		for (i = 3; i < NF; i += 2) m[$(i + 1)] = $i
	}
	name == "Post" && /^Benchmark/ {
		row("session POST, over the bare transport", sprintf("+%.2f", m["ns-more"] / 1000), "us", "<= 1.5", m["ns-more"] <= 1500)
		row("", sprintf("+%.0f", m["allocs-more"]), "allocs", "<= 6", m["allocs-more"] < 6.5)
	}
	name == "PostLoopback" && /^Benchmark/ { printf "%-44s %10.2f x    (for comparison)\n", "session POST over loopback, in all", m["guarded/bare"] }
	name == "Throughput/256" && /^Benchmark/ { row("released stream, 256 B events, of bare", sprintf("%.0f", m["%-of-bare"]), "%", ">= 90", m["%-of-bare"] >= 90) }
	name == "Throughput/4096" && /^Benchmark/ { row("released stream, 4 KiB events, of bare", sprintf("%.0f", m["%-of-bare"]), "%", ">= 97", m["%-of-bare"] >= 97) }
	name ~ /^Pending\// && /^Benchmark/ { printf "%-44s %10s ns   an event, of %.0f with PendingOff\n", "nothing pending, " substr(name, 9) " B events", sprintf("+%.0f", m["ns-more/event"]), m["ns-off/event"] }
	name == "Reconnect" && /^Benchmark/ { row("a reconnect, in round trips more", sprintf("+%.2f", m["round-trips-more"]), "", "1", m["round-trips-more"] < 1.25) }
	name == "IdleMemory/first" && /^Benchmark/ { row("an idle stream, first opened", sprintf("+%.1f", m["bytes-more"] / 1024), "KiB", "<= 4", m["bytes-more"] <= 4096) }
	name == "IdleMemory/resumed" && /^Benchmark/ { row("an idle stream, resumed", sprintf("+%.1f", m["bytes-more"] / 1024), "KiB", "<= 4", m["bytes-more"] <= 4096) }
	name == "DeadSession" && /^Benchmark/ {
		row("wire requests of a dead session", m["wire-requests"], "", "<= 2", m["wire-requests"] <= 2)
		printf "%-44s %10s\n", "  the same over the bare transport", m["bare-requests"]
	}
	END { if (!rows) exit 1 }
' "$work/out"

# The processes are measured through /proc.
if [ "$(uname -s)" != Linux ]; then
	missing "the load balancers: this is not Linux"
	exit
fi
scripts/install-engines.sh
for program in haproxy nginx; do
	# As chaos/lb looks for them.
	PATH=$PATH:/usr/sbin:/usr/local/sbin command -v "$program" >/dev/null || missing "$program: it is not installed"
done
cache=${XDG_CACHE_HOME:-$HOME/.cache}/revenant
export REVENANT_BENCH_TOXIPROXY=$cache/toxiproxy-$toxiproxy/toxiproxy
if [ ! -x "$REVENANT_BENCH_TOXIPROXY" ]; then
	echo "bench: building toxiproxy $toxiproxy" >&2
	if (cd / && GOFLAGS= GOBIN=$work go install "github.com/Shopify/toxiproxy/v2/cmd/server@v$toxiproxy") >"$work/log" 2>&1; then
		mkdir -p "${REVENANT_BENCH_TOXIPROXY%/*}"
		mv "$work/server" "$REVENANT_BENCH_TOXIPROXY"
	else
		tail -n 5 "$work/log" >&2
		missing "toxiproxy $toxiproxy: it cannot be built"
	fi
fi

measure ./chaos/lb/bench
[ -n "${RAW-}" ] || awk '
	function row(what, value, unit, goal, met) {
		printf "%-44s %10s %-4s goal %-10s %s\n", what, value, unit, goal, met ? "met" : "missed"
	}
	function compared(what, value) { printf "%-44s %10s x    (for comparison)\n", what, value }
	function added(who) {
		if (who "-p50" in m) printf "%-44s %10s x    %+.2f x at the 99th percentile\n", "  " who, sprintf("+%.2f", m[who "-p50"]), m[who "-p99"]
	}
	/NOT MEASURED|LIMIT OF OPEN FILES/ { sub(/^ *[a-z_]+\.go:[0-9]+: /, ""); if (!said[$0]++) print }
	/^Benchmark/ {
		name = $1
		sub(/-[0-9]+$/, "", name)
		sub(/^Benchmark/, "", name)
		split("", m)
		for (i = 3; i < NF; i += 2) m[$(i + 1)] = $i
	}
	name ~ /^Balancer\// && /^Benchmark/ {
		load = substr(name, 10)
		load = load == "256" ? "256 B events" : load == "4096" ? "4 KiB events" : "32 MiB body"
		for (i = 1; i <= 2; i++) {
			mode = i == 1 ? "http" : "tcp"
			what = "bytes/CPU s " toupper(mode) ", " load
			if (mode "/haproxy-" mode in m) row(what ", of haproxy", sprintf("%.2f", m[mode "/haproxy-" mode]), "x", ">= 0.8", m[mode "/haproxy-" mode] >= 0.8)
			if (mode "/toxiproxy" in m) row(what ", of toxiproxy", sprintf("%.2f", m[mode "/toxiproxy"]), "x", ">= 1.5", m[mode "/toxiproxy"] >= 1.5)
		}
	}
	name ~ /^Latency\// && /^Benchmark/ {
		printf "added to %s of %.0f us, %.0f us at the 99th percentile:\n", name ~ /event/ ? "an event" : "a short request", m["direct-p50-us"], m["direct-p99-us"]
		n = split("embedded-http embedded-tcp haproxy-http haproxy-tcp nginx-http toxiproxy", engines, " ")
		for (i = 1; i <= n; i++) added(engines[i])
	}
	name ~ /^Idle\// && /^Benchmark/ {
		who = substr(name, 6)
		if (who ~ /^embedded/) row("idle streams open at once, " who, m["open-at-once"], "", "10000", m["open-at-once"] >= 10000)
		else printf "%-44s %10s\n", "idle streams open at once, " who, m["open-at-once"]
		if (m["in-one-process"] < m["open-at-once"]) printf "%-44s %10s\n", "  of them in one process", m["in-one-process"]
		printf "%-44s %10s KiB  a stream%s\n", "  memory of that process", sprintf("%.1f", m["rss-KiB"]), "heap-KiB" in m ? sprintf(", of it heap and stacks %.1f", m["heap-KiB"]) : ""
		printf "%-44s %10s      at %+.2f %% to %+.2f %% of the limit, 99 in 100 by %+.2f %%\n", "  cut when their idle timeout was over", m["cut"], m["first-%"], m["last-%"], m["p99-%"]
		printf "%-44s %10s s    to open them, %.2f s to cut them\n", "  CPU time", sprintf("%.2f", m["open-cpu-s"]), m["cut-cpu-s"]
	}
' "$work/out"
