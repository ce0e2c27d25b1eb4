# Each target creates .venv, installs the pinned versions and does its job; a second call installs nothing.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: help reproduce test lint bench browser
help:
	@echo "make reproduce   repeat the paper's two experiments: figures, verdicts and report.html in out/"
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
	$(BIN)/python -m gladstorm reproduce --out out

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The report is tested in Debian's Chromium; where it cannot be installed, those tests skip and say so.
browser:
	@{ command -v chromium && command -v chromedriver; } >/dev/null \
	|| { apt-get update -qq && apt-get install -qqy --no-install-recommends chromium chromium-driver fonts-dejavu-core; } >/dev/null \
	|| echo "no Chromium: the report's browser tests will be skipped" >&2

test: lint browser
	$(BIN)/python -m pytest --cov --cov-report=term --cov-fail-under=95

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks
