# Two commands do all the set-up: `make evolve` installs what a search needs, `make test` the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONFIG ?= configs/gemm.yaml
EXTRAS ?=
HAS_TORCH := import sys, torch; sys.exit(tuple(int(p) for p in torch.__version__.split("+")[0].split(".")[:2]) < (2, 4))
HAS_TRITON = $(BIN)/python -c 'import triton' 2>/dev/null
HAS_NVRTC = $(BIN)/python -c 'import importlib.metadata as m; m.version("nvidia-cuda-nvrtc")' 2>/dev/null

.PHONY: evolve evolve-llm install check quick test test-slow test-all coverage test-gpu notebooks docs results clean

evolve: $(VENV)/ready
	$(BIN)/evokernel evolve $(CONFIG)

# A campaign of operators that ask a model, with its replies as they were recorded: no key, no network.
evolve-llm: $(VENV)/ready
	$(BIN)/evokernel evolve configs/gemm_llm.yaml

install: $(VENV)/ready

# A supported torch that is installed already (an offline GPU node) is taken as it is, with its numpy and its triton;
# otherwise the pinned one comes from the package index, alone and first, so that nothing else asks for a larger build of
# it, and then the pinned triton, unless torch has brought its own (it has wheels for Linux on x86-64 only). CUDA's
# libraries, too, are left as a torch for CUDA has brought them.
# The .pth is for a $(PYTHON) that lives in a virtual environment itself: its packages are no system site packages.
SITE := import sysconfig; print(sysconfig.get_path("purelib"))
$(VENV)/ready: pyproject.toml constraints.txt
	@echo "Installing into $(VENV): minutes on a slow line, most of them in silence."
	$(PYTHON) -m venv --system-site-packages $(VENV)
	if $(PYTHON) -c '$(HAS_TORCH)' 2>/dev/null; then \
	    $(BIN)/python -c '$(HAS_TORCH)' 2>/dev/null || \
	        $(PYTHON) -c '$(SITE)' > "$$($(BIN)/python -c '$(SITE)')/outer.pth"; \
	    grep -vE '^(torch|numpy)==' constraints.txt > $(VENV)/constraints.txt; \
	else \
	    $(PYTHON) -m venv --clear $(VENV) && cp constraints.txt $(VENV)/constraints.txt && \
	    $(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)" && \
	    if ! $(HAS_TRITON) && [ "$$(uname -sm)" = "Linux x86_64" ]; then \
	        $(BIN)/python -m pip install --quiet "$$(grep '^triton==' constraints.txt)"; \
	    fi; \
	fi
	if $(HAS_TRITON); then sed -i '/^triton==/d' $(VENV)/constraints.txt; fi
	if $(HAS_NVRTC); then sed -i '/^nvidia-cuda-/d' $(VENV)/constraints.txt; fi
	$(BIN)/python -m pip install --quiet --constraint $(VENV)/constraints.txt --editable '.$(EXTRAS)'
	touch $@

# What tests, checks, notebooks and docs need beside it.
$(VENV)/dev: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --constraint $(VENV)/constraints.txt --editable '.[dev]'
	touch $@

check: $(VENV)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases benchmarks/*.py benchmarks/precision/__main__.py
	$(BIN)/mypy --explicit-package-bases tests
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

# Processes that tests start by the thousand would each compile our modules anew.
unexport PYTHONDONTWRITEBYTECODE

# How many processes run tests; those of one file stay together, and files come in their order: by default the files with
# the fewest tests come last, which are the longest, and one process ends up alone with them.
# Three for two cores: with two processes the cores are idle for a third of the time, while tests wait for programs.
JOBS ?= 3
# A process that dies is not replaced: the run that waits for its file's other tests would never end.
PARALLEL = -n $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart=0

# Folders whose tests import no torch, not even while they run: an answer in 15 s.
QUICK := $(addprefix tests/,archive islands llm records serve source training docs/test_words.py)

quick: $(VENV)/dev
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not gpu and not heavy" $(QUICK)

test: $(VENV)/dev
	$(BIN)/python -m pytest $(PARALLEL)

# Files in which a test has a mark: each process that runs tests would import all 350 of them for 60, or for 5.
marked = $(sort $(shell grep -rl --include='test_*.py' 'mark\.$(1)' tests))

test-slow: $(VENV)/dev
	$(BIN)/python -m pytest $(PARALLEL) -m "slow and not alone and not gpu" $(call marked,slow)
	$(BIN)/python -m pytest -m "alone and not gpu" $(call marked,alone)

test-all: test test-slow

# Which lines no test runs; the tests take longer under it.
coverage: $(VENV)/dev
	$(BIN)/python -m pytest -m "not gpu" --cov --cov-report=term

test-gpu: $(VENV)/dev
	$(BIN)/python -m pytest -m gpu tests/gpu

# The run that the notebooks show, and the notebooks executed on it: minutes.
notebooks: $(VENV)/dev
	$(BIN)/evokernel evolve configs/gemm.yaml --set device=cpu --store runs/notebooks.db --budget evaluations=80
	$(BIN)/python notebooks/execute.py runs/notebooks.db

# docs/cli.md, docs/config.md and docs/museum.md, as the code and the museum's exhibits say, and the schema of configs.
docs: $(VENV)/dev
	$(BIN)/python docs/generate.py
	$(BIN)/evokernel schema > configs/evokernel.schema.json

# A page in docs/results/, from a search with every config that this machine can run: about an hour, with nothing else
# running. A recorded campaign has its own target, evolve-llm. What is there already is not searched again.
results: $(VENV)/dev
	mkdir -p runs/results
	for config in $(filter-out %_llm.yaml,$(wildcard configs/*.yaml)); do \
	    store=runs/results/$$(basename $$config .yaml).db; \
	    $(BIN)/evokernel evolve $$config --store $$store && stores="$$stores $$store"; \
	done; \
	$(BIN)/python docs/results.py $$stores

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage
