# make run   install and show the demo
# make test  install the test extra and run the whole suite
# make lint  formatting, lint and types
# make coverage  the whole suite again, and which lines of the package no test runs
# make soak  hours: tries every fault of docs/reliability.md, and writes that page

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test lint docs coverage soak clean

run: $(VENV)/installed
	$(BIN)/gread demo

test: $(VENV)/installed-test
	$(BIN)/python -m pytest

lint: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: $(VENV)/installed
	$(BIN)/python studies/build_catalogue.py

coverage: $(VENV)/installed-dev
	$(BIN)/python -m studies.soak coverage
	$(BIN)/python -m coverage report

soak: $(VENV)/installed-dev
	$(BIN)/python -m studies.soak

clean:
	rm -rf $(VENV)

$(VENV)/created:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/created
	$(INSTALL) --editable .
	touch $@

$(VENV)/installed-%: pyproject.toml constraints.txt | $(VENV)/installed
	$(INSTALL) --editable '.[$*]'
	touch $@
