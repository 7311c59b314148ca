"""Rules that rows of a published table must keep. A false alarm is worse than a miss."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

from tasks.plausibility.physics import CACHE_BYTES, MARGIN
from tasks.published.sizes import flops, more_work, precision
from tasks.published.table import (
    Claim,
    Printed,
    PublishedColumn,
    PublishedTable,
    TableFlaw,
    TableRow,
    beyond,
    interval,
    is_time,
)
from tasks.results.format import significant
from tasks.results.model import Machine
from tasks.results.values import Estimate

COPY_DIGITS = 4  # equal digits of two rows' times that are no coincidence: one in 10,000 at most
COARSE = 1.1  # high over low bound: a ratio known to 5 % or worse
TWICE = 2.0  # a time that falls by less, while work grows, may be a better-suited size or noise
PER_SECOND = {"samples": "batch", "images": "batch", "items": "batch", "examples": "batch", "frames": "batch"}


def not_times(table: PublishedTable) -> Iterator[TableFlaw]:
    """Report numbers among the times that can be no time: zero, negative, not finite."""
    for row in (*table.rows, *([table.total] if table.total else [])):
        for column, printed in zip(table.times, row.times, strict=True):
            if printed is None or is_time(printed):
                continue
            reason = "which is no time"
            if printed.value == 0:
                most = significant(printed.step / 2, 2)
                reason = f"which only says that it is below {most} {column.unit}: no ratio can be taken"
            text = f"{row.name} took {shown(printed, column)} in {column.header}, {reason}"
            yield TableFlaw("not a time", (row.name,), text)


def copies(table: PublishedTable) -> list[list[TableRow]]:
    """Group rows whose times agree in every digit and column, with too many digits for a coincidence."""
    alike: dict[tuple[str, ...], list[TableRow]] = defaultdict(list)
    for row in table.rows:
        times = [printed for printed in row.times if printed and is_time(printed)]
        if len(times) == len(row.times) and sum(map(_digits, times)) >= COPY_DIGITS:
            alike[tuple(printed.text for printed in times)].append(row)
    return [rows for rows in alike.values() if len(rows) > 1]


def copied(table: PublishedTable) -> Iterator[TableFlaw]:
    """Report rows that have the same figures in every column: one is a copy of the other."""
    for rows in copies(table):
        names, times = [row.name for row in rows], rows[0].times
        figures = ", ".join(shown(p, c) for p, c in zip(times, table.times, strict=True) if p)
        yield TableFlaw(
            "copied row",
            tuple(names),
            f"{_listed(names)} have the same figures in every column ({figures}): "
            f"{'one' if len(rows) == 2 else 'all but one'} is a copy",
        )


def misquoted(claim: Claim) -> TableFlaw | None:
    """Report a speedup that the two rounded times cannot produce."""
    printed, bounds = claim.printed, claim.bounds
    if printed is None or bounds is None or not beyond(interval(printed), bounds):
        return None
    text = f"{claim.row} is printed as {printed.text}× in {claim.column}, its times give {spread(bounds)}"
    return TableFlaw("speedup that its times don't give", (claim.row,), text)


def coarse(claims: tuple[Claim, ...]) -> TableFlaw | None:
    """Report speedups with more digits than the rounding of their times supports."""
    printed = [claim for claim in claims if claim.printed and claim.bounds]
    too_fine = [claim for claim in printed if _width(claim.bounds) > COARSE and _narrower(claim)]
    if not too_fine:
        return None
    worst = sorted(too_fine, key=lambda claim: -_width(claim.bounds))[:3]
    several = len({claim.column for claim in printed}) > 1
    words = [
        f"{c.printed.text} of {c.row}{f' in {c.column}' if several else ''} is {spread(c.bounds)}"
        for c in worst
        if c.printed and c.bounds
    ]
    return TableFlaw(
        "digits that rounding doesn't leave",
        tuple(dict.fromkeys(claim.row for claim in too_fine)),
        f"{len(too_fine)} of {len(printed)} speedups are printed more exactly than their rounded times "
        f"allow: {_listed(words)}",
    )


def cold(table: PublishedTable, index: int) -> tuple[TableRow, TableRow, Estimate] | None:
    """Return the first row if it took longer than one of more work, that row, and the excess time.

    The first call pays for what happens once: contexts, libraries, kernels that are compiled, memory pools.
    """
    if not table.rows or table.times[index].each:
        return None
    first, mine = table.rows[0], table.rows[0].times[index]
    larger = [row for row in table.rows[1:] if more_work(row, first)]
    timed = [(p, row) for row in larger if (p := row.times[index]) and is_time(p)]
    if mine is None or not is_time(mine) or not timed:
        return None
    least, row = min(timed, key=lambda pair: pair[0].value)
    if mine.low <= least.high:
        return None
    return first, row, Estimate(mine.value - least.value, mine.low - least.high, mine.high)


def cold_first(table: PublishedTable, index: int) -> TableFlaw | None:
    """Report a first row that holds a one-off cost not its own."""
    cold_start = cold(table, index)
    if cold_start is None:
        return None
    first, larger, lost = cold_start
    column, mine, its = table.times[index], first.times[index], larger.times[index]
    least = significant(lost.low or 0.0, 2)
    text = (
        f"{first.name}, the first row, took {shown(mine, column)} in {column.header}, {larger.name} only "
        f"{shown(its, column)} for more work: at least {least} {column.unit} were spent once, on a cold "
        "start, which belongs in a row of its own"
    )
    return TableFlaw("cold first row", (first.name, larger.name), text)


def not_growing(table: PublishedTable, index: int) -> Iterator[TableFlaw]:
    """Report rows that do more than others of their kind in less than half the time, beyond rounding.

    A row is named once, beside the one that it undercuts most; what a cold first row explains is left out.
    """
    column, first = table.times[index], cold(table, index)
    if column.each:
        return
    worst: dict[str, tuple[float, TableRow, TableRow]] = {}
    for pair in combinations(table.rows, 2):
        for larger, smaller in (pair, pair[::-1]):
            gain = 0.0 if first and smaller is first[0] else _least_gain(larger, smaller, index)
            if gain > TWICE and more_work(larger, smaller) and gain > worst.get(larger.name, (0.0,))[0]:
                worst[larger.name] = gain, larger, smaller
    doubtful = {row.name for rows in copies(table) for row in rows}
    for _, larger, smaller in worst.values():
        why = ", which may be a copy, took" if smaller.name in doubtful else " took"
        text = (
            f"{larger.name} took {shown(larger.times[index], column)} in {column.header}, "
            f"{smaller.name}{why} {shown(smaller.times[index], column)} for less work"
        )
        yield TableFlaw("time that falls as work grows", (larger.name, smaller.name), text)


def misrated(table: PublishedTable, index: int) -> TableFlaw | None:
    """Report a rate that differs from its count over its time by more than 5 % beyond rounding.

    Rates that are all wrong by one factor count something else; that is said once.
    """
    column, off = table.rates[index], []
    judged = [row for row in table.rows if _rate_of(table, index, row)]
    for row in judged:
        printed, made = row.rates[index], _rate_of(table, index, row)
        if printed and made and beyond(_widened(interval(printed)), made):
            off.append((row, printed, made))
    if not off:
        return None
    row, printed, made = off[0]
    factor = significant(printed.value / made.value, 3)
    names = tuple(row.name for row, _, _ in off)
    more = f" and {len(off) - 1} more rows are off" if len(off) > 1 else ""
    same = len({round(p.value / m.value, 1) for _, p, m in off}) == 1
    if same and len(off) == len(judged) > 1:
        more = " and so is every row: it counts something else, or is of another time"
    text = (
        f"{row.name} has {printed.text} in {column.header}, its {count_name(column)} over its time give "
        f"{spread(made)}: {factor} times that{more}"
    )
    return TableFlaw("rate that its time doesn't give", names, text)


def above_peaks(table: PublishedTable, index: int, machine: Machine) -> Iterator[TableFlaw]:
    """Report rows that compute or move more than the machine can, even at the longest time that rounds so."""
    column = table.times[index]
    if column.each:
        return
    for row in table.rows:
        printed = row.times[index]
        if printed is None or not is_time(printed):
            continue
        longest_s, work = printed.high * column.scale, flops(row)
        name, peak = peak_for(row, machine)
        if work and peak and work / longest_s > MARGIN * peak:
            rate = f"{significant(work / longest_s / 1e12, 3)} TFLOP/s or more"
            yield _above(row, column, rate, f"the peak of {machine.name} in {name}, {peak / 1e12:g} TFLOP/s")
        moved, top = dict(row.sizes).get("bytes"), machine.peak_bytes_per_s
        if moved and top and (moved - CACHE_BYTES["cuda"]) / longest_s > MARGIN * top:
            rate = f"{significant(moved / longest_s / 1e9, 3)} GB/s or more"
            yield _above(row, column, rate, f"the memory bandwidth of {machine.name}, {top / 1e9:g} GB/s")


def peak_for(row: TableRow, machine: Machine) -> tuple[str, float | None]:
    """Return the peak for a row: that of the precision in its name, else the machine's highest."""
    peaks = dict(machine.peak_flops)
    stated = precision(row)
    if stated in peaks:
        return stated, peaks[stated]
    name = max(peaks, key=lambda known: peaks[known], default="")
    return f"{name}, its highest", peaks.get(name)


