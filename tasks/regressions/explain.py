"""What is known of a change before it is filed: machine, clock, the whole target, stack, commits."""

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from tasks.regressions.baseline import LEAST_CHANGE, Floats
from tasks.regressions.changepoints import moved
from tasks.regressions.nightly_gate import Fresh, Judged, Outcome
from tasks.regressions.series import Observation, Series, SeriesKey

LEAST_SERIES = 3  # of one hardware that changed alike, at least, and half of all: then it is the hardware's
LEFT_OVER = 0.25  # share of a change that may be left in cycles where the clock is why
SHORT = 12  # digits of a commit that are shown: enough to be the only one in any repository
# What of a fingerprint is the stack, and its name in words; `image` is what a job's own environment may add.
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
GPU_STACK = {"driver": "driver", "vbios": "VBIOS"}  # of each GPU; the driver where the machine does not tell
UNSET = "unset"


class Kind(StrEnum):
    """Where an explanation looks."""

    MACHINE = "machine"
    CLOCKS = "clocks"
    TARGET = "target"
    STACK = "stack"
    COMMITS = "commits"


@dataclass(frozen=True, slots=True)
class Explanation:
    """One thing that is known of a change.

    Attributes:
        excuses: whether it says that something else than the measured code has changed.
    """

    kind: Kind
    sentence: str
    excuses: bool = False


@dataclass(frozen=True, slots=True)
class Clocked:
    """Seconds of a repeat, and the clock that it ran at; None where the machine does not tell."""

    seconds: float
    clock_mhz: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is another than before, as text."""

    name: str
    old: str
    new: str


def machine(outcome: Outcome, fresh: Fresh, control_s: float) -> Explanation | None:
    """By how much the fresh runs' controls moved, too; None where they did not.

    Args:
        control_s: seconds that the control usually takes: exp of its series' `Baseline.control`.
    """
    there = [seconds for seconds in fresh.control_s if seconds > 0]
    if not outcome.box or not there or not control_s > 0:
        return None
    box = moved(statistics.median(there) / control_s - 1)
    sentence = f"The controls beside the fresh runs are {box} than usual: it is the machine. "
    sentence += f"Without what it did, the case is {moved(outcome.share)}."
    return Explanation(Kind.MACHINE, sentence, excuses=outcome.change is None)


def clock_mhz(monitor: Mapping[str, Sequence[float]], probes: Mapping[str, float]) -> float | None:
    """The median SM clock of a record in its window; None on a CPU, whose clock no probe reads."""
    start_s, end_s = probes.get("window_start_s", -math.inf), probes.get("window_end_s", math.inf)
    samples = zip(monitor.get("t_s", ()), monitor.get("gpu_sm_clock_mhz", ()), strict=False)
    within = [mhz for t_s, mhz in samples if start_s <= t_s <= end_s and mhz > 0]
    return statistics.median(within) if within else None


def clocks(before: Iterable[Clocked], after: Iterable[Clocked]) -> Explanation | None:
    """Whether a change is gone in cycles; None where a side has no clock, or nothing has changed."""
    sides = [
        [(c.seconds, c.clock_mhz) for c in side if c.clock_mhz and c.seconds > 0] for side in (before, after)
    ]
    if not all(sides):
        return None
    (old_s, old_mhz), (new_s, new_mhz) = (
        [statistics.median(of) for of in zip(*side, strict=True)] for side in sides
    )
    time, clock = math.log(new_s / old_s), math.log(new_mhz / old_mhz)
    if abs(time) < math.log1p(LEAST_CHANGE):
        return None
    cycles = time + clock
    why = abs(cycles) <= LEFT_OVER * abs(time)
    speeds = (
        f"the SM clock, {old_mhz:.0f} MHz before and {new_mhz:.0f} MHz now, is {'' if why else 'not '}why"
    )
    sentence = f"In cycles it is {moved(math.expm1(cycles))}, in seconds {moved(math.expm1(time))}: {speeds}."
    return Explanation(Kind.CLOCKS, sentence, excuses=why)


def whole_targets(judged: Judged, outcomes: Iterable[Outcome]) -> dict[str, tuple[SeriesKey, ...]]:
    """Confirmed changes that are one ticket for a hardware in place of many, by its name.

    They are at least `LEAST_SERIES` in one direction, and half of its series that tonight could tell of; a
    suspect that was not measured again counts for that half.
    """
    found = {outcome.key: outcome for outcome in outcomes}
    watched: dict[str, int] = defaultdict(int)
    alike: dict[tuple[str, int], list[SeriesKey]] = defaultdict(list)
    for row, key in enumerate(judged.panel.keys):
        watched[key.hardware] += math.isfinite(judged.z[row])
        outcome = found.get(key)
        if judged.signs[row] and (outcome is None or outcome.change):
            alike[key.hardware, int(judged.signs[row])].append(key)
    whole: dict[str, tuple[SeriesKey, ...]] = {}
    for (hardware, _), keys in alike.items():
        confirmed = tuple(key for key in keys if key in found)
        if len(confirmed) >= LEAST_SERIES and 2 * len(keys) >= watched[hardware]:
            whole[hardware] = max(whole.get(hardware, ()), confirmed, key=len)
    return whole


def target(hardware: str, changes: Sequence[tuple[SeriesKey, float]], watched: int) -> Explanation:
    """What a ticket for a whole hardware says: each series' share, of so many that were watched."""
    shares = sorted(share for _, share in changes)
    size = moved(statistics.median(shares))
    sentence = (
        f"{len(changes)} of {watched} series of {hardware} changed in the same night, by the median {size}"
    )
    return Explanation(Kind.TARGET, f"{sentence} (from {moved(shares[0])} to {moved(shares[-1])}).")


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """What of the stack differs between two fingerprints; what either does not know is no difference."""
    old, new = _facts(before), _facts(after)
    found = [(name, old[name], new[name]) for name in old if name in new]
    was, now = before.get("variables"), after.get("variables")
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        names = sorted({*was, *now})
        found += [(name, str(was.get(name, UNSET)), str(now.get(name, UNSET))) for name in names]
    return [Difference(*one) for one in found if one[1] != one[2]]


