"""The command `import`: records that were measured elsewhere become a run."""

import re
from pathlib import Path
from typing import Annotated

import typer

from gridbench.terminal import Results, say, warn
from tasks.errors import GridbenchError
from tasks.store.address import DEFAULT
from tasks.store.store import Store

USD = r"([^=\s]+)=(\d+(?:\.\d+)?)"


def import_(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders or files that `python -m workloads suite --out` wrote")
    ],
    usd: Annotated[
        list[str] | None,
        typer.Option(help="Price of a machine in USD per hour; repeat the option: h100=2.49"),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the report")] = "",
    results: Results = DEFAULT,
) -> None:
    """Make a run of records that were measured elsewhere."""
    from gridbench.run.outcome import comparison_of, rebuild
    from tasks.imported import read_folders, run_of
    from tasks.store.bucket import Bucket

    prices = dict(map(_price, usd or ()))
    records, problems = read_folders(folders)
    for sentence in problems:
        warn(f"left out: {sentence}")
    plan, kept = run_of(records, prices, title)
    store = Store.create(results.folder, plan, Bucket.of(results))
    for record in kept:
        store.add(record)
    for machine in plan.hardware:
        if machine.name not in prices:
            say(
                f"{machine.name}: its price is unknown, {machine.price.usd_per_hour:g} USD/h is assumed; --usd sets it"
            )
    report = rebuild(store)
    if store.bucket:
        store.bucket.send(store.folder)
    for line in comparison_of(store).answer:
        say(line)
    say(f"\nrun:    {plan.run}\nreport: {report}")


def _price(text: str) -> tuple[str, float]:
    """Parse `MACHINE=USD`.

    Raises:
        GridbenchError: it is something else.
    """
    if not (match := re.fullmatch(USD, text)) or float(match[2]) <= 0:
        raise GridbenchError(f"--usd {text!r} must be a machine and USD per hour, such as h100=2.49")
    return match[1], float(match[2])
