"""The findings in sentences, the answer first. A sentence claims only what an interval supports."""

from collections.abc import Callable, Collection, Sequence

from tasks.findings.totals import CommonCases, fewest_repeats, seconds, time_ratio
from tasks.results.format import cases_text, format_count, format_ratio
from tasks.results.model import Machine, Pairing, Summary
from tasks.results.speedup import decide, holding_together, scaled
from tasks.results.values import Estimate, Ratio, RatioVerdict
from workloads.harness.records.grade import Grade
from workloads.harness.records.record import Verdict

LISTED = 5  # cells that a sentence names before it counts the rest

Amount = Callable[[str], float]
Over = Callable[[str, str], Estimate]


def answer(
    suite: CommonCases,
    machines: Sequence[Machine],
    baseline: str,
    summaries: Sequence[Summary],
    pairings: Sequence[Pairing],
) -> tuple[str, ...]:
    """Sentences, the most useful first."""
    return (
        *fastest(suite, baseline),
        *cheapest(suite, machines, baseline),
        *left_out(suite),
        *case_by_case(pairings),
        *wide(summaries),
        *refused(summaries),
        *confounded(pairings),
        *price_notes(machines),
    )


def fastest(suite: CommonCases, baseline: str) -> list[str]:
    """Say which machine needs the least time for one pass through the suite."""
    if baseline not in suite.logs:
        what = "an interval" if baseline in suite.dropped else "a number that counts"
        return [f"No cell of the baseline, {baseline}, has {what}, so there is no speedup."]
    if len(suite.logs) < 2:
        return [f"Only {baseline} has numbers that count: measure a second machine to compare it with."]
    if not suite.cases:
        return ["No case counts on every machine, so there is no total: see the cases one by one."]

    def over(one: str, other: str) -> Estimate:
        return time_ratio(suite, one, other)

    best = _best(suite, baseline, list(suite.logs), lambda name: seconds(suite, name), over, "fast")
    return [f"Fastest for this suite: {best}"]


def cheapest(suite: CommonCases, machines: Sequence[Machine], baseline: str) -> list[str]:
    """Say which machine needs the least money for one pass, from the prices and the same times."""
    price = {m.name: m.usd_per_hour for m in machines if m.usd_per_hour is not None and m.usd_per_hour > 0}
    priced = [name for name in suite.logs if name in price]
    if not suite.cases or len(suite.logs) < 2:
        return []
    unpriced = [name for name in suite.logs if name not in price]
    left_out = [f"Without a price, so not ranked by cost: {_list(unpriced)}."] if unpriced else []
    if len(priced) < 2:
        return left_out

    def amount(name: str) -> float:
        return seconds(suite, name) * price[name]

    def over(one: str, other: str) -> Estimate:
        return scaled(time_ratio(suite, one, other), price[one] / price[other])

    best = _best(suite, baseline, priced, amount, over, "cheap")
    return [f"Cheapest for this suite: {best}", *left_out]


def left_out(suite: CommonCases) -> list[str]:
    """Name the cells and machines that count and are in no total all the same."""
    sentences = []
    if suite.left_out:
        why = "for one repeat alone, or while others used the machine"
        sentences.append(f"Measured {why}, so in no total: {_few(suite.left_out)}.")
    if suite.dropped:
        sentences.append(f"In no total, without a second repeat of any case: {_list(suite.dropped)}.")
    return sentences


def case_by_case(pairings: Sequence[Pairing]) -> list[str]:
    """Count the cases that each machine wins and loses, and say what would decide the rest."""
    sentences = []
    every = [p.compute for p in pairings if p.compute]
    chances = {ratio.chance for ratio in holding_together(every)}
    for hardware, baseline in dict.fromkeys((p.hardware, p.baseline) for p in pairings):
        same = [p for p in pairings if p.hardware == hardware and p.compute]
        ratios = [p.compute for p in same if p.compute]
        if ratios:
            told = f"{_tally(ratios)}{_together(ratios, every, chances)}"
            marked = _provisional(sum(p.provisional for p in same), len(same))
            sentences.append(f"{hardware} against {baseline}, case by case: {told}{marked}.")
    return sentences


def wide(summaries: Sequence[Summary]) -> list[str]:
    """List the cells whose numbers count with a width, and apart from them those of busy machines."""
    cells = [summary for summary in summaries if summary.grade is Grade.WIDE]
    quiet, busy = ([s for s in cells if s.busy is is_busy] for is_busy in (False, True))
    count = format_count(len(summaries), "cell")
    return [
        *_named(quiet, count, "wide, which the intervals of their repeats carry"),
        *_named(busy, count, "of a machine that others used, which no interval shows"),
    ]


