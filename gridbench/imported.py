"""The command `import`."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridbench.terminal import Results, say, warn
from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware, load_hardware
from tasks.store.address import DEFAULT, ResultsAddress
from tasks.store.store import Store

if TYPE_CHECKING:
    from tasks.imported import Found

LISTED = 10  # lines that are not records; further ones are counted
USD, PRICE = r"([^=\s]+)=(\S+)", r"\d+(?:\.\d+)?"


def import_(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders or files that `python -m workloads suite --out` wrote")
    ],
    usd: Annotated[
        list[str] | None,
        typer.Option(
            help="Price of a machine: USD per hour, or hardware whose price it has, by its share of the GPUs; "
            "repeat the option: h100=2.49, h200=aws-p5en.48xlarge"
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the report")] = "",
    results: Results = DEFAULT,
) -> None:
    """Make a run of records that were measured elsewhere."""
    from tasks.imported import read_folder

    prices = dict(map(_price, usd or ()))
    report_of([read_folder(folder) for folder in folders], results, prices, title)


def report_of(
    found: Sequence["Found"], results: ResultsAddress, prices: Mapping[str, float | Hardware], title: str = ""
) -> None:
    from gridbench.run.outcome import comparison_of, rebuild

    store = imported(found, results, prices, title)
    for machine in store.plan.hardware:
        if machine.name not in prices:
            say(
                f"{machine.name}: its price is unknown, {machine.price.usd_per_hour:g} USD/h is assumed; --usd sets it"
            )
    report = rebuild(store)
    if store.bucket:
        store.bucket.send(store.folder)
    for line in comparison_of(store).answer:
        say(line)
    say(f"\nrun:    {store.plan.run}\nreport: {report}")


def imported(
    found: Sequence["Found"], results: ResultsAddress, prices: Mapping[str, float | Hardware], title: str = ""
) -> Store:
    from tasks.imported import merged, run_of
    from tasks.store.bucket import Bucket

    records, problems = merged(found), [sentence for one in found for sentence in one.problems]
    for sentence in problems[:LISTED]:
        warn(f"left out: {sentence}")
    if len(problems) > LISTED:
        warn(f"left out: {len(problems) - LISTED} more lines that are not records")
    plan, kept = run_of(records, prices, title)
    store = Store.create(results.folder, plan, Bucket.of(results))
    for record in kept:
        store.add(record)
    return store


def _price(text: str) -> tuple[str, float | Hardware]:
    match = re.fullmatch(USD, text)
    if match and not re.match(r"[-.\d]", match[2]):
        return match[1], load_hardware(match[2])
    if not match or not re.fullmatch(PRICE, match[2]) or float(match[2]) <= 0:
        raise GridbenchError(
            f"--usd {text!r} must be a machine and USD per hour, such as h100=2.49, or hardware with a price"
        )
    return match[1], float(match[2])
