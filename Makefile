# Everything from a fresh clone: `make bench` measures this machine, `make test` tests the project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed

.PHONY: install bench test test-fast lint perf browser clean

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; name one: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

bench: install
	$(BIN)/gridbench run quick

test: install browser lint
	$(BIN)/python -m pytest

test-fast: install
	$(BIN)/python -m pytest -m "not slow" -n 2

lint: install
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy --no-error-summary

perf: install
	$(BIN)/python -m tests.benchmarks

# The report and the UI are tested in a real Chromium.
browser:
	@command -v chromium >/dev/null || { \
	  echo "installing chromium for the browser tests"; \
	  SUDO=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq chromium >/dev/null; }

clean:
	rm -rf $(VENV) .gridbench build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
