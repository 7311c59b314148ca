"""The registry of workloads: one file each, found by looking, named after its function."""

import importlib
import importlib.util
import itertools
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from workloads.harness.prepared import Job, Prepared
from workloads.harness.records.case import DEVICES, EAGER, MODES, PRECISIONS, Case, whole
from workloads.harness.records.errors import WorkloadsError, hint

LAYOUTS = ("contiguous", "channels_last")
FOLDERS = ("workloads", "workloads.primitives", "workloads.language", "workloads.vision")  # of workload files
Kind = Literal["step", "loader", "job"]
Scaling = Literal["strong", "weak"]
Task = Literal["training", "inference"]
Wrapper = Literal["DDP", "FSDP"]
Bound = Callable[..., float]
_found: dict[str, "Workload"] = {}
_looked_in: set[str | None] = set()  # folders of GRIDBENCH_WORKLOADS, None for none
FOLDER = "GRIDBENCH_WORKLOADS"  # the environment variable that names a folder of one's own
OWN_MODULES = "gridbench_workloads_"  # how modules from the folder GRIDBENCH_WORKLOADS are called


@dataclass(frozen=True, slots=True)
class Workload:
    """A torch computation that can be measured.

    Attributes:
        sizes: for each parameter the values that people usually measure; others work too, from 1 on, or from
            0 on where 0 is among them.
        tiny: a size that runs in a blink, for tests.
        build: makes a `Prepared` or a `Job` from an `Env` and the sizes.
        kind: a step on data in place, a step that takes its data from a data loader, or a whole job.
        of: the workload whose computation this one does with a loader, as a whole job, or in several
            processes; it has no other parameters than this one. None for a computation of its own.
        scaling: for several processes: `weak` if the work grows with their number, `strong` if they share it.
        wrapper: what makes a model one of several processes: each with all of it, or with a share.
        model: name of the network that it runs, where several workloads run the same.
        task: what the network is there for.
        by_size: how a report tabulates its sizes: matrices by `n`, or images by `pixels` and `batch`.
        layouts: memory layouts worth trying; the fastest on the device at hand is measured.
        devices: what it can run on.
        elements: from the sizes, a lower bound of the numbers of the case's precision alive at once.
        flops: from the sizes, a lower bound of the floating-point operations of a step or of a whole job.
        multiples: from the sizes, the parameters that must be multiples of a number, and that number.
        published: parameters that name a published model, of which there are the listed ones and no other.
        optional: parameters that need not be given, with the value that leaving them out stands for: a case
            is called the same either way. None if leaving one out is a way of its own, like no value of it.
        precisions: that it can be measured in, where the device has them.
        modes: that its step can be taken in.
    """

    name: str
    summary: str
    sizes: dict[str, tuple[int, ...]]
    tiny: dict[str, int]
    build: Callable[..., Prepared | Job]
    kind: Kind = "step"
    of: str | None = None
    scaling: Scaling | None = None
    wrapper: Wrapper = "DDP"
    model: str | None = None
    task: Task | None = None
    by_size: Literal["matrix", "images"] | None = None
    layouts: tuple[str, ...] = LAYOUTS[:1]
    devices: tuple[str, ...] = DEVICES
    elements: Bound | None = None
    flops: Bound | None = None
    multiples: Callable[..., dict[str, int]] | None = None
    published: tuple[str, ...] = ()
    optional: Mapping[str, int | None] = field(default_factory=dict)
    precisions: tuple[str, ...] = PRECISIONS
    modes: tuple[str, ...] = MODES[:1]

    def case(self, size: Mapping[str, object], precision: str = "fp32", mode: str = EAGER) -> Case:
        """Check size, precision and mode, and make a case of them, its parameters in the workload's order.

        Raises:
            WorkloadsError: a parameter is unknown, missing, too small or no published model, or the workload
                has no such precision or mode.
        """
        if precision not in self.precisions:
            names = ", ".join(self.precisions)
            raise WorkloadsError(f"precision {precision!r} is unknown; choose from {names}")
        if mode not in self.modes:
            raise WorkloadsError(f"workload {self.name} has no mode {mode!r}; it has {', '.join(self.modes)}")
        if unknown := sorted(size.keys() - self.sizes.keys()):
            raise WorkloadsError(
                f"workload {self.name} has no size parameter {unknown[0]!r}; it takes {', '.join(self.sizes)}"
            )
        if missing := [name for name in self.sizes if name not in size and name not in self.optional]:
            raise WorkloadsError(f"workload {self.name} needs the size parameter {missing[0]!r}")
        least = {name: min(1, min(values)) for name, values in self.sizes.items()}
        sound = {name: whole(name, size[name], least[name]) for name in self.sizes if name in size}
        for name in self.published:
            if sound[name] not in self.sizes[name]:
                models = ", ".join(map(str, self.sizes[name]))
                raise WorkloadsError(
                    f"size {name}={sound[name]} is not a published model; choose from {models}"
                )
        told = {name: value for name, value in sound.items() if value != self.optional.get(name)}
        return Case.of(self.name, told, precision, mode)

    @property
    def in_group(self) -> bool:
        """True if several processes measure it together: as many as its size parameter `processes` says."""
        return "processes" in self.sizes

    def grid(
        self, choices: Mapping[str, tuple[int, ...]], precision: str = "fp32", mode: str = EAGER
    ) -> Iterator[Case]:
        """Yield every combination of the chosen sizes as a case."""
        for values in itertools.product(*choices.values()):
            yield self.case(dict(zip(choices, values, strict=True)), precision, mode)


