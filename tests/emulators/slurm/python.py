"""A Python with torch that every user of this machine may run: the one that tests run with is often in a home."""

import subprocess
from importlib.util import find_spec
from pathlib import Path

from uv import find_uv_bin

SYSTEM = "/usr/bin/python3"


def with_torch(folder: Path) -> Path:
    """The Python of an environment in a folder: the system's own, over the packages of this one."""
    made = folder / "python"
    if not (made / "bin/python").exists():
        subprocess.run([SYSTEM, "-m", "venv", "--without-pip", str(made)], check=True)
        packages = next(made.glob("lib/python3*/site-packages"))
        ours = Path(str(find_spec("torch").origin)).parents[1]
        (packages / "ours.pth").write_text(f"{ours}\n")
        (made / "bin/uv").symlink_to(find_uv_bin())
    return made / "bin/python"
