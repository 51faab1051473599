# make run          install and show the demo
# make test         install the test extra and run the fast tests
# make test-slow    run the others
# make test-all     run both
# make test-lowest  run the fast tests with the lowest supported version of every dependency
# make test-wheel   build the wheel and the sdist, and test the wheel outside the checkout
# make lint         formatting, lint, types and workflow files
# make docs         write docs/catalogue.md from the registries and build the site, strictly
# make docs-serve   show the site while you write
# make coverage     run every test and list the lines of the package that none executes
# make soak         takes hours: inject every fault of docs/reliability.md and write that page

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP ?= python -m pip install --quiet --disable-pip-version-check
INSTALL := $(BIN)/$(PIP) --constraint constraints.txt
LOWEST := $(VENV)-lowest
# More options of pytest, for instance make test PYTEST=--fail-slow=1
PYTEST ?=

.PHONY: run test test-slow test-all test-lowest test-wheel lint docs docs-serve docs-check catalogue system release-check coverage soak clean

run: $(VENV)/installed
	$(BIN)/gread demo

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -m "not slow" $(PYTEST)

test-slow: $(VENV)/installed-test
	$(BIN)/python -m pytest -m slow $(PYTEST)

test-all: test test-slow

test-lowest: constraints-min.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/$(PIP) --constraint constraints-min.txt --editable '.[test]'
	$(LOWEST)/bin/python -m pytest -m "not slow" $(PYTEST)

test-wheel: $(VENV)/installed-test
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist
	GREAD_DIST=dist $(BIN)/python -m pytest tests/test_wheel.py $(PYTEST)

lint: $(VENV)/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml

# The theme's banner about MkDocs 2 would hide the warnings that matter.
docs: catalogue $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

docs-serve: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs serve

catalogue: $(VENV)/installed
	$(BIN)/python studies/build_catalogue.py

docs-check: docs
	git diff --exit-code docs

# A browser and a database server, for the tests that use real ones.
system:
	sudo apt-get update -qq
	sudo apt-get install -y -qq --no-install-recommends chromium postgresql

release-check: $(VENV)/installed
	$(BIN)/python studies/check_release.py

coverage: $(VENV)/installed-dev
	$(BIN)/python -m studies.soak coverage
	$(BIN)/python -m coverage report

soak: $(VENV)/installed-dev
	$(BIN)/python -m studies.soak

clean:
	rm -rf $(VENV) $(LOWEST)

$(VENV)/created:
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: pyproject.toml constraints.txt | $(VENV)/created
	$(INSTALL) --editable .
	touch $@

$(VENV)/installed-%: pyproject.toml constraints.txt | $(VENV)/installed
	$(INSTALL) --editable '.[$*]'
	touch $@
