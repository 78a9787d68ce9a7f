# Two commands matter: `make demo` and `make test`. Both make their own virtual environment.
PYTHON ?= python3
WORKERS ?= 2
# 0: without what llvmlite and oneDNN compute
KERNELS ?= 1
# jax: as on a TPU, without what a CPU has of its own
BACKEND ?= auto
# n: every nth of the tests alone
ONE_IN ?= 1
# for `make test-newest`
PYTHON313 ?= python3.13
ARGS ?=

DEMO := .venv/bin/python
TEST := .venv-test/bin/python
NEWEST := .venv-newest/bin/python

.PHONY: help demo test test-newest lint stubs bench speed examples crosscheck operators ecosystem plan-table docs clean

help:  ## show this text
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/installed  ## train a CNN on real digits (under 3 minutes on 2 cores); ARGS="--help" lists its options
	$(DEMO) examples/digits_cnn.py $(ARGS)

test: lint  ## lint, type-check and run every test (installs PyTorch to compare with)
	JAX_PLATFORMS=cpu FUNCTORCH_PORT_KERNELS=$(KERNELS) FUNCTORCH_PORT_BACKEND=$(BACKEND) ONE_IN=$(ONE_IN) $(TEST) -m pytest -n $(WORKERS) $(ARGS)
	$(if $(ARGS),,JAX_PLATFORMS=cpu DEVICES=8 NPROC=32 FUNCTORCH_PORT_KERNELS=$(KERNELS) FUNCTORCH_PORT_BACKEND=$(BACKEND) ONE_IN=$(ONE_IN) $(TEST) -m pytest -n $(WORKERS) tests/devices)

test-newest:  ## every third test with Python 3.13 and the newest JAX, where that Python is found
	@if $(PYTHON313) -c '' 2>/dev/null; then \
		$(MAKE) --no-print-directory .venv-newest/installed \
			&& JAX_PLATFORMS=cpu ONE_IN=3 $(NEWEST) -m pytest -n $(WORKERS) $(ARGS); \
	else \
		echo "There is no $(PYTHON313): nothing was tested with the newest JAX. PYTHON313=PATH names one."; \
	fi

lint: .venv-test/installed
	$(TEST) -m ruff check .
	$(TEST) -m mypy

stubs: .venv-test/installed  ## write the type stubs (*.pyi) from the table of operations
	JAX_PLATFORMS=cpu $(TEST) tools/stubs.py

bench: .venv-test/installed  ## run the benchmarks: JSON and plots under benchmarks/results/
	$(TEST) benchmarks/run.py $(ARGS)

speed: .venv-test/installed  ## compare models, operations, optimizers and what is new with PyTorch: writes docs/*speed.md, docs/novelty.md, README's table
	$(TEST) benchmarks/run.py --only suite operations optim novelty $(ARGS)
	$(TEST) benchmarks/publish.py

examples: .venv-test/installed  ## run every example with PyTorch and with this package: writes examples/README.md
	JAX_PLATFORMS=cpu $(TEST) examples/both.py $(ARGS)

crosscheck: .venv-test/installed  ## compare all optimizers with PyTorch's and optax's: writes docs/crosscheck.md
	JAX_PLATFORMS=cpu $(TEST) -m functorch_port crosscheck --steps 1000 --dtype float64,float32 \
		--markdown docs/crosscheck.md --plot docs/crosscheck.png $(ARGS)

operators: .venv-test/installed  ## compare every operator of PyTorch's database: writes docs/operators.md
	JAX_PLATFORMS=cpu $(TEST) tests/operators.py $(ARGS)

ecosystem: .venv-test/installed  ## run programs of libraries over PyTorch by PyTorch and here (an hour, 800 MB in .venv-ecosystem): writes docs/ecosystem.md
	JAX_PLATFORMS=cpu $(TEST) tests/ecosystem/publish.py --install $(ARGS)

plan-table: .venv-test/installed  ## plan language models for 8 to 4,096 TPU chips (hours): writes docs/plan_table.md
	JAX_PLATFORMS=cpu $(TEST) benchmarks/plan_table.py $(ARGS)

docs: .venv-test/installed  ## build the site, in build/site: the guides and the reference; a broken link is an error
	NO_MKDOCS_2_WARNING=1 JAX_PLATFORMS=cpu $(TEST) -m mkdocs build --strict $(ARGS)

clean:  ## remove the virtual environments, caches and outputs
	rm -rf .venv .venv-test .venv-newest .venv-ecosystem out benchmarks/results build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are newer than pyproject.toml once everything in it is installed.
.venv/installed: pyproject.toml
	test -x $(DEMO) || $(PYTHON) -m venv .venv
	$(DEMO) -m pip install --quiet --editable '.[cpu,examples]'
	touch $@

# PyTorch first and pinned, so that no other package brings a different one.
.venv-test/installed: pyproject.toml
	test -x $(TEST) || $(PYTHON) -m venv .venv-test
	$(TEST) -m pip install --quiet 'torch==2.13.0'
	$(TEST) -m pip install --quiet --editable '.[test]'
	touch $@

.venv-newest/installed: pyproject.toml
	test -x $(NEWEST) || $(PYTHON313) -m venv .venv-newest
	$(NEWEST) -m pip install --quiet 'torch==2.13.0'
	$(NEWEST) -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[test]'
	touch $@
