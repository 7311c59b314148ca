"""A Python with torch that every user of a test's cluster may run, in a folder of theirs."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from uv import find_uv_bin


def with_torch(folder: Path) -> Path:
    """The Python of an environment in a folder: the one that tests run with, over its packages.

    Their requirements are those of its version, and a box sees it even where it is in root's home.
    """
    made = folder / "python"
    if not (made / "bin/python").exists():
        ours = Path(sys.base_prefix) / f"bin/python{sys.version_info.major}.{sys.version_info.minor}"
        subprocess.run([str(ours), "-m", "venv", "--without-pip", str(made)], check=True)
        packages = next(made.glob("lib/python3*/site-packages"))
        (packages / "ours.pth").write_text(f"{Path(str(find_spec('torch').origin)).parents[1]}\n")
        (made / "bin/uv").symlink_to(find_uv_bin())
    return made / "bin/python"
