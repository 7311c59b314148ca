"""The command `check`: find what cannot be right in a published table of times."""

import json
import math
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tasks.errors import GridbenchError
from tasks.planning.hardware import load_gpus
from tasks.published.read import read_table
from tasks.published.review import review
from tasks.published.rules import spread
from tasks.published.table import Printed, TableReview, TableRow, others
from tasks.report.text.boxes import box
from tasks.results.format import significant
from tasks.results.model import Machine

MOST_BYTES = 2**20
WIDTH = 110
OWN_COLUMNS = {"hardware", "case", "verdict"}  # of our own tables


def check(
    file: Annotated[Path, typer.Argument(help="CSV, or text with a table drawn with | and +")],
    gpu: Annotated[
        str | None,
        typer.Option(help="GPU of the times, a key of deployments/gpus.yaml: its peak rates are a limit"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Find what cannot be right in a published table of times.

    The exit code is 0 if nothing is found, 1 if something is, and 2 if the file cannot be read.
    """
    reviewed = review(read_table(read_text(file), file.name), gpu_machine(gpu) if gpu else None)
    typer.echo(
        json.dumps(as_data(reviewed), indent=1, allow_nan=False) if as_json else as_text(reviewed, file.name)
    )
    raise typer.Exit(1 if reviewed.findings else 0)


def read_text(file: Path) -> str:
    """Return the text of a published table.

    Raises:
        GridbenchError: the file can't be read, is not text, or is one of Gridbench's own.
    """
    if file.is_dir():
        raise GridbenchError(
            f"{file} is a folder; of a run, write the report anew: gridbench report {file.name}"
        )
    try:
        content = file.read_bytes()
    except OSError as error:
        raise GridbenchError(f"{file} can't be read ({error.strerror})") from None
    if file.suffix in (".json", ".jsonl", ".parquet"):
        raise GridbenchError(
            f"{file} is no published table; of records, see them by: python -m workloads show"
        )
    if len(content) > MOST_BYTES:
        raise GridbenchError(f"{file} has {len(content) / 2**20:.1f} MiB, a published table at most 1 MiB")
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        raise GridbenchError(f"{file} is no text in UTF-8; save it as CSV in UTF-8") from None
    if "\0" in text or not text.strip():
        raise GridbenchError(
            f"{file} is {'no text' if text.strip() else 'empty'}; a table of times is wanted"
        )
    if set(text.partition("\n")[0].strip().split(",")) >= OWN_COLUMNS:
        raise GridbenchError(f"{file} is a comparison of ours, judged already: gridbench report RUN says how")
    return text


def gpu_machine(key: str) -> Machine:
    """Return a machine with the peak rates of a GPU model.

    Raises:
        GridbenchError: the model is not in gpus.yaml; none is guessed, because an A10G is not an A10.
    """
    peaks = load_gpus().get(key)
    if peaks is None:
        raise GridbenchError(
            f"--gpu {key!r} is not in deployments/gpus.yaml; it has {', '.join(load_gpus())}"
        )
    flops = tuple((precision, rate * 1e12) for precision, rate in peaks.tflops.items())
    return Machine(key, None, peak_flops=flops, peak_bytes_per_s=peaks.gb_per_s * 1e9)


def as_text(reviewed: TableReview, name: str) -> str:
    """Return the verdict, a table for each pair of columns, and the numbered findings, as text."""
    table, count = reviewed.table, len(reviewed.findings)
    rows = f"{len(table.rows)} rows, {len(table.times)} columns of times"
    if count:
        things = f"{count} thing{'s' * (count > 1)}"
        verdict = f"{name}: {things} can't be taken as printed ({rows})."
    else:
        verdict = f"{name}: nothing found; its numbers agree within their rounding ({rows})."
    parts = [verdict, *(_versus(reviewed, side) for side in others(table))]
    parts += ["\n".join(_item(f"{n}. ", f.text) for n, f in enumerate(reviewed.findings, start=1))]
    parts += ["\n".join(_item("* ", note) for note in reviewed.notes)]
    return "\n\n".join(filter(None, parts))


def as_data(reviewed: TableReview) -> dict[str, Any]:
    """Return the same as plain values; a missing bound, or a number that isn't finite, is None."""
    return {
        "columns": [column.header for column in reviewed.table.times],
        "rows": [
            {
                "row": claim.row,
                "column": claim.column,
                "printed": claim.printed.text if claim.printed else None,
            }
            | (_finite(asdict(claim.bounds)) if claim.bounds else dict.fromkeys(("value", "low", "high")))
            for claim in reviewed.claims
        ],
        "overall": [
            {"column": column, "way": way} | _finite(asdict(estimate))
            for column, way, estimate in reviewed.overall
        ],
        "findings": [asdict(finding) for finding in reviewed.findings],
        "notes": list(reviewed.notes),
    }


def _versus(reviewed: TableReview, side: int) -> str:
    """Return the table that compares a column of times with the base column."""
    table = reviewed.table
    column = table.times[side].header
    header = ["Operation", table.times[table.base].header, column, "Speedup", "Rounding leaves"]
    bounds = {claim.row: claim for claim in reviewed.claims if claim.column == column}

    def line(row: TableRow) -> list[str]:
        claim = bounds[row.name]
        value = significant(claim.bounds.value, 3) if claim.bounds else "-"
        printed = _text(claim.printed) if claim.printed else value
        times = [_text(row.times[table.base]), _text(row.times[side])]
        return [row.name, *times, printed, spread(claim.bounds) if claim.bounds else "-"]

    total = line(table.total) if table.total else None
    ways = [
        f"{significant(e.value, 3)} ({spread(e)}) {way}"
        for name, way, e in reviewed.overall
        if name == column
    ]
    drawn = box(header, [line(row) for row in table.rows], total)
    return "\n".join([drawn, _item("", f"Speedup of the whole: {'; '.join(ways)}.")] if ways else [drawn])


def _text(printed: Printed | None) -> str:
    return printed.text if printed else "-"


def _item(mark: str, sentence: str) -> str:
    return textwrap.fill(sentence, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    return {name: v if v is not None and math.isfinite(v) else None for name, v in values.items()}
