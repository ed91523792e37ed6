# What one types here. `demo`, `build` and `test` need git, a Rust toolchain and build-essential, no more.

CARGO ?= cargo
PREFIX ?= /usr/local
# Tools that are built once outlive a clean of the tree.
TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/delivery-worker/tools
CARGO_DENY_VERSION := 0.20.2

.DEFAULT_GOAL := help
.PHONY: help demo build test test-all test-storm test-unit test-browser test-man test-prometheus test-deb test-sops test-traces test-systemd man bench lint deny install deb

help: ## Say what can be made.
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' $(MAKEFILE_LIST) | expand -t 18

demo: ## Show the whole thing: an outbox, the worker, and the inbox that fills.
	$(CARGO) run --locked -- demo --once

build: ## Build the release binary, target/release/delivery-worker.
	$(CARGO) build --locked --release

# What is installed is what is tested: tests/it starts the binary that is named to it.
test: build ## Run the tests, those of the whole program with the release binary.
	WORKER_UNDER_TEST="$(CURDIR)/target/release/delivery-worker" $(CARGO) test --locked

test-all: test test-storm test-unit test-browser test-man test-prometheus test-deb test-sops test-traces ## Run the tests and those that need more programs (installed where root runs this).

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

test-traces: ## Run the tests of what is built with the feature otlp alone.
	$(CARGO) test --locked --features otlp --test it traces

lint: deny ## Check format, lints and what is built in.
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets --features otlp --test browser --test prometheus -- -D warnings

deny:
	@test -x "$(TOOLS)/bin/cargo-deny" || $(CARGO) install --locked cargo-deny@$(CARGO_DENY_VERSION) --root "$(TOOLS)"
	"$(TOOLS)/bin/cargo-deny" --locked check bans licenses sources

man: build ## Write the manual pages into target/man.
	target/release/delivery-worker man target/man

UNITDIR ?= /etc/systemd/system
DOC = $(DESTDIR)$(PREFIX)/share/doc/delivery-worker

install: ## Put binary, unit, templates, manual pages and examples in place; needs root, touches no configuration.
	install -D -m 755 target/release/delivery-worker "$(DESTDIR)$(PREFIX)/bin/delivery-worker"
	install -D -m 644 deploy/systemd/delivery-worker.service "$(DESTDIR)$(UNITDIR)/delivery-worker.service"
	sed -i 's|^ExecStart=/usr/local/|ExecStart=$(PREFIX)/|' "$(DESTDIR)$(UNITDIR)/delivery-worker.service"
	target/release/delivery-worker man "$(DESTDIR)$(PREFIX)/share/man/man1"
	mkdir -p "$(DESTDIR)$(PREFIX)/share/delivery-worker"
	cp -r templates "$(DESTDIR)$(PREFIX)/share/delivery-worker/"
	chmod -R u=rwX,go=rX "$(DESTDIR)$(PREFIX)/share/delivery-worker"
	install -D -m 644 -t "$(DOC)" README.md CHANGELOG.md docs/*.md
	install -D -m 644 -t "$(DOC)/examples" deploy/delivery-worker.env.example deploy/sops/secrets.sops.env.example deploy/sops/.sops.yaml
	install -D -m 644 -t "$(DOC)/examples/systemd" deploy/systemd/delivery-worker.service.d/*
	install -D -m 644 -t "$(DOC)/examples/prometheus" deploy/prometheus/*
	install -D -m 644 -t "$(DOC)/examples/grafana" deploy/grafana/*

# dpkg-buildpackage leaves its package beside the folder that it builds in.
deb: build ## Build a Debian package, target/delivery-worker_*.deb (needs debhelper).
	@command -v dh >/dev/null || { apt-get update && apt-get install --yes --no-install-recommends debhelper; } || \
		{ echo "deb needs debhelper: install it, or run this as root on Debian" >&2; exit 1; }
	rm -rf target/deb target/delivery-worker_*
	mkdir -p target/deb
	cp -r deploy/debian target/deb/debian
	cd target/deb && dpkg-buildpackage --build=binary --no-sign

test-deb: deb ## Install, upgrade and remove the package in a fresh Debian (needs root).
	deploy/debian/verify target/delivery-worker_*.deb

test-systemd: deb ## Run the package under a systemd of its own (needs root and namespaces; not part of test-all).
	deploy/systemd/live target/delivery-worker_*.deb

test-sops: build ## Try the flow of secrets with a real sops and age.
	deploy/sops/verify target/release/delivery-worker

bench: ## Measure what the worker costs: its steps, CPU against the floor, rates, memory, idle.
	$(CARGO) bench --locked --bench micro --bench load