def count_name(column: PublishedColumn) -> str:
    """Name what a rate counts, in the words of the columns of sizes."""
    return column.unit if column.unit in ("flops", "bytes") else f"{column.unit} or batch"


def shown(printed: Printed | None, column: PublishedColumn) -> str:
    """Format a time as it stands in the table, with its unit."""
    return f"{printed.text} {column.unit}" if printed else "–"


def spread(bounds: Estimate) -> str:
    """Format the bounds that rounding leaves: `33.0–101`, or `32.7 or more`."""
    low = significant(bounds.low or 0.0, 3)
    high = bounds.high if bounds.high is not None else float("inf")
    return f"{low}–{significant(high, 3)}" if high < float("inf") else f"{low} or more"


def _above(row: TableRow, column: PublishedColumn, rate: str, peak: str) -> TableFlaw:
    text = f"{row.name} would run at {rate} in {column.header}, above {peak}"
    return TableFlaw("above the peak", (row.name,), text)


def _rate_of(table: PublishedTable, index: int, row: TableRow) -> Estimate | None:
    """Compute the count over the time, in the rate's unit, with the bounds of the time's rounding."""
    column = table.rates[index]
    time, sizes = row.times[column.times_index or 0], dict(row.sizes)
    singular = {name.removesuffix("s"): size for name, size in sizes.items()}
    count = flops(row) if column.unit == "flops" else singular.get(column.unit.removesuffix("s"))
    if count is None:
        count = sizes.get(PER_SECOND.get(column.unit, ""))
    if count is None or time is None or not is_time(time) or row.rates[index] is None:
        return None
    scale = table.times[column.times_index or 0].scale * column.scale
    low, high = count / (time.high * scale), count / (time.low * scale) if time.low > 0 else float("inf")
    return Estimate(count / (time.value * scale), low, high)


def _widened(bounds: Estimate) -> Estimate:
    return Estimate(bounds.value, (bounds.low or 0.0) / MARGIN, (bounds.high or 0.0) * MARGIN)


def _least_gain(larger: TableRow, smaller: TableRow, index: int) -> float:
    """Return the least ratio of the smaller row's time to the larger row's; 0 if one has none."""
    more, less = larger.times[index], smaller.times[index]
    return less.low / more.high if more and less and is_time(more) and is_time(less) else 0.0


def _digits(printed: Printed) -> int:
    """Count the significant digits of a printed number."""
    return len(printed.text.partition("E")[0].replace(".", "").lstrip("+-0"))


def _width(bounds: Estimate | None) -> float:
    if bounds is None or bounds.high is None or not bounds.low:
        return float("inf")
    return bounds.high / bounds.low


def _narrower(claim: Claim) -> bool:
    """Return True if a printed speedup is more precise than its bounds."""
    return bool(claim.printed and claim.bounds and claim.bounds.high is not None) and (
        claim.printed.step < claim.bounds.high - (claim.bounds.low or 0.0)  # type: ignore[union-attr,operator]
    )


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