def stack(before: Mapping[str, Any], after: Mapping[str, Any]) -> Explanation | None:
    """The stack of the last accepted night against tonight's; None where nothing is known to differ."""
    told = [f"{one.name} {one.old} → {one.new}" for one in differences(before, after)]
    return Explanation(Kind.STACK, f"The stack is another: {'; '.join(told)}.") if told else None


def first_changed(log_s: Floats, centre: float, change: float) -> int:
    """Index of the first night of a change that the last one shows: all from it on fit the new level best.

    Args:
        log_s: adjusted log seconds of a series, NaN for no number; `centre` is that of its baseline.
        change: log share that was confirmed; never 0.
    """
    nearer = np.nan_to_num((log_s - centre - change / 2) * change)  # above 0: nearer to the new level
    since = np.cumsum(nearer[::-1])  # of the last night, the last two, …: the log likelihood of each start
    return len(log_s) - 1 - int(np.argmax(since))


def last_before(series: Series, run: str) -> Observation | None:
    """The last night with a number before a run, or of all where it is no night of the series."""
    runs = [night.run for night in series.nights]
    end = runs.index(run) if run in runs else len(runs)
    return next((night for night in reversed(series.nights[:end]) if night.ok), None)


def commits(good: str, bad: str) -> Explanation | None:
    """Which commits lie between two nights; None where one is unknown, or is no commit.

    A commit may end in `-dirty`: files differed from it.
    """
    (old, old_dirty), (new, new_dirty) = _commit(good), _commit(bad)
    if not old or not new:
        return None
    also = ", and files that were not committed" if old_dirty or new_dirty else ""
    if old != new:
        return Explanation(Kind.COMMITS, f"git log {old[:SHORT]}..{new[:SHORT]}{also}")
    if also:
        return Explanation(Kind.COMMITS, f"Both nights measured commit {old[:SHORT]}{also}.")
    sentence = f"Both nights measured the same commit, {old[:SHORT]}: it is not the measured code."
    return Explanation(Kind.COMMITS, sentence, excuses=True)


def _commit(text: str) -> tuple[str, bool]:
    found = re.fullmatch(r"([0-9a-f]{7,64})(-dirty)?", text)
    return (found[1], bool(found[2])) if found else ("", False)


def _facts(environment: Mapping[str, Any]) -> dict[str, str]:
    known = ((word, environment.get(name)) for name, word in STACK.items())
    facts = {word: str(value) for word, value in known if value not in (None, "")}
    gpus = [gpu for gpu in environment.get("gpus") or () if isinstance(gpu, Mapping)]
    for name, word in GPU_STACK.items():
        if values := sorted({str(gpu[name]) for gpu in gpus if gpu.get(name)}):
            facts.setdefault(word, " and ".join(values))
    return facts
