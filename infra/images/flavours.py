"""The flavours of flavours.yaml, and the packages that an image of one gets."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra.images.errors import ImageError

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("flavours.yaml")
# What torch's builds pin for themselves, each its own version.
OF_TORCH = re.compile(r"torch==|triton==|cuda-|nvidia-(?!ml-py==)")


@dataclass(frozen=True, slots=True)
class Flavour:
    """A kind of image: its torch build, and the GPUs and drivers that it runs with.

    Attributes:
        torch: the requirement, with its local version.
        index: address of the package index that has this build.
        minimum_driver: oldest NVIDIA driver that it runs with; None for CPU builds.
        capabilities: compute capabilities that it has kernels for.
    """

    name: str
    torch: str
    index: str
    minimum_driver: str | None = None
    capabilities: tuple[str, ...] = ()


def load(path: Path = FILE) -> dict[str, Any]:
    """Load the data file."""
    loaded: dict[str, Any] = yaml.safe_load(path.read_text())
    return loaded


def flavours(path: Path = FILE) -> dict[str, Flavour]:
    """Load all flavours by name."""
    entries = load(path)["flavours"].items()
    return {
        name: Flavour(name, **entry | {"capabilities": tuple(entry.get("capabilities", ()))})
        for name, entry in entries
    }


def flavour(name: str) -> Flavour:
    """Return the flavour of this name.

    Raises:
        ImageError: there is none.
    """
    all_flavours = flavours()
    if name not in all_flavours:
        raise ImageError(f"flavour {name!r} is unknown; there are {', '.join(all_flavours)}")
    return all_flavours[name]


def requirements(chosen: Flavour, root: Path = ROOT) -> list[str]:
    """List what is installed: the dependencies that a lane uses, and the torch build."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    without = {*load()["left_out"], "torch"}
    return [*(line for line in project["dependencies"] if package(line) not in without), chosen.torch]


def package(requirement: str) -> str:
    """Return a requirement's package name."""
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()


def constraints(root: Path = ROOT) -> list[str]:
    """Return the versions of requirements.lock, without torch's own parts."""
    lines = (root / "requirements.lock").read_text().splitlines()
    return [line for line in lines if line and not OF_TORCH.match(line)]
