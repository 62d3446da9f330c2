# `make demo` and `make test` work first thing in a fresh clone: they need Python >= 3.11, a C
# compiler and a package index, and make their own virtual environment in .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
SOURCE := pyproject.toml setup.py $(wildcard native/*.c native/*.h native/*/*.c native/*/*.h native/*/*/*.c native/*/*/*.h)

.PHONY: help demo test check format docs pictures bench bench-tune bench-micro fuzz try wheels clean setup-edge

help:            ## Say what can be made
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(VENV)/.test          ## Compile a ResNet-18, check it and time it against onnxruntime
	$(BIN)/smelt demo

test: $(VENV)/.test          ## Run the tests
	$(BIN)/python -m pytest -n $(JOBS)

check: $(VENV)/.test         ## Lint, format, types, import contract, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n $(JOBS)

format: $(VENV)/.test        ## Format the source, and mend what the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs          ## Build the documents as a site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	$(BIN)/python scripts/check_site.py build/site

pictures: $(VENV)/.pictures  ## Make the pictures of the README again, in docs/pictures
	$(BIN)/python scripts/pictures.py

bench: $(VENV)/.bench        ## Measure everything, and write benchmarks/RESULTS.md
	$(BIN)/python -m benchmarks

bench-tune: $(VENV)/.bench   ## Measure how tuning does, 80 minutes; parts: TUNE='--only speed'
	$(BIN)/python -m benchmarks.tune $(TUNE)

bench-micro: $(VENV)/.bench  ## Measure models as C on emulated boards; SMELT_MODELS: their folder
	$(BIN)/python -m benchmarks.micro $(MICRO)

fuzz: $(VENV)/.test          ## 10,000 random models, 20,000 programs, 10,000 wrong files
	$(BIN)/python -m tests.fuzz $(FUZZ)
	$(BIN)/python -m tests.fuzz --programs 20000
	$(BIN)/python -m tests.fuzz --artifacts 5000

try: $(VENV)/.venv           ## Run the documents' commands as written, in a fresh environment
	rm -rf build/fresh && $(PYTHON) -m venv build/fresh
	build/fresh/bin/python -m pip install --quiet ".[tune]" onnxruntime torch==2.13.0 onnxscript
	build/fresh/bin/python scripts/try_documents.py > /dev/null

wheels: $(VENV)/.wheels      ## Build Python wheels for Linux on x86-64 and ARM, in dist
	$(BIN)/python scripts/wheels.py

setup-edge: $(VENV)/.test    ## Install emulators, zig, node, a browser: tests of other machines
	scripts/setup-edge.sh $(BIN)/python

clean:           ## Remove what was made here, the virtual environment too
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis \
	       .import_linter_cache src/smelt/runtime/libsmelt_runtime.so
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "smelt needs Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.test: $(VENV)/.venv $(SOURCE)
	$(BIN)/python -m pip install --quiet -e '.[test]'
	@touch $@

$(VENV)/.docs: $(VENV)/.test
	$(BIN)/python -m pip install --quiet -e '.[docs]'
	@touch $@

$(VENV)/.pictures: $(VENV)/.test
	$(BIN)/python -m pip install --quiet -e '.[pictures]'
	@touch $@

$(VENV)/.wheels: $(VENV)/.test
	$(BIN)/python -m pip install --quiet -e '.[wheels]'
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	$(BIN)/python -m pip install --quiet -e '.[bench]'
	@touch $@
