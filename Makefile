# make demo    set everything up and run the main job: a policy trained in FlashNeRD, tested in MuJoCo Warp
# make test    set everything up and run the tests
# Both start with `make setup`, which does nothing the second time. `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The thread count is decided here, once. Small tensors run fastest on one thread: with two on a busy machine,
# steps were seen to take up to 100 times longer. Override with `make demo OMP_NUM_THREADS=4`.
OMP_NUM_THREADS ?= 1
export OMP_NUM_THREADS
export PYTHONUNBUFFERED := 1

VENV := $(or $(FLASHNERD_VENV),$(CURDIR)/.venv)
BIN := $(VENV)/bin
DOCS := $(or $(FLASHNERD_DOCS_VENV),$(CURDIR)/.venv-docs)
KIT := $(or $(FLASHNERD_KIT_VENV),$(CURDIR)/.venv-kit)
ARGS ?=
PYTEST_ARGS ?=
# A process a core, up to four (each holds a simulator); the files stay whole, since they share what they build.
# In the order of collection, simulators come first and short tests last: by the number of their tests, which is xdist's
# own order, the longest files would come last and leave cores idle.
PYTEST_WORKERS ?= auto

.PHONY: help setup demo test test-kit test-wheel lint docs pictures clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

setup: ## find Python 3.12, make .venv, install, build the local asset root
	@scripts/setup/setup.sh

demo: setup ## train a policy in FlashNeRD, test it in MuJoCo Warp, report (ARGS=--fresh starts over)
	@$(BIN)/python scripts/demo.py $(ARGS)

test: setup ## run the tests (PYTEST_ARGS="-m 'not slow'" for a short run)
	@started=$$SECONDS; code=0; \
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder \
		$(PYTEST_ARGS) || code=$$?; \
	echo "test: $$((SECONDS - started)) s"; exit $$code

test-kit: ## start the extension in a headless Omniverse Kit (OMNI_KIT_ACCEPT_EULA=YES, if you agree)
	@scripts/setup/kit.sh
	@$(KIT)/bin/python -m pytest -p no:cacheprovider tests/kit $(PYTEST_ARGS)

test-wheel: ## build the wheel, install it alone in a fresh environment (9 GB, minutes) and use it there
	@scripts/setup/wheel.sh

lint: setup ## ruff, pyright, shellcheck and hadolint
	@echo "lint: ruff"; $(BIN)/ruff check .
	@echo "lint: shellcheck"; $(BIN)/shellcheck .ci/run scripts/setup/*.sh
	@echo "lint: hadolint"; $(BIN)/hadolint docker/Dockerfile docker/Dockerfile.isaacsim
	@echo "lint: pyright"; $(BIN)/pyright

docs: ## the site of docs/ in site/, in an environment of its own; a warning is an error
	@scripts/setup/docs.sh
	@started=$$SECONDS; NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet --strict --clean; \
	echo "docs: $$(find site -name '*.html' | wc -l) pages in site/, no warning, $$((SECONDS - started)) s"

pictures: setup ## docs/images from the results of make demo
	@scripts/setup/readme_pictures.sh

clean: ## remove what the commands made (demo, logs, outputs), not .venv and not the shipped bundles
	rm -rf demo logs outputs runs multirun videos build dist site .pytest_cache .ruff_cache
