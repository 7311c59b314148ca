"""The build context of an image."""

import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from infra.images.errors import ImageError
from infra.images.flavours import ROOT, Flavour, load, pin, project

HERE = Path(__file__).parent
NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")


@dataclass(frozen=True, slots=True)
class Inputs:
    """A build's inputs from outside the checkout.

    `wheels` precede any index and replace the flavour's own; `ca_bundle` is used only while building.
    """

    wheels: Path | None = None
    ca_bundle: Path | None = None

    def check(self) -> None:
        if self.wheels and not list(self.wheels.glob("*.whl")):
            raise ImageError(f"--wheels {self.wheels} holds no wheels (*.whl); name a folder that holds some")
        if self.ca_bundle and not self.ca_bundle.is_file():
            raise ImageError(f"--ca-bundle {self.ca_bundle} is not a file; name one of PEM certificates")


def fill(folder: Path, flavour: Flavour, inputs: Inputs, root: Path = ROOT) -> None:
    packages = folder / "packages"
    for name in ("wheels", "certs"):
        (packages / name).mkdir(parents=True)
    shutil.copyfile(HERE / "Dockerfile", folder / "Dockerfile")
    (packages / "pyproject.toml").write_text(project(flavour, bool(inputs.wheels), root))
    shutil.copyfile(root / "requirements.lock", packages / "constraints.txt")
    (packages / "installer.txt").write_text(pin("uv", root))
    if inputs.ca_bundle:
        shutil.copyfile(inputs.ca_bundle, packages / "certs" / "ca.crt")
    for wheel in sorted(inputs.wheels.glob("*.whl")) if inputs.wheels else ():
        link_or_copy(wheel, packages / "wheels" / wheel.name)
    for name in load()["source"]:
        source, target = root / name, folder / "source" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=NOT_COPIED)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def packages_hash(folder: Path) -> str:
    """Hash the wheels' names: builders' caches ignore the contents of mounts."""
    packages = folder / "packages"
    wheels = sorted(path.name for path in (packages / "wheels").iterdir())
    texts = [(packages / name).read_text() for name in ("pyproject.toml", "constraints.txt")]
    return hashlib.sha256("\n".join([*texts, *wheels]).encode()).hexdigest()[:16]


def revision(root: Path = ROOT) -> str:
    """Return the commit, with -dirty for changes; `unknown` outside a checkout."""
    try:
        commit = git(root, "rev-parse", "HEAD")
        return f"{commit}-dirty" if git(root, "status", "--porcelain") else commit
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
