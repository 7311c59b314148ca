"""The process tree's program as one file, named by its content."""

import hashlib
import io
import zipfile
from functools import cache
from pathlib import Path

WORKERS = Path(__file__).parents[1]
PARTS = (
    "brand.py",
    "branding.py",
    "processes/commands.py",
    "processes/processes.py",
    "processes/tree.py",
)
PACKAGES = ("workers", "workers/processes")
MAIN = "__main__.py"
START = "import sys\n\nfrom workers.processes.commands import main\n\nsys.exit(main(*sys.argv[1:]))\n"
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same content has the same bytes


@cache
def bundle() -> tuple[str, bytes]:
    files = {f"{package}/__init__.py": b"" for package in PACKAGES}
    files |= {f"workers/{part}": (WORKERS / part).read_bytes() for part in PARTS}
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        for name, data in {**files, MAIN: START.encode()}.items():
            file.writestr(zipfile.ZipInfo(name, LONG_AGO), data)
    data = content.getvalue()
    return f"tree-{hashlib.sha256(data).hexdigest()[:12]}.pyz", data
