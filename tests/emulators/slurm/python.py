"""A Python with torch that every user of a test's cluster can run."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from uv import find_uv_bin


def with_torch(folder: Path) -> Path:
    """Return the Python of a new environment over the packages of the tests' Python.

    A box sees it even if those are in root's home.
    """
    made = folder / "python"
    if not (made / "bin/python").exists():
        ours = Path(sys.base_prefix) / f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
        subprocess.run([str(ours), "-m", "venv", "--without-pip", str(made)], check=True)
        packages = next(made.glob("lib/python3*/site-packages"))
        (packages / "ours.pth").write_text(f"{Path(str(find_spec('torch').origin)).parents[1]}\n")
        (made / "bin/uv").symlink_to(find_uv_bin())
    return made / "bin/python"
