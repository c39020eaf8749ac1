# Everything a developer runs. `make` alone lists the targets.
# Paths are relative, so a clone may live in a directory whose name has spaces.

PY := .venv/bin/python
INSTALLED := .venv/.installed

# JOBS processes run tests; each waits for sockets now and then, so more than there are cores.
# Arguments passed on: make test PYTEST_ARGS="-k keyexpr", make run RUN_ARGS="--duration 20".
PYTEST_ARGS ?=
JOBS ?= 6
FUZZ_ARGS ?=
BENCH_ARGS ?=
CHAOS_ARGS ?=
RUN_ARGS ?=

# Hundreds of tests start programs: each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

# A process that crashes ends the run: the others would wait for its share for ever.
PARALLEL := -n $(JOBS) --dist loadscope --no-loadscope-reorder --max-worker-restart 0 -p tests.progress

# What also has to hold for the interpreted sources: everything that runs through compiled modules.
BOTH_BUILDS := $(wildcard tests/unit/wire tests/unit/transport tests/unit/keyexpr \
  tests/unit/routing tests/unit/fast tests/unit/node tests/unit/session tests/unit/xrce tests/link \
  tests/property tests/vectors tests/unit/ros/test_receive.py) \
  tests/meta/test_compiled_list.py tests/meta/test_doctests.py

TYPED := src tests setup.py examples $(sort $(dir $(wildcard attack/*.py bench/*.py chaos/*.py fuzz/*.py tools/*.py)))

.DEFAULT_GOAL := help
.PHONY: help setup compiled lint test test-long test-packages run bench fuzz chaos docs clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' Makefile | awk -F ':.*## ' '{ printf "  make %-13s %s\n", $$1, $$2 }'

setup: compiled ## create .venv, install everything, compile modules

compiled: $(INSTALLED)
	@$(PY) tools/compile_modules.py

lint: compiled ## ruff and mypy --strict over everything
	@echo "==> ruff"
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --quiet --check .
	@echo "==> mypy --strict"
	@$(PY) -m mypy $(TYPED)

test: lint ## everything that must hold before a change lands
	@set -e; \
	if $(PY) -c 'import sys; from elea.version import COMPILED; sys.exit(not COMPILED)'; then \
	  build=compiled; \
	  echo "==> tests of the protocol on the interpreted sources (1 of 2)"; \
	  ELEA_PURE=1 HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-again} \
	    $(PY) -m pytest -q $(PARALLEL) --build interpreted $(BOTH_BUILDS) $(PYTEST_ARGS); \
	else \
	  build=interpreted; \
	  echo "==> the compiled modules are not compiled: one run, interpreted, covers everything"; \
	fi; \
	echo "==> all tests on the $$build build (2 of 2)"; \
	$(PY) -m pytest -q $(PARALLEL) --build $$build $(PYTEST_ARGS)

test-packages: compiled ## build packages in isolation, run them, and follow all pages with them
	@echo "==> packages, built in isolation, and pages of docs/howto"
	@$(PY) -m pytest -q $(PARALLEL) -m packages tests/newcomer $(PYTEST_ARGS)

test-long: ## the same and test-packages with all seeds, kills and campaigns: an hour or more
	@ELEA_TEST_SCALE=long $(MAKE) --no-print-directory test

run: compiled ## a router, a fleet, the log and a pipeline on Spark; proves that every sample is there once
	@.venv/bin/elea demo $(RUN_ARGS)

bench: compiled ## measure the hot paths; JSON lines on stdout
	@set -e; for file in bench/*.py; do \
	  test -e "$$file" || continue; \
	  echo "==> $$file" >&2; $(PY) "$$file" $(BENCH_ARGS); \
	done

fuzz: compiled ## fuzz every decoder, a million inputs and more
	@$(PY) fuzz/run.py all $(FUZZ_ARGS)

chaos: compiled ## kill, starve and unplug logs and queries for hours; one line per campaign
	@$(PY) -m chaos.run $(CHAOS_ARGS)

docs: compiled ## regenerate docs/reference and check every link
	@$(PY) tools/gen_docs.py
	@$(PY) -m pytest -q tests/meta/test_docs.py

clean: ## remove everything that can be made again
	@rm -rf .venv build dist elea-demo .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info
	@find src tests attack bench chaos fuzz tools \( -name '*.so' -o -name '*.pyc' \) -delete 2>/dev/null || true
	@find src tests attack bench chaos fuzz tools -name __pycache__ -empty -delete 2>/dev/null || true

# PYTHON chooses the interpreter; otherwise the first on PATH that is new enough.
$(INSTALLED): pyproject.toml setup.py
	@set -e; test -x $(PY) && exit 0; for python in "$(PYTHON)" python3 python3.13 python3.12 python3.11 python; do \
	  if test -n "$$python" && "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then found="$$python"; break; fi; \
	done; \
	test -n "$$found" || { echo "Elea needs Python 3.11 or newer on PATH, or make PYTHON=..." >&2; exit 1; }; \
	echo "==> creating .venv with $$("$$found" --version)"; \
	"$$found" -m venv .venv
	@echo "==> installing elea[dev] into .venv (a minute or two the first time) ..."
	@ELEA_COMPILE=0 $(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@
