# Rookery: every target works from a fresh clone and prepares .venv by itself.
#   make demo   train, record, cross-check and export a drone policy     make test   the tests     make test-all   those that take long, too
#   make lint   ruff and its formatter   make types   mypy   make docs   the site   make fuzz    a million changed files and packets
#   make bench  figures of speed         make zoo     every policy evaluated, judged and filmed
#   make faults each fault of each link a hundred times     make clean  remove what was made

VENV    := .venv
BIN     := $(VENV)/bin
STAMP   := $(VENV)/.installed
COMPILED := $(VENV)/.compiled
KERNELS := $(shell grep -rlE --include='*.py' 'njit|^@(kernel|inlined|compiled)' sim robots tasks policies)
WORKERS ?= 2
PYTHON  ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
             if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo $$p; exit; fi; done; echo python3)

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help install demo test test-all lint format types docs bench zoo fuzz faults clean distclean
.DEFAULT_GOAL := help

help:
	@sed -n '1,5s/^# \{0,1\}//p' Makefile

install: $(STAMP)

# Made once, and again whenever the dependencies change.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Rookery needs Python 3.11 or newer and found none: install it, or name it with 'make PYTHON=/path/to/python3'." >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python's venv module is missing: run 'apt-get install python3-venv' and call make again." >&2; exit 1; }
	@echo "Installing Rookery into $(VENV), the first time for some minutes ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet -c constraints.txt setuptools
	@$(BIN)/python -m pip install --quiet --no-build-isolation -c constraints.txt -e '.[dev]'
	@# exported C is compiled by demo and tests: where the machine has no compiler, one comes as a Python package
	@command -v gcc >/dev/null || command -v cc >/dev/null || command -v clang >/dev/null || \
	  { echo "No C compiler found: installing one into $(VENV) ..."; $(BIN)/python -m pip install --quiet -c constraints.txt ziglang; }
	@touch $@

# All kernels, in as many processes as there are cores: workers of the tests would each compile what they meet.
$(COMPILED): $(STAMP) $(KERNELS)
	@echo "Compiling kernels for this machine, once ..."
	@$(BIN)/rookery doctor --compile
	@touch $@

demo: $(STAMP)
	@$(BIN)/python -m rookery.cli.demo

# What a change must pass: minutes. Tests that take long are deselected, which pytest's last line says.
test: $(COMPILED)
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations 10 -m 'not slow' $(PYTEST_ARGS)

# Before a release, or when an issue is called resolved: also every recipe, page of the docs and benchmark script, the kernels of
# older processors, a hundred thousand changed files.
test-all: $(COMPILED)
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations 10 -m 'not flights' $(PYTEST_ARGS)

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: $(STAMP)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# mypy does not read setuptools' package-dir: the script lays links in .types/ and proves that every package is checked.
types: $(STAMP)
	@$(BIN)/python tests/check_types.py

# The site in .site/; a warning is an error.
docs: $(STAMP)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet

# A million changed files of every format, and a million damaged packets to every parser of a protocol, for the night.
FUZZ ?= 1000000
fuzz: $(STAMP)
	@$(BIN)/python -m tests.fuzz.run --count $(FUZZ)
	@ROOKERY_PACKETS=$(FUZZ) $(BIN)/python -m pytest -q -m packets --durations 0 tests/sim2real/runtime

# Each fault of each link a hundred times, one after another: hours, most of them in real time, on a machine that does nothing else.
faults: $(COMPILED)
	@$(BIN)/python -m pytest -q -m flights --durations 0 tests/sim2real/runtime

# Measurements that need no other checkout and no training; each writes its file in benchmarks/results but contacts, which only
# prints, and the last one writes the tables.
BENCHES = rotor updates adapters tabletop legged cameras contacts scale video robustness tables
bench: $(STAMP)
	@set -e; for name in $(BENCHES); do echo "== benchmarks/$$name.py"; $(BIN)/python "benchmarks/$$name.py"; done

# Every policy that comes with the package evaluated, judged and filmed: hours, on all cores; what is current is not done again.
zoo: $(COMPILED)
	@$(BIN)/python benchmarks/zoo.py $(ZOO_ARGS)

clean:
	rm -rf $(COMPILED) .types .site .site_links .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)
