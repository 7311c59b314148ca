"""A page for each ticket of a night."""

from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.errors import GridbenchError
from tasks.regressions.change import share_in_words
from tasks.regressions.gate_file import SeriesVerdict, Ticket, Verdicts
from tasks.regressions.night import JudgedNight
from tasks.regressions.series import Observation, Series
from tasks.report.charts.trend import trend_svg
from tasks.report.html.templates import STILL, environment, slug, style
from tasks.report.html.trends import Point, Trend
from tasks.results.metrics import metric_in, number_text
from tasks.results.values import Estimate
from tasks.results.wording import code_text
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text

LISTED = 30  # nights in a page's table; `gridbench history` shows all


def write_tickets(folder: Path, judged: JudgedNight, verdicts: Verdicts) -> list[Path]:
    """Return the written paths.

    Raises:
        GridbenchError: the folder cannot be written.
    """
    try:
        return [_page(folder, ticket, judged, verdicts) for ticket in verdicts.tickets]
    except (OSError, WorkloadsError) as error:
        raise GridbenchError(f"results: a ticket cannot be written: {error}") from None


def _page(folder: Path, ticket: Ticket, judged: JudgedNight, verdicts: Verdicts) -> Path:
    named = ticket.cases[0] if len(ticket.cases) == 1 else ""
    path = folder / f"ticket-{ticket.kind}-{_slug(ticket.hardware)}{'-' * bool(named)}{_slug(named)}.html"
    series = {(each.key.hardware, each.key.case): each for each in judged.series}
    by_cell = {(verdict.hardware, verdict.case): verdict for verdict in verdicts.series}
    cases = [
        _case(series[ticket.hardware, case], by_cell[ticket.hardware, case], judged, ticket.because)
        for case in ticket.cases
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


def _case(
    series: Series, verdict: SeriesVerdict, judged: JudgedNight, because: Sequence[str]
) -> dict[str, Any]:
    fresh = judged.fresh.get(series.key)
    runs = zip(fresh.seconds, fresh.control_s, strict=True) if fresh else ()
    return {
        "id": series.key.case,
        "slug": _slug(series.key.case),
        "because": list(dict.fromkeys([*because, *verdict.because])),
        "numbers": _numbers(verdict, judged.screening.confirm_z),
        "pictures": _pictures(series),
        "nights": [_row(night, series.key.case) for night in reversed(series.nights[-LISTED:])],
        "fresh": [
            {"time": _seconds(time, series.key.case), "control": _seconds(control)} for time, control in runs
        ],
    }


def _numbers(verdict: SeriesVerdict, confirm_z: float) -> list[tuple[str, str]]:
    numbers = [("State", verdict.state.value)]
    if verdict.share is not None:
        numbers.append(("Change", f"{_change(verdict)}, from fresh runs"))
    if verdict.z is not None:
        numbers.append(("Deviation that night", f"{verdict.z:+.1f} spreads from the baseline"))
    if verdict.smallest_change is not None:
        numbers.append(("Smallest detectable change", f"{verdict.smallest_change:.1%}"))
    numbers.append(("Baseline", f"{verdict.nights} nights, control weighted by {verdict.beta:.0%}"))
    return [*numbers, ("Confirmation limit", f"{confirm_z:g} standard errors, more if there are few nights")]


def _change(verdict: SeriesVerdict) -> str:
    share = verdict.share or 0.0
    is_metric = metric_in(verdict.case)
    return share_in_words(share, verdict.case) if is_metric else f"{share:+.1%} in time per step"


def _pictures(series: Series) -> dict[str, str]:
    key, pictures = series.key, {}
    points = tuple(
        Point(night.run, night.at, night.verdict, Estimate(night.seconds) if night.seconds else None)
        for night in series.nights
    )
    trend = Trend(key.case.partition("/")[0], key.case, key.hardware, points)
    for look, dark in (("light", False), ("dark", True)):
        if svg := trend_svg(trend, [key.hardware], dark):
            pictures[look] = f"data:image/svg+xml;base64,{b64encode(svg.encode()).decode()}"
    return pictures


def _row(night: Observation, case: str) -> dict[str, str]:
    return {
        "run": night.run,
        "at": f"{night.at:%Y-%m-%d %H:%M}",
        "time": _seconds(night.seconds, case),
        "control": _seconds(night.control_s),
        "verdict": "" if night.ok else night.verdict.replace("_", " "),
        "commit": code_text(night.commit),
    }


def _seconds(seconds: float | None, case: str = "") -> str:
    return number_text(case, seconds) if seconds is not None and seconds > 0 else "–"


def _slug(text: str) -> str:
    """Remove `=`, which a link would have to quote."""
    return slug(text.replace("=", "-"))
