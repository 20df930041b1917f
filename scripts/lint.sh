#!/usr/bin/env bash
# What reads the code of both modules without running it. Each module is read
# as its users build it, outside the workspace, so that neither leans on what
# only the workspace gives it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2

echo "gofmt -l ."
unformatted=$(gofmt -l .)
if [ -n "$unformatted" ]; then
	printf '%s\n' "not formatted, run gofmt -w on:" "$unformatted" >&2
	exit 1
fi

for module in . middleware; do
	(
		cd "$module"
		export GOWORK=off
		echo "$module: go mod tidy -diff"
		go mod tidy -diff
		echo "$module: go vet ./..."
		go vet ./...
		echo "$module: staticcheck ./..."
		go run "$staticcheck" ./...
	)
done
