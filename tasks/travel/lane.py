"""`python3 lane-….pyz`, whose `__main__` this is: install a lane without our image.

Next to the file it puts `lane-…/code`, and `lane-…/bin`: the folder of an environment's Python, over the torch
of the running Python. Both are cached by hash, made by one process, and made anew if half made.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from tasks.errors import GridbenchError, one_line
from tasks.travel.cache import DAY_S, INSTALLERS, locked_entry
from tasks.travel.environment import environment_for
from tasks.travel.uv import find_uv, kept_uv

OFFLINE = ("error sending request", "failed to fetch", "dns error", "failed to establish a new connection")
NO_WAY_OUT = (
    "this box reaches no package index: let it reach one, or name a mirror (index-url in ~/.config/uv/uv.toml"
    " there), or measure in an image that is streamed to it"
)
OF_THE_BOX = (
    "numpy",
    "psutil",
)  # a lane's other packages, installed if a box lacks them; torch never is
FETCH_S = 300.0
MOST, IN_USE_S = 3, 15 * DAY_S  # the newest lanes stay, and any that a job can be running in


def put_in_place(sent: Path, python: Path, say: Callable[[str], None]) -> None:
    """Install a lane's code and packages.

    Args:
        sent: file of its code.
        python: the box's, with torch.

    Raises:
        GridbenchError: something can't be fetched.
    """
    place = sent.with_suffix("")
    place.mkdir(mode=0o700, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code = place / "code"
        with zipfile.ZipFile(sent) as content:
            if not _is_there(content, code):
                shutil.rmtree(code, ignore_errors=True)
                content.extractall(code)
        if not find_uv():
            _fetch_uv(code / "installer.txt", python)
        made = environment_for(code, "requirements.txt", python, say, _pins(code / "constraints.txt"))
        new = place / "bin.new"
        new.unlink(missing_ok=True)
        new.symlink_to(made.python.parent)
        new.replace(place / "bin")
    _forget_old(sent)


def _is_there(content: zipfile.ZipFile, code: Path) -> bool:
    try:
        return all(zlib.crc32((code / each.filename).read_bytes()) == each.CRC for each in content.infolist())
    except OSError:
        return False


def _pins(constraints: Path) -> tuple[str, ...]:
    lines = re.findall(r"^([\w.-]+)==([^\s;]+)", constraints.read_text(), re.MULTILINE)
    return tuple(f"{name}=={version}" for name, version in lines if name in OF_THE_BOX)


def _fetch_uv(pinned: Path, python: Path) -> None:
    target = kept_uv().parents[1]
    with locked_entry(INSTALLERS, target.name):
        shutil.rmtree(target, ignore_errors=True)
        words = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--require-hashes",
        ]
        try:
            done = subprocess.run(
                [str(python), *words, "--requirement", str(pinned), "--target", str(target)],
                capture_output=True,
                text=True,
                timeout=FETCH_S,
                check=False,
            )
            why = done.stderr
        except subprocess.TimeoutExpired:
            why = f"pip has not ended within {FETCH_S:.0f} s"
        if not kept_uv().exists():
            shutil.rmtree(target, ignore_errors=True)
            raise GridbenchError(f"uv is not on this box, and pip can't bring it: {one_line(why, 300)}")


def _forget_old(sent: Path) -> None:
    os.utime(sent)
    dated = sorted(((path.stat().st_mtime, path) for path in sent.parent.glob("lane-*.pyz")), reverse=True)
    for used_at, path in dated[MOST:]:
        if time.time() - used_at > IN_USE_S:
            path.unlink(missing_ok=True)
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)


def main() -> int:
    """Return 1 with a sentence on failure, 0 silently."""
    try:
        put_in_place(Path(sys.argv[0]).absolute(), Path(sys.executable), lambda text: None)
    except GridbenchError as error:
        is_offline = any(word in str(error).lower() for word in OFFLINE)
        print(f"{error}; {NO_WAY_OUT}." if is_offline else f"{error}.")
    except OSError as error:
        print(f"the lane can't be put in place: {error}; free disk space, or fix the home folder.")
    else:
        return 0
    return 1
