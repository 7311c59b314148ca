"""Check rates and times: their product is one amount, or that of the row's sizes."""

import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import median

from tasks.published.ratios import spread
from tasks.published.relations import LEAST, MOST_OFF, TELLING
from tasks.published.rounded import cell
from tasks.published.sizes import flops, word_set
from tasks.published.table import ColumnKind, Compared, PublishedColumn, PublishedTable, TableFlaw, TableRow
from tasks.results.format import significant
from tasks.results.values import Estimate

RULE = "rate that its time doesn't give"
OVERLAP = 1.4  # calls that overlap have up to this many times the rate that the time of one gives
SAME = 0.03  # relative difference of amounts that are equal
OFF = 0.2  # relative difference from which a row is reported if the others are equal
SPREADS = 6  # a reported row is also off by this many times the spread of the others
WHOLE = 0.08  # an amount this close to a whole number can be that of several devices or requests
LEAST_FACTOR, MOST_FACTOR = 1.15, 6.0  # a factor between them that is not whole is not a number of devices
SLIPS = {1e3: "a thousand times", 1e-3: "a thousandth of", 1e6: "a million times", 1e-6: "a millionth of"}
MOST_ERRORS = 5  # rows
ALIKE = 0.15  # relative difference of the logarithms of factors that have the same reason
MOST_ROWS = 1000  # of a table in which products of two sizes are looked at
BATCHES = word_set("batch samples images items examples concurrency bytes flops elements tokens")
_OWN_WORK = {"queries", "requests", "bytes", "operations"}
Amounts = list[Estimate | None]


def misrated(table: PublishedTable) -> Iterator[TableFlaw | Compared]:
    for rate in table.some(ColumnKind.RATE):
        for time in _times_of(table, rate):
            results = list(_judged(table, rate, time))
            yield from results
            if results:
                break


def _times_of(table: PublishedTable, rate: int) -> list[int]:
    """Return times of the same subject, else the only column.

    Of several with one header, such as nccl-tests' halves, it is the nearest to the left.
    """
    times = [i for i in table.of(ColumnKind.TIME) if table.columns[i].statistic in ("", "mean", "p50")]
    mine = table.columns[rate].subject - {"algbw"}
    same = [i for i in times if table.columns[i].subject == mine]
    if len(same) > 1 and len({table.columns[i].header for i in same}) == 1:
        same = [max((i for i in same if i < rate), default=same[0])]
    near = [i for i in times if table.columns[i].subject & mine]
    return same or (near if len(near) == 1 else times if len(times) == 1 else [])


def _judged(table: PublishedTable, rate: int, time: int) -> Iterator[TableFlaw | Compared]:
    counts = _counts(table, rate, time)
    scored = [(_common(amounts), words, amounts) for words, amounts in counts]
    held = [(len(same[1]), words, amounts, same) for same, words, amounts in scored if same]
    if not _together(table, rate, time):  # of several rates, that of the time is the one that gives its sizes
        held, counts = [each for each in held if each[1] and _is_one(each[3][0])], []
    if held:
        # Of as many rows that agree, the exact work of its sizes tells more than work that is only equal.
        _, words, amounts, (common, agreeing) = max(held, key=lambda each: (each[0], _is_one(each[3][0])))
        yield Compared("rates and times", len(agreeing))
        yield from _outliers(table, rate, f"for {words}" if words else "", amounts, common, agreeing)
        if words and (flaw := _slip(table, (rate, time), words, common)):
            yield flaw
    elif len(table.rows) < LEAST and counts and counts[-1][0]:
        words, amounts = counts[-1]
        present = [amount for amount in amounts if amount]
        if present and (flaw := _slip(table, (rate, time), words, present[0])):
            yield flaw


def _together(table: PublishedTable, rate: int, time: int) -> bool:
    own = table.columns[rate].subject - {"algbw"}
    alone = len(table.of(ColumnKind.RATE)) == 1
    return alone or own == table.columns[time].subject or bool(own & table.columns[time].subject)


def _is_one(common: Estimate) -> bool:
    return _away(common, 1.0) <= SAME


def _counts(table: PublishedTable, rate: int, time: int) -> list[tuple[str, Amounts]]:
    """List amounts of rows, as they are and divided by sizes, devices, and pairs of these."""
    sizes = []
    for row in table.rows:
        devices = [value.value for i in table.of(ColumnKind.DEVICES) if (value := cell(row, i))]
        sizes.append(dict(row.sizes) | ({"devices": devices[0]} if devices else {}))
    names = sorted({name for each in sizes for name in each})[:6]
    unit = table.columns[rate].unit
    divisors: list[tuple[str, list[float | None]]] = [("", [1.0] * len(table.rows))]
    divisors += [(name, [each.get(name) for each in sizes]) for name in names]
    divisors += [
        (f"{a} times {b}", [each[a] * each[b] if a in each and b in each else None for each in sizes])
        for a, b in combinations(names if len(sizes) < MOST_ROWS else (), 2)
    ]
    if unit == "flops":
        divisors = [("flops", [flops(row) for row in table.rows])]
    return [(words, [_amount(row, rate, time, by) for row, by in zip(table.rows, values, strict=True)])
            for words, values in divisors]  # fmt: skip


