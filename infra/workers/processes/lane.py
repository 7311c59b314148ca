"""What a lane without a container is sent in place of an image: one file of its code and its packages' names.

`python3 lane-….pyz` puts it in place beside itself: `lane-…/code`, and `lane-…/bin` with the Python of an
environment over that Python's own torch.
"""

import hashlib
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

from infra.images.flavours import ROOT, lane_packages, load, package, pin
from infra.workers.processes.bundle import LONG_AGO, MAIN

OF_THE_BOX = ("numpy", "psutil")  # tasks/travel/lane.py brings them where a box lacks them
NOT_SENT = ("__pycache__", ".pyc")
INSTALL = "import sys\n\nfrom tasks.travel.lane import main\n\nsys.exit(main())\n"


def lane_bundle(root: Path = ROOT) -> tuple[str, bytes]:
    """Return the name, which is of the content, and the content of what a lane is sent.

    Raises:
        OSError: this is no checkout.
        ImageError: a package is not locked.
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
