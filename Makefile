# Needs Python >= 3.11 and make; everything else is set up here.
#   make demo        the examples through the gate, over TLS, without a cluster
#   make test        every test (the first run builds a control plane from source)
#   make check       the fast ones: run before every commit
#   make serve       the gate on the examples, until Ctrl-C
#   make playground  a real local API server with the gate in front, until Ctrl-C
#   make format      format the code and mend what ruff can
#   make changelog   what has changed since the last release
#   make bench       how long a review takes, and what large clusters cost (5 minutes)
#   make fuzz        input that nobody would write, much of it (10 minutes)
#   make soak        twice as many reviews as can be answered, for ten minutes
#   make clean       remove .venv and what tools left

SHELL := /bin/sh
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# Without its caches Python compiles every library and test anew in each process: twice the time.
unexport PYTHONDONTWRITEBYTECODE
# The newest Python that is there and new enough.
PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

.PHONY: help demo test check check-code check-rules check-others serve playground format changelog constraints clean bench fuzz soak

$(STAMP): pyproject.toml .ci/constraints.txt
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "gatewright needs Python 3.11 or newer$(if $(PYTHON),; $(PYTHON) is older or missing, on PATH)" >&2; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON) (about 20 s the first time)" >&2
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@sed -n '/^uv==/,/[^\\]$$/p' .ci/constraints.txt > $(VENV)/uv.txt
	@$(BIN)/python -m pip --disable-pip-version-check -q install --require-hashes -r $(VENV)/uv.txt
	@# uv is faster; pip knows more about where this machine gets its packages from.
	@$(BIN)/uv pip install -q --system-certs --python $(BIN)/python --require-hashes \
		-r .ci/constraints.txt 2>$(VENV)/uv.log || \
		{ echo "uv could not install (see $(VENV)/uv.log); trying pip, about a minute" >&2; \
		$(BIN)/python -m pip --disable-pip-version-check -q install --require-hashes -r .ci/constraints.txt; }
	@$(BIN)/python -m pip --disable-pip-version-check -q install --no-deps --no-build-isolation -e .
	@touch $(STAMP)

# The comment at the top of this file.
help:
	@sed -n 's/^#   //p' Makefile

demo: $(STAMP)
	@$(BIN)/python examples/demo.py

serve: $(STAMP)
	@$(BIN)/gatewright serve --policies examples/policies

playground: $(STAMP)
	@$(BIN)/python -m tests.controlplane playground

# Lint, types, import contracts, and the tests that need no control plane. All at once: each half
# of the tests collects its own files alone, which takes a quarter of the time.
RULES := tests/unit/policy tests/unit/mapping tests/unit/model tests/unit/catalog tests/unit/admission
FAST := $(BIN)/pytest -q -m "not slow"
check: $(STAMP)
	@$(MAKE) --no-print-directory -j 3 $(if $(filter output-sync,$(.FEATURES)),-O) \
		check-others check-rules check-code

check-code:
	$(BIN)/ruff format --check -q .
	$(BIN)/ruff check -q .
	$(BIN)/mypy
	$(BIN)/mypy .ci/sbom.py
	$(BIN)/lint-imports --no-cache >/dev/null || $(BIN)/lint-imports --no-cache

check-rules:
	$(FAST) $(RULES)

check-others:
	$(FAST) tests/unit tests/api tests/golden tests/chart $(RULES:%=--ignore=%)

test: check
	$(BIN)/python -m tests.controlplane build
	$(BIN)/pytest -q -n 2 -m slow tests/unit tests/api tests/golden tests/chart tests/fuzz
	$(BIN)/pytest -q tests/load tests/e2e

# Other examples each time, and fifty times as many as `make test` tries.
fuzz: $(STAMP)
	$(BIN)/pytest -q -n 2 tests/fuzz --hypothesis-profile=long

soak: $(STAMP)
	$(BIN)/python -m tests.load.overload

bench: $(STAMP)
	$(BIN)/python -m benchmarks --json benchmarks/last.json

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

changelog: $(STAMP)
	@$(BIN)/python -m tests.changelog

# After a change of dependencies in pyproject.toml. The file holds hashes and no addresses.
constraints: $(STAMP)
	$(BIN)/uv pip compile -q --universal --generate-hashes --all-extras --upgrade \
		--no-emit-index-url --no-annotate --no-header pyproject.toml -o .ci/constraints.txt
	$(BIN)/uv pip compile -q --universal --generate-hashes --extra fast \
		--constraint .ci/constraints.txt --no-emit-index-url --no-annotate --no-header \
		pyproject.toml -o .ci/constraints-runtime.txt
	printf '%s\n' cyclonedx-python-lib hatchling packaging | \
		$(BIN)/uv pip compile -q --universal --generate-hashes \
		--constraint .ci/constraints.txt --no-emit-index-url --no-annotate --no-header \
		- -o .ci/constraints-image.txt

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
