"""Likely causes: machine, clock, whole target, stack, commits."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tasks.regressions.baseline import LEAST_CHANGE
from tasks.regressions.change import share_in_words
from tasks.regressions.nightly_gate import Screening, SuspectResult
from tasks.regressions.robust import Floats
from tasks.regressions.series import FreshRuns, Observation, Series, SeriesKey
from tasks.results.wording import CODE_ID, code_text

LEAST_SERIES = 3  # series that changed alike, and half of all of that hardware: then it is the cause
LEFT_OVER = 0.25  # share of a change that can be left in cycles if the clock is the cause
SHORT = 12  # digits of a commit to show
# The fields of a fingerprint that are the stack, with their names; a job's environment can add `image`.
STACK = {
    "nvidia_driver": "driver",
    "image": "image",
    "torch": "torch",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "python": "Python",
    "numpy": "numpy",
    "os": "OS",
    "kernel": "kernel",
}
GPU_STACK = {"driver": "driver", "vbios": "VBIOS"}  # of each GPU; its driver only if the machine reports none
UNSET = "unset"
TREE = "sha256:"  # before the id of a script's code
UNCONTROLLED = "No control ran with it, so a machine that changed for some nights would look the same."


@dataclass(frozen=True, slots=True)
class Clocked:
    """Seconds of a repeat, and its clock; None if unknown."""

    seconds: float
    clock_mhz: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """A field that differs, as text."""

    name: str
    old: str
    new: str


def machine(result: SuspectResult, fresh: FreshRuns, control_s: float) -> str:
    """Explain a change by the controls', whose usual seconds are `control_s`; else empty."""
    controls = [seconds for seconds in fresh.control_s if seconds > 0]
    if not result.box or not controls or not control_s > 0:
        return ""
    box = share_in_words(statistics.median(controls) / control_s - 1)
    sentence = f"The controls of the fresh runs are {box} than usual: the cause is the machine. "
    return sentence + f"Without its effect, the case is {result.change}."


def uncontrolled(result: SuspectResult, fresh: FreshRuns) -> str:
    """State that the machine can be the cause of a change without controls; else return empty."""
    is_controlled = any(seconds > 0 for seconds in fresh.control_s)
    return UNCONTROLLED if result.confirmed and not is_controlled else ""


def clock_mhz(monitor: Mapping[str, Sequence[float]], probes: Mapping[str, float]) -> float | None:
    """Return the median SM clock; None on a CPU, whose clock no probe reads."""
    start_s, end_s = probes.get("window_start_s", -math.inf), probes.get("window_end_s", math.inf)
    samples = zip(monitor.get("t_s", ()), monitor.get("gpu_sm_clock_mhz", ()), strict=False)
    within = [mhz for t_s, mhz in samples if start_s <= t_s <= end_s and mhz > 0]
    return statistics.median(within) if within else None


def clocks(before: Iterable[Clocked], after: Iterable[Clocked]) -> str:
    """Return empty if the clock is unknown or unchanged."""
    sides = [
        [(c.seconds, c.clock_mhz) for c in side if c.clock_mhz and c.seconds > 0] for side in (before, after)
    ]
    if not all(sides):
        return ""
    (old_s, old_mhz), (new_s, new_mhz) = (
        [statistics.median(column) for column in zip(*side, strict=True)] for side in sides
    )
    time, clock = math.log(new_s / old_s), math.log(new_mhz / old_mhz)
    if abs(time) < math.log1p(LEAST_CHANGE):
        return ""
    cycles = time + clock
    in_cycles, in_seconds = (share_in_words(math.expm1(log)) for log in (cycles, time))
    is_cause = "is the cause" if abs(cycles) <= LEFT_OVER * abs(time) else "is not the cause"
    return (
        f"In cycles it is {in_cycles}, in seconds {in_seconds}: the SM clock, {old_mhz:.0f} MHz before and "
        f"{new_mhz:.0f} MHz now, {is_cause}."
    )


