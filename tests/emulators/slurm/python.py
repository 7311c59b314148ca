"""A Python with torch that every user of this machine may run: the one that tests run with is often in a home."""

import subprocess
import sysconfig
from pathlib import Path

SYSTEM = "/usr/bin/python3"


def with_torch(folder: Path) -> Path:
    """The Python of an environment in a folder: the system's own, over the packages of this one."""
    made = folder / "python"
    if not (made / "bin/python").exists():
        subprocess.run([SYSTEM, "-m", "venv", "--without-pip", str(made)], check=True)
        packages = next(made.glob("lib/python3*/site-packages"))
        (packages / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return made / "bin/python"
