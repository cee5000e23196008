# `make help` lists the targets. Everything runs in .venv, which `make setup` makes once.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
# uv's default torch carries CUDA; the tests and the demo run on the CPU.
INSTALL := $(if $(shell command -v uv),uv pip install --quiet --python $(BIN)/python --torch-backend=cpu,$(BIN)/python -m pip install --quiet --disable-pip-version-check)
VENV := $(if $(shell command -v uv),uv venv --quiet --allow-existing .venv,$(PYTHON) -m venv .venv)

.DEFAULT_GOAL := help
.PHONY: help setup demo test unit-test tinker-test loopback-test wheel-test examples-test resume-search check fmt lint type build bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with all that the tests and the demo need

$(STAMP): pyproject.toml constraints.txt
	$(VENV)
	$(INSTALL) -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP) ## train a tiny model on number_search, here, with no key
	$(BIN)/python examples/demo/demo.py

test: unit-test tinker-test loopback-test examples-test wheel-test ## run every test

unit-test: $(STAMP) ## the core, without tinker-cookbook
	$(BIN)/python -m pytest tst/unit

tinker-test: $(STAMP) ## real tinker-cookbook, scripted policy, real tokenizers
	$(BIN)/python -m pytest tst/tinker

loopback-test: $(STAMP) ## the embedded server and rl.train over HTTP
	$(BIN)/python -m pytest tst/loopback

examples-test: $(STAMP) ## the examples
	$(BIN)/python -m pytest tst/examples

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

build: $(STAMP) ## the wheel and the sdist, into dist/
	$(BIN)/python -m build --outdir dist

clean: ## remove .venv and what the tools leave behind
	rm -rf .venv dist build .pytest_cache .ruff_cache .hypothesis