def refused(summaries: Sequence[Summary]) -> list[str]:
    """List the cells that have no number, with the reasons, and say what helps those beside other work."""
    cells = [summary for summary in summaries if summary.grade is Grade.REFUSED]
    sentences = _named(cells, format_count(len(summaries), "cell"), "refused")
    if any(cell.verdict is Verdict.NOISY and cell.busy for cell in cells):
        sentences.append("What is noisy ran beside other work: measure it again where nothing else runs.")
    return sentences


def _named(cells: Sequence[Summary], count: str, what: str) -> list[str]:
    if not cells:
        return []
    named = [f"{s.cell.id} ({': '.join((s.verdict, *s.why[:1]))})" for s in cells]
    verb = "is" if len(cells) == 1 else "are"
    return [f"{len(cells)} of {count} {verb} {what}: {_few(named, '; ')}."]


def confounded(pairings: Sequence[Pairing]) -> list[str]:
    """Say what else differs between two machines, once for each pair."""
    matches: dict[tuple[str, str], dict[str, None]] = {}
    for pairing in pairings:
        matches.setdefault((pairing.hardware, pairing.baseline), {}).update(dict.fromkeys(pairing.confounds))
    return [
        f"{a} against {b} is confounded by {'; '.join(names)}." for (a, b), names in matches.items() if names
    ]


def price_notes(machines: Sequence[Machine]) -> list[str]:
    """Says so where prices are assumed rather than quoted, and where one is doubtful."""
    priced = [m for m in machines if m.usd_per_hour is not None]
    assumed = [m.name for m in priced if "assum" in m.price_note.lower()]
    doubtful: dict[str, list[str]] = {}
    for machine in priced:
        for flag in machine.price_flags:
            doubtful.setdefault(flag, []).append(machine.name)
    flags = [f"A price to check, of {_list(names)}: {flag}." for flag, names in doubtful.items()]
    if not assumed:
        return flags
    if len(assumed) == len(priced):
        return ["Prices are stated assumptions.", *flags]
    return [f"Prices that are stated assumptions: {_list(assumed)}.", *flags]


def _best(
    suite: CommonCases, baseline: str, names: Sequence[str], amount: Amount, over: Over, adjective: str
) -> str:
    """The machine with the least amount, if every other's is shown to be more; else what isn't told apart."""
    best, *others = sorted(names, key=amount)
    verdicts = {name: decide(over(name, best), fewest_repeats(suite)) for name in others}
    tied = [name for name in others if verdicts[name].outcome is not RatioVerdict.FASTER]
    cases = f"over {cases_text(len(suite.cases), suite.measured)}"
    if tied:
        return f"undecided between {_list([best, *tied])} {cases}: {verdicts[tied[0]].why}{_width(suite)}."
    told = others[:1] if best == baseline else dict.fromkeys((others[0], baseline))
    leads = (f"{format_ratio(verdicts[n])} as {adjective} as {n}" for n in told if n in verdicts)
    return f"{best}, {' and '.join(leads)}, {cases}{_width(suite)}."


def _width(suite: CommonCases) -> str:
    """Say how many cells of a total are wide, or why it is provisional."""
    if suite.provisional:
        return f"; provisional: {suite.provisional}"
    count, cells = suite.grades.count(Grade.WIDE), format_count(len(suite.grades), "cell")
    return f"; {count} of its {cells} {'is' if count == 1 else 'are'} wide" if count else ""


def _tally(ratios: Sequence[Ratio]) -> str:
    counts = {outcome: sum(r.outcome is outcome for r in ratios) for outcome in RatioVerdict}
    text = ", ".join(f"{outcome} in {count}" for outcome, count in counts.items() if count)
    whys = {ratio.why for ratio in ratios if ratio.outcome is RatioVerdict.UNDECIDED}
    advice = f" ({whys.pop()})" if len(whys) == 1 else ""
    return f"{text} of {len(ratios)}{advice}"


def _together(ratios: Sequence[Ratio], every: Sequence[Ratio], chances: Collection[float | None]) -> str:
    """Say how many verdicts hold at once, where chance has several occasions to make one.

    Args:
        ratios: of one machine.
        every: of all machines, which a reader sees beside each other.
        chances: of those of them that hold together; equal chances hold or fall together.
    """
    decided = [ratio for ratio in ratios if ratio.outcome is not RatioVerdict.UNDECIDED]
    if len(every) < 2 or not decided:
        return ""
    holding = sum(ratio.chance in chances for ratio in decided)
    if len(decided) == 1:
        return f"; this verdict {'holds' if holding else 'does not hold'} among all {len(every)}"
    count = "all" if holding == len(decided) else str(holding)
    among = f" among all {len(every)}" if len(every) > len(ratios) else ""
    return f"; {count} of these {len(decided)} verdicts hold together{among}"


def _provisional(count: int, of: int) -> str:
    if not count:
        return ""
    return f"; provisional in {count} of {of}, where a machine was busy or its CPU's own speed came and went"


def _few(names: Sequence[str], between: str = ", ") -> str:
    more = f"{between}and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{between.join(names[:LISTED])}{more}"


def _list(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
