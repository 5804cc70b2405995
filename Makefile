# Rheo's commands; `make help` lists them. The set-up itself is in .ci/setup.
.PHONY: help run test check lint types bench chaos dev clean
.DEFAULT_GOAL := help
.NOTPARALLEL:

venv := .venv/bin/python -m
# Else idle torch threads spin and starve whatever runs beside the model.
export OMP_WAIT_POLICY ?= PASSIVE
# Set-up gets everything it needs; tests never ask the network for a model.
test check: export HF_HUB_OFFLINE = 1

help: ## list these commands (PYTHON=python3.12 chooses the Python, ARGS="-k stream" goes to pytest)
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s%s\n", $$1, $$2 }' Makefile

run: ## set up what is missing, then serve in the foreground
	@.ci/setup run
	@$(venv) app migrate
	@exec $(venv) app serve

test: ## set up what is missing, then run all tests, also those in a real browser
	@.ci/stage set-up .ci/setup test
ifdef ARGS
	@.ci/stage tests $(venv) pytest $(ARGS)
else
	@.ci/stage tests $(venv) pytest -n 3 --dist loadfile -m "not alone" tests
	@.ci/stage tests-alone $(venv) pytest -m alone tests
	@.ci/stage browser-tests $(venv) pytest -n 3 --dist loadfile -m "not alone" e2e
	@.ci/stage browser-tests-alone $(venv) pytest -m alone e2e
endif

check: lint types test ## lint, types and all tests: what CI runs

lint: dev ## check style and formatting
	@.ci/stage lint $(venv) ruff check
	@.ci/stage format $(venv) ruff format --check

types: dev ## check types
	@.ci/stage types $(venv) mypy

bench: dev ## measure speed
	@$(venv) bench $(ARGS)

chaos: ## kill, cut, stop and stall for a quarter of an hour: nothing may be lost (ARGS="--kills 10 --seed 7")
	@.ci/stage set-up .ci/setup test
	@PYTHONPATH=e2e:tests $(venv) chaos $(ARGS)

dev: ## only set up .venv with everything for working on Rheo
	@.ci/stage set-up .ci/setup dev

clean: ## remove .venv and caches (never your conversations)
	@rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis test-results
