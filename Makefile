# make run: install, start the service with the demo model, ask it one recourse, go on serving.
# make test: install, run the tests. The other targets are for people who change the code.

PYTHON ?=
# Where pip looks for torch; empty = where it looks for everything. docs/operations.md says when to set it.
TORCH_INDEX_URL ?=

BIN := .venv/bin
STAMP := .venv/.installed
TORCH := torch==2.13.0
ARITHMETIC := tests/recourse tests/registry tests/store tests/test_plans.py tests/test_promises.py

.PHONY: help setup run test check openapi bench test-image lock clean
.DEFAULT_GOAL := help

help:
	@echo "make setup       install into .venv"
	@echo "make run         install, start the service with the demo model and ask it one recourse"
	@echo "make test        install and run the tests"
	@echo "make check       linters, types, import floors, then the tests"
	@echo "make openapi     write openapi.json"
	@echo "make bench       run the benchmarks"
	@echo "make test-image  build the container image and try it"
	@echo "make lock        write constraints.txt from what is installed"
	@echo "make clean       remove .venv and caches"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
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
	@echo "Installing into .venv; the first time takes some minutes."
	@$(BIN)/python -c 'import importlib.metadata as m; m.version("torch")' 2>/dev/null \
		|| $(BIN)/pip install -q --disable-pip-version-check \
			$(if $(TORCH_INDEX_URL),--index-url "$(TORCH_INDEX_URL)",-c constraints.txt) $(TORCH)
	@$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e ".[torch,sklearn,xgboost,lightgbm,onnx,dev]"
	@touch $@

run: $(STAMP)
	$(BIN)/recourse demo

# The tests of arithmetic need a core and no patience; they take what the tests of servers leave of the machine.
test: $(STAMP)
	@log=$$(mktemp); nice -n 19 $(BIN)/pytest -p no:cacheprovider $(ARITHMETIC) > "$$log" 2>&1 & pid=$$!; \
	trap 'kill $$pid 2>/dev/null; rm -f "$$log"' EXIT; trap 'exit 130' INT TERM; \
	$(BIN)/pytest $(ARITHMETIC:%=--ignore=%); servers=$$?; \
	wait $$pid; arithmetic=$$?; cat "$$log"; \
	[ $$servers = 0 ] && [ $$arithmetic = 0 ]

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p app -p examples -p benchmarks
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile
	$(MAKE) test

openapi: $(STAMP)
	$(BIN)/recourse openapi --output openapi.json

bench: $(STAMP)
	$(BIN)/python -m benchmarks

test-image:
	tests/image/run

# What is installed and tested, for every platform: no local versions, no packages that only some builds of torch need,
# xgboost under both of its names, and pyarrow, which is large and not installed here, as it was.
lock: $(STAMP)
	parquet=$$(grep '^pyarrow==' constraints.txt); \
	{ $(BIN)/pip freeze --all --exclude-editable | sed 's/+cpu$$//' \
		| grep -v -i -E '^(pip|triton|pyarrow|nvidia-[a-z0-9-]*|cuda-[a-z0-9-]*)=' \
		| awk -F== '/^xgboost(-cpu)?==/ { print "xgboost==" $$2; print "xgboost-cpu==" $$2; next } { print }'; \
	echo "$$parquet"; } > constraints.txt
	touch $(STAMP)

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
