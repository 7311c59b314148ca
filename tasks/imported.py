"""A run of bare records, from `python -m workloads suite --out`."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware, load_gpus, names_of
from tasks.planning.plan import Plan, PlannedCase
from tasks.plausibility.gpu_names import models_called
from tasks.schema import validated
from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.files import read_records
from workloads.harness.records.record import Record

DEFAULT_NAME = "here"  # hardware of records that were measured without a name
POOL = "process"  # of the importing machine: nothing is measured again by it
UNKNOWN_USD = 1.0
SUITE = "imported"


@dataclass(frozen=True, slots=True)
class Found:
    """Records by identity, and a sentence for each bad line."""

    folder: Path
    records: Mapping[str, Record]
    problems: Sequence[str]


def read_folder(folder: Path) -> Found:
    """Name a record without a machine after its folder.

    Raises:
        GridbenchError: no such path.
    """
    try:
        items = [(path, item) for path in _files(folder) for item in read_records(path)]
    except WorkloadsError as error:
        raise GridbenchError(str(error)) from None
    records: dict[str, Record] = {}
    for path, item in items:
        if isinstance(item, Record):
            named = replace(item, hardware=_name(item.hardware, path, folder))
            records.setdefault(_identity(item), named)
    return Found(folder, records, [str(item) for _, item in items if isinstance(item, RecordError)])


def merged(found: Sequence[Found]) -> list[Record]:
    """Return each record once, from the first folder.

    Raises:
        GridbenchError: no record.
    """
    records: dict[str, Record] = {}
    for one in found:
        for identity, record in one.records.items():
            records.setdefault(identity, record)
    if not records:
        folders = ", ".join(str(one.folder) for one in found)
        raise GridbenchError(f"{folders}: no record of a measurement was found")
    return list(records.values())


def run_of(
    records: Sequence[Record], prices: Mapping[str, float | Hardware], title: str = ""
) -> tuple[Plan, list[Record]]:
    """Return the plan, and the records as its repeats.

    A price is USD per hour, or a hardware file's, in proportion to GPUs. The same records give the same run
    name.

    Raises:
        GridbenchError: a price names a machine without a record.
    """
    machines = list(dict.fromkeys(record.hardware for record in records))
    if unknown := [name for name in prices if name not in machines]:
        raise GridbenchError(
            f"--usd {unknown[0]}: no record is of this machine; the machines are {', '.join(machines)}"
        )
    ordered = sorted(records, key=lambda record: (record.started_at, record.order))
    digest = hashlib.sha256("".join(sorted(map(_identity, records))).encode()).hexdigest()[:6]
    day = re.sub(r"\D", "", ordered[0].started_at)[:14] or "0" * 14
    run = f"{day[:8]}-{day[8:]}-{SUITE}-{digest}"
    numbers: dict[Any, int] = {}
    kept = []
    for record in ordered:
        numbers[record.cell] = numbers.get(record.cell, 0) + 1
        kept.append(replace(record, run=run, repeat=numbers[record.cell]))
    cases = {record.case: record for record in ordered}
    hardware = {name: _hardware(name, ordered, prices.get(name)) for name in machines}
    usd_per_s = {name: hardware[name].price.usd_per_hour / 3600 for name in prices}
    plan = Plan(
        run=run,
        suite=SUITE,
        title=title or f"Imported records of {' and '.join(machines)}",
        created_at=_moment(ordered[0].started_at).isoformat(timespec="seconds"),
        gridbench=version("gridbench"),
        seed=ordered[0].seed,
        repeats=max(numbers.values()),
        quick=False,
        timeout_s=max(record.wall_s for record in records) or 1.0,
        baseline=machines[0],
        hardware=tuple(hardware.values()),
        cases=tuple(PlannedCase.of(case, record.threads) for case, record in cases.items()),
        estimate_s=sum(record.wall_s for record in records),
        estimate_usd=sum(record.wall_s * usd_per_s.get(record.hardware, 0.0) for record in records),
    )
    return plan, kept


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return [folder]
    return sorted(
        path for path in folder.rglob("*.json*") if path.suffix in (".json", ".jsonl") and path.is_file()
    )


def _name(hardware: str, file: Path, folder: Path) -> str:
    """Return a machine's name, else that of the folder for `suite --out`."""
    if hardware != DEFAULT_NAME:
        return hardware
    above = next((parent.parent for parent in file.absolute().parents if parent.name == DEFAULT_NAME), None)
    given = folder.absolute() if folder.is_dir() else folder.absolute().parent
    return re.sub(r"[^A-Za-z0-9.-]", "-", (above or given).name) or DEFAULT_NAME


def _identity(record: Record) -> str:
    """Return text that copies of one measurement share, whatever the names of run and repeat."""
    samples = record.wall.samples_s if record.wall else ()
    facts = (
        record.hardware,
        record.case.id,
        record.started_at,
        record.environment_id,
        record.wall_s,
        samples,
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _hardware(name: str, records: Sequence[Record], price: float | Hardware | None) -> Hardware:
    """Describe a machine by its records.

    Raises:
        GridbenchError: only one of price and records is of GPUs.
    """
    own = [record for record in records if record.hardware == name]
    record = max(own, key=lambda one: len(_gpus(one)))
    gpus = _gpus(record)
    models = models_called(gpus[0], names_of(load_gpus())) if gpus else []
    memory = str(record.environment.get("memory_total_bytes"))
    memory_bytes = int(memory) if memory.isdecimal() else 0
    stated = f"unknown; give it as --usd {name}=1.99" if price is None else "given with --usd"
    raw = {
        "name": name,
        "title": f"{len(gpus)} x {gpus[0]}" if gpus else str(record.environment.get("cpu_model") or "CPU"),
        "pool": POOL,
        "device": "cuda" if gpus else "cpu",
        "gpus": len(gpus),
        "gpu": models[0] if len(models) == 1 else None,
        "threads": record.threads or None,
        "memory_gb": memory_bytes / 1e9 or None,
        "price": _share_of(price, len(gpus), name)
        if isinstance(price, Hardware)
        else {
            "usd_per_hour": UNKNOWN_USD if price is None else price,
            "purchase": "assumption",
            "source": stated,
            "date": _moment(record.started_at).date(),
        },
    }
    return validated(Hardware, raw, f"machine {name}")


def _share_of(machine: Hardware, gpus: int, name: str) -> dict[str, Any]:
    if bool(machine.gpus) != bool(gpus):
        raise GridbenchError(
            f"--usd {name}={machine.name}: the records of {name} are of {gpus} GPUs, "
            f"and {machine.name} has {machine.gpus}"
        )
    share = gpus / machine.gpus if gpus else 1.0
    part = "" if share == 1 else f"{gpus} of {machine.gpus} GPUs of "
    price, name = machine.price, machine.instance_type or machine.name
    of = price.source if name in price.source else f"{name}, {price.source}"
    spot = price.spot_usd_per_hour
    return price.model_dump() | {
        "usd_per_hour": price.usd_per_hour * share,
        "spot_usd_per_hour": None if spot is None else spot * share,
        "source": f"{part}{of}",
    }


def _gpus(record: Record) -> list[str]:
    cards = record.environment.get("gpus")
    if record.device != "cuda" or not isinstance(cards, list):
        return []
    return [str(card.get("name")) for card in cards if isinstance(card, dict)]


def _moment(started_at: str) -> datetime:
    """Return now if unknown."""
    try:
        return datetime.fromisoformat(started_at).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.now(UTC)
