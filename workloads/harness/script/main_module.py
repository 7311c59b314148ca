"""Running a file or a module as `__main__`, as `python` itself would have."""

import builtins
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
from typing import NoReturn

_ABOVE = (os.path.dirname(__file__) + os.sep, runpy.__file__, "<frozen runpy>")  # frames above a script's own


def run_as_main(words: Sequence[str]) -> None:
    """Run `train.py …` or `-m module …` in the working directory; whatever it raises comes out.

    `__main__` stays the script's afterwards: its threads and exit handlers may need it.
    """
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = main
    sys.orig_argv = [sys.executable, *words]
    if words[0] == "-m":
        sys.argv = ["-m", *words[2:]]
        _lead_path(first_folder(words))
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]
        return
    sys.argv = list(words)
    path = os.path.abspath(words[0])
    _lead_path(first_folder(words))
    main.__dict__.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def first_folder(words: Sequence[str]) -> str:
    """Return the folder in which Python looks first for what such a command imports."""
    return os.getcwd() if words[0] == "-m" else os.path.dirname(os.path.realpath(words[0]))


def _lead_path(folder: str) -> None:
    """Put a folder where `python -m workloads` has put its own: modules are looked for there first."""
    if sys.flags.safe_path:  # nothing was put there, and nothing would be
        return
    sys.path[0] = folder


def end_as(code: int | None, error: BaseException | None) -> NoReturn:
    """End this process as Python does after such a script: exit handlers have their turn."""
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    raise SystemExit(code or 0)


def own_trace(error: BaseException) -> TracebackType | None:
    """Return an error's traceback from the script's first line on, without ours above it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_ABOVE):
        trace = trace.tb_next
    return trace


def print_error(error: BaseException) -> None:
    """Print a script's error as Python would have, by the script's own hook if it has set one."""
    error.__traceback__ = own_trace(error)
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception:
        traceback.print_exception(error)
