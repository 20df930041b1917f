# staticcheck runs at the version that scripts/lint.sh names. RACE= turns the
# race detector off where it cannot run; nothing is merged on such a run.
RACE ?= -race
FUZZTIME ?= 30s

.DEFAULT_GOAL := help
.PHONY: help demo terraform-demo test check bench conformance teeth provider-docs fuzz

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## watch a dead session and a dead question come back, and be stopped
	@scripts/require-go.sh
	go run ./cmd/revenant demo

terraform-demo: ## terraform apply an example with the provider in this tree, and destroy it
	@scripts/require-go.sh
	@scripts/terraform-demo.sh $(EXAMPLE)

test: ## run the tests of both modules, with the race detector, shuffled
	@scripts/require-go.sh $(RACE)
	@scripts/install-engines.sh
	go test $(RACE) -shuffle=on ./... ./middleware/...
	REVENANT_TEETH=1 go test -timeout 20m -run '^TestTeeth$$' ./interop/teeth

check: ## all that a change must pass: format, vet, staticcheck, tidy, tests
	@scripts/require-go.sh $(RACE)
	@scripts/lint.sh
	@$(MAKE) --no-print-directory test

bench: ## measure the middleware and the load balancers, each against others
	@scripts/require-go.sh
	scripts/bench.sh

conformance: ## run the official MCP suite, bare and through the middleware
	@scripts/require-go.sh
	@scripts/conformance.sh

teeth: ## break the middleware in every way that is known, and run the whole library each time
	@scripts/require-go.sh
	@scripts/install-engines.sh
	scripts/teeth.sh

provider-docs: ## write the provider's reference anew, from its schema
	@scripts/require-go.sh
	scripts/provider-docs.sh

fuzz: ## fuzz each target for FUZZTIME (30s), one after another
	@scripts/require-go.sh
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh
