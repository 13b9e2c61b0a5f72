# A thin front for CMakePresets.json. `make help` lists the targets.
PRESET ?= release
JOBS ?=
ROWS ?=
PREFIX ?= /usr/local
FILES ?=
BUILD := build/$(PRESET)
# A compiler for each core: ninja's two more would take each other's caches, 400 MB of headers each.
PARALLEL := --parallel $(or $(JOBS),$(shell nproc))

.DEFAULT_GOAL := help
.PHONY: help setup build test demo bench gpu-check gpu-bundle installed install deb docs lint build-times format format-check debug asan tsan soak clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install what is missing: Debian packages by apt, wheels and sources into .deps
	@cmake/setup.sh
ifeq ($(PRESET),clang)
	@bash -euc '. cmake/versions.env; . cmake/setup_common.sh; need_programs "clang++-$$CLANG_VERSION:clang-$$CLANG_VERSION"'
endif

$(BUILD)/build.ninja: CMakePresets.json | setup
	@cmake --preset $(PRESET)

build: setup $(BUILD)/build.ninja ## Build everything (PRESET=release, JOBS=n)
	@cmake --build --preset $(PRESET) $(PARALLEL)

test: build format-check ## Set up, build, check the format and run every test
	@rm -f $(BUILD)/tests/*/results/*.xml; ctest --preset $(PRESET); status=$$?; cmake/test_times.py $(BUILD); exit $$status

demo: setup $(BUILD)/build.ninja ## Solve CartPole with an agent and two observers, on three nodes
	@cmake --build --preset $(PRESET) $(PARALLEL) --target troupe-run cartpole
	$(BUILD)/apps/troupe-run -n 3 $(BUILD)/apps/cartpole --plot build/cartpole.svg

bench: build ## Measure against the peers (ROWS=call_actor,identity for some rows)
	@python3 tests/bench/run.py $(if $(ROWS),--rows $(ROWS))

gpu-check: setup $(BUILD)/build.ninja ## Run what needs a GPU, and report what was seen; skips without one
	@cmake --build --preset $(PRESET) $(PARALLEL) --target troupe_gpu_programs
	@python3 tests/gpu_check.py --build $(BUILD)

gpu-bundle: setup $(BUILD)/build.ninja ## Pack that for a machine with a GPU and PyTorch: build/gpu_bundle
	@cmake --build --preset $(PRESET) $(PARALLEL) --target troupe_gpu_programs
	@python3 tests/gpu_check.py --build $(BUILD) --bundle build/gpu_bundle

# What is installed, and no test.
installed: setup $(BUILD)/build.ninja
	@cmake --build --preset $(PRESET) $(PARALLEL) --target troupe_installed

install: installed ## Install libraries, headers and programs (PREFIX=/usr/local)
	@cmake --install $(BUILD) --prefix $(abspath $(PREFIX))

deb: installed ## Make a Debian package: build/package/*.deb
	@cd $(BUILD) && cpack --config CPackConfig.cmake -B $(CURDIR)/build/package

docs: ## Make the site of guides and reference: build/docs/html/index.html
	@cmake/build_docs.sh

lint: setup ## Look for mistakes with clang-tidy (FILES=... for some sources)
	@cmake/lint.sh $(FILES)

build-times: ## Say what the last build took, the slowest files and what they include
	@cmake/build_times.py $(BUILD) --slowest 20 --includes

soak: build ## The tests that run for long
	@ctest --preset soak

debug: ## Build and test with assertions, without optimisation
	@$(MAKE) --no-print-directory test PRESET=debug

asan: ## Build and test with the address and undefined-behaviour sanitizers
	@$(MAKE) --no-print-directory test PRESET=asan

tsan: setup ## Build and test with the thread sanitizer
	@cmake/tsan_caf.sh
	@$(MAKE) --no-print-directory test PRESET=tsan

format: setup ## Format the C++ files
	@cmake/format.sh

format-check: setup ## Say which C++ files are not formatted
	@cmake/format.sh --check

clean: ## Remove what was built; what was installed stays
	rm -rf build
