# Everything from a fresh clone: `make bench` measures this machine, `make test` tests the project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
unexport PYTHONDONTWRITEBYTECODE # where it is set, as in many images, each process compiles all of this again

.PHONY: install bench test test-all test-fast test-cluster gpu-proof lint perf gallery workers browser containers databases slurm clean

install: $(STAMP)

# The lock is whole, so that nothing is looked up beside it; then torch, in the build that suits the machine.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; name one: make PYTHON=python3.11") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-build-isolation --editable .
	@touch $@

bench: install
	$(BIN)/gridbench run quick

# The ladder is in tests/ladder.py. Three at a time what can be, since many a test waits for a server; then what measures
# time or looks at processes, also where the first fails. What is run again (each says why) is named in the summary.
RUNGS = unit or server or journey
ALONE = grep -rl --include="test_*.py" "mark\.alone" tests # to collect all others takes half a minute
test-all: RUNGS = unit or server or cloud or chaos
test-all: databases slurm
test test-all: install browser containers
	@$(MAKE) --no-print-directory lint & lint=$$!; \
	$(BIN)/python -m tests.emulators >/dev/null || exit 1; \
	wait $$lint || exit 1; \
	failed=0; \
	$(BIN)/python -m pytest -m "($(RUNGS)) and not alone" -n 3 --dist loadfile --no-loadscope-reorder -rfER || failed=1; \
	$(BIN)/python -m pytest -m "($(RUNGS)) and alone" -rfER $$($(ALONE)) || failed=1; \
	exit $$failed

test-fast: install
	$(BIN)/python -m pytest -m "unit and not alone" -n 2

# The scenarios of the Kubernetes worker on a real cluster, in a namespace of their own; what needs a GPU node says so.
test-cluster: install
	@[ -n "$$KUBECONFIG" ] || { echo "KUBECONFIG is not set: name the file of a cluster that may be tested on"; exit 2; }
	CLUSTER_KUBECONFIG="$$KUBECONFIG" $(BIN)/python -m pytest tests/infra/workers/kubernetes/scenarios -v -rs

# Does the measuring engine hold on this machine's GPU? Nothing is installed for it: docs/gpu-proof.md. All of it takes
# MINUTES=25; where a call may take ten, `make gpu-proof PROOF="--resume proof"` goes on with it.
MINUTES = 9
gpu-proof:
	@python=$(BIN)/python; [ -x $$python ] || python=$(PYTHON); \
	exec $$python -m tests.gpu_proof --out proof --minutes $(MINUTES) $(PROOF)

lint: install
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy --no-error-summary

# The workers alone, as source distributions and wheels: dist/. Nothing is uploaded.
workers: install
	$(BIN)/python -m infra.workers.distributions --out dist --tests tests/infra/workers

perf: install
	$(BIN)/python -m tests.benchmarks

# Three reports for visitors, measured anew on this machine; a quarter of an hour on two idle cores.
gallery: install browser
	$(BIN)/python -m tests.docs.gallery

# The report and the UI are tested in a real Chromium.
browser:
	@command -v chromium >/dev/null || { \
	  echo "installing chromium for the browser tests"; \
	  SUDO=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq chromium >/dev/null; }

# Clouds and boxes are emulated with real containers, network namespaces and sshd; debootstrap makes the containers'
# base image where no registry can be reached.
containers:
	@command -v podman >/dev/null && command -v runc >/dev/null && command -v debootstrap >/dev/null \
	  && command -v ip >/dev/null && [ -x /usr/sbin/sshd ] || { \
	  echo "installing podman and sshd for the tests of clouds and boxes"; \
	  SUDO=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq --no-install-recommends podman buildah runc \
	    netavark aardvark-dns uidmap slirp4netns catatonit containernetworking-plugins debootstrap \
	    openssh-server openssh-client iproute2 procps >/dev/null; }

# A Prefect server of one's own keeps its state there.
databases:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && command -v redis-server >/dev/null || { \
	  echo "installing Postgres and Redis for the tests of a server of one's own"; \
	  SUDO=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq --no-install-recommends postgresql redis-server >/dev/null; }

# A cluster of network namespaces: controller, nodes, accounting.
slurm:
	@command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v slurmdbd >/dev/null \
	  && command -v munged >/dev/null && command -v mariadbd >/dev/null || { \
	  echo "installing Slurm for the tests of lanes on a cluster"; \
	  SUDO=$$([ "$$(id -u)" = 0 ] || echo sudo); \
	  $$SUDO apt-get update -qq && $$SUDO apt-get install -y -qq --no-install-recommends slurmctld slurmd slurmdbd \
	    slurm-client slurm-wlm-basic-plugins munge mariadb-server >/dev/null; }

clean:
	rm -rf $(VENV) .gridbench build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
