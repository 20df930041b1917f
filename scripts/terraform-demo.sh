#!/usr/bin/env bash
# Applies an example of terraform/examples (by default elicitation) with the provider
# as it stands in this tree, shows the outputs, keeps the pages, and destroys
# everything again. It needs terraform, or tofu, on PATH.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

example=${1:-elicitation}
terraform=$(command -v terraform || command -v tofu || true)
if [ -z "$terraform" ]; then
	echo "terraform-demo: neither terraform nor tofu is on PATH: install one of them, or see the same by make demo" >&2
	exit 1
fi
if [ ! -f "terraform/examples/$example/main.tf" ]; then
	echo "terraform-demo: no example \"$example\" in terraform/examples: want one of $(ls -x terraform/examples)" >&2
	exit 2
fi
dir=$(mktemp -d)
# What ends the demo in the middle leaves nothing either.
applied=
destroy() {
	if [ -z "$applied" ]; then return; fi
	applied=
	"$terraform" -chdir="terraform/examples/$example" destroy -auto-approve -no-color -state="$dir/state" >"$dir/log" 2>&1 || cat "$dir/log" >&2
	# The daemon ends by itself, and its socket with it.
	for _ in $(seq 100); do
		if [ ! -e "$dir/data/revenant.sock" ]; then return; fi
		sleep 0.1
	done
}
finish() {
	destroy
	rm -rf "$dir"
}
trap finish EXIT

export CHECKPOINT_DISABLE=1 TF_IN_AUTOMATION=1 TF_CLI_CONFIG_FILE=$dir/rc TF_DATA_DIR=$dir/terraform REVENANT_DATA_DIR=$dir/data
go build -o "$dir/bin/terraform-provider-revenant" ./cmd/terraform-provider-revenant
cat >"$dir/rc" <<RC
provider_installation {
  dev_overrides {
    "registry.terraform.io/revenant-mcp/revenant" = "$dir/bin"
    "registry.opentofu.org/revenant-mcp/revenant" = "$dir/bin"
  }
  direct {}
}
RC
run() { "$terraform" -chdir="terraform/examples/$example" "$@"; }
run get -no-color >/dev/null 2>&1
applied=yes
colors=
if [ ! -t 1 ]; then colors=-no-color; fi
run apply -auto-approve -compact-warnings $colors -state="$dir/state"
pages=$(mktemp -d "${TMPDIR:-/tmp}/revenant-terraform-XXXXXX")
cp -r "$dir/data/reports/." "$pages/"
destroy
echo
echo "Everything is destroyed again. The pages: $(find "$pages" -name report.html | head -n 1)"
