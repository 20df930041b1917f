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

# What is generated is what its source says now.
echo ".: go tool mockery"
before=$(cat chaos/control/mocks/*.go)
go tool mockery >/dev/null 2>&1
if [ "$before" != "$(cat chaos/control/mocks/*.go)" ]; then
	echo "chaos/control/mocks was out of date: it is written anew, commit it" >&2
	exit 1
fi
echo ".: scripts/provider-docs.sh --check"
scripts/provider-docs.sh --check
