# Two commands are enough on a machine with Python 3.11, make and git: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test check study bench screenshots lock clean site

demo: $(VENV)/installed-base
	$(BIN)/quietshelf demo

test: check
	$(BIN)/python -m pytest -n auto

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Long statistical studies; `make test` runs the same code in a reduced form.
study: $(VENV)/installed-dev
	QUIETSHELF_STUDY=full $(BIN)/python -m pytest -m study -rA

# Pictures of every page, taken by Debian's chromium; look at them. Those that docs/dashboard.md shows are renewed.
screenshots: $(VENV)/installed-dev
	$(BIN)/python -m tests.pages.screenshots out/screenshots
	for each in docs/images/dashboard/*.png; do cp "out/screenshots/$$(basename $$each)" docs/images/dashboard/; done

bench: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks

# The documentation as a site in site/; `make test` builds it as well.
site: $(VENV)/installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(VENV)/installed-base: requirements/base.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes -r requirements/base.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/installed-dev: requirements/dev.lock $(VENV)/installed-base
	$(INSTALL) --require-hashes -r requirements/dev.lock
	touch $@

# Pin again what pyproject.toml asks for; the two lock files are all that an install reads.
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-emit-index-url --no-emit-find-links --no-annotate pyproject.toml --group build
EXTRAS := client data experiments report scale service
lock: $(VENV)/installed-base
	$(INSTALL) uv
	$(LOCK) --extra report --output-file requirements/base.lock
	$(LOCK) $(EXTRAS:%=--extra %) --group test --group check --group docs --constraint requirements/base.lock \
		--output-file requirements/dev.lock

clean:
	rm -rf $(VENV) out site dist build .mypy_cache .ruff_cache .import_linter_cache .hypothesis
