#!/usr/bin/env bash
# Writes the provider's reference in docs/provider from its schema and the examples
# below terraform/, or with --check says whether it is out of date. It needs
# terraform, or tofu, on PATH, and no network but for the Go modules.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

docs=github.com/hashicorp/terraform-plugin-docs/cmd/tfplugindocs@v0.25.0
terraform=$(command -v terraform || command -v tofu || true)
if [ -z "$terraform" ]; then
	echo "provider-docs: SKIPPED: neither terraform nor tofu is on PATH, so that nobody can say whether docs/provider is out of date" >&2
	exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

export CHECKPOINT_DISABLE=1 TF_CLI_CONFIG_FILE=$dir/rc TF_DATA_DIR=$dir/data
go build -o "$dir/bin/terraform-provider-revenant" ./cmd/terraform-provider-revenant
mkdir "$dir/main"
cat >"$dir/rc" <<RC
provider_installation {
  dev_overrides {
    "registry.terraform.io/revenant-mcp/revenant" = "$dir/bin"
    "registry.opentofu.org/revenant-mcp/revenant" = "$dir/bin"
  }
  direct {}
}
RC
cp terraform/examples/session/versions.tf "$dir/main/"
"$terraform" -chdir="$dir/main" providers schema -json >"$dir/schema.json"
# tfplugindocs looks for the provider under a name of its own.
sed -i 's#"registry\.[a-z.]*/revenant-mcp/revenant"#"registry.terraform.io/hashicorp/revenant"#' "$dir/schema.json"
mkdir "$dir/run"
(
	cd "$dir/run"
	mkdir -p examples templates
	GOFLAGS= GOWORK=off go run "$docs" generate --provider-dir . --provider-name terraform-provider-revenant \
		--rendered-provider-name Revenant --providers-schema "$dir/schema.json" --rendered-website-dir out >"$dir/log" 2>&1
) || {
	cat "$dir/log" >&2
	exit 1
}
if [ "${1-}" = --check ]; then
	if ! diff -r "$dir/run/out" docs/provider; then
		echo "provider-docs: docs/provider is out of date: run make provider-docs" >&2
		exit 1
	fi
	exit 0
fi
rm -rf docs/provider
cp -r "$dir/run/out" docs/provider
