"""Details and caveats of the answer, in sentences that claim only what an interval supports."""

from collections.abc import Collection, Iterator, Sequence

from tasks.findings.totals import CommonCases, fewest_repeats, seconds, time_ratio
from tasks.results.comparison import Caveat
from tasks.results.format import format_count, listed
from tasks.results.model import Machine, Pairing, Summary
from tasks.results.speedup import decide, scaled, significant_ratios
from tasks.results.values import Ratio, RatioVerdict
from workloads.harness.records.record import Grade, Verdict

LISTED = 5  # cells that a sentence names before it counts the others


def details(suite: CommonCases, machines: Sequence[Machine], pairings: Sequence[Pairing]) -> tuple[str, ...]:
    """Return the reasons for undecided totals, and the verdicts of each machine case by case."""
    return (*undecided_totals(suite, machines), *case_by_case(pairings))


def caveats(
    suite: CommonCases,
    machines: Sequence[Machine],
    summaries: Sequence[Summary],
    pairings: Sequence[Pairing],
) -> tuple[Caveat, ...]:
    """Return everything that limits the answer, by kind."""
    return (
        *provisional(suite),
        *left_out(suite),
        *wide(summaries),
        *refused(summaries),
        *confounded(pairings),
        *price_notes(machines, suite.logs if suite.cases else ()),
    )


def undecided_totals(suite: CommonCases, machines: Sequence[Machine]) -> Iterator[str]:
    """Yield why the fastest or the cheapest machine is undecided, with advice."""
    price = {m.name: m.usd_per_hour for m in machines if m.usd_per_hour}
    for word, names in (("fastest", list(suite.logs)), ("cheapest", [n for n in suite.logs if n in price])):
        if not suite.cases or len(names) < 2:
            continue
        weight = {name: price[name] if word == "cheapest" else 1.0 for name in names}
        best, *others = sorted(names, key=lambda name: seconds(suite, name) * weight[name])
        for name in others:
            estimate = scaled(time_ratio(suite, name, best), weight[name] / weight[best])
            verdict = decide(estimate, fewest_repeats(suite))
            if verdict.outcome is not RatioVerdict.FASTER:
                yield f"The {word} machine is undecided between {best} and {name}: {verdict.why}."
                break


def provisional(suite: CommonCases) -> list[Caveat]:
    """Return why another measurement can give other totals."""
    if not suite.provisional:
        return []
    return [Caveat("provisional totals", f"The totals are provisional: {suite.provisional}.")]


def left_out(suite: CommonCases) -> list[Caveat]:
    """Name the cells and machines that have valid results and are in no total."""
    kind, sentences = "results left out of totals", []
    if suite.left_out:
        reason = "they have only one repeat, or other programs used the machine"
        sentences.append(f"Left out of the totals because {reason}: {_few(suite.left_out)}.")
    if suite.dropped:
        dropped = listed(suite.dropped, None)
        sentences.append(f"Left out of the totals because no case has two repeats: {dropped}.")
    return [Caveat(kind, sentence) for sentence in sentences]


def case_by_case(pairings: Sequence[Pairing]) -> list[str]:
    """Count the cases that each machine wins and loses, with advice for the undecided ones."""
    sentences = []
    every = [p.compute for p in pairings if p.compute]
    chances = {ratio.chance for ratio in significant_ratios(every)}
    for hardware, baseline in dict.fromkeys((p.hardware, p.baseline) for p in pairings):
        same = [p for p in pairings if p.hardware == hardware and p.compute]
        ratios = [p.compute for p in same if p.compute]
        if ratios:
            text = f"{_tally(ratios)}{_corrected(ratios, every, chances)}"
            if count := sum(p.provisional for p in same):
                why = "because the machine was busy or its CPU's speed varied"
                text += f"; provisional in {count} of {len(same)}, {why}"
            sentences.append(f"{hardware} against {baseline}, case by case: {text}.")
    return sentences


def wide(summaries: Sequence[Summary]) -> list[Caveat]:
    """List the cells with wide results, and separately those that other programs disturbed."""
    cells = [summary for summary in summaries if summary.grade is Grade.WIDE]
    quiet, busy = ([s for s in cells if s.busy is is_busy] for is_busy in (False, True))
    count = format_count(len(summaries), "cell")
    return [
        *_named("wide results", quiet, count, "wide: their noise is already included in their intervals"),
        *_named(
            "busy machines",
            busy,
            count,
            "measured while other programs used the machine, which no interval shows",
        ),
    ]


def refused(summaries: Sequence[Summary]) -> list[Caveat]:
    """List the cells without a valid result, with the reasons and, for noisy ones, advice."""
    cells = [summary for summary in summaries if summary.grade is Grade.REFUSED]
    found = _named("refused results", cells, format_count(len(summaries), "cell"), "refused")
    if any(cell.verdict is Verdict.NOISY and cell.busy for cell in cells):
        advice = (
            "Noisy cells ran while other programs used the machine. Measure them again on an idle machine."
        )
        found.append(Caveat("refused results", advice))
    return found


def _named(kind: str, cells: Sequence[Summary], count: str, state: str) -> list[Caveat]:
    if not cells:
        return []
    names = [f"{s.cell.id} ({': '.join((s.verdict, *s.why[:1]))})" for s in cells]
    verb = "is" if len(cells) == 1 else "are"
    return [Caveat(kind, f"{len(cells)} of {count} {verb} {state}: {_few(names, '; ')}.")]


def confounded(pairings: Sequence[Pairing]) -> list[Caveat]:
    """Return the other differences between two machines, once for each pair."""
    matches: dict[tuple[str, str], dict[str, None]] = {}
    for pairing in pairings:
        matches.setdefault((pairing.hardware, pairing.baseline), {}).update(dict.fromkeys(pairing.confounds))
    return [
        Caveat("confounders", f"{a} and {b} also differ in other ways: {'; '.join(names)}.")
        for (a, b), names in matches.items()
        if names
    ]


def price_notes(machines: Sequence[Machine], ranked: Collection[str] = ()) -> list[Caveat]:
    """Name the machines without a price, and the prices that are assumed or doubtful."""
    priced = [m for m in machines if m.usd_per_hour is not None]
    assumed = [m.name for m in priced if "assum" in m.price_note.lower()]
    free = [m.name for m in machines if not m.usd_per_hour and m.name in ranked]
    doubtful: dict[str, list[str]] = {}
    for machine in priced:
        for flag in machine.price_flags:
            doubtful.setdefault(flag, []).append(machine.name)
    found = []
    if free and len(ranked) > 1:
        text = f"Not ranked by cost, because they have no price: {listed(free, None)}."
        found.append(Caveat("machines without a price", text))
    if assumed:
        whose = "All prices" if len(assumed) == len(priced) else f"The prices of {listed(assumed, None)}"
        found.append(Caveat("assumed prices", f"{whose} are assumptions."))
    found += [
        Caveat("doubtful prices", f"Check the price of {listed(names, None)}: {flag}.")
        for flag, names in doubtful.items()
    ]
    return found


def _tally(ratios: Sequence[Ratio]) -> str:
    counts = {outcome: sum(r.outcome is outcome for r in ratios) for outcome in RatioVerdict}
    text = ", ".join(f"{outcome} in {count}" for outcome, count in counts.items() if count)
    whys = {ratio.why for ratio in ratios if ratio.outcome is RatioVerdict.UNDECIDED}
    advice = f" ({whys.pop()})" if len(whys) == 1 else ""
    return f"{text} of {len(ratios)}{advice}"


def _corrected(ratios: Sequence[Ratio], every: Sequence[Ratio], chances: Collection[float | None]) -> str:
    """Return how many verdicts stay significant after correction for multiple comparisons.

    Args:
        ratios: of one machine.
        every: of all machines on the page, which the correction covers.
        chances: p values of the ratios that stay significant; equal p values stay or go together.
    """
    decided = [ratio for ratio in ratios if ratio.outcome is not RatioVerdict.UNDECIDED]
    if len(every) < 2 or not decided:
        return ""
    holding = sum(ratio.chance in chances for ratio in decided)
    among = f" (all {len(every)} of this report)" if len(every) > len(ratios) else ""
    correction = f"significant after correction for multiple comparisons{among}"
    if len(decided) == 1:
        return f"; this difference is {'' if holding else 'not '}{correction}"
    return f"; {'all' if holding == len(decided) else holding} of these {len(decided)} differences are {correction}"


def _few(names: Sequence[str], between: str = ", ") -> str:
    more = f"{between}and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{between.join(names[:LISTED])}{more}"
