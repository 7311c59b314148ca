"""The slowest time that published rates of a card leave to a product or a copy."""

from tasks.results.model import Machine
from tasks.results.repeats import Repeats

COPY_REACH = 0.7
"""Share of the data sheet's bandwidth that a copy reaches at least. 0.87 and more was seen of stacked memory
(A100: kokkos/kokkos.github.io, carveout.pdf); cards with GDDR6 spend part of it on check bits."""
CEILINGS = ("gemm", "matmul", "roof", "memory_bandwidth", "memory_read")
"""Workloads that do nothing but compute or move bytes, so that a card's rates say how long they take."""


def longest_s(cell: Repeats, machine: Machine) -> float | None:
    """Return the seconds per step above which a machine is slower than its card is known to be.

    That is the longer of the FLOPs at the least rate that such products reach and of the bytes at that of
    copies. None where the case is more than one of them, or the rates of the card are not known.
    """
    case, work = cell.cell.case, next((r.work for r in cell.usable if r.work), None)
    if case.workload not in CEILINGS or work is None or not machine.peak_bytes_per_s:
        return None
    peak = dict(machine.peak_flops).get(case.precision)
    if work.flops and not (peak and machine.reach):
        return None
    computed_s = (work.flops or 0.0) / (peak * machine.reach) if peak and machine.reach else 0.0
    copied_s = (work.bytes or 0.0) / (machine.peak_bytes_per_s * COPY_REACH)
    return max(computed_s, copied_s) or None
