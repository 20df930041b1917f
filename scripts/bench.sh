#!/usr/bin/env bash
# Measures the middleware against the bare transport, in turn in one run, and
# prints each figure beside its goal. Nothing fails here: machines differ, and
# a figure is for a person to judge. RAW=1 prints what go test prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

out=$(go test -run '^$' -bench . -benchtime 1x ./interop)
if [ -n "${RAW-}" ]; then
	printf '%s\n' "$out"
	exit
fi
awk '
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
' <<<"$out"
