"""Which workloads there are: one file each, found by looking, known by their function's name."""

import importlib
import importlib.util
import itertools
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import workloads
from workloads.harness.case import PRECISIONS, Case, positive
from workloads.harness.errors import WorkloadsError
from workloads.harness.prepared import Prepared

LAYOUTS = ("contiguous", "channels_last")
_found: dict[str, "Workload"] = {}


@dataclass(frozen=True, slots=True)
class Workload:
    """A torch computation that can be measured.

    Attributes:
        sizes: for each parameter the values that people usually measure; other positive values work too.
        tiny: a size that runs in a blink, for tests.
        layouts: memory layouts worth trying; the fastest on the device at hand is measured.
    """

    name: str
    summary: str
    sizes: dict[str, tuple[int, ...]]
    tiny: dict[str, int]
    build: Callable[..., Prepared]
    layouts: tuple[str, ...]

    def case(self, size: Mapping[str, object], precision: str = "fp32") -> Case:
        """Check a size and a precision and make the case of them, its parameters in the workload's order.

        Raises:
            WorkloadsError: a parameter is unknown, missing or not above 0, or the precision is unknown.
        """
        if precision not in PRECISIONS:
            raise WorkloadsError(f"precision {precision!r} is unknown; there are {', '.join(PRECISIONS)}")
        if unknown := sorted(size.keys() - self.sizes.keys()):
            raise WorkloadsError(
                f"workload {self.name} has no size parameter {unknown[0]!r}; it takes {', '.join(self.sizes)}"
            )
        if missing := [name for name in self.sizes if name not in size]:
            raise WorkloadsError(f"workload {self.name} needs the size parameter {missing[0]!r}")
        return Case.of(self.name, {name: positive(name, size[name]) for name in self.sizes}, precision)

    def grid(self, choices: Mapping[str, tuple[int, ...]], precision: str = "fp32") -> Iterator[Case]:
        """Every combination of the chosen sizes, as cases."""
        for values in itertools.product(*choices.values()):
            yield self.case(dict(zip(choices, values, strict=True)), precision)


def workload(
    *, tiny: dict[str, int], layouts: tuple[str, ...] = LAYOUTS[:1], **sizes: tuple[int, ...]
) -> Callable[[Callable[..., Prepared]], Callable[..., Prepared]]:
    """Register the decorated function, which builds a `Prepared` from an `Env` and the sizes by name."""

    def register(build: Callable[..., Prepared]) -> Callable[..., Prepared]:
        module = sys.modules[build.__module__]
        summary = (module.__doc__ or build.__name__).strip().splitlines()[0]
        _found[build.__name__] = Workload(build.__name__, summary, sizes, tiny, build, layouts)
        return build

    return register


def all_workloads() -> dict[str, Workload]:
    """Every workload by name: the files of this package and of the folder GRIDBENCH_WORKLOADS, if set."""
    for module in pkgutil.iter_modules(workloads.__path__):
        if not module.ispkg and not module.name.startswith("_"):
            importlib.import_module(f"workloads.{module.name}")
    if folder := os.environ.get("GRIDBENCH_WORKLOADS"):
        _import_folder(Path(folder))
    return dict(sorted(_found.items()))


def _import_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise WorkloadsError(f"GRIDBENCH_WORKLOADS={folder} is no folder; name one with workload files")
    for path in sorted(folder.glob("[!_]*.py")):
        name = f"gridbench_workloads_{path.stem}"
        if name in sys.modules:
            continue
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise WorkloadsError(f"workload file {path} can't be imported")
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # it is the user's code, which may raise anything
            del sys.modules[name]
            reason = f"{type(error).__name__}: {error}"
            raise WorkloadsError(f"workload file {path} can't be imported: {reason}") from error


def find(name: str) -> Workload:
    """The workload of this name.

    Raises:
        WorkloadsError: there is none; the message names the nearest ones.
    """
    known = all_workloads()
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    raise WorkloadsError(f"workload {name!r} is unknown; {hint}")
