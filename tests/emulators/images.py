"""The project's image for tests, built once per content hash."""

import hashlib
import os
import tempfile
from pathlib import Path

from filelock import FileLock

from gridbench.machines.image import build
from infra.images.context import Inputs, fill, packages_hash, revision
from infra.images.flavours import flavour
from tests.emulators import containers

NAME = "localhost/gridbench-test"
FLAVOUR = "cpu"


def inputs() -> Inputs:
    """Return pip's wheels and certificates, so that the build finds those of `make install`."""
    names = ("GRIDBENCH_IMAGE_WHEELS", "PIP_FIND_LINKS")
    wheels = next((Path(os.environ[name]) for name in names if name in os.environ), None)
    names = ("GRIDBENCH_IMAGE_CA_BUNDLE", "PIP_CERT", "SSL_CERT_FILE")
    bundle = next((Path(os.environ[name]) for name in names if name in os.environ), None)
    has_torch = wheels is not None and any(wheels.glob("torch-*.whl"))
    return Inputs(wheels if has_torch else None, bundle)


def tag(given: Inputs) -> str:
    """Return the image's name: the hash of its contents and its commit, which is its label."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), flavour(FLAVOUR), given)
        commit = revision()
        return (
            f"{NAME}:{content_hash(Path(folder))}-{commit[:12]}{'-dirty' if commit.endswith('dirty') else ''}"
        )


def content_hash(folder: Path) -> str:
    digest = hashlib.sha256(packages_hash(folder).encode())
    for path in sorted((folder / "source").rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    digest.update((folder / "Dockerfile").read_bytes())
    return digest.hexdigest()[:16]


def built(base: str) -> str:
    from tests.emulators.fixtures import environment

    given = inputs()
    with FileLock(Path(tempfile.gettempdir()) / "gridbench-image.lock"):
        name = tag(given)
        if not containers.has_image(name):
            with environment(CONTAINERS_CONF=containers.environment()["CONTAINERS_CONF"]):
                build(FLAVOUR, base, name, given.wheels, given.ca_bundle, "podman")
    return name
