# Every target prints what it does. Only Python >= 3.11 and make are needed beforehand.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
DATA ?= lakebed-data
LISTEN ?= 127.0.0.1:8000
PYTEST_ARGS ?=
SEEDS ?= 1000
TIMES ?= 100
# Tests start hundreds of processes. Where the environment forbids to keep bytecode, each would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install run test coverage test-clients simulate kills check bench fmt clean
help:
	@echo "make run    start Lakebed on its embedded store with a sample repository"
	@echo "make test   install what the tests need, then lint, types, layers and tests"
	@echo "make coverage  run the tests, the simulation apart, and show what they do not reach"
	@echo "make test-clients  test the S3 endpoint with Spark and clients in Go, Java and Python (three gigabytes on disk)"
	@echo "make simulate SEEDS=1000  play so many seeds of the simulation, on all cores"
	@echo "make kills TIMES=100  kill processes of a server under load, and look for what is lost"
	@echo "make check  lint, types and layers only"
	@echo "make bench  measure, and print the figures beside the peer's"
	@echo "make fmt    format the code"

install: $(BIN)/lakebed
$(BIN)/lakebed: pyproject.toml constraints.txt
	@echo "==> installing lakebed into $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt -e '.[postgres]'
	@touch $@

$(VENV)/.test: $(BIN)/lakebed
	@echo "==> installing what the tests need (linters, PostgreSQL, an S3 server, Spark with a Java)"
	@$(PIP) install -c constraints.txt -e '.[postgres,spark,test]'
	@touch $@

run: install
	@$(BIN)/lakebed run --quickstart --sample --data $(DATA) --listen $(LISTEN)

test: check
	@echo "==> tests"
	@$(BIN)/python -m pytest -n 2 --dist loadgroup $(PYTEST_ARGS)

coverage: $(VENV)/.test
	@echo "==> tests, with the share of the code that they run"
	@$(BIN)/python -m pytest -n 2 --dist loadgroup --cov --cov-report=term --ignore tests/simulation $(PYTEST_ARGS)

# What is downloaded is kept in .cache/, which a second run uses again. A client that cannot be had is skipped, aloud.
test-clients: $(VENV)/.test
	@echo "==> tests with large clients"
	@$(BIN)/python -m pytest -rs tests/clients $(PYTEST_ARGS)

simulate: $(VENV)/.test
	@$(BIN)/python -m lakebed.testing.simulation.many $(SEEDS)

kills: $(VENV)/.test
	@$(BIN)/python -m tests.server.kills --times $(TIMES)

check: $(VENV)/.test
	@echo "==> ruff"
	@$(BIN)/ruff check . && $(BIN)/ruff format --check -q .
	@echo "==> mypy"
	@$(BIN)/mypy
	@echo "==> import-linter"
	@$(BIN)/lint-imports --no-cache

bench: $(VENV)/.test
	@$(BIN)/python -m bench $(BENCH_ARGS)

fmt: $(VENV)/.test
	@$(BIN)/ruff check --fix-only -q . ; $(BIN)/ruff format -q .

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
