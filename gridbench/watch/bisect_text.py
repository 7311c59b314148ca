"""What `gridbench bisect` says: what it will take, the versions that were measured, and what is found."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from gridbench.terminal import table_of
from tasks.planning.plan import Plan
from tasks.regressions.bisect import (
    Found,
    Measure,
    Nothing,
    Search,
    Side,
    Step,
    levels,
    most_rounds,
    sides,
)
from tasks.results.format import format_percent, format_seconds
from tasks.results.values import Estimate

STYLES = {Side.GOOD: "green", Side.BAD: "red", Side.UNCLEAR: "yellow", Side.SKIPPED: "yellow"}
SMALL_PART = 0.5  # of the whole change; a step below it is not the whole story
NAMED = 5  # skipped versions that a sentence names before it counts the rest


def plan_text(versions: Sequence[str], plan: Plan) -> str:
    """What a search will take where each version is clear at once, by the plan of one measurement."""
    most = most_rounds(len(versions))
    minutes, usd = max(most * plan.estimate_s / 60, 1), most * plan.estimate_usd
    return (
        f"{len(versions)} versions from {versions[0]} to {versions[-1]}: at most {most} measurements of "
        f"{plan.repeats} processes where each is clear at once, about {minutes:.0f} min and {usd:.2g} USD at "
        "these prices"
    )


def line_of(search: Search, step: Measure) -> str:
    """What is measured next."""
    name, number = search.versions[step.version], len(search.rounds) + 1
    why = ", once more to confirm" if step.check else ", again" if search.of(step.version) else ""
    return f"measurement {number}: {name}{why}"


def table(case: str, search: Search) -> Table:
    """The versions that were measured, in their order."""
    numbers = ("time", "control", "measured")
    found = table_of(escape(case), "version", *numbers, "verdict", right=numbers)
    known, seconds = sides(search), levels(search)
    for place in sorted(seconds):
        side, reason = known[place], search.reason(place)
        style, why = STYLES.get(side, ""), f": {reason}" if reason and side is not Side.GOOD else ""
        found.add_row(
            escape(search.versions[place]),
            *map(format_seconds, seconds[place]),
            f"{sum(one.version == place for one in search.rounds)}×",
            f"[{style}]{side}[/]{escape(why)}" if style else f"{side}{escape(why)}",
        )
    return found


def ending(case: str, search: Search, step: Step) -> list[str]:
    """What is found, in sentences, the answer first."""
    if isinstance(step, Nothing):
        return [f"nothing is found: {step.reason}"]
    if not isinstance(step, Found):
        return []
    good, bad = search.versions[step.last_good], search.versions[step.first_bad]
    if step.doubt:
        told = f"{case} seems to change between {good} and {bad}, which is not confirmed: {step.doubt}"
    elif step.skipped:
        names = [search.versions[place] for place in step.skipped]
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        told = (
            f"with {bad} {case} takes {_longer(step.change, good)}; which version it came with is not "
            f"known, for these could not be told: {', '.join(names[:NAMED])}{more}"
        )
    else:
        kind = "slow" if step.change.value > 0 else "fast"
        told = f"{bad} is the first {kind} version: {case} takes {_longer(step.change, good)}"
    return [told, *_rest(search, step)]


def _rest(search: Search, step: Found) -> list[str]:
    """What of the whole change is elsewhere, where that is most of it."""
    if step.part >= SMALL_PART:
        return []
    names = search.versions
    parts = [
        f"{100 * share:+.1f} % from {names[one]} to {names[other]}"
        for share, one, other in (
            (step.before, 0, step.last_good),
            (step.after, step.first_bad, len(names) - 1),
        )
        if one != other
    ]
    return [
        f"that is {100 * step.part:.0f} % of the whole change of {100 * step.whole:+.1f} %; the rest is "
        f"elsewhere: {', '.join(parts)}"
    ]


def _longer(change: Estimate, good: str) -> str:
    """`12.3 % longer than with W (11.9–12.8)`, or `less time than` where it got faster."""
    low, high = change.low or 0.0, change.high or 0.0
    slower = change.value > 0
    shown = change if slower else Estimate(-change.value, -high, -low)
    value, _, bounds = format_percent(shown).partition(" (")
    return f"{value} {'longer' if slower else 'less time'} than with {good} ({bounds}"
