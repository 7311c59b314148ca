"""The process tree's program as one file, named by its content: `python3 tree-….pyz hold …`."""

import hashlib
import io
import zipfile
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
PARTS = ("processes.py", "tree.py")
MAIN = "__main__.py"
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same content has the same bytes


@cache
def bundle() -> tuple[str, bytes]:
    """Return the file's name and content."""
    content = io.BytesIO()
    package = Path(*__package__.split("."))
    with zipfile.ZipFile(content, "w") as file:
        for folder in (package, *package.parents):
            if folder.name:
                file.writestr(zipfile.ZipInfo(f"{folder}/__init__.py", LONG_AGO), "")
        for part in PARTS:
            file.writestr(zipfile.ZipInfo(f"{package}/{part}", LONG_AGO), (HERE / part).read_bytes())
        file.writestr(zipfile.ZipInfo(MAIN, LONG_AGO), (HERE / MAIN).read_bytes())
    data = content.getvalue()
    return f"tree-{hashlib.sha256(data).hexdigest()[:12]}.pyz", data
