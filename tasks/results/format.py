"""Numbers without digits that their interval does not support."""

import math
from collections.abc import Iterable, Sequence

from tasks.results.values import Estimate, Ratio
from workloads.harness.records.text import JOULES

MOST = 4  # significant digits, however narrow the interval
TINY = 1e-300  # a fifth of a smaller value can underflow
BARE = 2  # significant digits of a number without an interval
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_LONG = ((7200.0, 3600.0, "h"), (120.0, 60.0, "min"))  # least seconds, seconds of the unit, the unit


def format_ratio(ratio: Ratio | Estimate | None) -> str:
    """Return `27.2× (26.1–28.4)`; `~1.8×` without an interval; `–` for None."""
    estimate = ratio.estimate if isinstance(ratio, Ratio) else ratio
    return "–" if estimate is None else format_estimate(estimate, "×")


def format_percent(estimate: Estimate | None) -> str:
    """Return a share as `80.6 % (79.1–82.0)`."""
    return "–" if estimate is None else format_estimate(_times(estimate, 100), " %")


def format_share(share: float) -> str:
    """Return `4.1 %`, or `over 1000 %`."""
    return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %" if share < 10 else "over 1000 %"


def format_seconds(seconds: Estimate | float | None) -> str:
    """Return `12.3 ms (12.1–12.5)`."""
    return "–" if seconds is None else _scaled(seconds, _SECONDS)


def format_energy(joules: Estimate | float) -> str:
    """Return `24.5 J (24.3–24.7)`, `2.00 pJ`."""
    return _scaled(joules, JOULES)


def format_plus_minus(seconds: Estimate) -> str:
    """Return `1.23 ms ± 2.1 %` by the larger half; above 100 % a factor."""
    if seconds.low is None or seconds.high is None or not seconds.value:
        return format_seconds(seconds)
    share = max(seconds.high - seconds.value, seconds.value - seconds.low) / seconds.value
    if share > 1:
        return f"{format_seconds(Estimate(seconds.value))} within a factor of {significant(1 + share, 2)}"
    return f"{format_seconds(Estimate(seconds.value)).removeprefix('~')} ± {significant(100 * share, 2)} %"


def format_duration(seconds: Estimate | float | None) -> str:
    """Return `52.1 h (50.3–53.9)`."""
    value = seconds.value if isinstance(seconds, Estimate) else seconds or 0.0
    size, unit = next(((size, unit) for least, size, unit in _LONG if value >= least), (1.0, ""))
    if seconds is None or not unit:
        return format_seconds(seconds)
    if isinstance(seconds, Estimate):
        return format_estimate(_times(seconds, 1 / size), f" {unit}")
    return f"{significant(value / size, 3)} {unit}"


def format_usd(usd: Estimate | float | None) -> str:
    """Return `$0.0122 (0.0120–0.0124)`."""
    if usd is None:
        return "–"
    if not isinstance(usd, Estimate):
        return f"${significant(usd, 3)}"
    text = format_estimate(usd, "")
    return text.replace("~", "~$") if usd.low is None else f"${text}"


def format_estimate(estimate: Estimate, unit: str) -> str:
    """Return value, unit and bounds.

    The last place is at most a fifth of the half-width, so rounding moves a bound by a tenth.
    """
    if estimate.low is None or estimate.high is None:
        return f"~{significant(estimate.value, BARE)}{unit}"
    return f"{_shown(estimate.value, estimate)}{unit} ({format_bounds(estimate)})"


def format_bounds(estimate: Estimate) -> str:
    """Return `26.1–28.4`, in the value's digits; else empty."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{_shown(estimate.low, estimate)}–{_shown(estimate.high, estimate)}"


def capitalised(text: str) -> str:
    """Keep the other letters, unlike `str.capitalize`."""
    return text[:1].upper() + text[1:]


def listed(names: Iterable[str], most: int | None = 3) -> str:
    """Return `a, b and c`, and the number of others."""
    known = list(names)
    if most is not None and len(known) > most:
        return f"{', '.join(known[:most])} and {len(known) - most} more"
    return " and ".join(filter(None, (", ".join(known[:-1]), *known[-1:])))


def format_count(number: int, noun: str) -> str:
    """Return `1 case`, `3 cases`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def cases_text(counted: int, measured: int) -> str:
    """Return `7 cases`, or `6 of 7 cases`."""
    whole = format_count(max(measured, counted), "case")
    return f"{counted} of {whole}" if measured > counted else whole


def significant(value: float, digits: int) -> str:
    """Return such as 0.0122 and 1230."""
    return _fixed(value, _place(value) + digits - 1)


def ratio_of_rounded(over: float, under: float, step: float, under_step: float | None = None) -> Estimate:
    """Return the ratio of printed numbers, with bounds from rounding to `step`.

    A published 0.50 s / 0.01 s can be from 33 to 101. `under_step`: if it differs.
    """
    half, under_half = step / 2, (step if under_step is None else under_step) / 2
    high = (over + half) / (under - under_half) if under > under_half else math.inf
    return Estimate(over / under, max(over - half, 0.0) / (under + under_half), high)


def _place(value: float) -> int:
    return -math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0


def _shown(value: float, estimate: Estimate) -> str:
    """Keep at least one digit if the interval is above 0."""
    index = _place(estimate.value) + MOST - 1
    half = ((estimate.high or 0.0) - (estimate.low or 0.0)) / 2
    index = min(index, -math.floor(math.log10(half / 5))) if TINY < half < math.inf else index
    return _fixed(value, max(index, _place(value)) if (estimate.low or 0.0) > 0 else index)


def _fixed(value: float, places: int) -> str:
    return f"{round(value, places):.{max(places, 0)}f}" if math.isfinite(value) else str(value)


def _scaled(quantity: Estimate | float, units: Sequence[tuple[float, str]]) -> str:
    value = quantity.value if isinstance(quantity, Estimate) else quantity
    size, unit = next((pair for pair in units if abs(value) >= pair[0]), units[-1])
    if isinstance(quantity, Estimate):
        return format_estimate(_times(quantity, 1 / size), f" {unit}")
    return f"{significant(value / size, 3)} {unit}"


def _times(estimate: Estimate, factor: float) -> Estimate:
    low, high = estimate.low, estimate.high
    return Estimate(
        estimate.value * factor,
        None if low is None else low * factor,
        None if high is None else high * factor,
    )
