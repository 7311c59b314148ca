"""The answer: at most four lines of at most 25 words, then details and caveats."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

from tasks.findings.ranking import compared, ordered
from tasks.findings.totals import CommonCases, time_ratio, total_seconds
from tasks.results.comparison import Caveat
from tasks.results.corrections import confidence_of_each
from tasks.results.format import cases_text, format_count, format_ratio, format_seconds, listed, significant
from tasks.results.model import Machine, Pairing, Summary
from tasks.results.repeats import FEWEST, Repeats
from tasks.results.sessions import SessionEffect, Sessions
from tasks.results.speedup import MOST_REPEATS, scaled
from tasks.results.values import Estimate, Ratio, RatioVerdict
from tasks.results.wording import verdict_text
from workloads.harness.records.case import Case
from workloads.harness.records.record import Grade, Verdict
from workloads.harness.records.step_parts import card_s, is_cards

MOST_LINES, MOST_WORDS = 4, 25  # the line of caveats is the fifth
MANY_TIED = 3  # machines as fast as the fastest that are counted
ONE_SESSION = "one session of each machine"
STATES = "states of processes"
SHOW_STATES = 5  # repeats from which two groups of processes are noticed
LISTED = 5  # cells that a sentence names before it counts the others


def headline(
    suite: CommonCases,
    machines: Sequence[Machine],
    baseline: str,
    pairings: Sequence[Pairing],
    summaries: Sequence[Summary] = (),
    busy_s: Mapping[str, float] = MappingProxyType({}),
) -> tuple[str, ...]:
    ratios = [pairing.compute for pairing in pairings if pairing.compute]
    if not suite.logs:
        return _nothing(summaries)
    return (
        *fastest(suite, baseline, busy_s),
        *cheapest(suite, machines, baseline),
        *decided(pairings),
        *open_ratios(ratios),
    )


def details(suite: CommonCases, machines: Sequence[Machine], pairings: Sequence[Pairing]) -> tuple[str, ...]:
    return (*undecided_totals(suite, machines), *case_by_case(pairings))


def caveats(
    suite: CommonCases,
    machines: Sequence[Machine],
    summaries: Sequence[Summary],
    pairings: Sequence[Pairing],
) -> tuple[Caveat, ...]:
    totals = f"The totals are provisional: {suite.provisional}."
    return (
        *([Caveat("provisional totals", totals)] if suite.provisional else []),
        *one_session(suite),
        *states(suite.sessions, pairings),
        *left_out(suite),
        *wide(summaries),
        *refused(summaries),
        *confounded(pairings),
        *slices(machines),
        *price_notes(machines, suite.logs if suite.cases else ()),
    )


def fastest(
    suite: CommonCases, baseline: str, busy_s: Mapping[str, float] = MappingProxyType({})
) -> list[str]:
    """Return one line, or why there is none.

    `busy_s`: seconds of a pass in which each machine's cards compute.
    """
    if len(suite.logs) < 2:
        return _alone(suite, baseline)
    if baseline not in suite.logs:
        reason = "repeats for an interval" if baseline in suite.dropped else "valid results"
        return [f"No speedups: the baseline {baseline} lacks {reason}."]
    if not suite.cases:
        return ["No totals: no case has valid results on every machine."]
    return [f"Fastest: {_best_of(suite, baseline, dict.fromkeys(suite.logs, 1.0), 'fast', busy_s)}"]


def cheapest(suite: CommonCases, machines: Sequence[Machine], baseline: str) -> list[str]:
    prices = _prices(suite, machines)
    if not suite.cases or len(prices) < 2:
        return []
    return [f"Cheapest: {_best_of(suite, baseline, prices, 'cheap')}"]


def undecided_totals(suite: CommonCases, machines: Sequence[Machine]) -> Iterator[str]:
    times = dict.fromkeys(suite.logs, 1.0)
    for word, weights in (("fastest", times), ("cheapest", _prices(suite, machines))):
        if suite.cases and len(weights) > 1:
            best, verdicts = _ranked(suite, weights)
            for name, verdict in verdicts.items():
                if verdict.outcome is not RatioVerdict.FASTER:
                    yield f"The {word} machine is undecided between {best} and {name}: {verdict.why}."
                    break


def _prices(suite: CommonCases, machines: Sequence[Machine]) -> dict[str, float]:
    prices = {machine.name: machine.usd_per_hour for machine in machines if machine.usd_per_hour}
    return {name: prices[name] for name in suite.logs if name in prices}


def _ranked(suite: CommonCases, weights: Mapping[str, float]) -> tuple[str, dict[str, Ratio]]:
    best, *others = ordered(suite, weights)
    ratios = compared(suite, weights)
    return best, {name: ratios[name, best] for name in others}


def _lead(suite: CommonCases, weights: Mapping[str, float], best: str, other: str, baseline: str) -> Estimate:
    """Return the ratio of another machine to the best.

    The best of several equal machines was lucky, so the interval is simultaneous for all machines over the
    baseline, or for all pairs.
    """
    machines = len(weights)
    choices = machines - 1 if baseline in (best, other) else machines * (machines - 1) // 2
    ratio = time_ratio(suite, other, best, confidence_of_each(choices))
    return scaled(ratio, weights[other] / weights[best])


def cards_s(cells: Sequence[Repeats], suite: CommonCases) -> dict[str, float]:
    """Return seconds of a pass in which cards compute; empty if a case's steps differ, as in weak scaling."""
    parts: dict[str, list[float]] = {}
    units: dict[Case, set[float | None]] = {}
    for cell in cells:
        if cell.cell.case in suite.cases and (seconds_of := card_s(cell.usable)):
            parts.setdefault(cell.cell.hardware, []).append(fmean(seconds_of))
            units.setdefault(cell.cell.case, set()).add(cell.units)
    is_same_work = all(len(found) == 1 for found in units.values())
    return {name: sum(of) for name, of in parts.items() if is_same_work and len(of) == len(suite.cases)}


