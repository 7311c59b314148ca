"""A page for each ticket of a night: what has changed, by how much, how sure that is, and what may be why."""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.errors import GridbenchError
from tasks.regressions.gate_file import SeriesVerdict, Ticket, Verdicts
from tasks.regressions.history import Point, Trend
from tasks.regressions.night import Tonight
from tasks.regressions.nightly_gate import Fresh
from tasks.regressions.series import Observation, Series
from tasks.report.charts.trend import trend_svg
from tasks.report.html.templates import STILL, environment, slug, style
from tasks.results.format import format_seconds
from tasks.results.values import Estimate
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text

LISTED = 30  # nights in a page's table; `gridbench history` has all


def write_tickets(folder: Path, tonight: Tonight, verdicts: Verdicts) -> list[Path]:
    """Write a page for each ticket into the night's folder; returns their paths in the tickets' order.

    Raises:
        GridbenchError: the folder can't be written.
    """
    try:
        return [_page(folder, ticket, tonight, verdicts) for ticket in verdicts.tickets]
    except (OSError, WorkloadsError) as error:
        raise GridbenchError(f"results: a ticket can't be written: {error}") from None


def _page(folder: Path, ticket: Ticket, tonight: Tonight, verdicts: Verdicts) -> Path:
    named = ticket.cases[0] if len(ticket.cases) == 1 else ""
    path = folder / f"ticket-{ticket.kind}-{_slug(ticket.hardware)}{'-' * bool(named)}{_slug(named)}.html"
    series = {(one.key.hardware, one.key.case): one for one in tonight.series}
    said = {(one.hardware, one.case): one for one in verdicts.series}
    cases = [
        _case(series[ticket.hardware, case], said[ticket.hardware, case], tonight) for case in ticket.cases
    ]
    facts = {
        "policy": STILL,
        "style": style(),
        "title": ticket.sentence,
        "ticket": ticket,
        "verdicts": verdicts,
        "cases": cases,
        "machines": [ticket.hardware],
    }
    write_text(path, environment().get_template("ticket.html.j2").render(facts))
    return path


def _case(series: Series, said: SeriesVerdict, tonight: Tonight) -> dict[str, Any]:
    fresh = tonight.fresh.get(series.key)
    return {
        "id": series.key.case,
        "slug": _slug(series.key.case),
        "said": said,
        "numbers": _numbers(said, tonight.judged.confirm_z),
        "pictures": _pictures(series),
        "nights": [_row(night) for night in reversed(series.nights[-LISTED:])],
        "fresh": _fresh(fresh) if fresh else [],
    }


def _numbers(said: SeriesVerdict, confirm_z: float) -> list[tuple[str, str]]:
    """What the verdict rests on, in words."""
    found = [("State", said.state.value)]
    if said.share is not None:
        found.append(("Change", f"{said.share:+.1%} in time per step, by fresh runs"))
    if said.z is not None:
        found.append(("That night", f"{said.z:+.1f} spreads from its baseline"))
    if said.smallest_change is not None:
        found.append(("Smallest change it can show", f"{said.smallest_change:.1%}"))
    found.append(("Baseline", f"{said.nights} nights; the control counts {said.beta:.0%}"))
    return [*found, ("Confirmed beyond", f"{confirm_z:g} standard errors, more where nights are few")]


def _pictures(series: Series) -> dict[str, str]:
    """The light and the dark picture of a series as addresses that hold them; empty without a number."""
    key, found = series.key, {}
    points = tuple(
        Point(night.run, night.at, night.verdict, Estimate(night.seconds) if night.seconds else None)
        for night in series.nights
    )
    trend = Trend(key.case.partition("/")[0], key.case, key.hardware, points)
    for look, dark in (("light", False), ("dark", True)):
        if svg := trend_svg(trend, [key.hardware], dark):
            found[look] = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
    return found


def _row(night: Observation) -> dict[str, str]:
    return {
        "run": night.run,
        "at": f"{night.at:%Y-%m-%d %H:%M}",
        "time": _seconds(night.seconds),
        "control": _seconds(night.control_s),
        "verdict": "" if night.ok else night.verdict.replace("_", " "),
        "commit": night.commit[:12],
    }


def _fresh(fresh: Fresh) -> Sequence[dict[str, str]]:
    return [
        {"time": _seconds(seconds), "control": _seconds(control_s)}
        for seconds, control_s in zip(fresh.seconds, fresh.control_s, strict=True)
    ]


def _seconds(seconds: float | None) -> str:
    return format_seconds(seconds) if seconds is not None and seconds > 0 else "–"


def _slug(text: str) -> str:
    """For a file that is linked to: without the sign that a link would have to quote."""
    return slug(text.replace("=", "-"))
