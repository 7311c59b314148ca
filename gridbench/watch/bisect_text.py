"""The output of `gridbench bisect`."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from gridbench.terminal import table_of
from tasks.planning.plan import Plan
from tasks.regressions.bisect import (
    FirstBadVersion,
    NextMeasurement,
    NextStep,
    NoCulprit,
    VersionSearch,
    VersionState,
    most_measurements,
    seconds_of_versions,
    version_states,
)
from tasks.regressions.change import share_in_words
from tasks.results.format import format_percent
from tasks.results.metrics import metric_in, number_text
from tasks.results.values import Estimate

STYLES = {
    VersionState.GOOD: "green",
    VersionState.BAD: "red",
    VersionState.UNCLEAR: "yellow",
    VersionState.SKIPPED: "yellow",
}
SMALL_PART = 0.5  # of the whole change; below it most of the change is elsewhere
NAMED = 5  # skipped versions in a sentence; further ones are counted


def plan_text(versions: Sequence[str], plan: Plan) -> str:
    in_turns = bool(plan.night and plan.night.version and plan.night.version.partner)
    most = most_measurements(len(versions), in_turns)
    processes = f"{plan.repeats} processes{' of each of two versions, in turns,' if in_turns else ''}"
    minutes, usd = max(most * plan.estimate_s / 60, 1), most * plan.estimate_usd
    return (
        f"{len(versions)} versions from {versions[0]} to {versions[-1]}: at most {most} measurements of "
        f"{processes} if the first measurement of each is decisive, about {minutes:.0f} min "
        f"and {usd:.2g} USD at these prices"
    )


def line_of(search: VersionSearch, step: NextMeasurement) -> str:
    name = search.versions[step.version]
    if step.partner is not None:
        name += f" in turns with {search.versions[step.partner]}"
    number = len(search.rounds) // (2 if search.in_turns else 1) + 1
    why = ", once more to confirm" if step.check else ", again" if search.rounds_of(step.version) else ""
    return f"measurement {number}: {name}{why}"


def table(case: str, search: VersionSearch) -> Table:
    numbers = ("time", "partner" if search.in_turns else "control", "measured")
    rows = table_of(escape(case), "version", *numbers, "verdict", right=numbers)
    states, seconds = version_states(search), seconds_of_versions(search)
    for version in sorted(seconds):
        state, reason = states[version], search.reason(version)
        style, why = STYLES.get(state, ""), f": {reason}" if reason and state is not VersionState.GOOD else ""
        rows.add_row(
            escape(search.versions[version]),
            *(number_text(case, number) for number in seconds[version]),
            f"{sum(each.version == version for each in search.rounds)}×",
            f"[{style}]{state}[/]{escape(why)}" if style else f"{state}{escape(why)}",
        )
    return rows


def ending(case: str, search: VersionSearch, step: NextStep) -> list[str]:
    if isinstance(step, NoCulprit):
        return [f"no version found: {step.reason}"]
    if not isinstance(step, FirstBadVersion):
        return []
    good, bad = search.versions[step.last_good], search.versions[step.first_bad]
    if step.doubt:
        sentence = f"{case} seems to change between {good} and {bad}, which is not confirmed: {step.doubt}"
    elif step.skipped:
        names = [search.versions[version] for version in step.skipped]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        sentence = (
            f"with {bad} {case} {_longer(case, step.change, good)}; any of these versions can be the cause, "
            f"because none of them could be decided: {', '.join(names[:NAMED])}{more}"
        )
    else:
        words = ("worse", "better") if metric_in(case) else ("slow", "fast")
        kind = words[step.change.value <= 0]
        sentence = f"{bad} is the first {kind} version: {case} {_longer(case, step.change, good)}"
    return [sentence, *_rest(search, step)]


def _rest(search: VersionSearch, step: FirstBadVersion) -> list[str]:
    if step.part >= SMALL_PART:
        return []
    names = search.versions
    parts = [
        f"{100 * share:+.1f} % from {names[first]} to {names[last]}"
        for share, first, last in (
            (step.before, 0, step.last_good),
            (step.after, step.first_bad, len(names) - 1),
        )
        if first != last
    ]
    return [
        f"that is {100 * step.part:.0f} % of the whole change of {100 * step.whole:+.1f} %; the rest is "
        f"elsewhere: {', '.join(parts)}"
    ]


def _longer(case: str, change: Estimate, good: str) -> str:
    """Return `takes 12.3 % longer than with W (11.9–12.8)`, or `less time than`."""
    if metric_in(case):
        return f"is {share_in_words(change.value, case)} than with {good}"
    low, high = change.low or 0.0, change.high or 0.0
    slower = change.value > 0
    shown = change if slower else Estimate(-change.value, -high, -low)
    value, _, bounds = format_percent(shown).partition(" (")
    return f"takes {value} {'longer' if slower else 'less time'} than with {good} ({bounds}"