def _by_card(ratio: Ratio, best: str, other: str, busy_s: Mapping[str, float]) -> str:
    """Return the cards' part of a ratio; empty unless waiting for the hosts changes it notably."""
    if not (busy_s.get(best) and busy_s.get(other)):
        return ""
    by_card = busy_s[other] / busy_s[best]
    return "" if is_cards(ratio.estimate.value, by_card) else f" ({significant(by_card, 3)}× by the card)"


def _best_of(
    suite: CommonCases,
    baseline: str,
    weights: Mapping[str, float],
    adjective: str,
    busy_s: Mapping[str, float] = MappingProxyType({}),
) -> str:
    best, verdicts = _ranked(suite, weights)
    tied = [name for name, verdict in verdicts.items() if verdict.outcome is not RatioVerdict.FASTER]
    cases = f"over {cases_text(len(suite.cases), suite.measured)}"
    state = "; provisional" if suite.provisional else ""
    if len(tied) >= MANY_TIED:
        return (
            f"{best}; {len(tied)} machines are statistically as {adjective}: {listed(tied)}, {cases}{state}."
        )
    if tied:
        return f"undecided between {listed([best, *tied])}, {cases}{state}."
    second = next(iter(verdicts))
    shown = [second] if best == baseline else dict.fromkeys((second, baseline))
    leads = [
        f"{format_ratio(_lead(suite, weights, best, name, baseline))} as {adjective} as {name}"
        f"{_by_card(verdicts[name], best, name, busy_s)}"
        for name in shown
        if name in verdicts
    ]
    return f"{best}, {' and '.join(leads)}, {cases}{state}."


def _nothing(summaries: Sequence[Summary]) -> tuple[str, ...]:
    verdicts = Counter(summary.verdict for summary in summaries)
    why = listed([f"{count} {verdict_text(verdict)}" for verdict, count in verdicts.most_common()])
    line = f"No results: no cell has a valid time ({why or 'no record'})."
    load = any(verdict in (Verdict.NOISY, Verdict.SHARED) for verdict in verdicts)
    return (line, *(["Other programs used the machine: close them and run it again."] if load else []))


def _alone(suite: CommonCases, baseline: str) -> list[str]:
    (name,) = suite.logs
    if name != baseline:
        return [f"No speedups: the baseline {baseline} lacks valid results; only {name} has them."]
    cases = cases_text(len(suite.cases), suite.measured)
    line = f"Measured {cases} on {name}."
    if suite.cases:
        line = f"{name}: one pass through {cases} takes {format_seconds(total_seconds(suite, name))}."
    return [line, "To compare, measure a second machine: repeat --on with its name."]


def decided(pairings: Sequence[Pairing]) -> list[str]:
    pairs = [pairing for pairing in pairings if pairing.compute]
    ratios = [pairing.compute for pairing in pairs if pairing.compute]
    if not ratios:
        return []
    others = list(dict.fromkeys(pairing.hardware for pairing in pairs))
    counts = {outcome: sum(ratio.outcome is outcome for ratio in ratios) for outcome in RatioVerdict}
    number = len(ratios) - counts.pop(RatioVerdict.UNDECIDED)
    text = f"Decided: {number} of {format_count(len(ratios), 'case' if len(others) == 1 else 'comparison')}"
    if number and len(others) == 1:
        wins = [f"{outcome} in {count}" for outcome, count in counts.items() if count]
        text += f"; {others[0]} is {' and '.join(wins)}"
    if alone := sum(ratio.differs_alone for ratio in ratios):
        text += f"; {alone} more without correction for multiple comparisons"
    return [f"{text}."]


