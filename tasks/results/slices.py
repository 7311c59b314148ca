"""MIG slices, whose card's data sheet is the whole card's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tasks.results.model import Machine
from workloads.harness.records.record import Record


def slice_in(environment: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return empty without one; fingerprints can have any content."""
    gpus = environment.get("gpus")
    for gpu in gpus if isinstance(gpus, list | tuple) else ():
        part = gpu.get("mig_slice") if isinstance(gpu, Mapping) else None
        if isinstance(part, Mapping) and part.get("profile"):
            return part
    return {}


def without_sheets(machines: Sequence[Machine], records: Sequence[Record]) -> tuple[Machine, ...]:
    """Name each slice, without the whole card's rates."""
    parts = {record.hardware: part for record in records if (part := slice_in(record.environment))}
    return tuple(
        replace(machine, slice=_text(parts[machine.name]), peak_flops=(), peak_bytes_per_s=None, reach=None)
        if machine.name in parts
        else machine
        for machine in machines
    )


def _text(part: Mapping[str, Any]) -> str:
    shares = (
        (part.get("compute_share"), "the card's compute slices"),
        (part.get("memory_share"), "its memory"),
    )
    known = [
        f"{share:.0%} of {whole}" for share, whole in shares if isinstance(share, float) and 0 < share <= 1
    ]
    return f"{part['profile']}{', ' if known else ''}{' and '.join(known)}"
