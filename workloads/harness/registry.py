"""The registry of workloads: one file each, named after its function."""

import ast
import importlib
import importlib.util
import itertools
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

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
Build = Callable[..., Prepared | Job]
_found: dict[str, "Workload"] = {}
_looked_in: set[str | None] = set()  # values of GRIDBENCH_WORKLOADS whose folders are imported
FOLDER = "GRIDBENCH_WORKLOADS"  # the environment variable with the user's folder of workloads
OWN_MODULES = "gridbench_workloads_"  # prefix of the names of modules from that folder


@dataclass(frozen=True, slots=True)
class Workload:
    """A torch computation that can be measured.

    Attributes:
        sizes: usual values of each parameter; others work too, from 1 on, or from 0 on if 0 is among them.
        tiny: a size that runs in milliseconds, for tests.
        build: makes a `Prepared` or a `Job` from an `Env` and the sizes.
        kind: a step on data in place, a step with a data loader, or a whole job.
        of: the workload with the same computation, without this one's loader, job or processes.
        scaling: with more processes the work grows (`weak`) or is shared (`strong`).
        all_gpus: it must load all GPUs of a machine, and is skipped if twice as many processes fit.
        wrapper: each process has all of the model (DDP) or a share (FSDP).
        model: name of a network that several workloads run, for a `task`.
        has_model: it builds a torch model or optimizer, for which torch imports its compiler, in seconds.
        by_size: table of its sizes in a report: matrices by `n`, or images by `pixels` and `batch`.
        layouts: memory layouts to try; the fastest is measured.
        attention: its step calls torch's attention, with several kernels to try on new GPUs.
        elements, flops: lower bounds, from the sizes, of live numbers and of FLOPs, to skip sizes too large
            for a machine.
        multiples: divisors of parameters, from the sizes, for a search of sizes.
        published: parameters that name a published model, with only the listed values.
        optional: parameters that can be left out, with a default that gives the case the same name, or None.
    """

    name: str
    summary: str
    sizes: dict[str, tuple[int, ...]]
    tiny: dict[str, int]
    build: Build
    kind: Kind = "step"
    of: str | None = None
    scaling: Scaling | None = None
    all_gpus: bool = False
    wrapper: Wrapper = "DDP"
    model: str | None = None
    task: Task | None = None
    has_model: bool = False
    by_size: Literal["matrix", "images"] | None = None
    layouts: tuple[str, ...] = LAYOUTS[:1]
    attention: bool = False
    devices: tuple[str, ...] = DEVICES
    elements: Bound | None = None
    flops: Bound | None = None
    multiples: Callable[..., dict[str, int]] | None = None
    published: tuple[str, ...] = ()
    optional: Mapping[str, int | None] = field(default_factory=dict)
    precisions: tuple[str, ...] = PRECISIONS
    modes: tuple[str, ...] = MODES[:1]

    def case(self, size: Mapping[str, object], precision: str = "fp32", mode: str = EAGER) -> Case:
        """Make a case, or raise WorkloadsError for an unsupported size, precision or mode."""
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
        stated = {name: value for name, value in sound.items() if value != self.optional.get(name)}
        return Case.of(self.name, stated, precision, mode)

    @property
    def in_group(self) -> bool:
        return "processes" in self.sizes

    def grid(
        self, choices: Mapping[str, tuple[int, ...]], precision: str = "fp32", mode: str = EAGER
    ) -> Iterator[Case]:
        for values in itertools.product(*choices.values()):
            yield self.case(dict(zip(choices, values, strict=True)), precision, mode)


# Arguments of the decorator that are not size parameters. `model` and `task` are set by `add` only, so that a
# user's workload can have size parameters of these names.
OPTIONS = {entry.name for entry in fields(Workload)} - {"name", "summary", "sizes", "build", "model", "task"}


def workload(*, tiny: dict[str, int], **given: Any) -> Callable[[Build], Build]:
    """Register the decorated function as the workload of its name.

    Arguments named in `OPTIONS` set fields of `Workload`; others are size parameters.
    """
    sizes = {name: values for name, values in given.items() if name not in OPTIONS}
    options = {name: value for name, value in given.items() if name in OPTIONS}

    def register(build: Build) -> Build:
        summary = summary_of(build.__module__) or build.__name__
        add(Workload(build.__name__, summary, sizes, tiny, build, **options))
        return build

    return register


def summary_of(name: str) -> str:
    """Return the first line of an imported module's docstring, also under -OO."""
    module = sys.modules[name]
    text = module.__doc__
    if text is None and module.__file__:
        text = ast.get_docstring(ast.parse(Path(module.__file__).read_bytes()))
    return next(iter((text or "").strip().splitlines()), "")


def add(new: Workload) -> None:
    _found[new.name] = new


def declared(name: str) -> Workload | None:
    return _found.get(name) or all_workloads().get(name)


def import_built_in() -> None:
    for folder in FOLDERS:
        for module in pkgutil.iter_modules(importlib.import_module(folder).__path__):
            if not module.ispkg and not module.name.startswith("_"):
                importlib.import_module(f"{folder}.{module.name}")


def all_workloads() -> dict[str, Workload]:
    """Return every workload by name, also of the folder GRIDBENCH_WORKLOADS."""
    import_built_in()
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
        except Exception as error:  # the user's code can raise anything
            del sys.modules[name]
            reason = f"{type(error).__name__}: {error}"
            raise WorkloadsError(f"workload file {path} can't be imported: {reason}") from error


def find(name: str) -> Workload:
    if name in _found and os.environ.get(FOLDER) in _looked_in:
        return _found[name]
    registered = all_workloads()
    if name in registered:
        return registered[name]
    raise WorkloadsError(f"workload {name!r} is unknown; {hint(name, registered)}")
