"""The answer: at most four lines of at most 25 words, the most useful first. Explanations stand elsewhere."""

from collections.abc import Callable, Sequence

from tasks.findings.totals import CommonCases, fewest_repeats, seconds, time_ratio, total_seconds
from tasks.results.format import cases_text, format_count, format_ratio, format_seconds, listed
from tasks.results.model import Machine, Pairing
from tasks.results.speedup import MOST_REPEATS, decide, scaled, significant_ratios
from tasks.results.values import Estimate, Ratio, RatioVerdict

MOST_LINES, MOST_WORDS = 4, 25  # the line of caveats is the fifth

Amount = Callable[[str], float]
RatioOf = Callable[[str, str], Estimate]


def headline(
    suite: CommonCases, machines: Sequence[Machine], baseline: str, pairings: Sequence[Pairing]
) -> tuple[str, ...]:
    """Return lines: the fastest and the cheapest machine, how many cases are decided, what would decide the rest."""
    ratios = [pairing.compute for pairing in pairings if pairing.compute]
    return (
        *fastest(suite, baseline),
        *cheapest(suite, machines, baseline),
        *decided(pairings),
        *open_ratios(ratios),
    )


def fastest(suite: CommonCases, baseline: str) -> list[str]:
    """Return the machine with the least time for one pass through the suite, or why there is none."""
    if len(suite.logs) < 2:
        return _alone(suite, baseline)
    if baseline not in suite.logs:
        reason = "repeats for an interval" if baseline in suite.dropped else "valid results"
        return [f"No speedups: the baseline {baseline} lacks {reason}."]
    if not suite.cases:
        return ["No totals: no case has valid results on every machine."]

    def ratio_of(over: str, under: str) -> Estimate:
        return time_ratio(suite, over, under)

    best = best_of(suite, baseline, list(suite.logs), lambda n: seconds(suite, n), ratio_of, "fast")
    return [f"Fastest: {best}"]


def cheapest(suite: CommonCases, machines: Sequence[Machine], baseline: str) -> list[str]:
    """Return the machine with the least cost for one pass; nothing if fewer than two machines have a price."""
    price = {m.name: m.usd_per_hour for m in machines if m.usd_per_hour}
    priced = [name for name in suite.logs if name in price]
    if not suite.cases or len(priced) < 2:
        return []

    def ratio_of(over: str, under: str) -> Estimate:
        return scaled(time_ratio(suite, over, under), price[over] / price[under])

    best = best_of(suite, baseline, priced, lambda n: seconds(suite, n) * price[n], ratio_of, "cheap")
    return [f"Cheapest: {best}"]


def decided(pairings: Sequence[Pairing]) -> list[str]:
    """Count the decided cases, and those that stay significant after correction for multiple comparisons."""
    pairs = [pairing for pairing in pairings if pairing.compute]
    ratios = [pairing.compute for pairing in pairs if pairing.compute]
    if not ratios:
        return []
    others = list(dict.fromkeys(pairing.hardware for pairing in pairs))
    counts = {outcome: sum(ratio.outcome is outcome for ratio in ratios) for outcome in RatioVerdict}
    number = len(ratios) - counts[RatioVerdict.UNDECIDED]
    noun = "case" if len(others) == 1 else "comparison"
    text = f"Decided: {number} of {format_count(len(ratios), noun)}"
    if number and len(others) == 1:
        wins = [f"{outcome} in {counts[outcome]}" for outcome in _DECIDED if counts[outcome]]
        text += f"; {others[0]} is {' and '.join(wins)}"
    chances = {ratio.chance for ratio in significant_ratios(ratios)}
    holding = sum(r.chance in chances for r in ratios if r.outcome is not RatioVerdict.UNDECIDED)
    if number and holding < number and len(ratios) > 1:
        text += f"; {holding} significant after correction for multiple comparisons"
    return [f"{text}."]


_DECIDED = (RatioVerdict.FASTER, RatioVerdict.SLOWER)


def open_ratios(ratios: Sequence[Ratio]) -> list[str]:
    """Return what would decide the undecided ratios: the number of repeats, or a quieter machine."""
    undecided = [ratio for ratio in ratios if ratio.outcome is RatioVerdict.UNDECIDED]
    if not undecided:
        return []
    equal = sum(ratio.equal for ratio in undecided)
    if equal == len(undecided):
        return [f"Undecided: {format_count(equal, 'case')}, equal within a few percent."]
    needed = [ratio.repeats_needed for ratio in undecided if ratio.repeats_needed]
    if not needed:
        return [f"More than {MOST_REPEATS} repeats, or a quieter machine, would decide the rest."]
    which = (
        "the rest" if len(needed) == len(undecided) else f"{len(needed)} of the {len(undecided)} undecided"
    )
    return [f"To decide {which}, run again with --repeats {max(needed)}."]


def best_of(
    suite: CommonCases, baseline: str, names: Sequence[str], amount: Amount, ratio_of: RatioOf, adjective: str
) -> str:
    """Return the machine with the least amount and its lead, or the machines that cannot be distinguished."""
    best, *others = sorted(names, key=amount)
    verdicts = {name: decide(ratio_of(name, best), fewest_repeats(suite)) for name in others}
    tied = [name for name in others if verdicts[name].outcome is not RatioVerdict.FASTER]
    cases = f"over {cases_text(len(suite.cases), suite.measured)}"
    state = "; provisional" if suite.provisional else ""
    if tied:
        return f"undecided between {listed([best, *tied])}, {cases}{state}."
    shown = others[:1] if best == baseline else dict.fromkeys((others[0], baseline))
    leads = [f"{format_ratio(verdicts[name])} as {adjective} as {name}" for name in shown if name in verdicts]
    return f"{best}, {' and '.join(leads)}, {cases}{state}."


def _alone(suite: CommonCases, baseline: str) -> list[str]:
    """Return the total time of the only machine with results, and how to get a comparison."""
    if not suite.logs:
        return ["No results: every cell was refused or has no record."]
    (name,) = suite.logs
    if name != baseline:
        return [f"No speedups: the baseline {baseline} lacks valid results; only {name} has them."]
    lines = [f"Measured {cases_text(len(suite.cases), suite.measured)} on {name}."]
    if suite.cases:
        time = format_seconds(total_seconds(suite, name))
        lines = [f"{name}: one pass through {cases_text(len(suite.cases), suite.measured)} takes {time}."]
    return [*lines, "To compare, measure a second machine: repeat --on with its name."]
