# Each target makes its own environment: python3 -m venv and pip, nothing else.
PYTHON ?= python3
SIZE ?= small
DATA ?= ../shared/data/locomo-dev.json
BIN := .venv/bin
DEMO := $(firstword $(wildcard .venv/ready) .venv/core)

.PHONY: demo test shells lint bench torture strands-suite session-suite locomo clean

demo: $(DEMO)
	@$(BIN)/python examples/demo.py

test: lint shells
	$(BIN)/python -m pytest -n 2 --cov=memfs --cov-report= --cov-fail-under=0
	$(BIN)/coverage report --fail-under=95 --include='memfs/*' --omit='memfs/cli/*' --skip-covered

shells: # that the tests of completion run in; where they cannot be had, those are skipped
	@for shell in zsh fish; do command -v $$shell >/dev/null || missing=$$shell; done; \
	test -z "$$missing" || { apt-get update --quiet=2 && apt-get install --quiet=2 --yes zsh fish; } >/dev/null || true

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/check_language.py

bench: .venv/ready
	$(BIN)/python -m benchmarks --size $(SIZE) --page docs/performance.md

torture: .venv/ready
	@command -v mkfs.xfs vim >/dev/null || apt-get install --quiet --yes xfsprogs vim
	$(BIN)/python tests/torture/run.py $(ONLY)

strands-suite: .venv/ready
	$(BIN)/python tests/strands_suite.py

session-suite: .venv/ready
	$(BIN)/python tests/strands_suite.py session

locomo: .venv/ready
	$(BIN)/python -m benchmarks.locomo --fit $(DATA)

.venv/core: pyproject.toml
	@echo 'installing memfs into .venv, once'
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

.venv/ready: pyproject.toml
	@echo 'installing memfs and what its tests need into .venv, once: about a minute'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage*
