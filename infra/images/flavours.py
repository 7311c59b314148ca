"""The flavours of flavours.yaml, and their packages."""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.images.errors import ImageError

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("flavours.yaml")
# The part of a pyproject.toml that makes uv look only torch up in torch's index. uv asks an additional index
# first for every name and takes only the first index that has the name; torch's has old versions of many
# packages.
OF_ITS_INDEX = """
[tool.uv.sources]
torch = {{ index = "torch" }}

[[tool.uv.index]]
name = "torch"
url = {url}
explicit = true
"""


@dataclass(frozen=True, slots=True)
class Flavour:
    """A kind of image: its torch build, and the GPUs and drivers that it supports.

    `minimum_driver` is NVIDIA's, None for CPU builds; `capabilities` are compute capabilities with kernels.
    """

    name: str
    torch: str
    index: str
    minimum_driver: str | None = None
    capabilities: tuple[str, ...] = ()


def load(path: Path = FILE) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def flavours(path: Path = FILE) -> dict[str, Flavour]:
    entries = load(path)["flavours"].items()
    return {
        name: Flavour(name, **entry | {"capabilities": tuple(entry.get("capabilities", ()))})
        for name, entry in entries
    }


def flavour(name: str) -> Flavour:
    all_flavours = flavours()
    if name not in all_flavours:
        raise ImageError(f"flavour {name!r} is unknown; there are {', '.join(all_flavours)}")
    return all_flavours[name]


def lane_packages(root: Path = ROOT) -> list[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    without = {*load()["left_out"], "torch"}
    return [line for line in project["dependencies"] if package(line) not in without]


def requirements(chosen: Flavour, root: Path = ROOT) -> list[str]:
    return [*lane_packages(root), chosen.torch]


def project(chosen: Flavour, has_build: bool, root: Path = ROOT) -> str:
    """Return the pyproject.toml that uv installs: only torch comes from its own index.

    If the wheels include torch (`has_build`), no index is asked for it.
    """
    lines = ["[project]", 'name = "lane"', 'version = "0"']
    text = "\n".join([*lines, f"dependencies = {json.dumps(requirements(chosen, root), indent=1)}", ""])
    return text if has_build else text + OF_ITS_INDEX.format(url=json.dumps(chosen.index))


def package(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()


def pin(name: str, root: Path = ROOT) -> str:
    text = (root / "requirements.lock").read_text()
    if not (found := re.search(rf"^{re.escape(name)}==.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)):
        raise ImageError(f"{name} is not in requirements.lock, which infra/lock.sh makes")
    return found[0]


def locked(root: Path = ROOT) -> dict[str, str]:
    pins = (root / "requirements.lock").read_text().splitlines()
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    pins += [line for line in project["dependencies"] if package(line) == "torch"]
    found = (re.match(r"([A-Za-z0-9._-]+)==([^\s;]+)", line) for line in pins)
    return {match[1]: match[2] for match in found if match}
