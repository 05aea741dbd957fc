# Everything that people and machines run here, by name. `make` alone lists it.

export CARGO_INCREMENTAL = 0

# A test runner that runs tests of all crates side by side, where it is installed.
TEST := $(shell cargo nextest --version >/dev/null 2>&1 && echo 'nextest run' || echo 'test')
# Trials with real processes wait for most of their time: more of them at once than there are processors.
SIDE_BY_SIDE := $(shell echo $$((3 * $$(nproc))))
SIM_SEEDS_LONG = 1000

.DEFAULT_GOAL = help
.PHONY: cli-reference help demo reconcile release test test-full test-guest test-simulation lint bench simulate house

help: ## List what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: release ## Run the baseline example on a Matins of its own and verify it
	examples/baseline/demo

reconcile: release ## Run the nightly reconciliation, kill one of its processes, verify it
	examples/reconcile/demo

release: ## Build target/release/matins
	cargo build --release --bin matins

test: ## Run all tests that everybody runs
	cargo build --release --bin matins
	RUST_TEST_THREADS=$(SIDE_BY_SIDE) NEXTEST_TEST_THREADS=$(SIDE_BY_SIDE) cargo $(TEST) --workspace --no-fail-fast
	python3 -m unittest discover -s examples/baseline
	python3 -m unittest discover -s examples/reconcile
	python3 -m unittest discover -s cli/tests/guard
	python3 -m unittest discover -s tests/api

test-full: test ## Run them all, the long ones included
	$(MAKE) test-simulation
	RUST_TEST_THREADS=$(SIDE_BY_SIDE) cargo test --workspace -- --ignored $(LONG_SIMULATIONS:%=--skip %)
	MATINS_API_EXAMPLES=200 python3 -m unittest discover -s tests/api
	$(MAKE) test-guest

# Built for speed, with all checks in: hours otherwise.
LONG_SIMULATIONS = week::a_week fuses::ten_thousand

test-simulation: ## Simulate a thousand seeds, a week, and ten thousand jobs in one second
	MATINS_SIM_SEEDS=$(SIM_SEEDS_LONG) cargo test --profile simulation -p tests --test simulate \
		-- --include-ignored --nocapture random::random $(LONG_SIMULATIONS)

# Emulation is slow: what it could only time out on is left to the machine itself.
GUEST_TESTS = trees:: limits:: launches:: supervisor:: crowd::a_thousand

test-guest: ## Run the supervisor's tests under cgroup v2 in a virtual machine, and one that sets its clock (root)
	GUEST_ENV=MATINS_MAY_SET_THE_CLOCK=1 tests/guest/run "$$(cargo test -p probes --test steps --no-run --message-format=json \
		| sed -n 's/.*"executable":"\([^"]*\/steps-[^"]*\)".*/\1/p')" --nocapture
	tests/guest/run "$$(cargo test -p agent --test processes --no-run --message-format=json \
		| sed -n 's/.*"executable":"\([^"]*\/processes-[^"]*\)".*/\1/p')" $(GUEST_TESTS)

lint: ## Check form and habits
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings

simulate: ## Replay one seed of the simulation: make simulate SEED=n
	MATINS_SIM_SEED=$(or $(SEED),$(error say which seed: make simulate SEED=n)) \
		cargo test -p tests --test simulate random -- --nocapture

bench: ## Measure ledger, schedules, manifests and the leader's address (root) on this machine
	cargo bench -p tests --bench leases
	cargo bench -p tests --bench pages
	cargo bench -p tests --bench costs
	cargo run --release --quiet -p matins -- bench next
	cargo bench -p matins --bench address

house: ## Draw docs/house.svg anew from cargo metadata (needs graphviz)
	MATINS_DRAW_HOUSE=1 cargo test -p tests --test house the_drawing_is_true
	dot -Tsvg docs/house.dot -o docs/house.svg

cli-reference: ## Write docs/CLI.md anew from the program's own help
	MATINS_WRITE_CLI=1 cargo test -p matins --bin matins the_reference_is_true
