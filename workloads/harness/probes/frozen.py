"""The identity of a frozen reference environment, if this code runs in one."""

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

CODE = Path(__file__).parents[2]  # the package `workloads` that this process has imported
MARK = "frozen.json"  # lies in the package of a frozen environment, and in no checkout
PACKAGES = ("torch", "numpy", "psutil", "nvidia-ml-py")  # all that a measuring process loads


def reference_id(code: Path = CODE) -> str | None:
    """Return the id of this process's frozen environment, if any, computed from its files."""
    return content_id(code, versions()) if (code / MARK).is_file() else None


def content_id(code: Path, installed: Mapping[str, str]) -> str:
    """Return 12 hex digits of a hash over a package `workloads` and its versions."""
    digest = hashlib.sha256(json.dumps(dict(installed), sort_keys=True).encode())
    for path in sorted(code.rglob("*")):
        if path.is_file() and path.name != MARK and "__pycache__" not in path.parts:
            content = path.read_bytes()
            digest.update(f"{path.relative_to(code).as_posix()}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()[:12]


def versions() -> dict[str, str]:
    """Return the versions of Python and `PACKAGES`; empty if one is missing."""
    found = {"python": platform.python_version()} | dict.fromkeys(PACKAGES, "")
    for name in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
