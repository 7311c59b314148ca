"""What the gate of a night can't see: steps that it missed, and leaks so slow that its baseline learns them.

Both look back, once a week. A search for change points dates steps of the past; an anchor, nights that never
move along, shows leaks. All is in natural logarithms of seconds.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tasks.regressions.baseline import (
    CONTROL_Z,
    LEAST_CHANGE,
    LEAST_SPREAD,
    PAIRED,
    TRIMMED,
    Bools,
    threshold_z,
)
from tasks.regressions.nightly_gate import Change
from tasks.regressions.panel import Panel
from tasks.regressions.robust import (
    CHANCE_Z,
    MOST_MEMORY,
    PSEUDOMEDIAN_VARIANCE,
    Floats,
    Ints,
    half_of,
    pseudomedian,
    slope,
    spread,
    trimmed_mean,
)
from tasks.regressions.series import SeriesKey

BACK = 180  # nights in which steps are looked for
WEEK = 7  # nights that the newest level is of, and that lie on each side of a step at least
PENALTY = 5.0  # × σ² log n, that a step must explain: below 0.1 false ones in 100 nights of normal noise
ANCHOR = 14  # nights that an anchor is of; with a week after it, what a series must have
FEWEST = 4  # of the anchor and of the newest nights must have a number
LEAK = 0.05  # share by which a series may be off its anchor


@dataclass(frozen=True, slots=True)
class Step:
    """A change of level in the past.

    Attributes:
        run: the first night at the new level, give or take two.
        nights: how many nights ago that was.
        share: seconds after it over those before, minus 1.
    """

    run: str
    nights: int
    share: float

    @property
    def sentence(self) -> str:
        """What a ticket says of it."""
        return f"{moved(self.share)} since night {self.run}, {self.nights} nights ago, unseen by the gate"


@dataclass(frozen=True, slots=True)
class Drift:
    """The newest week of a series against its anchor, less the changes that were confirmed in between.

    Attributes:
        first, last: nights that the anchor is of.
        share: seconds of the newest week over the anchor's, minus 1.
        low, high: bounds of it, wide enough for all series of the panel together (`threshold_z`).
    """

    first: str
    last: str
    share: float
    low: float
    high: float

    @property
    def told(self) -> bool:
        """Whether it is news: off by more than `LEAK`, slower or faster, with bounds clear of 0."""
        return abs(math.log1p(self.share)) > math.log1p(LEAK) and (self.low > 0 or self.high < 0)

    @property
    def sentence(self) -> str:
        """What a ticket says of it."""
        bounds = f"{100 * self.low:+.1f} to {100 * self.high:+.1f} %"
        return f"{moved(self.share)} ({bounds}) than in nights {self.first} to {self.last}, its anchor"


def moved(share: float) -> str:
    """A change of seconds in words, such as `5.2 % slower`."""
    return f"{100 * abs(share):.1f} % {'slower' if share > 0 else 'faster'}"


def steps(log_s: Floats, penalty: float = PENALTY) -> list[tuple[int, float]]:
    """Index of the first night of each new level of a series, and its share; NaN is no number.

    A step lies at least a week back, and is larger than what nobody would act on. Source: R. Killick,
    P. Fearnhead and I. A. Eckley, Optimal detection of changepoints with a linear computational cost, 2012.
    """
    from ruptures import KernelCPD  # type: ignore[import-untyped]  # takes more than a second to import

    there = np.flatnonzero(np.isfinite(log_s))
    if len(there) < 2 * WEEK:
        return []
    values = log_s[there]
    least = penalty * float(noise(values[None, :])[0]) ** 2 * math.log(len(values))
    ends = KernelCPD(kernel="linear", min_size=WEEK).fit(values[:, None]).predict(pen=least)[:-1]
    levels = [trimmed_mean(part[None, :], TRIMMED)[0] for part in np.split(values, ends)] if ends else [0.0]
    found = zip(ends, np.diff(levels), strict=True)
    return [
        (int(there[end]), math.expm1(step)) for end, step in found if abs(step) > math.log1p(LEAST_CHANGE)
    ]


def past_steps(
    panel: Panel, told: Mapping[SeriesKey, Collection[str]], changes: Iterable[Change] = (), column: int = -1
) -> dict[SeriesKey, tuple[Step, ...]]:
    """Steps of each series that has any, in its segment's last `BACK` nights before a column's, oldest first.

    Args:
        told: nights of steps that were told before: a step within a week of one is the same.
        changes: all that were confirmed: a step that comes before one in its direction, and after which none
            other comes first, is the same, confirmed late.
    """
    column = range(len(panel.runs))[column]
    log_s, control, beta = _past(panel, column)
    values, first = _less(log_s, control, beta), max(0, column + 1 - BACK)
    columns = {run: place for place, run in enumerate(panel.runs)}
    confirmed: dict[SeriesKey, list[tuple[int, float]]] = {}
    for change in changes:
        if change.run in columns:
            confirmed.setdefault(change.key, []).append((columns[change.run], change.share))
    found = {}
    for row, key in enumerate(panel.keys):
        old = [columns[run] for run in told.get(key, ()) if run in columns]
        dated = [(first + index, share) for index, share in steps(values[row, first:])]
        ends = [at for at, _ in dated[1:]] + [column + 1]
        news = [
            Step(panel.runs[at], column - at, share)
            for (at, share), end in zip(dated, ends, strict=False)
            if all(abs(at - place) > WEEK for place in old)
            and not any(at - WEEK <= c < end and s * share > 0 for c, s in confirmed.get(key, ()))
            and _not_of_the_box(math.log1p(share), control[row], at, float(beta[row]))
        ]
        if news:
            found[key] = tuple(news)
    return found


def against_anchor(
    panel: Panel, pinned: Mapping[str, str], changes: Iterable[Change], column: int = -1
) -> dict[SeriesKey, Drift]:
    """The week that ends with a column against the anchor, for each series with enough nights in both.

    The anchor is the nights around the run that the series' channel is pinned to, such as its last release;
    where the channel has none, or the series' segment is younger, the segment's first ones.

    Args:
        pinned: run by channel.
        changes: all that were confirmed. The anchor is of one side of each, the newest nights after all.
    """
    column = range(len(panel.runs))[column]
    if column + 1 < ANCHOR + WEEK:
        return {}
    log_s, control, beta = _past(panel, column)
    at = _places(panel, pinned, changes, column)
    usable = np.isfinite(log_s) & (np.isfinite(control) | (beta == 0)[:, None])
    usable &= (usable.sum(axis=1) >= ANCHOR + WEEK)[:, None]
    anchor, newest = _first(usable, at.low, at.high, ANCHOR), _first(usable, at.new, column + 1, WEEK)
    box, error = _difference(control, anchor, newest)
    beta = np.where(
        np.abs(box) > CONTROL_Z * error, 1.0, beta
    )  # the box is to blame, whatever it told before
    change, error = _difference(_less(log_s, control, beta), anchor, newest)
    change, error = change - at.told, np.hypot(error, at.error)
    reach = threshold_z(len(panel.keys)) * error
    share, low, high = np.expm1(np.stack([change, change - reach, change + reach]))
    found = {}
    for row in np.flatnonzero(np.isfinite(share)):
        nights = anchor[row][anchor[row] >= 0]
        ends = panel.runs[nights[0]], panel.runs[nights[-1]]
        found[panel.keys[row]] = Drift(*ends, float(share[row]), float(low[row]), float(high[row]))
    return found


def noise(values: Floats) -> Floats:
    """Standard deviation of a night in each row, whatever its level does, as far as a mean of nights has it.

    It is of the differences between nights that follow each other. Where nights remember those before them,
    their mean is less sure than of independent ones: then it is larger by that (an AR(1)'s long-run one).
    """
    order = np.argsort(~np.isfinite(values), axis=1, kind="stable")  # those with a number first
    moves = np.diff(np.take_along_axis(values, order, axis=1))
    width = spread(moves, np.zeros(len(moves)))
    scores = np.clip(moves / np.maximum(width, LEAST_SPREAD)[:, None], -3.0, 3.0)
    total = np.nansum(scores**2, axis=1)
    products = scores[:, :-1] * scores[:, 1:]
    neighbours = np.divide(np.nansum(products, axis=1), total, out=np.full_like(total, -0.5), where=total > 0)
    memory = 1 + 2 * neighbours  # differences of independent values correlate by -1/2
    # Its standard error is that of M. S. Bartlett (1946): √2 / √n where there is no memory.
    shown = memory * np.sqrt(np.isfinite(products).sum(axis=1) / 2) > CHANCE_Z
    memory = np.where(shown, np.clip(memory, 0.0, MOST_MEMORY), 0.0)
    lasting: Floats = np.maximum(width * np.sqrt((1 + memory) / 2) / (1 - memory), LEAST_SPREAD)
    return lasting


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the nights of each series are that are compared; columns, one a series.

    Attributes:
        low, high: the anchor's are from `low` on and before `high`.
        new: the newest are from it on.
        told, error: log change between the two that was confirmed, and its standard error.
    """

    low: Ints
    high: Ints
    new: Ints
    told: Floats
    error: Floats


def _places(panel: Panel, pinned: Mapping[str, str], changes: Iterable[Change], column: int) -> _Places:
    columns = {run: place for place, run in enumerate(panel.runs[: column + 1])}
    segment, end = panel.segment[:, column], column - WEEK + 1
    pin = np.array([columns.get(pinned.get(key.channel, ""), -1) for key in panel.keys], np.int64)
    there = pin >= segment
    low = np.where(there, np.maximum(segment, np.minimum(pin, end) - ANCHOR // 2), segment)
    high = np.where(there, np.minimum(pin + ANCHOR // 2 + 1, end), end)
    pin, new = np.maximum(pin, segment), np.full(len(pin), max(end, 0))
    told, error = np.zeros(len(pin)), np.zeros(len(pin))
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
        told[row], error[row] = told[row] + step, math.hypot(error[row], step / change.z)
    return _Places(low, high, new, told, error)


def _past(panel: Panel, column: int) -> tuple[Floats, Floats, Floats]:
    """Log seconds of each series and its control in the segment up to a column, and the control's weight."""
    there = np.arange(column + 1) >= panel.segment[:, column, None]
    log_s = np.where(there, panel.log_s[:, : column + 1], np.nan)
    control = np.where(there, panel.log_control_s[:, : column + 1], np.nan)
    lately = np.isfinite(control[:, -WEEK:]).any(axis=1)  # a control that has ended says nothing of now
    return log_s, control, np.where(lately, slope(log_s, control, panel.alone, PAIRED), 0.0)


def _less(log_s: Floats, control: Floats, beta: Floats) -> Floats:
    """Log seconds without what the box did; NaN where a control that counts has no number."""
    off = beta[:, None] * (control - half_of(control)[:, None])
    return np.where(beta[:, None] > 0, log_s - off, log_s)


def _first(usable: Bools, low: Ints, high: Ints | int, most: int) -> Ints:
    """(series, most) the first usable columns from `low` on and before `high`; -1 for none."""
    place = np.arange(usable.shape[1])
    inside = usable & (place >= low[:, None]) & (place < np.reshape(high, (-1, 1)))
    order = np.argsort(~inside, axis=1, kind="stable")[:, :most]
    return np.where(np.take_along_axis(inside, order, axis=1), order, -1)


def _difference(values: Floats, anchor: Ints, newest: Ints) -> tuple[Floats, Floats]:
    """Newest values less the anchor's, and the standard error; NaN where either are few."""
    picked = [
        np.where(places >= 0, np.take_along_axis(values, places, axis=1), np.nan)
        for places in (newest, anchor)
    ]
    counts = [np.isfinite(of).sum(axis=1) for of in picked]
    enough = np.minimum(*counts) >= FEWEST
    change = np.where(enough, pseudomedian(picked[0]) - pseudomedian(picked[1]), np.nan)
    share = sum(1 / np.maximum(count, 1) for count in counts)
    return change, noise(values) * np.sqrt(PSEUDOMEDIAN_VARIANCE * share)


def _not_of_the_box(step: float, control: Floats, at: int, beta: float) -> bool:
    """Whether most of a step is left, and worth telling, without what its control took of it there.

    The weight that is fitted to single nights, with the control's own noise, leaves a part of the box's step.
    """
    before, after = control[max(0, at - 2 * ANCHOR) : at], control[at : at + 2 * ANCHOR]
    if beta == 0 or min(np.isfinite(before).sum(), np.isfinite(after).sum()) < FEWEST:
        return True
    box = float(pseudomedian(after[None, :])[0] - pseudomedian(before[None, :])[0])
    left = step - (1 - beta) * box
    return left / step > 0.5 and abs(left) > math.log1p(LEAST_CHANGE)
