"""A cell's bound: the ceiling that explains most of its time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from workloads.harness.records.grade import counts
from workloads.harness.records.record import WAITS, Record
from workloads.harness.roofline.ceilings import Ceiling, Ceilings, is_gemv

LIMITS = ("compute", "memory", "gemv", "launch", "host", "transfer", "communication")
UNEXPLAINED = "unexplained"
DEVICE = "device"  # busy for half of the time or more, in kernels that reach no ceiling
EXPLAINS = 0.5  # a limit with more than half of the time outweighs all others together
ABOVE = 1.05  # two medians of one quantity can differ so far; a rate above that refutes its ceiling
AGAIN = "the ceiling is too low: measure it again on an idle machine"


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound of a cell, and the evidence for it.

    Attributes:
        by: one of `LIMITS`, the one with the largest share if that is half or more; `device` if the device is
            busy for half or more; else `unexplained`.
        shares: of the step that each measured limit explains, with data in place; transfer's is of end to
            end. They overlap, and can exceed 1.
        why: a sentence.
        missing: sentences for limits that were not measured, each with a command that measures it.
    """

    by: str
    shares: Mapping[str, float] = field(default_factory=dict)
    why: str = ""
    missing: tuple[str, ...] = ()

    @property
    def share(self) -> float | None:
        return self.shares.get(self.by)


def bound(record: Record, ceilings: Ceilings, without_loader: Record | None = None) -> Bound | None:
    """Return the bound of a record's step; None without a usable time.

    Compute counts the workload's formula and memory its compulsory traffic, so both shares are lower bounds.
    """
    if not counts(record) or record.wall is None or record.work is None or not _step_s(record):
        return None
    work, compute = record.work, dict(ceilings.compute).get(record.case.precision)
    raw_shares = {
        "compute": _explained(work.flops, compute, record),
        "memory": _explained(work.bytes, memory_ceiling(record, ceilings), record),
        "gemv": _gemv(record, ceilings),
        "launch": _launch(record, ceilings),
        "host": _host(record, ceilings, without_loader),
        "transfer": _transfer(record),
        "communication": record.group.communication_share if record.group else None,
    }
    shares = {name: max(share, 0.0) for name, share in raw_shares.items() if share is not None}
    largest = max(shares, key=lambda name: shares[name], default=UNEXPLAINED)
    by = largest if shares.get(largest, 0.0) >= EXPLAINS else UNEXPLAINED
    nothing_done = idle(record) if record.busy_share is not None else None
    if by == UNEXPLAINED and nothing_done is not None and 1 - nothing_done >= EXPLAINS:
        by, shares[DEVICE] = DEVICE, 1 - nothing_done
    return Bound(by, shares, _sentence(record, ceilings, shares, by), tuple(_missing(record, ceilings)))


def memory_ceiling(record: Record, ceilings: Ceilings) -> Ceiling | None:
    """Return the memory's ceiling, or a faster cache's if the data can be there."""
    beyond = record.cache is not None and record.cache.state in ("cold", "n/a")
    measured = [c for c in (ceilings.memory, None if beyond else ceilings.cache) if c]
    return max(measured, key=lambda ceiling: ceiling.value, default=None)


def _step_s(record: Record) -> float | None:
    return record.wall.median_s if record.group and record.wall else record.compute_s


def _gemv(record: Record, ceilings: Ceilings) -> float | None:
    """Return the share that products of one row explain, if slower than memory."""
    ceiling, memory = dict(ceilings.gemv).get(record.case.precision), memory_ceiling(record, ceilings)
    if ceiling is None or not is_gemv(record) or (memory and ABOVE * ceiling.value > memory.value):
        return None
    return _explained(record.work.bytes if record.work else None, ceiling, record)


def _explained(work: float | None, ceiling: Ceiling | None, record: Record) -> float | None:
    step_s = _step_s(record)
    devices = len(record.group.ranks) if record.group and record.device == "cuda" else 1
    return work / (ceiling.value * devices) / step_s if work and ceiling and step_s else None


def _launch(record: Record, ceilings: Ceilings) -> float | None:
    launches = record.work.launches if record.work else None
    if not launches or ceilings.launch_s is None or record.wall is None:
        return None
    share = launches * ceilings.launch_s.value / record.wall.median_s
    return share if record.busy_share is None else min(share, idle(record) or 0.0)


def idle(record: Record) -> float | None:
    """Return the share of a step in which the device idles.

    Without a profile or a pass of the device alone, it is the difference of the host's and the device's
    clocks, which counts every gap between kernels as work.
    """
    if record.device == "cpu" or record.wall is None:
        return None
    events_s = record.device_time.median_s if record.device_time else None
    busy_s = events_s if record.busy_share is None else record.busy_s
    return None if busy_s is None else min(max(1 - busy_s / record.wall.median_s, 0.0), 1.0)


def _host(record: Record, ceilings: Ceilings, without_loader: Record | None) -> float | None:
    waits = []
    if (nothing_done := idle(record)) is not None:
        waits.append(nothing_done - (_launch(record, ceilings) or 0.0))
    if without_loader and counts(without_loader) and without_loader.wall and record.wall:
        waits.append(1 - without_loader.wall.median_s / record.wall.median_s)
    return max(waits, default=None)