def whole_targets(screening: Screening, results: Iterable[SuspectResult]) -> dict[str, tuple[SeriesKey, ...]]:
    """Return confirmed changes that make one ticket, by hardware.

    At least `LEAST_SERIES` in one direction, and half of tonight's series.
    """
    by_key = {result.key: result for result in results}
    watched: dict[str, int] = defaultdict(int)
    alike: dict[tuple[str, int], list[SeriesKey]] = defaultdict(list)
    for row, key in enumerate(screening.panel.keys):
        watched[key.hardware] += math.isfinite(screening.z[row])
        result = by_key.get(key)
        if screening.signs[row] and (result is None or result.confirmed):
            alike[key.hardware, int(screening.signs[row])].append(key)
    whole: dict[str, tuple[SeriesKey, ...]] = {}
    for (hardware, _), keys in alike.items():
        confirmed = tuple(key for key in keys if key in by_key)
        if len(confirmed) >= LEAST_SERIES and 2 * len(keys) >= watched[hardware]:
            whole[hardware] = max(whole.get(hardware, ()), confirmed, key=len)
    return whole


def target(hardware: str, shares: Sequence[float], watched: int) -> str:
    """Explain a whole hardware's ticket."""
    least, middle, most = map(share_in_words, (min(shares), statistics.median(shares), max(shares)))
    return (
        f"{len(shares)} of {watched} series of {hardware} changed in the same night, by the median {middle} "
        f"(from {least} to {most})."
    )


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Return differences; an unknown value is not one."""
    old, new = _facts(before), _facts(after)
    triples = [(name, old[name], new[name]) for name in old if name in new]
    was, now = before.get("variables"), after.get("variables")
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        names = sorted({*was, *now})
        triples += [(name, str(was.get(name, UNSET)), str(now.get(name, UNSET))) for name in names]
    return [Difference(*triple) for triple in triples if triple[1] != triple[2]]


def stack(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return empty without differences."""
    changes = [f"{each.name} {each.old} → {each.new}" for each in differences(before, after)]
    return f"The stack has changed: {'; '.join(changes)}." if changes else ""


def first_changed(log_s: Floats, centre: float, change: float) -> int:
    """Return the night from which the new level fits best, by index.

    `log_s` is adjusted, NaN for no number. `change`: log share, not 0.
    """
    nearer = np.nan_to_num((log_s - centre - change / 2) * change)  # above 0: nearer to the new level
    since = np.cumsum(nearer[::-1])  # of the last night, the last two, …: the log likelihood of each start
    return len(log_s) - 1 - int(np.argmax(since))


def last_before(series: Series, run: str) -> Observation | None:
    """Return the last night with a number before a run, or of all if it is not a night."""
    runs = [night.run for night in series.nights]
    end = runs.index(run) if run in runs else len(runs)
    return next((night for night in reversed(series.nights[:end]) if night.ok), None)


def commits(good: str, bad: str) -> str:
    """Explain a change by the commits between nights; empty if one is unknown.

    A commit can have uncommitted changes. A script has its code's ids.
    """
    if good.startswith(TREE) and bad.startswith(TREE):
        old, new = (tree.removeprefix(TREE)[:SHORT] for tree in (good, bad))
        if old != new:
            return f"The code of the script is {new} now, and was {old}."
        return f"Both nights ran the same code of the script, {old}: the cause is not that code."
    before, now = CODE_ID.fullmatch(good), CODE_ID.fullmatch(bad)
    if not before or not now:
        return ""
    (old, old_changed, old_files), (new, new_changed, new_files) = before.groups(), now.groups()
    also = ", and uncommitted changes" if old_changed or new_changed else ""
    if old != new:
        return f"git log {old[:SHORT]}..{new[:SHORT]}{also}"
    if also and old_files and old_files == new_files:
        return f"Both nights measured the same code, {code_text(good)}: the cause is not the measured code."
    if also and (old_files or new_files):
        return f"Uncommitted changes of the code: {code_text(bad)} now, and {code_text(good)} before."
    if also:
        return f"Both nights measured commit {old[:SHORT]}{also}."
    return f"Both nights measured the same commit, {old[:SHORT]}: the cause is not the measured code."


def _facts(environment: Mapping[str, Any]) -> dict[str, str]:
    named = ((word, environment.get(name)) for name, word in STACK.items())
    facts = {word: str(value) for word, value in named if value not in (None, "")}
    gpus = [gpu for gpu in environment.get("gpus") or () if isinstance(gpu, Mapping)]
    for name, word in GPU_STACK.items():
        if values := sorted({str(gpu[name]) for gpu in gpus if gpu.get(name)}):
            facts.setdefault(word, " and ".join(values))
    return facts
