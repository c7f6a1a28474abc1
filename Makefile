# make lab   set up, make your working copy, open JupyterLab on chapter 01
# make test  set up, run everything that CI runs
# make soak  the same checks at full size, seeded; writes evidence

PYTHON ?= python3
BIN := .venv/bin
export PYTHONUTF8 := 1

.PHONY: lab test soak clean

lab: .venv
	$(BIN)/lab start
	$(BIN)/lab notebook 01

test: .venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/lab evidence verify
	$(BIN)/lab notebooks check
	$(BIN)/python -m pytest -n 2 --dist loadscope --cov --cov-report=term
	$(BIN)/lab notebooks test

soak: .venv
	$(BIN)/python -m pytest -m soak --timeout 3600

.venv: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed; name one: make lab PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch .venv

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.*
