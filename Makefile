# Everything runs in .venv, which the first call makes. PYTHON picks the interpreter, JOBS the parallelism.
PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One process more than cores, since some tests wait; one that has done its tests takes some of those of another.
PARALLEL = -n $$(($(JOBS) + 1)) --dist worksteal
# C, C++ and CUDA; kernels for tests are compared by the numbers of their lines.
KERNELS = $(shell find cuda spgraph_bench -name "*.cu" -o -name "*.cuh" -o -name "*.[ch]pp" -o -name "*.h") $(wildcard tests/kernels/*.c)
export SPGRAPH_CACHE ?= $(CURDIR)/$(VENV)/cache
# Tests start hundreds of processes, each of which would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo test test-full test-variant format lint type test-host test-sanitized test-races test-fuzz test-compile test-gpu mutants \
  suite reference docs clean
.DEFAULT_GOAL := help

help:
	@echo "make demo            a small matrix, and SpMV on it checked (and timed on a GPU)"
	@echo "make test            all checks that need no GPU: lint, types, tests, sanitizers, nvcc"
	@echo "make lint | type | test-host | test-sanitized | test-races | test-fuzz | test-compile    one of them"
	@echo "make format          format Python and kernels (ruff, clang-format)"
	@echo "make test-full       the same, of every cross product all of it (weekly in CI)"
	@echo "make test-variant V=csr-quad    what tests one variant"
	@echo "make test-gpu        the tests that need a GPU"
	@echo "make mutants         planted faults: which of them tests and checks find (ON=cuda on a GPU)"
	@echo "make docs            the pages as a site, in build/site; warnings are errors"
	@echo "make suite CONFIG=spmv    spgraph sweep spmv: the runs of configs/spmv.toml, its records in results/"
	@echo "make reference       the runs that README, docs and results/ quote (needs SPGRAPH_MATRICES), and their numbers"
	@echo "make clean           remove .venv and caches"

setup: $(READY)

# Most modules of what is installed are never imported: compiling them all would take half of the set-up.
$(READY): pyproject.toml scripts/install_gpu.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: spgraph needs Python 3.11 or later; this is $$($(PYTHON) --version)"; \
	    echo "  remedy: make PYTHON=python3.12 ..."; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	@$(BIN)/python scripts/install_gpu.py
	@touch $@

# One small matrix, a short table, a conclusion; see scripts/demo.py.
demo: $(READY)
	@$(BIN)/python scripts/demo.py

# The type checker takes one core, so nvcc has the others meanwhile; some tests wait, and inputs are mutated meanwhile.
# test-races is a job of its own in the workflow: every kernel is compiled once more for it.
test: $(READY)
	@$(MAKE) --no-print-directory -j 2 --output-sync=target lint type test-compile
	@$(MAKE) --no-print-directory -j 2 --output-sync=line test-host test-fuzz
	@$(MAKE) --no-print-directory test-sanitized

# Tests cover pairs of what can be combined; here all of it (tests/proportion.py), and all modules for all architectures.
test-full: export SPGRAPH_TESTS = full
test-full:
	$(MAKE) lint type test-host test-sanitized test-races test-fuzz
	$(BIN)/python scripts/compile_all.py --all --jobs $(JOBS)

test-variant: $(READY)
	$(BIN)/python scripts/variant_tests.py $(or $(V),$(error name the variant: make test-variant V=csr-quad))

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(KERNELS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(KERNELS)

type: $(READY)
	$(BIN)/mypy

# All but the tests of the kernels and of the reader in C++, which test-sanitized runs, and those marked slow. In full:
# everything.
test-host: $(READY)
ifeq ($(SPGRAPH_TESTS),full)
	$(BIN)/python -m pytest -q $(PARALLEL) -m "not gpu"
else
	$(BIN)/python -m pytest -q $(PARALLEL) -m "not gpu and not slow" --ignore-glob='*/test_*_host.py' \
	  --ignore=tests/test_readers_compiled.py
endif

# The kernels themselves under AddressSanitizer and UndefinedBehaviorSanitizer: an index out of bounds in a .cu file fails
# a test, and so does an overflow. The reader's parser, too, and in full all compiled code of the host. Per commit every
# kernel with its defaults on what takes it through most of its code, and on the smallest shapes and those at the ends of
# blocks; in full on the whole battery, with every choice of a tunable and every type. Searches of a batch in turn run the
# kernels that a single one runs.
MOST_CODE := every-length or hub or random-1025 or tridiagonal or grid-graph or skewed or one-long-row or one-above-a-tile \
  or clustered or two-heaps or fronts or test_counts
SHAPES := test_one_value or 0x0 or 0x5 or 5x0 or 1x1 or 1xn or nx1 or one-entry or around-2048 or last-row-only or one-vertex \
  or star
DEFAULTS := (test_battery or test_counts_are_exact or test_one_value) and not float64 and not int64 and not in-turn
test-sanitized: $(READY)
ifeq ($(SPGRAPH_TESTS),full)
	$(BIN)/python scripts/sanitized.py -m pytest -q $(PARALLEL) -m "not gpu" tests/test_*_host.py tests/test_*_compiled.py
else
	$(BIN)/python scripts/sanitized.py -m pytest -q $(PARALLEL) -m "not gpu" tests/test_*_host.py -k "$(DEFAULTS) and ($(MOST_CODE) or $(SHAPES))"
	$(BIN)/python scripts/sanitized.py -m pytest -q $(PARALLEL) -m "not gpu and not slow" tests/test_readers_compiled.py
endif

# Every kernel with its defaults, on the matrices, graphs and other inputs that take it through most of its code, under the
# race detector of the host device (docs/races.md). Planted faults are found by tests/test_races.py.
RACES := $(DEFAULTS) and ($(MOST_CODE))
test-races: $(READY)
	SPGRAPH_HOST_SANITIZE=race $(BIN)/python -m pytest -q $(PARALLEL) -m "not gpu" tests/test_*_host.py -k "$(RACES)"

# Malformed and mutated inputs, each read in a process that may die of it; those that failed are kept in build/fuzz.
FUZZ_SECONDS ?= 5
test-fuzz: $(READY)
	$(BIN)/python tests/fuzz/run.py --seconds $(FUZZ_SECONDS) --jobs $(JOBS)

# Every kernel for sm_90 and the oldest or the newest, warnings and new spills as errors; says so where there is no nvcc.
test-compile: $(READY)
	$(BIN)/python scripts/compile_all.py --jobs $(JOBS)

test-gpu: $(READY)
	$(BIN)/python -m pytest -q -m gpu

# Planted faults, one at a time in a copy of the project; the table in docs/measuring.md has the results.
# The pages and the API as a site. Not part of `make test`; the workflow has a job for it.
docs: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/mkdocs build --strict

ON ?= host
mutants: $(READY)
	$(BIN)/python scripts/mutants.py --device $(ON) --jobs $(JOBS) --write

CONFIG ?= spmv
suite: $(READY)
	SPGRAPH_RESULTS=results $(BIN)/python -m spgraph_bench sweep $(CONFIG)

# Everything that README, docs and results/h200 quote, on this GPU; a part that was broken off goes on from there. The pages
# then get their numbers from the records.
reference: $(READY)
	$(BIN)/python scripts/reference.py --build
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/fill_numbers.py
	$(BIN)/python scripts/pictures.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