def workload(
    *,
    tiny: dict[str, int],
    kind: Kind = "step",
    of: str | None = None,
    scaling: Scaling | None = None,
    wrapper: Wrapper = "DDP",
    by_size: Literal["matrix", "images"] | None = None,
    layouts: tuple[str, ...] = LAYOUTS[:1],
    devices: tuple[str, ...] = DEVICES,
    elements: Bound | None = None,
    flops: Bound | None = None,
    multiples: Callable[..., dict[str, int]] | None = None,
    published: tuple[str, ...] = (),
    optional: Mapping[str, int | None] | None = None,
    precisions: tuple[str, ...] = PRECISIONS,
    modes: tuple[str, ...] = MODES[:1],
    **sizes: tuple[int, ...],
) -> Callable[[Callable[..., Prepared | Job]], Callable[..., Prepared | Job]]:
    """Register the decorated function as the workload of its name; see `Workload` for the arguments.

    `elements` and `flops` are known without torch, so that sizes that a machine can't hold, or can't finish
    in time, are skipped before they are tried. `multiples` serves a search for a size between two others.
    """

    def register(build: Callable[..., Prepared | Job]) -> Callable[..., Prepared | Job]:
        module = sys.modules[build.__module__]
        add(
            Workload(
                build.__name__,
                (module.__doc__ or build.__name__).strip().splitlines()[0],
                sizes,
                tiny,
                build,
                kind=kind,
                of=of,
                scaling=scaling,
                wrapper=wrapper,
                by_size=by_size,
                layouts=layouts,
                devices=devices,
                elements=elements,
                flops=flops,
                multiples=multiples,
                published=published,
                optional=optional or {},
                precisions=precisions,
                modes=modes,
            )
        )
        return build

    return register


def add(new: Workload) -> None:
    """Register a workload; one of the same name is replaced."""
    _found[new.name] = new


def declared(name: str) -> Workload | None:
    """Return the workload of this name, or None: an old record may be of one that is gone."""
    return _found.get(name) or all_workloads().get(name)


def all_workloads() -> dict[str, Workload]:
    """Return every workload by name, from this package and from the folder GRIDBENCH_WORKLOADS, if set."""
    for folder in FOLDERS:
        for module in pkgutil.iter_modules(importlib.import_module(folder).__path__):
            if not module.ispkg and not module.name.startswith("_"):
                importlib.import_module(f"{folder}.{module.name}")
    if own := os.environ.get(FOLDER):
        _import_folder(Path(own))
    _looked_in.add(own)
    return dict(sorted(_found.items()))


def _import_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise WorkloadsError(f"{FOLDER}={folder} is not a folder; name a folder with workload files")
    for path in sorted(folder.glob("[!_]*.py")):
        name = f"{OWN_MODULES}{path.stem}"
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
    """Return the workload of this name; files are looked for once a folder: every record asks for one.

    Raises:
        WorkloadsError: there is none; the message names the nearest ones.
    """
    if name in _found and os.environ.get(FOLDER) in _looked_in:
        return _found[name]
    registered = all_workloads()
    if name in registered:
        return registered[name]
    raise WorkloadsError(f"workload {name!r} is unknown; {hint(name, registered)}")
