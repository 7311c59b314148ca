"""Steps that the gate missed, and drifts that its baseline follows.

Weekly, in log seconds, by past change points and an anchor of fixed nights.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tasks.regressions.baseline import (
    CONTROL_Z,
    LEAST_CHANGE,
    PAIRED,
    TRIMMED,
    less,
    threshold_z,
)
from tasks.regressions.change import Change, share_in_words
from tasks.regressions.nightly_gate import ConfirmedChange
from tasks.regressions.panel import SeriesPanel
from tasks.regressions.robust import (
    CHANCE_Z,
    LEAST_SPREAD,
    MOST_MEMORY,
    PSEUDOMEDIAN_VARIANCE,
    Floats,
    Ints,
    first_columns,
    half_of,
    pseudomedian,
    slope,
    spread,
    trimmed_mean,
    without_tails,
)
from tasks.regressions.series import SeriesKey
from tasks.results.values import Estimate

BACK = 180  # nights that are searched for steps
WEEK = 7  # nights of the newest level, and the least on each side of a step
PENALTY = 5.0  # × σ² log n that a step must explain: below 0.1 false ones in 100 nights of normal noise
OUTLIER = 2.0  # spreads at which a night is cut
ANCHOR = 14  # nights of an anchor; a series needs them and a week after
FEWEST = 4  # nights of the anchor, and of the newest, that must have a number
LEAK = 0.05  # largest share by which a series can differ from its anchor unreported


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level in the past.

    `run`: first night at the new level, within about two nights; `nights` before the newest; `share`: seconds
    after over before, minus 1.
    """

    run: str
    nights: int
    share: float

    @property
    def sentence(self) -> str:
        since = f"since night {self.run}, {self.nights} nights ago"
        return f"{share_in_words(self.share)} {since}, which the nightly gate did not detect"


@dataclass(frozen=True, slots=True)
class Drift:
    """The change from anchor to newest week, less confirmed changes between.

    The interval of `change` holds for the whole panel.
    """

    first: str
    last: str
    change: Change

    @property
    def share(self) -> float:
        """Return seconds of the newest week over the anchor's, minus 1."""
        return self.change.share.value

    @property
    def shown(self) -> bool:
        """Return whether it is significant and larger than `LEAK`."""
        return self.change.direction(LEAK) != 0

    @property
    def sentence(self) -> str:
        low, high = (100 * (bound or 0.0) for bound in (self.change.share.low, self.change.share.high))
        nights = f"nights {self.first} to {self.last}, its anchor"
        return f"{self.change} ({low:+.1f} to {high:+.1f} %) than in {nights}"


def steps(log_s: Floats, penalty: float = PENALTY) -> list[tuple[int, float]]:
    """Return first nights of new levels by index, and shares of the steps.

    A step is at least a week old and larger than `LEAST_CHANGE`. Source: R. Killick et al., Optimal detection
    of changepoints with a linear computational cost, 2012.
    """
    from ruptures import KernelCPD  # type: ignore[import-untyped]  # slow: takes more than a second

    nights = np.flatnonzero(np.isfinite(log_s))
    if len(nights) < 2 * WEEK:
        return []
    sd = float(noise(log_s[None, nights])[0])
    values, least = without_tails(log_s[nights], OUTLIER * sd, WEEK), penalty * sd**2 * math.log(len(nights))
    ends = KernelCPD(kernel="linear", min_size=WEEK).fit(values[:, None]).predict(pen=least)[:-1]
    levels = [trimmed_mean(part[None, :], TRIMMED)[0] for part in np.split(values, ends)] if ends else [0.0]
    ends_and_steps = zip(ends, np.diff(levels), strict=True)
    real = ((end, step) for end, step in ends_and_steps if abs(step) > math.log1p(LEAST_CHANGE))
    return [(int(nights[end]), math.expm1(step)) for end, step in real]


