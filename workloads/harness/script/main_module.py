"""Run a file or module as `python` does, and hide our modules from it.

Import nothing before the script does: torch reads variables that the script can set first.
"""

from __future__ import annotations

import builtins
import os
import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_loader
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from workloads import mark

_FOLDER = os.path.dirname(__file__) + os.sep
_ABOVE = (_FOLDER, runpy.__file__, "<frozen runpy>")  # frames above a script's own
OURS = __name__.partition(".")[0]
KEPT = {"encodings", "__main__", "site"}  # loaded before any script
MARKS = "_gridbench_marks"  # the module by which any copy of `workloads.mark` finds the measurement
Then = Callable[[ModuleType], None]


def run_as_main(words: Sequence[str]) -> None:
    """Run `train.py …` or `-m module …` here, and raise its errors.

    `__main__` stays the script's: its threads and exit handlers can need it.
    """
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = main
    sys.orig_argv = [sys.executable, *words]
    if not sys.flags.safe_path:  # otherwise Python puts no folder there
        sys.path[0] = first_folder(words)
    if words[0] == "-m":
        sys.argv = ["-m", *words[2:]]
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined]
        return
    sys.argv = list(words)
    path = os.path.abspath(words[0])
    main.__dict__.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def first_folder(words: Sequence[str]) -> str:
    return os.getcwd() if words[0] == "-m" else os.path.dirname(os.path.realpath(words[0]))


def end_as(code: int | None, error: BaseException | None) -> NoReturn:
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    raise SystemExit(code or 0)


def keep_own_frames(error: BaseException) -> None:
    left, seen = [error], set[int]()
    while left:
        error = left.pop()
        if id(error) in seen:
            continue
        seen.add(id(error))
        error.__traceback__ = _own_frames(error.__traceback__)
        within = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        left += [other for other in (error.__cause__, error.__context__, *within) if other is not None]


def _own_frames(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_ABOVE):
        trace = trace.tb_next
    last = trace
    while last is not None and last.tb_next is not None:
        if last.tb_next.tb_frame.f_code.co_filename.startswith(_FOLDER):
            last.tb_next = last.tb_next.tb_next
        else:
            last = last.tb_next
    return trace


def print_error(error: BaseException) -> None:
    keep_own_frames(error)
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception:
        traceback.print_exception(error)


def make_room(folder: str) -> None:
    """Hide our modules, and those that the script's folder replaces.

    Our own references stay valid, and `workloads.mark` can be imported unless the script has such a module.
    """
    theirs = {name.removesuffix(".py") for name in os.listdir(folder)} - KEPT
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        if top == OURS or (top in theirs and origin not in ("built-in", "frozen")):
            del sys.modules[name]
    sys.meta_path.append(_MarkFinder())


class _MarkFinder(MetaPathFinder, Loader):
    """The last finder: gives `workloads.mark` to scripts without a module of that name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in (OURS, mark.__name__):
            return None
        return spec_from_loader(fullname, self, is_package=fullname == OURS)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return mark if spec.name == mark.__name__ else None

    def exec_module(self, module: ModuleType) -> None: ...


def when_imported(name: str, then: Then) -> None:
    if name in sys.modules:
        then(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Waiting(name, then))


class _Waiting(MetaPathFinder):
    """A finder that wraps the loader of one module."""

    def __init__(self, name: str, then: Then) -> None:
        self._name, self._then = name, then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._then)
        return spec


class _Loader(Loader):
    """A loader that restores the real one and calls `then` after it."""

    def __init__(self, real: Any, then: Then) -> None:
        self._real, self._then = real, then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._real
        if module.__spec__ is not None:
            module.__spec__.loader = self._real
        self._real.exec_module(module)
        self._then(module)
