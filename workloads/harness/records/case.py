"""Cases and cells: the workload that is measured, and its hardware."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from workloads.harness.records.errors import WorkloadsError

DEVICES = ("cpu", "cuda")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")  # of every workload
FP8 = "fp8"  # only of workloads that list it
EAGER = "eager"
# As written, by torch.compile, replayed as one CUDA graph, and compiled before it is captured.
MODES = (EAGER, "compiled", "graph", "compiled-graph")
COMPILED = {"compiled": EAGER, "compiled-graph": "graph"}  # and the same without torch.compile
CAPTURED = ("graph", "compiled-graph")
HELPERS = ("processes", "workers")  # size parameters that add processes, not work
# Size parameters that hold nothing in memory, or name a model: there is none of half its size.
MOST = 10**18  # of a size: what reads JSON keeps 64 bits
NOT_MEMORY = (*HELPERS, "epochs", "batches", "millions")

_SIZE = re.compile(r"(?P<name>[a-z_][a-z0-9_]*)=(?P<value>\S+)")


@dataclass(frozen=True, slots=True)
class Case:
    """A workload at one size, in one precision and mode."""

    workload: str
    size: tuple[tuple[str, int], ...]
    precision: str = "fp32"
    mode: str = EAGER

    @classmethod
    def of(cls, workload: str, size: Mapping[str, int], precision: str = "fp32", mode: str = EAGER) -> "Case":
        return cls(workload, tuple(size.items()), precision, mode)

    @property
    def params(self) -> dict[str, int]:
        return dict(self.size)

    @property
    def size_text(self) -> str:
        """Such as ``pixels=4096,batch=2``."""
        return ",".join(f"{name}={value}" for name, value in self.size)

    @property
    def id(self) -> str:
        """Such as ``matmul/n=5000/fp32`` or ``llm_decode/millions=8030,…/bf16/graph``."""
        mode = "" if self.mode == EAGER else self.mode
        return "/".join(filter(None, (self.workload, self.size_text, self.precision, mode)))

    @property
    def terms(self) -> str:
        return self.precision if self.mode == EAGER else f"{self.precision} {self.mode}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A case on a piece of hardware."""

    hardware: str
    case: Case

    @property
    def id(self) -> str:
        """Such as ``aws-g5.8xlarge/matmul/n=5000/fp32``."""
        return f"{self.hardware}/{self.case.id}"


def parse_size(text: str) -> dict[str, int]:
    """Read ``n=5000`` or ``pixels=4096,batch=2``."""
    size: dict[str, int] = {}
    for part in filter(None, text.replace(" ", "").split(",")):
        match = _SIZE.fullmatch(part)
        if not match:
            raise WorkloadsError(f"size {part!r} is not of the form name=number, such as n=1000")
        if match["name"] in size:
            raise WorkloadsError(f"size {match['name']} is given twice; give each parameter once")
        size[match["name"]] = whole(match["name"], match["value"], least=0)
    return size


def whole(name: str, value: object, least: int = 1) -> int:
    expected = "above 0" if least else "of 0 or more"
    number = isinstance(value, int) and not isinstance(value, bool)
    if not number and not (isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value)):
        raise WorkloadsError(f"size {name}={value!s:.40} must be a whole number {expected}")
    count = int(str(value))
    if count < least:
        raise WorkloadsError(f"size {name}={value} must be {expected.removeprefix('of ')}")
    if count > MOST:
        raise WorkloadsError(f"size {name}={count:.3g} must be at most 1e18")
    return count


def smaller(case: Case) -> str:
    """Suggest half of a size that does not fit, such as `; try batch=16`."""
    sizes = {name: value for name, value in case.size if name not in NOT_MEMORY and value > 1}
    name = "batch" if "batch" in sizes else next(iter(sizes), None)
    return f"; try {name}={sizes[name] // 2}" if name else ""