def past_steps(
    panel: SeriesPanel,
    filed: Mapping[SeriesKey, Collection[str]],
    changes: Iterable[ConfirmedChange] = (),
    column: int = -1,
) -> dict[SeriesKey, tuple[Step, ...]]:
    """Return each series' steps in its segment's last `BACK` nights up to a column.

    Args:
        filed: nights of filed steps: a step within a week of one is the same.
        changes: the last step before one, in its direction, is the same change.
    """
    column = range(len(panel.runs))[column]
    log_s, control, beta = _past(panel, column)
    values, first = less(log_s, beta, control, half_of(control)), max(0, column + 1 - BACK)
    columns = {run: index for index, run in enumerate(panel.runs)}
    confirmed: dict[SeriesKey, list[tuple[int, float]]] = {}
    for change in changes:
        if change.run in columns:
            confirmed.setdefault(change.key, []).append((columns[change.run], change.share))
    by_key = {}
    for row, key in enumerate(panel.keys):
        old = [columns[run] for run in filed.get(key, ()) if run in columns]
        dated = [(first + index, share) for index, share in steps(values[row, first:])]
        ends = [at for at, _ in dated[1:]] + [column + 1]
        news = [
            Step(panel.runs[at], column - at, share)
            for (at, share), end in zip(dated, ends, strict=False)
            if all(abs(at - other) > WEEK for other in old)
            and not any(at - WEEK <= c < end and s * share > 0 for c, s in confirmed.get(key, ()))
            and _not_of_the_box(math.log1p(share), control[row], at, float(beta[row]))
        ]
        if news:
            by_key[key] = tuple(news)
    return by_key


def against_anchor(
    panel: SeriesPanel, pinned: Mapping[str, str], changes: Iterable[ConfirmedChange], column: int = -1
) -> dict[SeriesKey, Drift]:
    """Compare the week up to a column with the anchor.

    The anchor is the nights around the channel's pinned run, such as a release; else the segment's first
    nights.

    Args:
        pinned: run by channel.
        changes: the anchor lies on one side of each, the newest nights after all.
    """
    column = range(len(panel.runs))[column]
    if column + 1 < ANCHOR + WEEK:
        return {}
    log_s, control, beta = _past(panel, column)
    spans = _spans(panel, pinned, changes, column)
    usable = np.isfinite(log_s) & (np.isfinite(control) | (beta == 0)[:, None])
    usable &= (usable.sum(axis=1) >= ANCHOR + WEEK)[:, None]
    anchor = first_columns(usable, spans.low, spans.high, ANCHOR)
    newest = first_columns(usable, spans.new, column + 1, WEEK)
    box, error = _difference(control, anchor, newest)
    beta = np.where(np.abs(box) > CONTROL_Z * error, 1.0, beta)  # the machine changed, whatever the fit
    change, error = _difference(less(log_s, beta, control, half_of(control)), anchor, newest)
    change, error = change - spans.confirmed, np.hypot(error, spans.error)
    reach = threshold_z(max(int(panel.planned.sum()), 1)) * error
    share, low, high = np.expm1(np.stack([change, change - reach, change + reach]))
    drifts = {}
    for row in np.flatnonzero(np.isfinite(share)):
        nights = anchor[row][anchor[row] >= 0]
        ends = panel.runs[nights[0]], panel.runs[nights[-1]]
        estimate = Estimate(float(share[row]), float(low[row]), float(high[row]))
        drifts[panel.keys[row]] = Drift(*ends, Change(estimate))
    return drifts


def noise(values: Floats) -> Floats:
    """Return each row's night-to-night standard deviation, robust to changes of level.

    By differences between nights; for correlated nights the larger long-run one of an AR(1).
    """
    order = np.argsort(~np.isfinite(values), axis=1, kind="stable")  # numbers first
    moves = np.diff(np.take_along_axis(values, order, axis=1))
    width = spread(moves, np.zeros(len(moves)))
    scores = np.clip(moves / np.maximum(width, LEAST_SPREAD)[:, None], -3.0, 3.0)
    total = np.nansum(scores**2, axis=1)
    products = scores[:, :-1] * scores[:, 1:]
    neighbours = np.divide(np.nansum(products, axis=1), total, out=np.full_like(total, -0.5), where=total > 0)
    memory = 1 + 2 * neighbours  # differences of independent values correlate by -1/2
    # Its standard error is that of M. S. Bartlett (1946): √2 / √n without memory.
    shown = memory * np.sqrt(np.isfinite(products).sum(axis=1) / 2) > CHANCE_Z
    memory = np.where(shown, np.clip(memory, 0.0, MOST_MEMORY), 0.0)
    lasting: Floats = np.maximum(width * np.sqrt((1 + memory) / 2) / (1 - memory), LEAST_SPREAD)
    return lasting


