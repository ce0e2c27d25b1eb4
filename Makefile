# Each target creates .venv, installs the pinned versions and does its job; a second call installs nothing.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: help reproduce test lint bench
help:
	@echo "make reproduce   run the paper's methods on its two objectives"
	@echo "make test        formatting, lint, types, tests with coverage"
	@echo "make lint        formatting, lint, types"
	@echo "make bench       the performance table, every ratio measured in one run"

$(INSTALLED): pyproject.toml requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gladstorm needs Python 3.11 or newer; name one with make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

reproduce: $(INSTALLED)
	$(BIN)/python -m gladstorm reproduce

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest --cov --cov-report=term --cov-fail-under=95

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks
