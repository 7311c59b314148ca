"""The time of a step on another machine, by the bound of each part."""

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray

from tasks.findings.device.host_speed import LAUNCHES, PYTHON
from tasks.planning.hardware import Hardware
from tasks.planning.limits import limits_of
from tasks.prediction.card_ratio import (
    LEVEL,
    Rates,
    SharedCase,
    excess,
    load_spread,
    log_time_ratio,
    weight_after,
)
from tasks.prediction.evidence import Evidence, sheet_rates
from tasks.results.forecast import NORMAL_90
from tasks.results.format import format_count
from tasks.results.repeats import Repeats
from tasks.results.values import Estimate
from workloads.harness.records.case import Case
from workloads.harness.records.record import LAUNCH_BOUND, Record
from workloads.harness.records.step_parts import StepParts, card_s, step_parts
from workloads.harness.records.text import gigabytes
from workloads.harness.roofline.bounds import case_without_loader

DRAWS = 4000
SEED = 1
HOSTS = 2.0  # seen difference between hosts of one kind of card: docs/predict.md
PER_LAUNCH = 3.0  # times of a tiny operation's launch that a model's operation takes its host
LAUNCH_S = 5e-6  # of a tiny operation on a fast host; used if the record has no reading
LINKS = 2.0  # an exchange over unmeasured links
GRAPHED = ("graph", "compiled-graph")  # modes in which the host launches a step as a whole
SHOWN = 0.05  # a smaller part of a step is not named


@dataclass(frozen=True, slots=True)
class Prediction:
    """A step's predicted time, or why there is none.

    Attributes:
        source, target: hardware that measured it, and that has not.
        step_s: with its 90 % interval.
        parts: shares by bound, the largest first.
        rests_on: the evidence, a few words each.
        refused: why not; else empty.
        is_impossible: the target can't run the case.
    """

    case: Case
    source: str
    target: str
    step_s: Estimate | None = None
    measured_s: float | None = None
    parts: dict[str, float] = field(default_factory=dict)
    rests_on: tuple[str, ...] = ()
    refused: str = ""
    is_impossible: bool = False

    @property
    def width(self) -> float:
        """Return high over low; infinite without a prediction."""
        if self.step_s is None or self.step_s.low is None or self.step_s.high is None:
            return math.inf
        return self.step_s.high / self.step_s.low

    def widened(self, factor: float) -> "Prediction":
        """Widen the interval by a factor on the log."""
        step = self.step_s
        if step is None or not step.low or not step.high or factor <= 1:
            return self
        low, high = (step.value * (bound / step.value) ** factor for bound in (step.low, step.high))
        words = (*self.rests_on, f"interval {factor:.2g} times as wide by the score")
        return replace(self, step_s=Estimate(step.value, low, high), rests_on=words)

    @property
    def bound(self) -> str:
        """Return such as `memory 62 %, compute 38 %`."""
        shown = [f"{name} {100 * share:.0f} %" for name, share in self.parts.items() if share >= SHOWN]
        return ", ".join(shown)


@dataclass(frozen=True, slots=True)
class _Device:
    """The device's part on the target: log ratio, deviation, computing share."""

    log_ratio: float
    sd: float
    weight: float
    rests_on: tuple[str, ...]


class Unpredictable(Exception):
    """Why nothing is predicted."""


class Impossible(Unpredictable):
    """Why the other machine can't run the case."""


def predict(cell: Repeats, before: Hardware, after: Hardware, evidence: Evidence) -> Prediction:
    """Predict a step on another machine from records on one.

    Source of the interval: `docs/predict.md`.
    """
    case, name = cell.cell.case, cell.cell.hardware
    try:
        parts = _parts(cell, before, after, evidence)
        device = _device(cell, before, after, evidence, parts.device)
        hosts, host_words = _host_ratio(cell.usable, evidence.of_machine(after))
    except Unpredictable as reason:
        impossible = isinstance(reason, Impossible)
        return Prediction(case, name, after.name, refused=str(reason), is_impossible=impossible)
    draws = _draws(parts, device, hosts, _host_most_s(cell.usable, parts))
    total = sum(draws.values())
    low, middle, high = np.quantile(total, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2])
    shares = {part: float(np.median(values / total)) for part, values in draws.items()}
    busy = shares.pop("device")
    shares |= {"compute": busy * device.weight, "memory": busy * (1 - device.weight)}
    return Prediction(
        case,
        name,
        after.name,
        Estimate(float(middle), float(low), float(high)),
        parts.step_s,
        dict(sorted(shares.items(), key=lambda part: -part[1])),
        (*device.rests_on, *([host_words] if before.device == "cuda" else [])),
    )


def _parts(cell: Repeats, before: Hardware, after: Hardware, evidence: Evidence) -> StepParts:
    if not cell.compute_s:
        raise Unpredictable("no valid record has its time")
    if any(record.work and record.work.chosen for record in cell.usable):
        raise Unpredictable("each machine chooses the work of its step itself")
    if before.device != after.device:
        kinds = {"cpu": "a CPU", "cuda": "a GPU"}
        raise Unpredictable(
            f"{before.name} measured it on {kinds[before.device]}, which does not tell what bounds it on "
            f"{kinds[after.device]}: measure it on any other machine with one"
        )
    ranks = max((len(r.group.ranks) for r in cell.usable if r.group), default=1)
    if before.device == "cuda" and ranks > after.gpus:
        raise Impossible(f"it needs {ranks} GPUs, and {after.name} has {after.gpus}")
    _check_memory(cell.usable, after)
    if before.device == "cpu":
        return StepParts(statistics.fmean(cell.compute_s), 0.0)
    plain = case_without_loader(cell.cell.case)
    alone = [r.mean_s for r in evidence.of_machine(before) if r.case == plain and r.mean_s]
    parts = step_parts(cell.usable, statistics.fmean(alone) if alone else None) or _script_parts(cell.usable)
    if parts is None:
        raise Unpredictable(
            f"its records on {before.name} do not tell for how long the card waits for its host"
        )
    return parts


def _script_parts(records: Sequence[Record]) -> StepParts | None:
    seen = [(r.script.shares, r.script.mean_s or r.mean_s) for r in records if r.script and r.script.shares]
    if not seen or not all(mean_s for _, mean_s in seen):
        return None
    step_s = statistics.fmean(mean_s or 0.0 for _, mean_s in seen)

    def part_s(*names: str) -> float:
        return step_s * statistics.fmean(sum(shares.get(n, 0.0) for n in names) for shares, _ in seen)

    return StepParts(
        part_s("compute", "copy"), part_s("launch", "other"), part_s("loader"), part_s("communication")
    )


def _check_memory(records: Sequence[Record], after: Hardware) -> None:
    room = limits_of(after, None).memory_bytes if after.device == "cuda" else None
    peaks = [r.memory.device_allocated_bytes for r in records if r.memory and r.memory.device_allocated_bytes]
    if room and peaks and max(peaks) > room:
        raise Impossible(f"it took {gigabytes(max(peaks))}, and {after.name} has {gigabytes(int(room))}")


def _device(cell: Repeats, before: Hardware, after: Hardware, evidence: Evidence, device_s: float) -> _Device:
    spread, precision = load_spread(), cell.cell.case.precision
    old, new, source = rates_of(before, after, evidence, precision)
    share = _share(cell.usable, device_s, old)
    middle = spread.share if share is None else share
    weight = weight_after(middle, old, new)
    is_same = before.gpu is not None and before.gpu == after.gpu
    shared = [] if is_same else list(_shared(cell.cell.case, before, after, evidence))
    mean, sd = (0.0, 0.0) if is_same else excess(weight, shared, spread)
    variances = [sd**2, spread.box]
    words = ["the same card"] if is_same else [source]
    if shared:
        words.append(f"{format_count(len(shared), 'case')} measured on both")
    if share is None:
        far = [
            log_time_ratio(min(max(middle + d, 0.0), 1.0), old, new)
            for d in (-spread.share_sd, spread.share_sd)
        ]
        variances.append(((far[1] - far[0]) / 2) ** 2)
        words.append("FLOPs unknown")
    if stack := _other_torch(cell.usable):
        variances.append(spread.software)
        words.append(f"measured with torch {stack}")
    total = math.sqrt(sum(variances)) * spread.times / NORMAL_90
    return _Device(log_time_ratio(middle, old, new) + mean, total, weight, tuple(words))


def rates_of(
    before: Hardware, after: Hardware, evidence: Evidence, precision: str
) -> tuple[Rates, Rates, str]:
    """Return both machines' rates of one kind: measured, or data sheets.

    Raises:
        Unpredictable: there is no such kind.
    """
    if precision == "own":  # most trainings compute in 16 bits on GPUs
        precision = "fp32" if before.device == "cpu" else "fp16"
    measured = [evidence.measured_rates(machine, precision) for machine in (before, after)]
    sheets = [sheet_rates(machine, precision) for machine in (before, after)]
    for (old, new), words in ((measured, "measured roofs"), (sheets, "data sheets")):
        if old and new:
            return old, new, words
    lacking = next(m for m, *rates in zip((before, after), measured, sheets, strict=True) if not any(rates))
    raise Unpredictable(
        f"the rates of {lacking.name} in {precision} are unknown: `gridbench run acceptance --on {lacking.name}` "
        "measures them"
    )


def _share(records: Sequence[Record], device_s: float, rates: Rates) -> float | None:
    """Return the share of the device's time that FLOPs take at its highest rate."""
    flops = [work.counted_flops or work.flops for r in records if (work := r.work)]
    counts = [count for count in flops if count is not None]
    ranks = max((len(r.group.ranks) for r in records if r.group), default=1)
    return (
        min(statistics.fmean(counts) / ranks / rates.compute / device_s, 1.0) if counts and device_s else None
    )


def _shared(case: Case, before: Hardware, after: Hardware, evidence: Evidence) -> Iterator[SharedCase]:
    olds, news = ({c.cell.case: c for c in evidence.of_card(m)} for m in (before, after))
    for other in olds.keys() & news.keys() - {case}:
        try:
            old, new, _ = rates_of(before, after, evidence, other.precision)
        except Unpredictable:
            continue
        times = [_device_s(cell) for cell in (olds[other], news[other])]
        if not all(times):
            continue
        share = _share(olds[other].usable, times[0], old) or 0.0
        units = (olds[other].units or 1.0) / (news[other].units or 1.0)
        ratio = math.log(times[1] / times[0] * units)
        yield SharedCase(weight_after(share, old, new), ratio - log_time_ratio(share, old, new))


def _device_s(cell: Repeats) -> float:
    times = cell.compute_s if any(r.device == "cpu" for r in cell.usable) else card_s(cell.usable)
    return statistics.fmean(times) if times else 0.0


def _other_torch(records: Sequence[Record]) -> str:
    """Return the records' release, if not today's."""
    names = {str(r.environment.get("torch", "")).partition("+")[0] for r in records} - {""}
    today = version("torch").partition("+")[0]
    return "" if names <= {today} else ", ".join(sorted(names - {today}))


def _host_ratio(before: Sequence[Record], after: Sequence[Record]) -> tuple[tuple[float, float], str]:
    """Return the other host's least and greatest relative speed, and its description."""
    for reading in (LAUNCHES, PYTHON):
        rates = [
            [r.probes[reading] for r in side if r.probes.get(reading, 0.0) > 0] for side in (before, after)
        ]
        if all(rates):
            ratio = statistics.median(rates[1]) / statistics.median(rates[0])
            return (ratio, ratio), f"its host measured, {ratio:.2g} times as fast"
    return (1 / HOSTS, HOSTS), f"its host unknown, 1/{HOSTS:g} to {HOSTS:g} times as fast"


def _host_most_s(records: Sequence[Record], parts: StepParts) -> float:
    """Return the most seconds of a step in which the host works.

    A host that the card waits for in a tenth of a step can work all the time; otherwise launches show it.
    """
    if all(r.case.mode in GRAPHED for r in records):
        return parts.host
    launches = [r.work.launches for r in records if r.work and r.work.launches]
    if parts.host > (1 - 1 / LAUNCH_BOUND) * parts.step_s or not launches:
        return parts.step_s
    rates = [r.probes[LAUNCHES] for r in records if r.probes.get(LAUNCHES, 0.0) > 0]
    launch_s = 1 / statistics.median(rates) if rates else LAUNCH_S
    return min(PER_LAUNCH * launch_s * statistics.fmean(launches), parts.step_s)


def _draws(
    parts: StepParts, device: _Device, hosts: tuple[float, float], host_most_s: float
) -> dict[str, NDArray[np.float64]]:
    """Draw the seconds of each part on the other machine.

    Host work overlaps the card's by an unknown share; the card waits for the rest.
    """
    rng = np.random.default_rng(SEED)
    device_s = parts.device * np.exp(device.log_ratio + device.sd * rng.standard_normal(DRAWS))
    slowest, fastest = map(math.log, hosts)
    speed = np.exp(rng.uniform(slowest, fastest, DRAWS))
    hidden = rng.uniform(0, 1, DRAWS)
    waited_s = (1 - hidden) * parts.host / speed + hidden * np.maximum(host_most_s / speed - device_s, 0.0)
    links = np.exp(rng.uniform(-math.log(LINKS), math.log(LINKS), DRAWS))
    return {
        "device": device_s,
        "host": waited_s,
        "loader": parts.loader / speed,
        "exchange": parts.exchange * links,
    }
