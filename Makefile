# Each target sets up .venv. Requires python3 (3.11 to 3.13) and make.

PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null \
	&& { command -v $$name; break; }; done)
BIN := .venv/bin
STAMP := .venv/.installed
CODE := rqueue rqueue_pytest.py tests tools $(sort deploy/app $(patsubst %/,%,$(dir $(wildcard benchmarks/*.py examples/*.py))))
# Tests start hundreds of processes. Without bytecode files each would compile all modules.
unexport PYTHONDONTWRITEBYTECODE
QUICK := $(wildcard tests/task tests/lua tests/store tests/core tests/architecture)

# Tests marked "alone" measure time or the whole machine: they run one after the other.
PARALLEL := -m "not slow and not alone" -n auto --dist worksteal
ALONE := -m "alone and not slow"
EVERYWHERE := --servers valkey,redis7,cluster --postgres embedded,debian
QUICK_FAKE := $(wildcard tests/task tests/queue/test_fake.py)

.PHONY: help run test test-all matrix slow quick check lint format bench bench-peers docs clean
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(STAMP) ## Start everything with embedded servers and a demo workload
	$(BIN)/rqueue up --demo

test: $(STAMP) ## Run all tests on the embedded servers, and those of each move on Redis 7 and a cluster
	$(BIN)/python -m pytest $(PARALLEL) --every-move
	$(BIN)/python -m pytest $(ALONE)

test-all: $(STAMP) ## Run all tests on every kind of server, with more Hypothesis examples
	$(BIN)/python -m pytest $(PARALLEL) $(EVERYWHERE) --every-move --hypothesis-profile thorough
	$(BIN)/python -m pytest $(ALONE) $(EVERYWHERE)

matrix: $(STAMP) ## Run the tests that depend on the kind of server on the other kinds
	$(BIN)/python -m pytest $(PARALLEL) --servers redis7,cluster --postgres debian \
		-k "redis7 or cluster or debian"

slow: $(STAMP) ## Run the slow tests: mutations of the Lua code that the state machine must find
	$(BIN)/python -m pytest -m slow -n auto --dist worksteal

quick: $(STAMP) ## Run the tests that need no server, in seconds, including a task on fakeredis
	$(BIN)/python -m pytest -q $(QUICK_FAKE)

check: lint ## Lint, then the quick tests on one server
	$(BIN)/python -m pytest -q -m "not slow" -n auto --dist worksteal --servers valkey $(QUICK)

lint: $(STAMP) ## Check format, lint, types, layers, Lua and generated pages
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports
	$(BIN)/python -m tools.lint_lua
	$(BIN)/python -m tools.generate_docs --check

format: $(STAMP) ## Format the code and apply automatic fixes
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench: $(STAMP) ## Run all benchmarks, compared with raw Redis commands and earlier trees
	$(BIN)/python -m benchmarks

bench-peers: $(STAMP) ## Compare with other task queues, each in its own environment, half an hour
	$(BIN)/python -m benchmarks.peers --write

docs: $(STAMP) ## Regenerate the generated pages of docs/
	$(BIN)/python -m tools.generate_docs

clean: ## Remove everything that the targets have created
	rm -rf .venv .bench .rqueue dist build .coverage .hypothesis .mypy_cache .pytest_cache \
		.ruff_cache .import_linter_cache rqueue/_library.lua __pycache__
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { \
		echo "rqueue needs Python 3.11, 3.12 or 3.13; python3 here is" \
		"$$(python3 --version 2>/dev/null || echo missing). Or: make PYTHON=/path/to/python" >&2; \
		exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)
