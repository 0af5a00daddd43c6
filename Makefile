# make run: install what the demo needs, start the service with the demo model, ask it one recourse, go on serving.
# make test: install, run the tests that do not take long. The other targets are for people who change the code.

PYTHON ?=
# Where pip looks for torch; empty = where it looks for everything. docs/operations/installation.md says when to set it.
TORCH_INDEX_URL ?=
# What `make test` gives to pytest besides, as in: make test ARGS='--seeds 20 -k probe'
ARGS ?=

BIN := .venv/bin
STAMP := .venv/.installed
GENERATORS := .venv/generators/.installed
# What the tests import is compiled.
COMPILED := .venv/.compiled
# What the demo model needs, without PyTorch, scikit-learn, boosted trees and ONNX.
LIGHT := .venv/.installed-light
TORCH := torch==2.13.0

.PHONY: help setup run test check checked-tests release-check linters run-time-types generators openapi screenshots bench test-image lock clean
.DEFAULT_GOAL := help

help:
	@echo "make setup       install all model formats and the tools for development into .venv"
	@echo "make run         install what the demo needs, start the service and ask it one recourse"
	@echo "make test        install and run the tests; what takes long is left out"
	@echo "make check       linters, types, import floors, then the tests of continuous integration"
	@echo "make release-check   every test with all its cases, before a release"
	@echo "make generators  install what makes clients of openapi.json, for their tests"
	@echo "make openapi     write openapi.json, with the demo's answers as examples"
	@echo "make screenshots write docs/workbench*.png"
	@echo "make bench       run the benchmarks"
	@echo "make test-image  build the container image and try it"
	@echo "make lock        write constraints.txt from what is installed"
	@echo "make clean       remove .venv and caches"

setup: $(STAMP)

define VENV
@python=; for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
	if "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; \
	then python="$$candidate"; break; fi; \
done; \
if [ -z "$$python" ]; then \
	echo "recourse needs Python 3.11, 3.12 or 3.13; python3 is $$(python3 -V 2>&1). Install one of them," >&2; \
	echo "or say where it is: make $(or $(MAKECMDGOALS),setup) PYTHON=/path/to/python3.12" >&2; exit 1; \
fi; \
if ! "$$python" -c 'import ensurepip, venv' 2>/dev/null; then \
	echo "$$python cannot make virtual environments. On Debian and Ubuntu: sudo apt-get install python3-venv" >&2; \
	exit 1; \
fi; \
if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then "$$python" -m venv --clear .venv; fi
endef

# Python compiles what it imports; to compile all that is installed takes longer than to install it.
INSTALL := pip install --no-compile --disable-pip-version-check
PIP = $(BIN)/$(INSTALL)

$(STAMP): pyproject.toml constraints.txt clients/python/pyproject.toml
	$(VENV)
	@echo "Installing all model formats and the tools for development into .venv: 2.3 GB, a few minutes."
	@$(BIN)/python -c 'import importlib.metadata as m; m.version("torch")' 2>/dev/null \
		|| $(PIP) $(if $(TORCH_INDEX_URL),--index-url "$(TORCH_INDEX_URL)",-c constraints.txt) $(TORCH)
	@$(PIP) -c constraints.txt -e ".[torch,sklearn,xgboost,lightgbm,onnx,parquet,traces,reference,dev]" -e clients/python
	@touch $@

$(LIGHT): pyproject.toml constraints.txt
	$(VENV)
	@echo "Installing what the demo needs into .venv: 0.4 GB, about a minute. 'make setup' adds the other model formats."
	@$(PIP) -c constraints.txt -e ".[demo]"
	@touch $@

# An environment with everything has what the demo needs.
run: $(if $(wildcard $(STAMP)),$(STAMP),$(LIGHT))
	$(BIN)/recourse demo

# Tests start a hundred processes, and none of them shall compile again what the first one has compiled.
unexport PYTHONDONTWRITEBYTECODE

# The tests of a file stay together, as do the servers that they share, and in the order of `conftest.py`. More processes
# than cores, since tests wait for servers.
PROCESSES ?= 4
PYTEST = $(BIN)/pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder

# About three of the parameters of each test; what ARGS says comes later and holds.
test: $(COMPILED)
	$(PYTEST) --variants 3 $(ARGS)

# Once after an installation: processes that start together would compile the same, each for itself.
$(COMPILED): $(STAMP)
	$(BIN)/pytest --collect-only -qq >/dev/null
	@touch $@

# Every test but those that run before a release. `make release-check` runs every test with all its cases, and checks
# types at run time.
CHECKED := -m "not release" --durations 20

# Linters beside the tests. Nothing runs twice until it passes: what fails is wrong.
check: $(STAMP)
	$(MAKE) --jobs 2 linters checked-tests

checked-tests: $(STAMP)
	$(MAKE) test ARGS='$(CHECKED)'

release-check: $(STAMP) $(GENERATORS)
	$(MAKE) --jobs 2 linters run-time-types
	$(MAKE) test ARGS='-m "" --seeds 0 --variants 0 --hypothesis-profile all'

linters: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p app -p examples -p benchmarks
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

# With one seed and one variant of each test, as types are about shapes, and without the dials, the answers under random
# rules and the comparisons of plans: their questions are those of other tests. Nor what is answered in step: the checker
# keeps one stack for all that one thread does.
UNTYPED := $(addprefix --ignore tests/recourse/,test_dials.py test_rules.py test_solve_many.py plans/test_search.py) \
	--deselect tests/recourse/test_ways.py::test_ways_that_the_budget_pays_for_are_given

run-time-types: $(STAMP)
	TEST_TYPES=1 $(PYTEST) tests/recourse $(UNTYPED) --seeds 1 --variants 1 --hypothesis-profile types

openapi: $(STAMP)
	$(BIN)/python -m docs.answers
	$(BIN)/recourse openapi --output openapi.json

screenshots: $(STAMP)
	$(BIN)/python -m docs.workbench

bench: $(STAMP)
	$(BIN)/python -m benchmarks

test-image:
	tests/image/run

# What makes clients of openapi.json, for their tests.
generators: $(GENERATORS)

$(GENERATORS): tests/generated/generators.txt | $(STAMP)
	@$(BIN)/python -m venv .venv/generators
	@.venv/generators/bin/$(INSTALL) -q -r $<
	@touch $@

# What is installed and tested, for every platform: no local versions, no packages that only some builds of torch need,
# and xgboost under both of its names.
lock: $(STAMP)
	$(BIN)/pip freeze --all --exclude-editable | sed 's/+cpu$$//' \
		| grep -v -i -E '^(pip|triton|nvidia-[a-z0-9-]*|cuda-[a-z0-9-]*)=' \
		| awk -F== '/^xgboost(-cpu)?==/ { print "xgboost==" $$2; print "xgboost-cpu==" $$2; next } { print }' \
		> constraints.txt
	touch $(STAMP)

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
