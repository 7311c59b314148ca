"""The code of a lane without a container: one file with its source and the names of its packages.

`python3 lane-….pyz` unpacks it next to itself: `lane-…/code`, and `lane-…/bin` with a Python environment on
top of that Python's own torch.
"""

import hashlib
import io
import logging
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.images.context import revision
from infra.images.errors import ImageError
from infra.images.flavours import ROOT, lane_packages, load, package, pin

from ..base.job_configuration import JobRefused
from ..processes.bundle import LONG_AGO, MAIN
from .box import HOME, SshBox
from .configuration import SshJobConfiguration
from .sending import run_words

COMMIT = "GRIDBENCH_COMMIT"  # the variable that an image sets: a box has no git
OF_THE_BOX = ("numpy", "psutil")  # tasks/travel/lane.py brings them if a box lacks them
NOT_SENT = ("__pycache__", ".pyc")
INSTALL = "import sys\n\nfrom tasks.travel.lane import main\n\nsys.exit(main())\n"


async def bring_code(
    box: SshBox, configuration: SshJobConfiguration, name: str, log: "logging.LoggerAdapter[Any]"
) -> dict[str, tuple[str, ...]]:
    """Return the command lines that prepare and run the lane.

    `JobRefused` outside a checkout or if the box can't be written to, `BoxUnreachable` for a lost connection.
    """
    try:
        lane, content = lane_bundle()
    except (OSError, ImageError) as error:
        text = f"The worker has no complete checkout to send to the box ({error})."
        raise JobRefused(text, "Unfit") from None
    began = time.monotonic()
    await box.bring(f"{HOME}/{lane}.pyz", content)
    log.info("Sent the code of the lane, %s, in %.1f s.", lane, time.monotonic() - began)
    place = await box.folder(lane)
    words = ("--code", f"{place}/code", "--bin", f"{place}/bin")
    return {
        "pull": ("pull", name, f"{place}.pyz"),
        "run": run_words(configuration, await box.folder(name), *words),
    }


def code_variables() -> dict[str, str]:
    return {COMMIT: revision()}


def lane_bundle(root: Path = ROOT) -> tuple[str, bytes]:
    """Return the content's hash, and the content.

    `OSError` outside a checkout, `ImageError` for an unlocked package.
    """
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in _files(root):
            file.writestr(zipfile.ZipInfo(name, LONG_AGO), data, zipfile.ZIP_DEFLATED)
    sent = content.getvalue()
    return f"lane-{hashlib.sha256(sent).hexdigest()[:16]}", sent


def _files(root: Path) -> Iterator[tuple[str, bytes]]:
    named = [line for line in lane_packages(root) if package(line) not in OF_THE_BOX]
    packages = [*named, "-c constraints.txt", ""]
    yield MAIN, INSTALL.encode()
    yield "requirements.txt", "\n".join(packages).encode()
    yield "constraints.txt", (root / "requirements.lock").read_bytes()
    yield "installer.txt", pin("uv", root).encode()
    for name in load()["source"]:
        source = root / name
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if path.is_file() and not any(part in str(path) for part in NOT_SENT):
                yield str(path.relative_to(root)), path.read_bytes()