@dataclass(frozen=True, slots=True)
class _Spans:
    low: Ints
    high: Ints
    new: Ints
    confirmed: Floats
    error: Floats


def _spans(
    panel: SeriesPanel, pinned: Mapping[str, str], changes: Iterable[ConfirmedChange], column: int
) -> _Spans:
    columns = {run: index for index, run in enumerate(panel.runs[: column + 1])}
    segment, end = panel.segment[:, column], column - WEEK + 1
    pin = np.array([columns.get(pinned.get(key.channel, ""), -1) for key in panel.keys], np.int64)
    usable = pin >= segment
    low = np.where(usable, np.maximum(segment, np.minimum(pin, end) - ANCHOR // 2), segment)
    high = np.where(usable, np.minimum(pin + ANCHOR // 2 + 1, end), end)
    pin, new = np.maximum(pin, segment), np.full(len(pin), max(end, 0))
    confirmed, error = np.zeros(len(pin)), np.zeros(len(pin))
    rows = {key: row for row, key in enumerate(panel.keys)}
    for change in changes:
        row, at = rows.get(change.key, -1), columns.get(change.run, -1)
        if row < 0 or at < segment[row]:
            continue
        if at <= pin[row]:
            low[row] = max(low[row], at)
            continue
        high[row], new[row] = min(high[row], at), max(new[row], at)
        step = math.log1p(change.share)
        confirmed[row], error[row] = confirmed[row] + step, math.hypot(error[row], step / change.z)
    return _Spans(low, high, new, confirmed, error)


def _past(panel: SeriesPanel, column: int) -> tuple[Floats, Floats, Floats]:
    inside = np.arange(column + 1) >= panel.segment[:, column, None]
    log_s = np.where(inside, panel.log_s[:, : column + 1], np.nan)
    control = np.where(inside, panel.log_control_s[:, : column + 1], np.nan)
    lately = np.isfinite(control[:, -WEEK:]).any(axis=1)  # a control that has ended does not show the present
    fitted, pairs = slope(log_s, control)
    return log_s, control, np.where(lately, np.where(pairs >= PAIRED, fitted, panel.alone), 0.0)


def _difference(values: Floats, anchor: Ints, newest: Ints) -> tuple[Floats, Floats]:
    picked = [np.where(at >= 0, np.take_along_axis(values, at, axis=1), np.nan) for at in (newest, anchor)]
    counts = [np.isfinite(side).sum(axis=1) for side in picked]
    enough = np.minimum(*counts) >= FEWEST
    change = np.where(enough, pseudomedian(picked[0]) - pseudomedian(picked[1]), np.nan)
    share = sum(1 / np.maximum(count, 1) for count in counts)
    return change, noise(values) * np.sqrt(PSEUDOMEDIAN_VARIANCE * share)


def _not_of_the_box(step: float, control: Floats, at: int, beta: float) -> bool:
    """Return whether most of a step, and more than `LEAST_CHANGE`, remains without its control's.

    Noise lowers the control's fitted weight, which leaves part of the machine's step.
    """
    before, after = control[max(0, at - 2 * ANCHOR) : at], control[at : at + 2 * ANCHOR]
    if beta == 0 or min(np.isfinite(before).sum(), np.isfinite(after).sum()) < FEWEST:
        return True
    box = float(pseudomedian(after[None, :])[0] - pseudomedian(before[None, :])[0])
    left = step - (1 - beta) * box
    return left / step > 0.5 and abs(left) > math.log1p(LEAST_CHANGE)
