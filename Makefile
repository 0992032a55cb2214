# The front door. `make help` lists it; CMakePresets.json lies beneath.
include versions.env
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# A file that includes LibTorch takes up to 2.5 GB to compile: no more jobs than the memory holds.
JOBS ?= $(shell awk -v cores=$$(nproc) '/MemAvailable/ { n = int($$2 / 3e6); print n < 1 ? 1 : n < cores ? n : cores }' /proc/meminfo)
TEST_JOBS ?= $(shell nproc)
PRESET ?= release
PREFIX ?= $(HOME)/.local
PYTHON := .venv/bin/python
export PATH := $(PATH):$(CURDIR)/.venv/bin
PACKAGE := $(CURDIR)/build/release/python

# configure PRESET: only when there is no build folder yet, or set-up has changed something since.
define configure
	[[ build/$(1)/build.ninja -nt .venv/.paceline-setup ]] || cmake --preset $(1) >build/$(1).log || { cat build/$(1).log; exit 1; }
endef
build = ninja -C build/$(1) -j$(JOBS) $(if $(QUIET),--quiet)
check = ctest --test-dir build/$(1) -j$(TEST_JOBS) --output-on-failure
quickstart_flags = $(if $(WORKERS),--num-workers $(WORKERS)) $(if $(USE_GPU),--use-gpu) $(if $(FULL),--full) $(if $(JSON),--json)

##@ For users
.PHONY: quickstart
quickstart: setup  ## Train ResNet-18 on MNIST [WORKERS=n] [USE_GPU=1] [FULL=1] [JSON=1]
	@$(call configure,release)
	@ninja -C build/release -j$(JOBS) $(if $(JSON),--quiet) 020_mnist_resnet18
	@build/release/examples/020_mnist_resnet18 $(quickstart_flags)

.PHONY: quickstart-python
quickstart-python: python  ## The same in Python, with the same settings
	@PYTHONPATH=$(PACKAGE) $(PYTHON) -B examples/python/mnist_resnet18.py $(quickstart_flags)

.PHONY: notebook
notebook: python  ## Open the first notebook, with JupyterLab in .venv; registers the kernel "paceline"
	@$(PYTHON) -m ipykernel install --user --name paceline --display-name Paceline --env PYTHONPATH $(PACKAGE)
	@[[ -x .venv/bin/jupyter-lab ]] || .venv/bin/pip install -qq --disable-pip-version-check jupyterlab==$(JUPYTERLAB_VERSION)
	@PYTHONPATH=$(PACKAGE) .venv/bin/jupyter-lab $(if $(filter 0,$(shell id -u)),--allow-root) \
	  examples/python/notebooks/introduction.ipynb

.PHONY: python
python: setup
	@$(call configure,release)
	@ninja -C build/release -j$(JOBS) $(if $(JSON),--quiet) paceline_python

.PHONY: test
test: build  ## Run every test that needs no peer [TEST_JOBS=n]
	@$(call check,release) -LE full --no-tests=error

.PHONY: install
install: setup  ## Install the library and the program `paceline` [PREFIX=~/.local] [DEBUG_INFO=1]
	@$(call configure,release)
	@cmake -DPACELINE_INSTALL_DEBUG_INFO=$(if $(DEBUG_INFO),ON,OFF) build/release >build/install.log
	@ninja -C build/release -j$(JOBS) paceline paceline_control_archive paceline_train_archive
	@cmake --install build/release --prefix $(PREFIX) >build/install.log
	@echo "installed into $(PREFIX): docs/installation.md says how to use it"

##@ For developers
.PHONY: setup
setup:  ## Install what is missing: distribution packages and .venv
	@tools/setup
	@mkdir -p build

.PHONY: setup-gpu
setup-gpu:
	@tools/setup --gpu
	@mkdir -p build

.PHONY: build
build: setup  ## Build everything [PRESET=release|dev|control|asan|tsan] [JOBS=n]
	@$(call configure,$(PRESET))
	@$(call build,$(PRESET))

.PHONY: test-full
test-full: test test-labelled-full  ## Also the slow suites, those with peers, and the control plane under sanitizers
	@for preset in control asan tsan; do $(MAKE) --no-print-directory test-preset PRESET=$$preset; done

.PHONY: test-labelled-full
test-labelled-full: build
	@$(call check,release) -L full --no-tests=error

.PHONY: test-preset
test-preset: build  ## Build and test one preset [PRESET=control]
	@$(call check,$(PRESET)) -LE full

# What is built is what the tests with this label are made of, and nothing else.
.PHONY: test-gpu
test-gpu: setup-gpu  ## Run the tests that need a GPU, on the torch that is installed; without one they say what is missing
	@$(PYTHON) -B tools/gpu.py || true
	@$(call configure,release)
	@ninja -C build/release -j$(JOBS) gpu_tests paceline_python
	@ctest --test-dir build/release -L gpu --output-on-failure --no-tests=error

.PHONY: bench
bench: $(if $(GPU),setup-gpu,build)  ## Measure, beside peers [ONLY=row,row] [GPU=1: what needs one]; writes docs/benchmarks.md
	@$(call configure,release)
	@$(PYTHON) benchmarks/run.py $(if $(ONLY),--only $(ONLY)) $(if $(GPU),--gpu)

.PHONY: format
format: setup  ## Format every C++ file
	@git ls-files '*.h' '*.cpp' | xargs .venv/bin/clang-format -i

.PHONY: docs
docs: setup  ## Make the API reference and the guides as pages: build/docs/index.html
	@tools/setup --docs
	@$(PYTHON) -B tools/docs.py

# The pages of `paceline dashboard`. Their bundle is checked in: whoever does not change them needs no Node.
web = cd web && npm ci --silent --ignore-scripts --no-audit --no-fund
.PHONY: web
web: setup-web  ## Build the dashboard's pages into web/dist, which is checked in; needs Node 18 or later
	@$(web) && npm run --silent build

.PHONY: setup-web
setup-web:
	@command -v npm >/dev/null || { echo 'Paceline: npm is missing: apt-get install nodejs npm' >&2; exit 1; }

.PHONY: test-web
test-web: setup-web  ## Test the pages: types, pure parts, bundle; in Chromium too where there is one, against what was built
	@$(web) && npm run --silent check && npm test --silent && node build.mjs --check
	@web/tests/run_browser || (($$? == 77))

.PHONY: lint
lint: setup  ## Check layers, format and documentation, and changed files with clang-tidy [BASE=commit]
	@tools/setup --docs
	@cmake --preset lint >build/lint.log || { cat build/lint.log; exit 1; }  # nothing is built, so nothing else notices new files
	@tools/lint $(BASE)

.PHONY: clean
clean:  ## Remove what was built; .venv and data stay
	@rm -rf build

.PHONY: help
help:  ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