def _amount(row: TableRow, rate: int, time: int, by: float | None) -> Estimate | None:
    speed, spent = cell(row, rate), cell(row, time)
    if speed is None or spent is None or not by or not 1e-200 < by < 1e200:
        return None
    pairs = ((speed.value, spent.value), (speed.low, spent.low), (speed.high, spent.high))
    values = [a * b / by for a, b in pairs]
    if not all(math.isfinite(value) for value in values) or values[0] <= 0:
        return None
    return Estimate(values[0], max(values[1], 0.0), values[2])


def _common(amounts: Amounts) -> tuple[Estimate, list[int]] | None:
    telling = [(row, a) for row, a in enumerate(amounts) if a and a.low and (a.high or 0.0) / a.low < TELLING]
    if len(telling) < LEAST:
        return None
    middle = median(a.value for _, a in telling)
    agreeing = [row for row, a in telling if _away(a, middle) <= SAME]
    present = sum(amount is not None for amount in amounts)
    kept = {*agreeing}
    off = [a.value / middle for row, a in telling if row not in kept]
    # Of two rows that were exchanged, one is as much too high as the other is too low.
    exchanged = present - len(agreeing) == len(off) == 2 and abs(math.log(off[0] * off[1])) <= SAME
    # The rate can be 1 over the time.
    inverse = abs(middle - 1) < SAME and len(agreeing) == LEAST - 1 == present - 1
    most_off = 2 if exchanged else MOST_OFF * present
    if len(agreeing) < LEAST - (inverse or exchanged) or present - len(agreeing) > max(most_off, inverse):
        return None
    near = [amounts[row] for row in agreeing]
    low = min(a.low or 0.0 for a in near if a)
    high = max(a.high or 0.0 for a in near if a)
    return Estimate(middle, low, high), agreeing


def _outliers(
    table: PublishedTable,
    rate: int,
    words: str,
    amounts: Amounts,
    common: Estimate,
    agreeing: Sequence[int],
) -> Iterator[TableFlaw]:
    spreads = median(abs(math.log(a.value / common.value)) for row in agreeing if (a := amounts[row]))
    limit = max(OFF, SPREADS * spreads)
    off = [
        (row, amount) for row, amount in enumerate(amounts) if amount and _away(amount, common.value) > limit
    ]
    for row, amount in off:
        name, column = table.rows[row].name, table.columns[rate]
        value = table.rows[row].cells[rate]
        factor = significant(amount.value / common.value, 3)
        text = (
            f"{name} has {value.text if value else '-'} in {column.header}, which with its time is {factor} "
            f"times the value that the {len(agreeing)} other rows give{f' {words}' if words else ''}"
        )
        # More rows than errors are likely, or alike ones: their work differs by something that no column says.
        beyond = math.log(amount.value / common.value)
        alike = [each for _, each in off if abs(math.log(each.value / common.value) / beyond - 1) < ALIKE]
        overlap = (not words or _is_one(common)) and 0 < beyond < math.log(OVERLAP)
        doubt = (
            overlap or len(off) > MOST_ERRORS or len(alike) > 1 or _explained(table, row, agreeing, beyond)
        )
        yield TableFlaw(RULE, (name,), text, doubt)


def _explained(table: PublishedTable, row: int, agreeing: Sequence[int], beyond: float) -> bool:
    """Return whether another number of the row differs by the same factor."""
    for index in table.of(ColumnKind.OTHER, ColumnKind.SIZE):
        value = cell(table.rows[row], index)
        usual = {v.value for each in agreeing if (v := cell(table.rows[each], index))}
        usual = usual or {1.0}
        if value and len(usual) == 1 and abs(abs(math.log(value.value / usual.pop())) - abs(beyond)) < ALIKE:
            return True
    return False


def _slip(table: PublishedTable, pair: tuple[int, int], words: str, common: Estimate) -> TableFlaw | None:
    """Report an amount that no number of devices explains."""
    rate, time = (table.columns[i] for i in pair)
    if not (rate.sure and time.sure) or not set(words.split(" times ")) <= BATCHES | {"devices"}:
        return None
    factor = common.value
    near = next((text for slip, text in SLIPS.items() if abs(math.log(factor / slip)) < 2 * SAME), "")
    odd = LEAST_FACTOR < factor < MOST_FACTOR and abs(factor - round(factor)) > WHOLE * factor
    apart = _parts(rate, time) or table.of(ColumnKind.DEVICES)
    if not near and (not odd or apart or (common.high or 0.0) / (common.low or 1e-9) > TELLING):
        return None
    text = f"{rate.header} times {time.header} is {near or spread(common) + ' times'} the {words}"
    reason = "one of their units is another than the header's" if near else "one of them is of another run"
    return TableFlaw(RULE, (), f"{text} in every row that can be judged: {reason}")


def _parts(rate: PublishedColumn, time: PublishedColumn) -> bool:
    own = {rate.unit, rate.unit.removesuffix("s"), "step", "iteration", "iter", "batch", "forward"}
    return rate.subject - own != time.subject - own or rate.unit in _OWN_WORK


def _away(amount: Estimate, middle: float) -> float:
    if middle <= 0:
        return math.inf
    low, high = amount.low or 0.0, amount.high or 0.0
    if low <= middle <= high:
        return 0.0
    return math.log(low / middle) if middle < low else math.log(middle / high) if high > 0 else math.inf
