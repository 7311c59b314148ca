#!/usr/bin/env bash
# Resolve every dependency anew into requirements.lock. Torch is pinned without a local version, so that pip
# takes the build that suits the machine; what only torch's CUDA build needs is left to that build.
set -euo pipefail
cd "$(dirname "$0")/.."
uv pip compile --quiet --no-annotate --no-header --python-version 3.11 --extra dev pyproject.toml \
    <(printf 'setuptools\nwheel\n') -o requirements.lock "$@"
sed -i 's/^\(torch==[0-9.]*\)+.*/\1/' requirements.lock
sed -i -e '/^cuda-/d' -e '/^triton==/d' -e '/^nvidia-ml-py==/!{/^nvidia-/d}' requirements.lock