def open_ratios(ratios: Sequence[Ratio]) -> list[str]:
    undecided = [ratio for ratio in ratios if ratio.outcome is RatioVerdict.UNDECIDED]
    if not undecided:
        return []
    if all(ratio.equal for ratio in undecided):
        return [f"Undecided: {format_count(len(undecided), 'case')}, equal within a few percent."]
    needed = [ratio.repeats_needed for ratio in undecided if ratio.repeats_needed]
    if not needed:
        sessions = any(ratio.sessions_sd for ratio in undecided)
        first = "Other sessions" if sessions else f"More than {MOST_REPEATS} repeats"
        return [f"{first}, or a quieter machine, would decide the rest."]
    some = f"{len(needed)} of the {len(undecided)} undecided"
    which = "the rest" if len(needed) == len(undecided) else some
    return [f"To decide {which}, run again with --repeats {max(needed)}."]


def one_session(suite: CommonCases) -> list[Caveat]:
    """Count a machine's sessions in a row on one box as one."""
    sessions, names = suite.sessions, [name for name in suite.logs if not suite.has_sessions_apart(name)]
    if len(suite.logs) < 2:
        return []
    boxes: dict[str, list[str]] = {}
    for name in suite.logs:
        boxes.setdefault(sessions.boxes.get(name, name), []).append(name)
    sentences = []
    if names and len(boxes) > 1 and sessions.effects:
        effects = {sessions.effects[name]: name for name in reversed(names) if name in sessions.effects}
        texts = [_effect_text(effect, effects[effect]) for effect in reversed(effects)]
        which = f"{listed(names, None)} {'was' if len(names) == 1 else 'were'}"
        which = "Each machine was" if len(names) == len(suite.logs) else which
        in_turns = any(len(suite.split(name)) > 1 for name in names)
        which_session = "one session, or in sessions in a row on one box," if in_turns else "one session,"
        sentences.append(
            f"{which} measured in {which_session} and repeats of a session cannot show how sessions differ. The "
            f"intervals of ratios between machines include the difference: {'; '.join(texts)}. `gridbench confirm` "
            "measures the answer again."
        )
    sentences += [
        f"{listed(alike, None)} took turns on one computer in {format_count(len(suite.split(*alike)), 'session')}: its "
        "effect is common to both sides of their ratios, whose intervals do not include it."
        for alike in boxes.values()
        if len(alike) > 1
    ]
    return [Caveat(ONE_SESSION, sentence) for sentence in sentences]


def states(sessions: Sessions, pairings: Sequence[Pairing]) -> list[Caveat]:
    """Return which intervals earlier repeats widened, and too few repeats to show two states.

    Some machines' processes have two states. Three are all in one state in a quarter of the runs or more.
    """
    sentences = []
    wider = [
        f"{p.case.id} on {p.hardware}, {_half_text(p.own_compute)} to {_half_text(p.compute.estimate)}"
        for p in pairings
        if p.own_compute and p.compute
    ]
    if wider:
        sentences.append(
            "Repeats of earlier runs differ by more than those of this run, as if processes were in one of two states. "
            f"The intervals of {format_count(len(wider), 'ratio')} include this and are wider: {_few(wider, '; ')}."
        )
    few = [p for p in pairings if p.compute and _hides_states(sessions, p, p.compute)]
    if few:
        counts = sorted({p.compute.repeats or 0 for p in few if p.compute})
        sentences.append(
            f"{' or '.join(map(str, counts))} repeats cannot show two states of processes, and earlier runs do not "
            f"show them either: {format_count(len(few), 'ratio')} can be off by half of the difference between them. "
            f"Measure with --repeats {SHOW_STATES} or more."
        )
    return [Caveat(STATES, sentence) for sentence in sentences]


def _hides_states(sessions: Sessions, pairing: Pairing, ratio: Ratio) -> bool:
    names = (pairing.hardware, pairing.baseline)
    is_known = all(pairing.case.id in sessions.repeats.get(name, {}) for name in names)
    return FEWEST <= (ratio.repeats or 0) < SHOW_STATES and not is_known


def _half_text(estimate: Estimate) -> str:
    half = math.sqrt((estimate.high or 1.0) / (estimate.low or 1.0)) - 1
    return f"±{significant(100 * half, 2)} %"


