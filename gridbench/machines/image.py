"""The commands `gridbench image …`."""

import json
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from gridbench.terminal import say
from infra.images import engine
from infra.images.context import HERE, Inputs, fill, packages_hash, revision
from infra.images.flavours import flavour, flavours, load
from tasks.errors import GridbenchError
from tasks.travel.packing import pack
from tasks.travel.requirements import packages_file
from tasks.travel.tree import hex_of, take

NAME = "localhost/gridbench-lane"

app = typer.Typer(help="Build or push the container image of jobs.", no_args_is_help=True)
FlavourName = Annotated[
    str, typer.Option("--flavour", help=f"Variant of the image: one of {', '.join(flavours())}")
]
Engine = Annotated[
    str | None, typer.Option("--engine", help="docker or podman; by default the one that works")
]


@app.command()
def build(
    name: FlavourName = "cpu",
    base: Annotated[
        str | None, typer.Option(help="Base image; by default a Python whose digest flavours.yaml names")
    ] = None,
    tag: Annotated[
        str | None, typer.Option(help="Name of the image; by default made from flavour and commit")
    ] = None,
    wheels: Annotated[
        Path | None,
        typer.Option(
            envvar="GRIDBENCH_IMAGE_WHEELS", help="Folder with torch's wheel, in place of its package index"
        ),
    ] = None,
    ca_bundle: Annotated[
        Path | None,
        typer.Option(envvar="GRIDBENCH_IMAGE_CA_BUNDLE", help="PEM certificates to trust while building"),
    ] = None,
    with_engine: Engine = None,
    reference: Annotated[
        str | None, typer.Option(help="Earlier image to include for controls, HOST/NAME@sha256:…")
    ] = None,
    code: Annotated[
        Path | None,
        typer.Option(help="Folder of code to include, with its packages: its lanes then fetch nothing"),
    ] = None,
) -> None:
    """Build the image of this checkout."""
    variant, inputs, started = flavour(name), Inputs(wheels, ca_bundle), time.monotonic()
    inputs.check()
    if reference and not re.fullmatch(r"[^@]+@sha256:[0-9a-f]{64}", reference):
        raise GridbenchError(f"--reference {reference} must name an image by its digest, HOST/NAME@sha256:…")
    chosen, commit = engine.choose(with_engine), revision()
    image = tag or default_tag(variant.name, commit)
    base = base or str(load()["base"])
    with tempfile.TemporaryDirectory(prefix="gridbench-image-") as folder:
        fill(Path(folder), variant, inputs)
        arguments = {"BASE_IMAGE": base, "PACKAGES": packages_hash(Path(folder))}
        arguments |= {"REVISION": commit, "FLAVOUR": variant.name}
        engine.build(chosen, Path(folder), image, arguments)
    if reference:
        add_reference(chosen, image, reference)
    if code:
        add_code(chosen, image, code, ca_bundle)
    digest, size_bytes = engine.inspect(chosen, image)
    say(f"{image} sha256:{digest}")
    say(f"{size_bytes / 1e9:.2f} GB, built by {chosen} in {time.monotonic() - started:.0f} s")


def add_reference(chosen: str, image: str, reference: str) -> None:
    with tempfile.TemporaryDirectory(prefix="gridbench-image-") as folder:
        shutil.copyfile(HERE / "reference.Dockerfile", Path(folder) / "Dockerfile")
        engine.build(chosen, Path(folder), image, {"IMAGE": image, "REFERENCE": reference})
    command = ("/opt/reference/bin/python", "-P", "-m", "workloads")
    say(f"hardware files with this image can set reference: {json.dumps(command)}")


def add_code(chosen: str, image: str, folder: Path, ca_bundle: Path | None = None) -> None:
    """Put a folder of code and its packages into an image, where lanes find them by hash."""
    tree, file = take(folder), packages_file(folder)
    with tempfile.TemporaryDirectory(prefix="gridbench-image-") as name:
        context = Path(name)
        shutil.copyfile(HERE / "code.Dockerfile", context / "Dockerfile")
        (context / "code").mkdir()
        (context / "code" / f"{hex_of(tree.id)}.pack").write_bytes(pack(tree))
        if ca_bundle:
            shutil.copyfile(ca_bundle, context / "code" / "ca.crt")
        told = {"IMAGE": image, "CODE": tree.id} | ({"REQUIREMENTS": file} if file else {})
        engine.build(chosen, context, image, told)
    say(f"it has the code {tree.id} of {folder}, and {f'the packages of {file}' if file else 'no packages'}")


def default_tag(name: str, commit: str) -> str:
    short, _, dirty = commit.partition("-")
    return f"{NAME}:{name}-{short[:12]}{'-dirty' if dirty else ''}"


@app.command()
def push(
    repository: Annotated[
        str, typer.Argument(help="Target, HOST/NAME: `gridbench status aws` prints the one on AWS")
    ],
    name: FlavourName = "cpu",
    image: Annotated[
        str | None, typer.Option(help="Image to push; by default the one of this commit and flavour")
    ] = None,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Push even if files differ from the commit")
    ] = False,
    with_engine: Engine = None,
) -> None:
    """Push an image, and print its reference by digest for work pools."""
    say(push_image(repository, name, image, allow_dirty, with_engine))


def push_image(
    repository: str,
    name: str,
    image: str | None = None,
    allow_dirty: bool = False,
    with_engine: str | None = None,
) -> str:
    """Push an image unless the repository has it; return its reference by digest."""
    target = repository.removesuffix("/")
    if "/" not in target or ":" in target.rpartition("/")[2] or "@" in target:
        raise GridbenchError(f"repository {repository!r} must be HOST/NAME without a tag or digest")
    commit = revision()
    if commit.endswith("-dirty") and not allow_dirty:
        raise GridbenchError(
            "files differ from the commit, so the image's label would not describe its content; "
            "commit them, or push with --allow-dirty"
        )
    from infra.images.registries import pushed_digest, sign_in  # boto3 is slow to import

    chosen = engine.choose(with_engine)
    local = image or default_tag(flavour(name).name, commit)
    image_id, _ = engine.inspect(chosen, local)
    tag = f"{default_tag(name, commit).rpartition(':')[2]}-{image_id[:12]}"
    if (digest := pushed_digest(target, tag)) is None:
        if known := sign_in(target):
            engine.log_in(chosen, target.partition("/")[0], *known)
        digest = engine.push(chosen, local, f"{target}:{tag}")
    return f"{target}@{digest}"
