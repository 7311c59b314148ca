"""The command `check`."""

import json
import math
import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from tasks.errors import GridbenchError
from tasks.planning.hardware import DEPLOYMENTS, load_gpus
from tasks.pricing.facts import load_facts
from tasks.published.ratios import spread
from tasks.published.read import read_tables
from tasks.published.review import Known, review
from tasks.published.shapes import Shapes
from tasks.published.table import Claim, Printed, TableFlaw, TableReview, TableRow
from tasks.published.totals import total_row
from tasks.report.text.boxes import box
from tasks.results.format import significant
from tasks.results.model import Machine
from tasks.schema import read_mapping, validated
from workloads.harness.records.printable import printable

MOST_BYTES = 2**20
LEAST_ASCII = 0.7  # share of the characters of a text in Windows-1252
WIDTH = 110
OWN_COLUMNS = {"hardware", "case", "verdict"}  # of our own tables


def check(
    file: Annotated[Path, typer.Argument(help="CSV, Markdown, HTML, RST, or text in columns")],
    gpu: Annotated[
        str | None,
        typer.Option(
            help="GPU that was measured, a key of deployments/gpus.yaml; its peak rates limit the numbers"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Find impossible numbers in a published table.

    The exit code is 0 if nothing is found, 1 if a number is impossible, and 2 if the file cannot be read.
    A question about an unlikely number does not change the exit code.
    """
    name = printable(file.name)
    tables = read_tables(read_text(file), name)
    machine, known = gpu_machine(gpu) if gpu else None, known_machines()
    names = [f"{name}, table {n}" if len(tables) > 1 else name for n in range(1, len(tables) + 1)]
    unread = {name: t.unjudged for name, t in zip(names, tables, strict=True) if t.unjudged}
    judged = [(name, table) for name, table in zip(names, tables, strict=True) if not table.unjudged]
    reviewed = [review(table, machine, known) for _, table in judged]
    if as_json:
        data = {"file": name, "tables": [as_data(each) for each in reviewed], "not_judged": unread}
        typer.echo(json.dumps(data, indent=1, allow_nan=False))
    else:
        parts = [as_text(each, name) for each, (name, _) in zip(reviewed, judged, strict=True)]
        left_out = [_item("", f"{name}: not judged: {why}.") for name, why in unread.items()]
        typer.echo("\n\n\n".join([*parts, *(["\n".join(left_out)] if left_out else [])]))
    raise typer.Exit(1 if any(accused(each) for each in reviewed) else 0)


def accused(reviewed: TableReview) -> list[TableFlaw]:
    return [flaw for flaw in reviewed.findings if not flaw.doubt]


def known_machines() -> Known:
    gpus = {key: gpu_machine(key) for key in load_gpus()}
    shapes = validated(Shapes, read_mapping(DEPLOYMENTS / "instances.yaml"), "instances.yaml")
    facts = [fact for fact in load_facts(DEPLOYMENTS) if fact.purchase == "on-demand" and fact.instance]
    in_fp8 = frozenset(key for key, peaks in load_gpus().items() if peaks.computes_in("fp8"))
    return Known(gpus, shapes, {fact.instance or "": fact.usd_per_hour for fact in facts}, in_fp8)


def read_text(file: Path) -> str:
    name = printable(str(file))
    if file.is_dir():
        raise GridbenchError(
            f"{name} is a folder, not a table; for the report of a run: gridbench report {printable(file.name)}"
        )
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise GridbenchError(f"cannot read {name}: {error.strerror}") from None
    if file.suffix in (".json", ".jsonl", ".parquet"):
        raise GridbenchError(f"{name} is not a published table; to show records: python -m workloads show")
    if len(content) > MOST_BYTES:
        raise GridbenchError(f"{name} is larger than 1 MiB; give its tables alone")
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")  # as Windows saves a µ
        if sum(map(str.isascii, text)) < LEAST_ASCII * len(text):
            raise GridbenchError(f"{name} is not UTF-8 text; save it as CSV in UTF-8") from None
    if "\0" in text or not text.strip():
        raise GridbenchError(f"{name} is {'not text' if text.strip() else 'empty'}; give a table of times")
    if set(text.partition("\n")[0].strip().split(",")) >= OWN_COLUMNS:
        raise GridbenchError(f"{name} was written by Gridbench; for its verdicts: gridbench report RUN")
    return text


def gpu_machine(key: str) -> Machine:
    """Return a GPU model's peak rates; similar names are errors: an A10G is not an A10."""
    peaks = load_gpus().get(key)
    if peaks is None:
        raise GridbenchError(
            f"--gpu {key!r} is not in deployments/gpus.yaml; choose one of {', '.join(load_gpus())}"
        )
    flops = tuple((precision, rate * 1e12) for precision, rate in peaks.tflops.items())
    return Machine(key, None, peak_flops=flops, peak_bytes_per_s=peaks.gb_per_s * 1e9)


def as_text(reviewed: TableReview, name: str) -> str:
    table, count = reviewed.table, len(accused(reviewed))
    measures = len(table.measures)
    rows = f"{len(table.rows)} rows, {measures} column{'s' * (measures != 1)} of times and rates"
    held = ", ".join(f"{each.numbers} of {each.rule}" for each in reviewed.held)
    compared = f"Compared: {held}." if held else "No number could be compared with another or with a limit."
    found = f"{count} error{'s' * (count > 1)}" if count else "no errors" if held else "nothing"
    parts = [
        f"{name}: {found} found ({rows}).",
        _item("", compared),
        *(_versus(reviewed, side) for side in dict.fromkeys(c.side for c in reviewed.claims)),
    ]
    numbered = enumerate(sorted(reviewed.findings, key=lambda flaw: flaw.doubt), start=1)
    items = [_item(f"{n}. ", f"{'question: ' * flaw.doubt}{flaw.text}") for n, flaw in numbered]
    parts += ["\n".join(items)]
    parts += ["\n".join(_item("* ", note) for note in reviewed.notes)]
    return "\n\n".join(filter(None, parts))


def as_data(reviewed: TableReview) -> dict[str, Any]:
    """Return plain values; None for missing bounds and non-finite numbers."""
    columns = reviewed.table.columns
    return {
        "columns": [{"header": column.header, "kind": column.kind.value} for column in columns],
        "rows": [
            {
                "row": claim.row,
                "column": columns[claim.side].header,
                "printed": claim.printed.text if claim.printed else None,
            }
            | (_finite(asdict(claim.bounds)) if claim.bounds else dict.fromkeys(("value", "low", "high")))
            for claim in reviewed.claims
        ],
        "overall": [
            {"column": column, "way": way} | _finite(asdict(estimate))
            for column, way, estimate in reviewed.overall
        ],
        "held": sum(each.numbers for each in reviewed.held),
        "compared": {each.rule: each.numbers for each in reviewed.held},
        "findings": [asdict(finding) for finding in reviewed.findings],
        "notes": list(reviewed.notes),
    }


def _versus(reviewed: TableReview, side: int) -> str:
    table = reviewed.table
    claimed = [claim for claim in reviewed.claims if claim.side == side]
    base, column = table.columns[claimed[0].base].header, table.columns[side].header
    total = total_row(table)
    rows = [_line(claim, row) for claim, row in zip(claimed, (*table.rows, total), strict=False) if row]
    ways = [
        f"{significant(e.value, 3)} ({spread(e)}) {way}"
        for name, way, e in reviewed.overall
        if name == column
    ]
    header = ["Operation", base, column, "Speedup", "Range from rounding"]
    drawn = box(header, rows[: len(table.rows)], rows[-1] if total else None)
    return "\n".join([drawn, _item("", f"Overall speedup: {'; '.join(ways)}.")] if ways else [drawn])


def _line(claim: Claim, row: TableRow) -> list[str]:
    value = significant(claim.bounds.value, 3) if claim.bounds else "-"
    printed = _text(claim.printed) if claim.printed else value
    times = [_text(row.cells[claim.base]), _text(row.cells[claim.side])]
    return [claim.row, *times, printed, spread(claim.bounds) if claim.bounds else "-"]


def _text(printed: Printed | None) -> str:
    return printed.text if printed else "-"


def _item(mark: str, sentence: str) -> str:
    return textwrap.fill(sentence, WIDTH, initial_indent=mark, subsequent_indent=" " * len(mark))


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    return {name: v if v is not None and math.isfinite(v) else None for name, v in values.items()}
