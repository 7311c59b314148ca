"""Processes that replace their program, as by `os.execv`."""

import shlex
import subprocess
from contextlib import suppress
from pathlib import Path

from workloads.harness.records.printable import printable

LONGEST = 200  # characters of a command in a sentence


def replaced_by(process: subprocess.Popen[str]) -> str:
    words = _words(process.pid)
    if process.poll() is not None or not words or words == [*map(str, _arguments(process))]:
        return ""
    text = printable(shlex.join([Path(words[0]).name, *words[1:]]))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def not_measured(command: str) -> str:
    return f"the script replaced its process by `{command}`, which is not measured: measure that command"


def _arguments(process: subprocess.Popen[str]) -> list[str]:
    return [*process.args] if isinstance(process.args, (list, tuple)) else [str(process.args)]


def _words(pid: int) -> list[str]:
    with suppress(Exception):
        import psutil

        return list(psutil.Process(pid).cmdline())
    return []
