# Each target creates .venv, installs the pinned versions and does its job; a second call installs nothing.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
PIP := -m pip install --quiet --disable-pip-version-check
# Versions and hashes of everything but PyTorch, whose builds differ by machine; it brings what it needs beside them.
LOCKED := $(PIP) --no-deps --require-hashes
TORCH := $(shell grep '^torch==' requirements.txt)

# What tells whether other versions of the dependencies do: torch, Optax, simulator, records, theory, command line.
SMOKE := tests/torch/test_torch_sizes.py tests/torch/test_torch_equations.py tests/torch/test_parity.py tests/optax_methods/test_optax.py \
	tests/simulation/test_simulate.py tests/simulation/test_record.py tests/theory/test_theory_plan.py tests/cli/test_cli.py

.PHONY: help reproduce test tests coverage dist test-wheel test-integrations test-oldest test-newest lint bench browser docs test-docs lock audit paper
help:
	@echo "make reproduce   repeat the paper's two experiments: figures, verdicts and report.html in out/"
	@echo "make test        formatting, lint, types, tests; CI=true make test counts coverage too: make coverage"
	@echo "make test-integrations   the optimizers inside Lightning, the Hugging Face Trainer, Accelerate, flax, equinox and numpyro; results in a notebook"
	@echo "make test-wheel  the wheel in empty environments: core only, [torch] only, [sim] only"
	@echo "make dist        the wheel and the source archive, in dist/"
	@echo "make test-oldest, test-newest   part of the tests with the oldest and the newest dependencies allowed"
	@echo "make lint        formatting, lint, types, and the checks of sp-repo-review"
	@echo "make docs        the site, in docs/_build/index.html; make test-docs opens every page of it in Chromium"
	@echo "make bench       the performance table, every ratio measured in one run"
	@echo "make paper       the paper and the technical report, with all proofs, as PDF in out/paper; then make docs links the report"
	@echo "make audit       known vulnerabilities and licences of what is installed; make lock writes versions and hashes again, in locks/"

$(INSTALLED): pyproject.toml requirements.txt locks/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gladstorm needs Python 3.11 or newer; name one with make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python $(LOCKED) -r locks/requirements.txt
	$(BIN)/python $(PIP) $(TORCH)
	$(BIN)/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

reproduce: $(INSTALLED)
	$(BIN)/python -m evidence reproduction --out out

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m repo_review --show err .

# The report is tested in Debian's Chromium; where it cannot be installed, those tests skip and say so.
browser:
	@{ command -v chromium && command -v chromedriver; } >/dev/null \
	|| { apt-get update -qq && apt-get install -qqy --no-install-recommends chromium chromium-driver fonts-dejavu-core; } >/dev/null \
	|| echo "no Chromium: the report's browser tests will be skipped" >&2

# mypy takes a core for most of a minute: it goes beside the tests, on any number of cores.
test: $(INSTALLED) browser
	@$(MAKE) --no-print-directory --jobs=2 lint tests

# Coverage takes more time, by a sixth where JAX compiles: Python 3.11 then traces every line of JAX too. CI asks for it: CI=true.
# What trains inside other libraries is run by test-integrations: make coverage, after both, says whether all of it suffices.
tests: $(INSTALLED)
	$(BIN)/python -m pytest $(if $(CI),--cov --cov-report=)

dist: $(INSTALLED)
	rm -rf dist
	$(BIN)/python -m hatchling build

# What users install: the wheel in environments of its own, each with one extra.
test-wheel: $(INSTALLED)
	$(BIN)/python -m pytest tests/wheel_checks.py --numprocesses=0

# Libraries that train with the optimizers, beside what .venv has. Their tests skip where they are not installed.
test-integrations: .venv-integrations/installed
	.venv-integrations/bin/python -m pytest tests/integrations --numprocesses=0 $(if $(CI),--cov --cov-append --cov-report=)

coverage: $(INSTALLED)
	$(BIN)/python -m coverage report --fail-under=95

.venv-integrations/installed: requirements.txt locks/requirements-integrations.txt $(INSTALLED)
	$(PYTHON) -m venv .venv-integrations
	.venv-integrations/bin/python $(LOCKED) -r locks/requirements.txt
	.venv-integrations/bin/python $(LOCKED) -r locks/requirements-integrations.txt
	.venv-integrations/bin/python $(PIP) $(TORCH)
	.venv-integrations/bin/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

# The site. Scripts of the gallery run again when they or the package have changed; pages are read anew, since Sphinx forgets
# what the search ranks first on pages that it does not read.
docs: .venv-docs/installed
	.venv-docs/bin/python -m sphinx -W --keep-going --quiet --fresh-env docs docs/_build

test-docs: docs browser
	$(BIN)/python -m pytest tests/test_site.py --numprocesses=0

.venv-docs/installed: requirements.txt locks/requirements-docs.txt $(INSTALLED)
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python $(LOCKED) -r locks/requirements.txt -r locks/requirements-docs.txt
	.venv-docs/bin/python $(PIP) $(TORCH)
	.venv-docs/bin/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

test-oldest test-newest: test-%: .venv-%/installed
	.venv-$*/bin/python -m pytest $(SMOKE) -W default

.venv-%/installed: pyproject.toml requirements.txt .ci/dependencies.py $(INSTALLED)
	$(PYTHON) -m venv .venv-$*
	$(BIN)/python .ci/dependencies.py $* > .venv-$*/requirements.txt
	.venv-$*/bin/python $(PIP) --upgrade -r .venv-$*/requirements.txt
	.venv-$*/bin/python $(PIP) --no-deps --no-build-isolation -e .
	@touch $@

.PRECIOUS: .venv-%/installed

# What a release depends on. A licence that is not listed fails it; so does a known vulnerability, or no answer from PyPI about a package.
LICENCES := Apache;MIT;BSD;ISC;PSF;Python Software Foundation;MPL-2.0;Mozilla Public License 2.0
audit: .venv-audit/installed $(INSTALLED)
	.venv-audit/bin/pip-licenses --python=$(BIN)/python --partial-match --allow-only='$(LICENCES)' --order=license
	.venv-audit/bin/zizmor --offline --quiet .github
	for file in locks/*.txt; do .venv-audit/bin/pip-audit --strict --disable-pip --require-hashes --requirement $$file || exit; done

# After a change of a requirements file. Addresses of a registry are not written.
lock: .venv-audit/installed
	for file in requirements*.txt; do .venv-audit/bin/uv pip compile --quiet --no-config --no-header --no-annotate --no-deps --universal \
	  --generate-hashes --python-version=3.11.5 --no-emit-package=torch --output-file=locks/$$file $$file || exit; done

.venv-audit/installed: requirements-audit.txt
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/python $(PIP) -r requirements-audit.txt
	@touch $@

# Numbers from results first; then pandoc and Typst, which are all that their environment has.
paper: $(INSTALLED) .venv-paper/installed
	$(BIN)/python -m paper.values
	.venv-paper/bin/python paper/pdf.py

.venv-paper/installed: locks/requirements-paper.txt
	$(PYTHON) -m venv .venv-paper
	.venv-paper/bin/python $(LOCKED) -r locks/requirements-paper.txt
	@touch $@

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks
