# `make demo` and `make test` do all their set-up themselves. CI runs the same targets: see .ci/run.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Tests start Python some thousand times: bytecode is kept, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN  := $(VENV)/bin
VERSIONS = $(shell .ci/versions)
# The first interpreter that is new enough and can make a virtual environment; looked for only when one is made.
PYTHON ?= $(shell for p in python$(firstword $(VERSIONS)) python3 $(patsubst %,python%,$(VERSIONS)); do \
  "$$p" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' </dev/null >/dev/null 2>&1 \
  && command -v "$$p" && break; done)
WORKERS ?= auto
PYTEST  := $(BIN)/python -m pytest

.PHONY: help venv demo test test-long test-avx2 test-python errors lint types format docs mutants conformance bench bench-models bench-operations bench-page accuracy bench-random bench-peers costs perf-check tuner-check

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##/  \1\t/p' $(MAKEFILE_LIST) | expand -t 16

$(VENV)/pyvenv.cfg:
	@if [ -z "$(PYTHON)" ]; then echo "tcpx needs Python 3.11 or newer with its venv module (Debian: apt-get install python3-venv)" >&2; exit 1; fi
	"$(PYTHON)" -m venv $(VENV)

# A stamp says that the environment has what this pyproject.toml asks for.
$(VENV)/.core: $(VENV)/pyvenv.cfg pyproject.toml setup.py
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

.PHONY: compiler
compiler:
	@command -v "$${CC:-cc}" >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null || \
	  { echo "tcpx needs a C compiler (Debian: apt-get install gcc libc6-dev)" >&2; exit 1; }

venv: $(VENV)/.dev  ## the development environment in .venv

demo: $(VENV)/.core compiler  ## classify handwritten digits with a compiled kernel, beside NumPy
	$(BIN)/python examples/digits/demo.py

# Which tests are long is said in tests/long_tests.txt; which are slow, by the mark `slow` on them and in tests/slow_tests.txt.
BOTH := not slow

test: $(VENV)/.dev compiler  ## the tests, about ten minutes on 2 quiet cores; every message keeps to the rules
	@mkdir -p build
	$(PYTEST) -n $(WORKERS) --dist worksteal --errors-page=build/errors.md $(ARGS)

test-long: $(VENV)/.dev compiler  ## the tests that take longer, about twice as long
	@mkdir -p build
	$(PYTEST) -n $(WORKERS) --dist worksteal -m 'long and not slow' --errors-page=build/errors-long.md $(ARGS)

# Kernels for the CPU at hand, which are those of AVX2 where AVX-512 is hidden. Tests that name a target do so anyway.
OF_CPU := tests/test_foreign_targets.py tests/end_to_end tests/structural tests/outside tests/transform/ops

test-avx2: $(VENV)/.dev compiler  ## what depends on the CPU, with AVX-512 and AMX hidden
	TCPX_HIDE_CPU_FLAGS='avx512*,amx*' $(PYTEST) -n $(WORKERS) --dist worksteal -m '$(BOTH) and not long and not names_target' \
	  $(OF_CPU) $(ARGS)

test-python: $(VENV)/.test compiler  ## what depends on the version of Python; another: VENV=.venv-3.12 PYTHON=python3.12
	$(PYTEST) -n $(WORKERS) --dist worksteal tests/transform/language tests/interp tests/payload $(ARGS)

errors: $(VENV)/.dev compiler  ## build/errors.md, as `make test` writes it too: runs the tests, 10 minutes or more
	@mkdir -p build
	$(PYTEST) -n $(WORKERS) --dist worksteal -m '$(BOTH)' --errors-page=build/errors.md $(ARGS)

lint: $(VENV)/.dev  ## ruff and the import boundaries
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(VENV)/.dev  ## pyright, strict for tcpx/
	$(BIN)/pyright

format: $(VENV)/.dev  ## rewrite the sources in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.core  ## the pages of docs/ that are made from declarations
	$(BIN)/python docs/generate.py

mutants: $(VENV)/.dev compiler  ## plant faults in transforms and lowering; the tests must notice each
	$(BIN)/python -m tests.mutants.run $(ARGS)

conformance: $(VENV)/.dev compiler  ## the slow tests
	$(PYTEST) -n $(WORKERS) --dist worksteal -m slow --optimize $(ARGS)

bench: $(VENV)/.dev compiler  ## measure the workloads, beside the peers that are set up; ARGS: --against REV, .. (tcpx bench --help)
	$(BIN)/tcpx bench $(ARGS)

bench-operations: $(VENV)/.dev compiler  ## each operation without a schedule beside NumPy's out=; ARGS: names of some
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m benchmarks.operations $(ARGS)

bench-page: $(VENV)/.dev  ## build/bench.html: what `tcpx bench --keep` kept, each workload over time
	$(BIN)/tcpx bench --page build/bench.html $(ARGS)

accuracy: $(VENV)/.dev compiler  ## docs/accuracy.md: the errors of real functions; ARGS: those to measure at all patterns of f32
	$(BIN)/python -m tests.payload.accuracy $(ARGS)

bench-models: $(VENV)/.dev compiler  ## whole models beside other runtimes (bench-peers); ARGS: names, --threads 1,2
	$(BIN)/python -m benchmarks.models $(ARGS)

bench-random: $(VENV)/.dev compiler  ## measure 50 products of random sizes, on 1 and 2 threads, and judge by their bars
	$(BIN)/tcpx bench --random --check --threads 1,2 $(ARGS)

tuner-check: $(VENV)/.dev compiler  ## whether the tuner does what it claims; ARGS: an experiment (docs/tuning.md)
	$(BIN)/python -m benchmarks.tuner $(ARGS)

costs: $(VENV)/.dev compiler  ## what recipes cost on this machine, as a table for its target; ARGS: kinds of products
	$(BIN)/python -m benchmarks.recipe_costs $(ARGS)

bench-peers: $(VENV)/.dev  ## set up the libraries to measure beside, in .bench; ARGS: their names
	$(BIN)/python -m benchmarks.registry $(ARGS)

perf-check: $(VENV)/.dev compiler  ## measure on 1 and 2 threads and judge by the bars beside the workloads
	$(BIN)/tcpx bench --check --threads 1,2 $(ARGS)
