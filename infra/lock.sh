#!/usr/bin/env bash
# Resolve every dependency into requirements.lock, with the hashes of all its files: for every platform and Python.
# Versions that are there stay; `infra/lock.sh --upgrade` takes newer ones. Torch and what its CUDA builds bring along
# are not in it: which of its builds suits a machine, and with it the file's hash, is the machine's own.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=$(command -v uv || echo .venv/bin/uv)
"$uv" pip compile --quiet --universal --generate-hashes --no-annotate --no-header --python-version 3.11 --extra dev \
    pyproject.toml <(printf 'setuptools\nwheel\n') -o requirements.lock "$@"
ours=$(awk '/^[^ ]/ { torchs = /^(torch==|triton==|cuda-|nvidia-)/ && !/^nvidia-ml-py==/ } !torchs' requirements.lock)
printf '%s\n' "$ours" > requirements.lock
