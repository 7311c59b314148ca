"""Known shapes of instances."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from pydantic import Field, PositiveFloat, PositiveInt

from tasks.published.table import Compared, PublishedTable, TableFlaw
from tasks.schema import Strict

RULE = "another shape than its name's"
GB = 1.1  # memory in GB is up to 7.4 % more than in GiB, and can be rounded
AWS_NAME = re.compile(r"\b([a-z][0-9][a-z0-9]{0,4})\.((\d*)(medium|large|xlarge))\b")
GCP_NAME = re.compile(r"\b([a-z]\d-[a-z]+)-(\d+)(g?)\b")
_COUNTS = {
    "vCPUs": re.compile(r"(\d[\d,]*)\s*(?:x\s*)?v-?cpus?\b"),
    "cores": re.compile(r"(\d[\d,]*)[\s-]*(?:cpu |physical |virtual )?cores?\b"),
    "GiB": re.compile(r"(\d[\d,.]*)\s*gi?b\b(?:\s*(?:of\s*)?(?:ram|memory))?"),
}
_LABELS = {
    "vCPUs": re.compile(r"\bv-?cpus?\b"),
    "cores": re.compile(r"\bcores?\b|\bcpus\b|\bcpu count\b"),
    "GiB": re.compile(r"\b(memory|mem|ram|memorygib)\b"),
    "GPUs": re.compile(r"^(#\s*)?gpus?( count)?$|\bnumber of gpus\b|\bacceleratorcount\b"),
}
_OF_GPU = re.compile(r"\bv?(gpu|vram|hbm|cuda|tensor|disk|ssd|storage|used|usage|peak|free|accelerator)\b")
_SEVERAL = re.compile(
    r"\bnodes?\b|\bcluster\b|\binstances\b|\d\s*[x×]\s*(?:[a-z][0-9][a-z0-9]{0,4}\.|[a-z]\d-[a-z])|[x×]\s*\d+\s*$"
)
# Labels of a line that names the machine of each column; else a column is a list of machines.
_NAMES = re.compile(
    r"instance|machine|server|node|host|system|hardware|platform|type|model|name|\bvm\b|\bsku\b"
)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


class InstanceFamily(Strict):
    """Instances whose names give their shapes.

    Attributes:
        gib: per vCPU, at most.
        vcpus: per GPU; None if the name counts vCPUs.
        gpu: in small letters.
        gpus: by size, if not 1.
    """

    gib: PositiveFloat
    vcpus: PositiveInt | None = None
    gpu: str | None = None
    gpus: dict[str, PositiveInt] = Field(default_factory=dict)


class AwsShapes(Strict):
    """AWS families, and vCPUs of sizes below `2xlarge`."""

    sizes: dict[str, PositiveInt]
    families: dict[str, InstanceFamily]


class Shapes(Strict):
    """All shapes of a file."""

    aws: AwsShapes
    gcp: dict[str, InstanceFamily] = Field(default_factory=dict)


class InstanceShape(NamedTuple):
    """The parts of an instance."""

    name: str
    vcpus: int
    gib: float
    gpus: int
    gpu: str | None


def shape_of(text: str, shapes: Shapes) -> InstanceShape | None:
    """Return that of the one known instance named."""
    text, names = text.lower(), []
    for family, size, number, word in AWS_NAME.findall(text):
        if known := shapes.aws.families.get(family):
            vcpus = shapes.aws.sizes[word] * int(number or 1)
            gpus = known.gpus.get(size, 1) if known.gpu else 0
            names.append(InstanceShape(f"{family}.{size}", vcpus, vcpus * known.gib, gpus, known.gpu))
    for family, number, counted in GCP_NAME.findall(text):
        known = shapes.gcp.get(family)
        if known and bool(counted) == bool(known.vcpus):
            vcpus = int(number) * (known.vcpus or 1)
            gpus = int(number) if counted else 0
            name = f"{family}-{number}{counted}"
            names.append(InstanceShape(name, vcpus, vcpus * known.gib, gpus, known.gpu))
    return names[0] if len({shape.name for shape in names}) == 1 else None


def misshapen(table: PublishedTable, shapes: Shapes) -> Iterator[TableFlaw | Compared]:
    """Report cores, memory or GPUs that the instance does not have."""
    header, *rows = table.lines
    for cells in rows:
        yield from _judged(list(zip(header, cells, strict=True)), shapes)
    for column in range(1, len(header)):
        naming = [number for number, row in enumerate(table.lines) if shape_of(row[column], shapes)]
        if len(naming) == 1 and (naming == [0] or _NAMES.search(table.lines[naming[0]][0].lower())):
            yield from _judged([(row[0], row[column]) for row in table.lines], shapes)


def _judged(cells: list[tuple[str, str]], shapes: Shapes) -> Iterator[TableFlaw | Compared]:
    whole = " ".join(cell for _, cell in cells).lower()
    shape = shape_of(whole, shapes)
    if shape is None or _SEVERAL.search(" ".join([whole, *(label for label, _ in cells)]).lower()):
        return
    for what, number, exact in _stated(cells):
        yield Compared("shapes of instances", 1)
        limit = {"vCPUs": shape.vcpus, "cores": shape.vcpus, "GiB": shape.gib * GB, "GPUs": shape.gpus}[what]
        if what == "GPUs" and (not limit or number % limit == 0):
            continue
        if number > limit or (what == "vCPUs" and exact and number != limit):
            unit = "vCPUs" if what == "cores" else what
            has = f"{shape.gib if what == 'GiB' else limit:g} {unit}"
            text = f"{shape.name} has {has}, but the table states {number:g} {what}"
            yield TableFlaw(RULE, (shape.name,), text)


def _stated(cells: list[tuple[str, str]]) -> Iterator[tuple[str, float, bool]]:
    for label, cell in cells:
        label, cell = label.lower(), cell.lower()
        if _OF_GPU.search(f"{label} {cell}") and not _LABELS["GPUs"].search(label):
            continue
        found = {what for what, words in _LABELS.items() if words.search(label)}
        match = _NUMBER.match(cell)
        if found and match:
            yield min(found, key=list(_LABELS).index), float(match[0].replace(",", "")), True
            continue
        for what, words in _COUNTS.items():
            for number in words.findall(cell):
                yield what, float(number.replace(",", "").rstrip(".")), False