def _effect_text(effect: SessionEffect, name: str) -> str:
    whole, cell = f"{100 * effect.whole:.2g} %", f"{100 * effect.cell:.2g} %"
    text = whole if whole == cell else f"{whole} (single cells {cell})"
    if not effect.is_assumed:
        return f"{text} between {format_count(effect.runs, 'earlier run')} of {name}"
    few = f", as the {format_count(effect.runs, 'earlier run')} of {name} are too few" if effect.runs else ""
    return f"{text}, assumed{few}"


def left_out(suite: CommonCases) -> list[Caveat]:
    sentences = []
    if suite.left_out:
        reason = "they have only one repeat, or other programs used the machine"
        sentences.append(f"Left out of the totals because {reason}: {_few(suite.left_out)}.")
    if suite.dropped:
        dropped = listed(suite.dropped, None)
        sentences.append(f"Left out of the totals because no case has two repeats: {dropped}.")
    return [Caveat("results left out of totals", sentence) for sentence in sentences]


def case_by_case(pairings: Sequence[Pairing]) -> list[str]:
    sentences = []
    count = sum(p.compute is not None for p in pairings)
    for hardware, baseline in dict.fromkeys((p.hardware, p.baseline) for p in pairings):
        same = [p for p in pairings if p.hardware == hardware and p.compute]
        ratios = [p.compute for p in same if p.compute]
        if ratios:
            counts = {outcome: sum(r.outcome is outcome for r in ratios) for outcome in RatioVerdict}
            tally = ", ".join(f"{outcome} in {count}" for outcome, count in counts.items() if count)
            whys = {ratio.why for ratio in ratios if ratio.outcome is RatioVerdict.UNDECIDED}
            advice = f" ({whys.pop()})" if len(whys) == 1 else ""
            text = f"{tally} of {len(ratios)}{advice}{_corrected(ratios, count)}"
            if count := sum(p.provisional for p in same):
                why = "because the machine was busy or its CPU's speed varied"
                text += f"; provisional in {count} of {len(same)}, {why}"
            sentences.append(f"{hardware} against {baseline}, case by case: {text}.")
    return sentences


def _corrected(ratios: Sequence[Ratio], count: int) -> str:
    alone = sum(ratio.differs_alone for ratio in ratios)
    if count < 2:
        return ""
    if not alone:
        return f"; corrected for {count} comparisons"
    differs = "1 interval excludes" if alone == 1 else f"{alone} intervals exclude"
    return f"; {differs} 1, but not after correction for {count} comparisons"


def wide(summaries: Sequence[Summary]) -> list[Caveat]:
    cells = [summary for summary in summaries if summary.grade is Grade.WIDE]
    quiet, busy = ([s for s in cells if s.busy is is_busy] for is_busy in (False, True))
    noise = "wide: their noise is already included in their intervals"
    load = "measured while other programs used the machine, which no interval shows"
    return [
        *_named("wide results", quiet, len(summaries), noise),
        *_named("busy machines", busy, len(summaries), load),
    ]


def refused(summaries: Sequence[Summary]) -> list[Caveat]:
    cells = [summary for summary in summaries if summary.grade is Grade.REFUSED]
    found = _named("refused results", cells, len(summaries), "refused")
    if any(cell.verdict is Verdict.NOISY and cell.busy for cell in cells):
        why = "Noisy cells ran while other programs used the machine."
        found.append(Caveat("refused results", f"{why} Measure them again on an idle machine."))
    return found


def _named(kind: str, cells: Sequence[Summary], count: int, state: str) -> list[Caveat]:
    if not cells:
        return []
    names = [f"{s.cell.id} ({': '.join((s.verdict, *s.why[:1]))})" for s in cells]
    verb = "is" if len(cells) == 1 else "are"
    all_cells = format_count(count, "cell")
    return [Caveat(kind, f"{len(cells)} of {all_cells} {verb} {state}: {_few(names, '; ')}.")]


def _few(names: Sequence[str], between: str = ", ") -> str:
    more = f"{between}and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"{between.join(names[:LISTED])}{more}"


def confounded(pairings: Sequence[Pairing]) -> list[Caveat]:
    confounds: dict[tuple[str, str], dict[str, None]] = {}
    for pair in pairings:
        confounds.setdefault((pair.hardware, pair.baseline), {}).update(dict.fromkeys(pair.confounds))
    return [
        Caveat("confounders", f"{a} and {b} also differ in other ways: {'; '.join(names)}.")
        for (a, b), names in confounds.items()
        if names
    ]


def slices(machines: Sequence[Machine]) -> list[Caveat]:
    return [
        Caveat(
            "slices of a card",
            f"{machine.name} computed on a MIG slice ({machine.slice}): the data sheet's rates are of the whole card, "
            "and are not used.",
        )
        for machine in machines
        if machine.slice
    ]


def price_notes(machines: Sequence[Machine], ranked: Collection[str] = ()) -> list[Caveat]:
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
