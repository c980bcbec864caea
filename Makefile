# Set up, run, test. `make help` lists the targets.
# A fresh clone needs Python 3.11 or newer and make; `make PYTHON=/path/to/python3.12 ...` names one.

VENV := .venv
BIN := $(VENV)/bin
JOBS := 2
BENCHMARKS := server trainer environment openspiel adapters opponents ratings calibration gates
SAMPLE := 500
UNIT := "not integration and not slow and not browser and not gpu"
PYTHONS := $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)
TOOLS := $(VENV)/tools/bin
# Torch and its CUDA libraries are not locked: the CPU build has other hashes, and comes from an index of its own.
UNLOCKED := torch triton cuda-bindings cuda-pathfinder cuda-toolkit $(addprefix nvidia-,cublas cuda-cupti cuda-nvrtc \
    cuda-runtime cudnn-cu13 cufft cufile curand cusolver cusparse cusparselt-cu13 nccl-cu13 nvjitlink nvshmem-cu13 nvtx)
# With byte code on disk, processes of a run import in half the time.
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/pytest
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run test test-all test-fresh test-slow test-browser test-gpu checklist snapshots screenshots check bench \
    kills smoke test-lowest lock dist clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: $(VENV)/.run ## start a league on this machine: server, trainer, evaluator, live table (PORT=8001, ARGS="--learner second")
	@$(BIN)/league up $(if $(PORT),--port $(PORT)) $(ARGS)

test: $(VENV)/.dev ## run the unit tests, without servers or processes (JOBS=4 ARGS=tests/league)
	$(PYTEST) -n $(JOBS) --dist worksteal -m $(UNIT) $(ARGS)

test-all: $(VENV)/.dev ## run the tests with PostgreSQL, S3 and processes too, then the dashboard's in a browser
	$(PYTEST) -n $(JOBS) --dist worksteal -m "not slow and not browser and not gpu" $(ARGS)
	$(PYTEST) -m "browser and not slow" tests/browser

test-fresh: $(VENV)/.dev ## run a sample of the unit tests with chance that no run had before (SAMPLE=500)
	$(PYTEST) -n $(JOBS) --dist worksteal -m $(UNIT) --fresh --sample $(SAMPLE) $(ARGS)

test-slow: $(VENV)/.dev ## run the tests that learn something; minutes
	$(PYTEST) -m "slow and not gpu" $(ARGS)

test-browser: $(VENV)/.dev ## drive the dashboard in the system's Chromium; skipped where there is none
	$(PYTEST) -m "browser and not slow" tests/browser $(ARGS)

test-gpu: $(VENV)/.dev ## run the tests that need a GPU; skipped where torch sees none (ARGS=tests/gpu)
	$(PYTEST) -m gpu $(ARGS)

checklist: $(VENV)/.dev ## write the tests that hold each row into tests/checklist.md
	$(BIN)/python tests/support/checklist.py

snapshots: $(VENV)/.dev ## make the present help of each program its snapshot in tests/snapshots
	$(PYTEST) -q --update-snapshots tests/test_help.py

screenshots: $(VENV)/.dev ## make the pictures of the dashboard in docs/screenshots
	$(PYTEST) -m browser tests/browser/test_pages.py -k screenshots --screenshots docs/screenshots

check: $(VENV)/.dev ## format, lint, types, import rules, English
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	PYTHONPATH=docs/_ext $(BIN)/python -m league_docs.prose

bench: $(VENV)/.dev ## measure everything and write the table of docs/reference/benchmarks.md (BENCHMARKS="server ratings")
	@set -e; for name in $(BENCHMARKS); do echo "==> $$name"; \
	    OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.$$name --json var/benchmarks/$$name.json; done
	$(BIN)/python -m benchmarks.table var/benchmarks/*.json --write docs/reference/benchmarks.md

kills: $(VENV)/.dev ## kill the processes of a league at random and check that nothing was lost (ARGS="--backend sqlite")
	OMP_NUM_THREADS=1 PYTHONPATH=tests/support $(BIN)/python -m kills $(ARGS)

smoke: ## build the wheel, install it elsewhere, run a league and query it with the client alone
	tests/smoke/wheel.sh

test-lowest: ## run tests with the lowest versions of all direct dependencies (ARGS=tests/league)
	tests/smoke/lowest.sh $(ARGS)

lock: $(VENV)/.tools ## pin all dependencies with their hashes in requirements.lock, at the versions of constraints.txt
	$(TOOLS)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11.5 --generate-hashes \
	    --constraints constraints.txt $(addprefix --no-emit-package ,$(UNLOCKED)) \
	    --quiet --no-header --no-annotate --output-file requirements.lock
	@sed -i '1i # Written by `make lock`, without torch; CONTRIBUTING.md says how to install from it.' requirements.lock

dist: $(VENV)/.tools ## build and check the distributions in dist
	$(TOOLS)/python -m build --outdir dist .
	$(TOOLS)/twine check --strict dist/*
	$(TOOLS)/check-wheel-contents dist/*.whl

clean: ## remove the virtual environment and caches; what a league keeps (var) stays
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- one virtual environment, set up in steps ------------------------------------------------------------------------

$(VENV)/.python:
	@for python in $(PYTHONS); do \
	    if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "make: no Python 3.11 or newer among: $(PYTHONS); install one, or name it: make PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	fi; \
	echo "==> creating $(VENV) with $$("$$found" --version)"; \
	"$$found" -m venv --clear $(VENV)
	@touch $@

# torch first and at its exact version: nothing that comes later can then pull in another build of it.
$(VENV)/.torch: $(VENV)/.python constraints.txt
	@echo "==> installing torch $(TORCH), the largest part"
	@$(PIP) "torch==$(TORCH)"
	@touch $@

$(VENV)/.run: $(VENV)/.torch pyproject.toml setup.py
	@echo "==> installing the league and its trainer"
	@$(PIP) -e '.[server,train]'
	@touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml setup.py
	@echo "==> installing the league, its trainer and the tools for development"
	@$(PIP) -e '.[dev]'
	@touch $(VENV)/.run $@

# Tools that build and lock are apart from what they build and lock.
$(VENV)/.tools: $(VENV)/.python
	@$(BIN)/python -m venv $(VENV)/tools
	@$(TOOLS)/python -m pip install --quiet build check-wheel-contents twine uv
	@touch $@

# --- documentation ---------------------------------------------------------------------------------------------------

.PHONY: docs prose

docs: $(VENV)/.dev ## build the documentation site in build/docs; a warning is an error
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going -q -j auto docs build/docs
	@echo "open build/docs/index.html"

prose: $(VENV)/.dev ## print measures of the English of each page (ARGS=--update stores the counts as the baseline)
	PYTHONPATH=docs/_ext $(BIN)/python -m league_docs.prose $(or $(ARGS),--measure)
