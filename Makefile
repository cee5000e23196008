# `make help` lists the targets. Everything runs in .venv, which `make setup` makes once.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# uv's default torch carries CUDA; the tests and the demo run on the CPU.
INSTALL := $(if $(shell command -v uv),uv pip install --quiet --python $(BIN)/python --torch-backend=cpu,$(BIN)/python -m pip install --quiet --disable-pip-version-check)
VENV := $(if $(shell command -v uv),uv venv --quiet --allow-existing .venv,$(PYTHON) -m venv .venv)

.DEFAULT_GOAL := help
.PHONY: help setup demo test unit-test tinker-test loopback-test schedules wheel-test examples-test check fmt lint type build bench clean resume-search explorer-test fuzz talks screenshots

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with all that the tests and the demo need

$(STAMP): pyproject.toml constraints.txt
	$(VENV)
	$(INSTALL) -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP) ## train a tiny model on number_search, here, with no key; seed=1 for another run
	$(BIN)/python examples/demo/demo.py $(if $(seed),seed=$(seed)) $(ARGS)

test: unit-test tinker-test loopback-test explorer-test examples-test wheel-test ## run every test

unit-test: $(STAMP) ## the core, without tinker-cookbook
	$(BIN)/python -m pytest tst/unit

tinker-test: $(STAMP) ## real tinker-cookbook, scripted policy, real tokenizers
	$(BIN)/python -m pytest tst/tinker

loopback-test: $(STAMP) ## the embedded server and rl.train over HTTP
	$(BIN)/python -m pytest tst/loopback

explorer-test: $(STAMP) ## the page in headless Chromium, where there is one (Debian's package `chromium`)
	$(BIN)/python -m pytest tst/explorer

examples-test: $(STAMP) ## the examples
	$(BIN)/python -m pytest tst/examples

schedules: $(STAMP) ## thousands of random schedules of groups, for deadlocks and leaks (about 20 minutes)
	SCHEDULES=$(or $(SCHEDULES),0:4000) $(BIN)/python -m pytest tst/tinker/test_schedules.py

wheel-test: $(STAMP) ## the built wheel in an empty environment
	$(BIN)/python -m pytest tst/wheel

resume-search: $(STAMP) ## kill the trainer 100 times and resume it (KILLS, SEED)
	KILLS=$${KILLS:-100} $(BIN)/python -m pytest -s tst/loopback/test_resume.py

check: lint type ## ruff and pyright

fmt: $(STAMP) ## format the code
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: $(STAMP) ## ruff: format and lint
	$(BIN)/ruff format --check . && $(BIN)/ruff check .

type: $(STAMP) ## pyright, strict, on src
	$(BIN)/pyright

bench: $(STAMP) ## speed and memory beside a peer, as ratios within one run; only=NAME runs one
	$(BIN)/python tst/bench $(if $(only),only=$(only))

fuzz: $(STAMP) ## 100,000 hostile replies to every renderer; count= and seed= change it
	$(BIN)/python tst/support/fuzzing.py count=$(or $(count),100000) seed=$(or $(seed),0)

talks: $(STAMP) ## 2,000 random conversations on every renderer, against the host's own rendering
	EPISODES_SEARCH=2000 $(BIN)/python -m pytest tst/tinker/test_prompts_renderers.py --timeout 0

screenshots: $(STAMP) ## the explorer's pictures in docs/, over a demo that it runs; run=FOLDER takes one that ran
	$(BIN)/python tst/support/screenshots.py $(if $(run),run=$(run))

build: $(STAMP) ## the wheel and the sdist, into dist/
	$(BIN)/python -m build --outdir dist

clean: ## remove .venv and what the tools leave behind
	rm -rf .venv dist build .pytest_cache .ruff_cache .hypothesis