def _transfer(record: Record) -> float | None:
    moved, total_s = record.transfer, record.end_to_end_s
    if moved is None or not total_s or not (moved.h2d_bytes or moved.d2h_bytes):
        return None
    return (moved.h2d_pageable_s + moved.d2h_pageable_s) / total_s


def _sentence(record: Record, ceilings: Ceilings, shares: Mapping[str, float], by: str) -> str:
    if by == UNEXPLAINED:
        return _nothing(shares)
    if by == DEVICE:
        return _busy(shares, profiled=record.profile is not None)
    text = f"{by}-bound: {_reason(record, ceilings, shares, by)}"
    if by == "transfer":
        inner = {name: share for name, share in shares.items() if name != "transfer"}
        largest = max(inner, key=lambda name: inner[name], default=None)
        if largest and inner[largest] >= EXPLAINS:
            return f"{text}; in place it is {largest}-bound: {_reason(record, ceilings, shares, largest)}"
    return text


def _busy(shares: Mapping[str, float], profiled: bool) -> str:
    busy = shares[DEVICE]
    waits = f"it waits for its host for {percent(1 - busy)} of a step; " if 1 - busy > WAITS else ""
    inner = {name: shares[name] for name in ("compute", "memory", "gemv") if name in shares}
    best = max(inner, key=lambda name: inner[name], default="")
    reached = (
        f"its work at the measured {best} rate would take {percent(inner[best])} of a step" if best else ""
    )
    rest = (
        "the profile names the other kernels"
        if profiled
        else "--profile names the kernels that take the rest"
    )
    parts = "; ".join(filter(None, (reached, rest)))
    return f"{DEVICE}-bound: the device is busy for {percent(busy)} of a step; {waits}{parts}"


def _nothing(shares: Mapping[str, float]) -> str:
    if not shares:
        return f"{UNEXPLAINED}: no ceiling of this machine was measured"
    nearest = max(shares, key=lambda name: shares[name])
    return (
        f"{UNEXPLAINED}: no measured limit explains {percent(EXPLAINS)} of the time; "
        f"the largest is {nearest} with {percent(shares[nearest])}"
    )


def _reason(record: Record, ceilings: Ceilings, shares: Mapping[str, float], by: str) -> str:
    share, work = percent(shares[by]), record.work
    beyond = shares[by] > ABOVE
    if by == "compute":
        top = dict(ceilings.compute)[record.case.precision]
        more = f", so {AGAIN}, with a larger n" if beyond else ""
        return f"{share} of the measured {si(top.value)}FLOP/s in {record.case.precision}{more}"
    if by == "memory":
        top = memory_ceiling(record, ceilings) or Ceiling(0.0, "")
        where = " within the cache" if top is ceilings.cache else ""
        more = ", more than memory can deliver: some data stays in a cache" if beyond else ""
        return f"{share} of the measured {si(top.value)}B/s{where}{more}"
    if by == "gemv":
        top = dict(ceilings.gemv)[record.case.precision]
        more = f", so that {AGAIN}" if beyond else ""
        return f"{share} of the {si(top.value)}B/s at which single-row products read their weights{more}"
    if by == "launch":
        unsure = record.device != "cpu" and record.busy_share is None
        more = f", so that {AGAIN}" if beyond else ""
        more += "; the device might be busy meanwhile: check with --profile" if unsure else ""
        count = work.launches if work else 0
        return f"launching {count} operations takes {share} of the step{more}"
    if by == "host":
        return f"the step waits {share} of its time for the host, besides launching operations"
    if by == "transfer":
        moved = record.transfer
        size = moved.h2d_bytes + moved.d2h_bytes if moved else 0
        return f"moving {si(size)}B to the device and back takes {share} of the end-to-end time"
    return f"exchanging gradients takes {share} of the step"


def _missing(record: Record, ceilings: Ceilings) -> list[str]:
    work, device, precision = record.work, record.device, record.case.precision
    commands = []
    if work and work.flops and precision not in dict(ceilings.compute):
        n = 8000 if device == "cuda" else 2000
        commands.append(
            _command(f"the compute ceiling in {precision}", "matmul", f"n={n}", device, precision)
        )
    if work and work.bytes and ceilings.memory is None:
        size = ceilings.last_level_bytes or 2**29
        mib = max(1 << (2 * size // 2**20 - 1).bit_length(), 16)  # two buffers of it are four caches
        commands.append(_command("the memory ceiling", "memory_bandwidth", f"mib={mib}", device))
    if is_gemv(record) and precision not in dict(ceilings.gemv):
        commands.append(
            _command("the rate of single-row products", "gemm", "m=1,n=16384,k=2048", device, precision)
        )
    if work and work.launches and ceilings.launch_s is None:
        commands.append(_command("the launch latency", "kernel_launch", "kernels=1000", device))
    return commands


def _command(what: str, workload: str, size: str, device: str, precision: str = "fp32") -> str:
    options = f"--size {size} --precision {precision} --device {device}"
    return f"{what} is not measured: python -m workloads run {workload} {options}"


def percent(share: float) -> str:
    """Format such as `83 %` or `0.4 %`."""
    return f"{100 * share:.0f} %" if share >= 0.095 else f"{100 * share:.2g} %"


def si(value: float) -> str:
    """Format such as `104 G` for 104e9."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}"
    return f"{value:.3g} "
