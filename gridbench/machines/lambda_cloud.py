"""The commands `gridbench lambda …`."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table

from gridbench.terminal import console, say, warn
from tasks.errors import GridbenchError

T = TypeVar("T")

app = typer.Typer(help="List and return machines rented at Lambda Cloud.", no_args_is_help=True)


@app.command()
def rented(as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False) -> None:
    """List the boxes that runs have rented, with their deadlines and costs so far.

    One that is past its deadline is given back before; the exit code is 1 if that failed.
    """
    from infra.lambda_cloud.janitor import rentals

    sweep_overdue()
    now = datetime.now(UTC)
    boxes = _ask(lambda api: rentals(api, now))
    if as_json:
        print(json.dumps([_row(rental) for rental in boxes], indent=1))
    elif not boxes:
        say("no machine of Gridbench runs at Lambda Cloud")
    else:
        table = Table()
        for column in ("box", "run", "type", "region", "status", "since", "until", "USD so far"):
            table.add_column(column)
        for rental in boxes:
            row = _row(rental)
            cost = "unknown" if row["cost_usd"] is None else f"{row['cost_usd']:.2f}"
            over = timedelta(minutes=(now - rental.lease.until) // timedelta(minutes=1))
            late = f", {str(over).removesuffix(':00')} overdue" if row["overdue"] else ""
            table.add_row(
                *(row[name] for name in ("hardware", "run", "type", "region", "status")),
                row["since"] or "unknown",
                f"{row['until']}{late}",
                cost,
            )
        console.print(table)
    raise typer.Exit(1 if any(rental.overdue for rental in boxes) else 0)


@app.command()
def give_back(
    which: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs, hardware, or instance ids as `gridbench lambda rented --json` prints them"
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every rented box")] = False,
) -> None:
    """Give rented boxes back now, even if a run still measures on them."""
    from infra.lambda_cloud.janitor import end, rentals

    if bool(which) == everything:
        raise GridbenchError("name what to give back, by run, hardware or instance id, or use --all")
    sweep_overdue()

    async def give(api: Any) -> list[str]:
        running = await rentals(api, datetime.now(UTC))
        names = {r.instance.id: {r.lease.run, r.lease.hardware, r.instance.id} for r in running}
        if unknown := sorted({*(which or ())} - set().union(*names.values())):
            raise GridbenchError(f"no rented box is called {unknown[0]!r}: see `gridbench lambda rented`")
        chosen = [r for r in running if everything or names[r.instance.id] & {*(which or ())}]
        return (await end(api, chosen, say))[1]

    problems = _ask(give)
    for problem in problems:
        say(f"error: {problem}")
    if everything and not problems:
        say("no machine of Gridbench runs at Lambda Cloud any more")
    raise typer.Exit(1 if problems else 0)


@app.command()
def janitor() -> None:
    """Give back the boxes that are past their deadline, and remove left-over SSH keys."""
    from infra.lambda_cloud.janitor import sweep

    swept = _ask(lambda api: sweep(api, datetime.now(UTC), say))
    for problem in swept.problems:
        say(f"error: {problem}")
    if not (swept.returned or swept.removed_keys or swept.problems):
        say("no machine of Gridbench is overdue at Lambda Cloud")
    raise typer.Exit(1 if swept.problems else 0)


def sweep_overdue() -> None:
    """Give back every renter's overdue boxes before a command uses Lambda; report that on stderr."""
    from infra.lambda_cloud import janitor
    from infra.lambda_cloud.errors import LambdaError

    try:
        asyncio.run(janitor.sweep_overdue(warn))
    except LambdaError as error:
        raise GridbenchError(str(error)) from None


def _ask(request: Callable[[Any], Awaitable[T]]) -> T:
    from infra.lambda_cloud.api import LambdaApi, api_key, api_url
    from infra.lambda_cloud.errors import LambdaError

    async def answer() -> T:
        async with LambdaApi(api_key(), api_url()) as api:
            return await request(api)

    try:
        return asyncio.run(answer())
    except LambdaError as error:
        raise GridbenchError(str(error)) from None


def _row(rental: Any) -> dict[str, Any]:
    instance, lease = rental.instance, rental.lease
    return {
        "hardware": lease.hardware,
        "run": lease.run,
        "id": instance.id,
        "ip": instance.ip,
        "type": instance.instance_type.name,
        "region": instance.region.name,
        "status": instance.status,
        "since": lease.since and _time(lease.since),
        "until": _time(lease.until),
        "usd_per_hour": lease.usd_per_hour,
        "cost_usd": rental.cost_usd,
        "overdue": rental.overdue,
    }


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="minutes")
