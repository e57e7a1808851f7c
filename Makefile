# Two commands: make demo, make test. Everything they install is in .venv, everything the demo writes in .sexton.

PYTHON ?=
ARGS ?=
TESTS ?=
VENV := .venv
RUN := $(VENV)/bin/python
# Tests and demo start hundreds of Python processes; without cached bytecode each would compile all sources again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo demo-wal demo-binlog demo-catalog demo-ducklake test slow soak bench lint coverage generated pictures lock sbom dist

help:
	@echo "make demo   a small database makes garbage in an object store; Sexton deletes it, a worker is killed, and Spark checks"
	@echo "            and deletes what is large: a minute and a half"
	@echo "            (ARGS=--exit stops the servers at the end, otherwise Ctrl-C does; ARGS=--all adds the next two parts)"
	@echo "            make demo-wal: a shared write-ahead log is purged; make demo-binlog: binlogs expire;"
	@echo "            make demo-catalog: a lake whose metadata Sexton keeps"
	@echo "            make demo-ducklake: a DuckLake that its own cleanup breaks, and Sexton does not"
	@echo "make test   linters and tests, on real servers: about 10 minutes on 2 cores (TESTS=\"tests/unit -k hold\": only those)"
	@echo "make bench  what deleting, choosing, dropping and pacing cost, against peers in the same run: about two hours,"
	@echo "            on a quiet machine (ARGS=--quick: small sizes, 5 minutes; tables and chart: docs/benchmarks.md)"
	@echo
	@echo "The first of them also makes .venv: about 2 minutes and 1.6 GB, from PyPI. Python 3.11 or newer is needed."
	@echo "Further: make lint, make coverage, make slow (the slowest tests), make soak (also long runs),"
	@echo "make generated (docs/commands.md and docs/api.md, from the operations), make pictures (every page of the console, in"
	@echo "build/pictures),"
	@echo "make lock (requirements.lock: hashes of what an installation gets; THIRD-PARTY-NOTICES.md: its licences),"
	@echo "make sbom (dist/sbom.json, CycloneDX), make dist (wheel, source distribution and SBOM, in dist/)."

demo: $(VENV)/.stamp
	@$(RUN) -m examples.demo $(ARGS)

demo-wal demo-binlog demo-catalog: demo-%: $(VENV)/.stamp
	@$(RUN) -m examples.demo --part $* $(ARGS)

demo-ducklake: $(VENV)/.stamp $(VENV)/ducklake/.stamp
	@$(RUN) -m examples.demo --part ducklake $(ARGS)

test: $(VENV)/.stamp $(VENV)/ducklake/.stamp
	@$(RUN) -m tests $(TESTS)

# Twice as long as `make test`: the percentage of lines and branches that tests reach.
coverage: $(VENV)/.stamp $(VENV)/ducklake/.stamp
	@rm -f .coverage .coverage.*
	@$(RUN) -m coverage run --parallel-mode -m tests $(TESTS)
	@$(RUN) -m coverage combine -q
	@$(RUN) -m coverage report --format=total

slow: $(VENV)/.stamp $(VENV)/ducklake/.stamp
	@$(RUN) -m tests slow $(TESTS)

soak: $(VENV)/.stamp $(VENV)/ducklake/.stamp $(VENV)/peers/.stamp
	@$(RUN) -m pytest -m soak --timeout=3600 tests

# What is written from the declared operations: docs/commands.md, a table of docs/api.md, and types of the client's methods.
generated: $(VENV)/.stamp
	@for page in generated_pages doors; do $(RUN) -m tests.unit.project.test_$$page --write || exit 1; done

# Every page of the console, narrow and wide, light and dark, in build/pictures.
pictures: $(VENV)/.stamp
	@$(RUN) -m tests.browser.pictures build/pictures

bench: $(VENV)/.bench
	@$(RUN) -m benchmarks all $(ARGS)

lint: $(VENV)/.stamp
	@$(RUN) -m tests lint

# Asks PyPI for the hashes of every file of every version in constraints.txt that an installation needs: 5 minutes.
lock: $(VENV)/.stamp
	@$(RUN) -m piptools compile --quiet --strip-extras --generate-hashes --no-header --no-annotate --no-emit-options \
		--extra api --extra client --extra console --extra embedded --extra kafka --extra otel --extra spark \
		-c constraints.txt -o requirements.lock pyproject.toml
	@$(RUN) -m build_hooks.notices

sbom: $(VENV)/.stamp
	@mkdir -p dist
	@$(RUN) -m cyclonedx_py requirements requirements.lock --pyproject pyproject.toml --output-reproducible -o dist/sbom.json

dist: sbom
	@rm -f dist/*.whl dist/*.tar.gz
	@$(RUN) -m hatchling build -d dist

# One line with its seconds per step; what a step prints is shown only when it fails.
step = @began=$$(date +%s); said=$$(mktemp); printf '%s ... ' "$(1)"; \
	if $(2) >"$$said" 2>&1; then echo "$$(( $$(date +%s) - began )) s"; rm -f "$$said"; \
	else echo failed; cat "$$said"; rm -f "$$said"; exit 1; fi

# The oldest file decides: a changed pyproject.toml or constraints.txt installs again, otherwise nothing is done.
$(VENV)/.stamp: pyproject.toml constraints.txt
	@for p in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
		if "$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$p; break; fi; \
	done; \
	if [ -z "$$found" ]; then echo "Sexton needs Python 3.11 or newer; found: $$(python3 -V 2>&1). Try: make PYTHON=python3.12" >&2; exit 1; fi; \
	if ! "$$found" -c 'import venv, ensurepip' 2>/dev/null; then echo "$$found has no venv module (Debian: apt-get install python3-venv)" >&2; exit 1; fi; \
	mkdir -p $(VENV); command -v "$$found" > $(VENV)/.python
	$(call step,make .venv,"$$(cat $(VENV)/.python)" -m venv $(VENV))
	$(call step,install from PyPI,$(RUN) -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e '.[api$(comma)client$(comma)embedded$(comma)kafka$(comma)otel$(comma)spark$(comma)dev]')
	@touch $@

# DuckDB in an environment of its own: checks need another version.
$(VENV)/ducklake/.stamp: examples/demo/duckdb-requirements.txt $(VENV)/.stamp
	$(call step,make .venv/ducklake,$(RUN) -m venv $(VENV)/ducklake)
	$(call step,install DuckDB,$(VENV)/ducklake/bin/python -m pip install --quiet --disable-pip-version-check -r $<)
	@touch $@

# Other collectors, in the versions that had the incidents of tests/museum.
$(VENV)/peers/.stamp: tests/museum/peers/requirements.txt $(VENV)/.stamp
	$(call step,make .venv/peers,$(RUN) -m venv $(VENV)/peers)
	$(call step,install other collectors,$(VENV)/peers/bin/python -m pip install --quiet --disable-pip-version-check -r $<)
	@touch $@

$(VENV)/.bench: $(VENV)/.stamp
	$(call step,install what benchmarks need,$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]')
	@touch $@

comma := ,
