#!/usr/bin/env bash
# Runs each fuzz target of both modules for FUZZTIME (a duration, or a count as
# 1000x; 30s if unset), one after another, and stops at the first that fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fuzztime=${FUZZTIME:-30s}

# go test -list prints the targets of a package and then the package's own
# line: "ok <tab> path <tab> time".
listing=$(go test -list '^Fuzz' ./... ./middleware/...) || {
	printf '%s\n' "$listing" "cannot list the fuzz targets: a package above does not build" >&2
	exit 1
}
targets=$(awk -F '\t' '
	/^Fuzz[^ \t]*$/ { names[n++] = $1; next }
	/^ok/ { for (i = 0; i < n; i++) print $2, names[i] }
	/^(ok|\?|---)/ { n = 0 }
' <<<"$listing")
if [ -z "$targets" ]; then
	echo "no fuzz targets"
	exit 0
fi

total=$(wc -l <<<"$targets" | tr -d ' ')
i=0
while read -r pkg name <&3; do
	i=$((i + 1))
	echo "[$i/$total] $pkg $name for $fuzztime"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$fuzztime" -fuzzminimizetime 1s "$pkg" || {
		echo "$name of $pkg fails: mend it, and commit the input that it wrote under testdata/fuzz" >&2
		exit 1
	}
done 3<<<"$targets"
