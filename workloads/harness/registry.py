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
from workloads.harness.engine.device import DEVICES
from workloads.harness.prepared import Job, Prepared
from workloads.harness.records.case import PRECISIONS, Case, whole
from workloads.harness.records.errors import WorkloadsError

LAYOUTS = ("contiguous", "channels_last")
_found: dict[str, "Workload"] = {}


@dataclass(frozen=True, slots=True)
class Workload:
    """A torch computation that can be measured.

    Attributes:
        sizes: for each parameter the values that people usually measure; others work too, from 1 on, or from
            0 on where 0 is among them.
        tiny: a size that runs in a blink, for tests.
        layouts: memory layouts worth trying; the fastest on the device at hand is measured.
        devices: what it can run on.
        elements: from the sizes, how many numbers of the case's precision are alive at once, at least; None
            where nobody has said.
        flops: from the sizes, the floating-point operations of a step or of a whole job, at least; likewise.
        multiples: from the sizes, what a parameter is a multiple of that can't be just any whole number.
    """

    name: str
    summary: str
    sizes: dict[str, tuple[int, ...]]
    tiny: dict[str, int]
    build: Callable[..., Prepared | Job]
    layouts: tuple[str, ...]
    devices: tuple[str, ...]
    elements: Callable[..., float] | None = None
    flops: Callable[..., float] | None = None
    multiples: Callable[..., dict[str, int]] | None = None

    def case(self, size: Mapping[str, object], precision: str = "fp32") -> Case:
        """Check a size and a precision and make the case of them, its parameters in the workload's order.

        Raises:
            WorkloadsError: a parameter is unknown, missing or too small, or the precision is unknown.
        """
        if precision not in PRECISIONS:
            raise WorkloadsError(f"precision {precision!r} is unknown; there are {', '.join(PRECISIONS)}")
        if unknown := sorted(size.keys() - self.sizes.keys()):
            raise WorkloadsError(
                f"workload {self.name} has no size parameter {unknown[0]!r}; it takes {', '.join(self.sizes)}"
            )
        if missing := [name for name in self.sizes if name not in size]:
            raise WorkloadsError(f"workload {self.name} needs the size parameter {missing[0]!r}")
        least = {name: min(1, min(values)) for name, values in self.sizes.items()}
        sound = {name: whole(name, size[name], least[name]) for name in self.sizes}
        return Case.of(self.name, sound, precision)

    @property
    def in_group(self) -> bool:
        """Whether several processes measure it together: as many as its size parameter `processes` says."""
        return "processes" in self.sizes

    def grid(self, choices: Mapping[str, tuple[int, ...]], precision: str = "fp32") -> Iterator[Case]:
        """Every combination of the chosen sizes, as cases."""
        for values in itertools.product(*choices.values()):
            yield self.case(dict(zip(choices, values, strict=True)), precision)


def workload(
    *,
    tiny: dict[str, int],
    layouts: tuple[str, ...] = LAYOUTS[:1],
    devices: tuple[str, ...] = DEVICES,
    elements: Callable[..., float] | None = None,
    flops: Callable[..., float] | None = None,
    multiples: Callable[..., dict[str, int]] | None = None,
    **sizes: tuple[int, ...],
) -> Callable[[Callable[..., Prepared | Job]], Callable[..., Prepared | Job]]:
    """Register the decorated function, which builds a `Prepared` or a `Job` from an `Env` and the sizes.

    `elements` and `flops` are lower bounds as functions of the sizes, known without torch: sizes that a
    machine can't hold, or can't finish in time, are skipped before they are tried. `multiples` says of what
    the sizes have to be multiples, for whoever looks for a size between two others.
    """

    def register(build: Callable[..., Prepared | Job]) -> Callable[..., Prepared | Job]:
        module = sys.modules[build.__module__]
        summary = (module.__doc__ or build.__name__).strip().splitlines()[0]
        _found[build.__name__] = Workload(
            build.__name__, summary, sizes, tiny, build, layouts, devices, elements, flops, multiples
        )
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
