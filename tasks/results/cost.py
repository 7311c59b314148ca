"""Prices are exact, so a cost has the relative interval of its time."""

import math
from collections.abc import Sequence
from dataclasses import replace

from tasks.results.billing import usd
from tasks.results.sessions import Part, shared_sd
from tasks.results.speedup import decide, scaled
from tasks.results.values import Estimate, Ratio, RatioVerdict
from workloads.harness.records.intervals import ratio_p

_WORDS = {RatioVerdict.FASTER: "cheaper", RatioVerdict.SLOWER: "dearer", RatioVerdict.UNDECIDED: "undecided"}


def usd_per_million_units(
    seconds: Estimate | None, units: float | None, usd_per_hour: float | None
) -> Estimate | None:
    """Return 1e6 price t / (3600 units), at `seconds` per step."""
    if seconds is None or not units or usd_per_hour is None:
        return None
    return scaled(seconds, 1e6 * usd(1.0, usd_per_hour) / units)


def cost_efficiency(
    speedup: Ratio | None,
    baseline_usd_per_hour: float | None,
    usd_per_hour: float | None,
    repeats: int,
    times_s: tuple[Sequence[float], Sequence[float]] | None = None,
    sessions: Sequence[Part] = (),
    earlier: Sequence[Part] = (),
) -> Ratio | None:
    """Return (baseline price x baseline time) / (price x time); above 1 is cheaper. None without prices.

    Its relative interval is the speedup's. `repeats`: of the side with fewer. `times_s`: the baseline's
    first. `sessions`: their effects; `earlier`: variances that earlier repeats add. Source: "Efficiency" of
    the AWS Batch image benchmark, (CPU price x CPU time) / (GPU price x GPU time).
    """
    if speedup is None or not baseline_usd_per_hour or not usd_per_hour:
        return None
    ratio = baseline_usd_per_hour / usd_per_hour
    if not 0 < ratio < math.inf:
        return None
    chance = ratio_p(*times_s, ratio, added=(*sessions, *earlier)) if times_s else None
    return replace(decide(scaled(speedup.estimate, ratio), repeats, shared_sd(sessions)), chance=chance)


def cost_words(ratio: Ratio) -> str:
    return _WORDS[ratio.outcome]
