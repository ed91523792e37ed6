# What one types here. `demo`, `build` and `test` need git, a Rust toolchain and build-essential, no more.

CARGO ?= cargo
PREFIX ?= /usr/local
# Tools that are built once outlive a clean of the tree.
TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/delivery-worker/tools
CARGO_DENY_VERSION := 0.20.2

.DEFAULT_GOAL := help
.PHONY: help demo build test test-all test-storm test-unit test-browser test-man test-prometheus man bench lint deny install

help: ## Say what can be made.
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' $(MAKEFILE_LIST) | expand -t 18

demo: ## Show the whole thing: an outbox, the worker, and the inbox that fills.
	$(CARGO) run --locked -- demo --once

build: ## Build the release binary, target/release/delivery-worker.
	$(CARGO) build --locked --release

# What is installed is what is tested: tests/it starts the binary that is named to it.
test: build ## Run the tests, those of the whole program with the release binary.
	WORKER_UNDER_TEST="$(CURDIR)/target/release/delivery-worker" $(CARGO) test --locked

test-all: test test-storm test-unit test-browser test-man test-prometheus ## Run the tests and those that need more programs (installed where root runs this).

# Thousands of histories want optimised code; only this crate is built anew for it.
STORM_HISTORIES ?= 2500
test-storm: ## Play thousands of histories in which everything goes wrong (STORM_HISTORIES=2500).
	STORM_HISTORIES=$(STORM_HISTORIES) $(CARGO) test --locked \
		--config 'profile.test.package.delivery-worker.opt-level=1' --lib engine::tests::storm -- --nocapture

test-unit: ## Check the systemd unit and its drop-ins.
	$(CARGO) build --locked
	deploy/systemd/verify target/debug/delivery-worker

# Debian's names; the driver must be of the browser's version, so both come from there.
test-browser: build ## Click through the pages in a headless Chromium.
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
		{ apt-get update && apt-get install --yes --no-install-recommends chromium chromium-driver; } || \
		{ echo "test-browser needs chromium and chromedriver: install them, or run this as root on Debian" >&2; exit 1; }
	WORKER_UNDER_TEST="$(CURDIR)/target/release/delivery-worker" $(CARGO) test --locked --test browser -- --test-threads=2

# The rest is clap_mangen's spacing, which shows nowhere.
test-man: man ## Check the manual pages as mandoc reads them.
	@command -v mandoc >/dev/null || { apt-get update && apt-get install --yes --no-install-recommends mandoc; } || \
		{ echo "test-man needs mandoc: install it, or run this as root on Debian" >&2; exit 1; }
	! mandoc -T lint -W warning target/man/*.1 | grep -v "skipping paragraph macro: br"

test-prometheus: build ## Try the rules and the dashboard with a real Prometheus.
	@command -v prometheus >/dev/null && command -v promtool >/dev/null || \
		{ apt-get update && apt-get install --yes --no-install-recommends prometheus; } || \
		{ echo "test-prometheus needs prometheus: install it, or run this as root on Debian" >&2; exit 1; }
	promtool check config deploy/prometheus/scrape.yml
	promtool test rules deploy/prometheus/rules.test.yml
	WORKER_UNDER_TEST="$(CURDIR)/target/release/delivery-worker" $(CARGO) test --locked --test prometheus

lint: deny ## Check format, lints and what is built in.
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets --test browser --test prometheus -- -D warnings

deny:
	@test -x "$(TOOLS)/bin/cargo-deny" || $(CARGO) install --locked cargo-deny@$(CARGO_DENY_VERSION) --root "$(TOOLS)"
	"$(TOOLS)/bin/cargo-deny" --locked check bans licenses sources

man: build ## Write the manual pages into target/man.
	target/release/delivery-worker man target/man

install: ## Put binary, unit and manual pages in place; needs root, touches no configuration.
	install -D -m 755 target/release/delivery-worker "$(DESTDIR)$(PREFIX)/bin/delivery-worker"
	install -D -m 644 deploy/systemd/delivery-worker.service "$(DESTDIR)/etc/systemd/system/delivery-worker.service"
	target/release/delivery-worker man "$(DESTDIR)$(PREFIX)/share/man/man1"
	sed -i 's|^ExecStart=/usr/local/|ExecStart=$(PREFIX)/|' "$(DESTDIR)/etc/systemd/system/delivery-worker.service"

bench: ## Measure what the worker costs: rate, CPU, memory, idle.
	$(CARGO) bench --locked --bench load
