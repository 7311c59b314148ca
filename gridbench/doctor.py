"""The command `doctor`: check this machine and suggest fixes."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import typer
from rich.markup import escape

from gridbench.run.session import ROOT, STATE
from gridbench.terminal import Results, console
from infra.images.flavours import locked
from infra.local.stack import running_api
from tasks.errors import GridbenchError
from tasks.planning.hardware import hardware_names, load_gpus, load_hardware, load_suite_checked, suites
from tasks.store.address import DEFAULT

NEEDS_FREE_BYTES = 2**30
# torch takes a minute to import from a cold disk, and the check waits for a running measurement.
CHECK_S = 300.0
Finding = tuple[bool, str]  # good or not, and a sentence


def doctor(results: Results = DEFAULT) -> None:
    """Check this machine and suggest fixes."""
    findings = list(examine(results.folder))
    for good, text in findings:
        console.print(
            f"[green]ok[/]   {escape(text)}" if good else f"[red]fix[/]  {escape(text)}", soft_wrap=True
        )
    raise typer.Exit(0 if all(good for good, _ in findings) else 1)


def examine(results: Path) -> Iterator[Finding]:
    yield sys.version_info >= (3, 11), f"Python {sys.version.split()[0]} (Gridbench needs 3.11 or newer)"
    yield from _packages()
    yield from _files()
    yield _folder("results", results)
    yield _folder("state", STATE)
    url = running_api(STATE)
    yield True, f"a local stack runs at {url}" if url else "no local stack runs; `gridbench run` starts one"
    yield from _fitness()


def _packages() -> Iterator[Finding]:
    versions = locked(ROOT)
    for name in ("fastapi", "pandas", "prefect", "sqlalchemy", "torch"):
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield False, f"{name} is not installed: make install"
            continue
        same = installed.partition("+")[0] == versions[name]
        text = f"{name} {installed}"
        yield same, text if same else f"{text} is installed, {versions[name]} is locked: make install"


def _files() -> Iterator[Finding]:
    readers: list[Callable[[], object]] = [partial(load_hardware, name) for name in hardware_names()]
    readers += [partial(load_suite_checked, name) for name in suites()]
    mistakes = []
    for read in (*readers, load_gpus):
        try:
            read()
        except GridbenchError as error:
            mistakes.append(str(error))
    yield from ((False, mistake) for mistake in mistakes)
    if not mistakes:
        yield True, f"{len(hardware_names())} hardware files and {len(suites())} suites are valid"


def _folder(purpose: str, folder: Path) -> Finding:
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(nearest, os.W_OK):
        return False, f"the {purpose} folder {folder} is not writable: choose another one or change its owner"
    free = shutil.disk_usage(nearest).free
    text = f"the {purpose} folder {folder} is writable, {free / 2**30:.1f} GiB free"
    return free >= NEEDS_FREE_BYTES, text


def _fitness() -> Iterator[Finding]:
    """Run the harness's checks in a subprocess because they import torch."""
    command = [sys.executable, "-m", "workloads", "check"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=CHECK_S)
    except subprocess.TimeoutExpired:
        yield (
            False,
            f"python -m workloads check did not end within {CHECK_S:.0f} s: the GPU's driver can hang",
        )
        return
    for line in done.stdout.splitlines():
        word, _, text = line.partition(" ")
        yield word == "ok", text.strip()
    if done.returncode not in (0, 1):
        yield False, f"python -m workloads check failed: {done.stderr.strip()[-300:]}"
