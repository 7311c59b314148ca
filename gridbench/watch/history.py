"""The commands `compare`, `site` and `history`."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from gridbench.imported import imported, report_of
from gridbench.terminal import Results, console, say, table_of
from tasks.errors import GridbenchError
from tasks.regressions.series import Observation, Series
from tasks.results.format import format_count, format_seconds
from tasks.results.metrics import metric_in, number_text
from tasks.results.wording import code_text
from tasks.store.address import DEFAULT, ResultsAddress
from tasks.store.bucket import find
from workloads.harness.records.errors import WorkloadsError, hint
from workloads.harness.records.files import write_text

if TYPE_CHECKING:
    from tasks.regressions.series_reader import PastRun

Output = Annotated[Path | None, typer.Option(help="Folder to write into")]
SHOWN = 20  # nights in a terminal's screen
NEAR = 3  # names in an error's suggestion
SITE_FILES = ("results.parquet", "comparison.csv", "report.html")
RUN_OR_RECORDS = "its name or its beginning, or the path of records (./FOLDER)"
FIELDS = [field.name for field in fields(Observation)]  # of each night, in a CSV file


def compare(
    run_a: Annotated[str, typer.Argument(help=f"Earlier run: {RUN_OR_RECORDS}")],
    run_b: Annotated[str, typer.Argument(help=f"Later run: {RUN_OR_RECORDS}")],
    output: Output = None,
    results: Results = DEFAULT,
) -> None:
    """Write the report of two runs against each other."""
    from tasks.imported import merged, read_folder
    from tasks.publish import write_comparison

    found = {name: read_folder(Path(name)) for name in (run_a, run_b) if _is_path(name)}
    machines = [{record.hardware for record in merged([one])} for one in found.values()]
    if len(machines) == 2 and not set.intersection(*machines):
        if output:
            raise GridbenchError(
                "--output is for two runs; records of two machines become one run in --results"
            )
        return report_of(list(found.values()), results, {})
    first, second = (
        imported([found[name]], results, {}) if name in found else find(results, name)
        for name in (run_a, run_b)
    )
    folder = output or results.folder / "comparisons" / f"{first.plan.run}..{second.plan.run}"
    report, sentences = write_comparison(first, second, folder)
    for sentence in sentences:
        say(f"• {sentence}")
    say(f"\nreport: {report}")


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith((".json", ".jsonl"))


def site(output: Output = None, results: Results = DEFAULT) -> None:
    """Write static pages with a trend for each case over all runs."""
    from tasks.report.html.site import write_site
    from tasks.report.html.trends import site_runs
    from tasks.store.sync import bring

    folder = bring(results, SITE_FILES)
    listed, problems = site_runs(folder)
    index = write_site(output or folder / "site", listed, problems)
    for sentence in problems:
        say(f"left out: {sentence}")
    say(f"site: {index}")


def history(
    case: Annotated[str, typer.Argument(help="Id of a case, its workload, or a unique part of an id")],
    on: Annotated[str | None, typer.Option(help="Only on this hardware")] = None,
    channel: Annotated[str, typer.Option(help="Software channel that the nights follow")] = "main",
    every: Annotated[
        bool, typer.Option("--all", help="Include confirmations and runs that are not nights")
    ] = False,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Also write the whole history into this file")
    ] = None,
    results: Results = DEFAULT,
) -> None:
    """Show the nights of a case, with its changes."""
    from tasks.regressions.series_reader import read_nights, read_others, series_of
    from tasks.store.sync import bring

    folder = bring(results)
    nights, problems = read_nights(folder, channel)
    others, more = read_others(folder) if every else ([], [])
    plain = [run for run in others if not run.channel]
    again = [run for run in others if run.channel == channel]
    if not (nights or plain or again):
        raise GridbenchError(_nothing(results, channel, problems))
    groups = {
        "": series_of(nights),
        "runs that are not nights": series_of(plain),
        "confirmations": series_of(again),
    }
    chosen = chosen_of(case, on, [series for group in groups.values() for series in group])
    notes = {run.plan.run: f"confirms {run.confirms}" for run in again} | _confirmed(plain)
    for title, group in groups.items():
        for series in group:
            if series in chosen:
                _show(series, title, notes)
    for sentence in dict.fromkeys([*problems, *more]):
        say(f"note: {sentence}")
    if csv_file:
        _write_csv(csv_file, chosen)
        say(f"written: {csv_file}")


def chosen_of(case: str, on: str | None, all_series: Sequence[Series]) -> list[Series]:
    cases = sorted({series.key.case for series in all_series})
    workloads = sorted({_workload(name) for name in cases})
    chosen = [name for name in cases if case in (name, _workload(name))]
    chosen = chosen or [name for name in cases if case in name]
    if not case or not chosen:
        near = get_close_matches(case, [*workloads, *cases], n=NEAR, cutoff=0.4) or workloads[:NEAR]
        raise GridbenchError(f"case {case!r} has no history; similar names are {', '.join(near)}")
    if len(chosen) > 1 and case not in workloads:
        more = f" and {len(chosen) - NEAR} more" if len(chosen) > NEAR else ""
        raise GridbenchError(f"case {case!r} fits {', '.join(chosen[:NEAR])}{more}; give more of its name")
    of_case = [series for series in all_series if series.key.case in chosen]
    machines = sorted({series.key.hardware for series in of_case})
    if on and on not in machines:
        raise GridbenchError(f"hardware {on!r} has no history of {case}; {hint(on, machines)}")
    return [series for series in of_case if on in (None, series.key.hardware)]


def _confirmed(past: Sequence["PastRun"]) -> dict[str, str]:
    notes: dict[str, str] = {}
    for run in past:
        if run.plan.confirms:
            try:
                published = json.loads((run.folder / "benchmark_results.json").read_text())
                verdict = str(published["confirmation"]["verdict"])
            except (OSError, ValueError, KeyError, TypeError, RecursionError):  # interrupted, or damaged
                notes[run.plan.run] = f"confirms {run.plan.confirms}"
                continue
            notes[run.plan.run] = f"confirms {run.plan.confirms}: {verdict}"
            notes[run.plan.confirms] = f"{verdict} by {run.plan.run}"
    return notes


def _workload(case: str) -> str:
    return case.partition("/")[0]


def _nothing(results: ResultsAddress, channel: str, problems: Sequence[str]) -> str:
    why = f" ({len(problems)} can't be read, the first: {problems[0]})" if problems else ""
    return f"{results} has no nights of channel {channel!r}{why}; --all also shows other runs"


def _show(series: Series, title: str, notes: Mapping[str, str]) -> None:
    head = f"{series.key.hardware}/{series.key.case}: {title}" if title else series.key.id
    number = "number" if metric_in(series.key.case) else "time"
    columns = ("at, UTC", "run", number, "control", "verdict", "commit", "new")
    table, changes = table_of(escape(head), *columns, right=(number, "control")), series.changes
    first = max(0, len(series.nights) - SHOWN)
    for index, night in enumerate(series.nights[first:], start=first):
        if index in changes:
            table.add_section()
        table.add_row(
            f"{night.at:%Y-%m-%d %H:%M}",
            night.run,
            number_text(series.key.case, night.seconds),
            format_seconds(night.control_s),
            night.verdict.replace("_", " "),
            code_text(night.commit),
            ", ".join((*changes.get(index, ()), *filter(None, [notes.get(night.run)]))),
        )
    console.print(table, markup=False)
    say(_total(series, "run" if title else "night"))


def _total(series: Series, noun: str) -> str:
    ok, start = sum(night.ok for night in series.nights), series.segment_start
    line = f"{format_count(len(series.nights), noun)}, {ok} of them ok"
    if start:
        what = " and ".join(series.changes[start])
        line += f"; {len(series.segment)} since {series.nights[start].at:%Y-%m-%d}, when the {what} changed"
    ended = "" if series.planned else "; the newest night of its channel did not plan it"
    return f"{line}{ended}\n"


def _write_csv(path: Path, chosen: Sequence[Series]) -> None:
    from tasks.report.files.csv_cells import harmless

    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["hardware", "case", "channel", "segment", *FIELDS])
    for series in chosen:
        key, segment = series.key, 0
        for index, night in enumerate(series.nights):
            segment += index in series.changes
            values = (getattr(night, name) for name in FIELDS)
            rows.writerow(map(harmless, [key.hardware, key.case, key.channel, segment, *values]))
    try:
        write_text(path, text.getvalue())
    except WorkloadsError as error:
        raise GridbenchError(f"csv: {error}") from None
