"""The commands `gridbench prices …` and `gridbench offers`."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from gridbench.terminal import log_or_screen, say
from tasks.errors import GridbenchError
from tasks.planning import hardware
from tasks.planning.rentable import Rentable, rentable
from tasks.pricing import market
from tasks.pricing.checks import usd_text
from tasks.pricing.facts import FILE, Fact, jumps, kept, load_facts, renewed, write_facts
from tasks.pricing.offers import load_offers, write_offers
from tasks.pricing.price import fact_doubts
from workloads.harness.records.errors import hint

app = typer.Typer(help="List the prices of machines, or refresh them.", no_args_is_help=True)
RIGHT = ("USD/h", "days", "CPUs")


@app.command("list")
def list_prices(
    provider: Annotated[str | None, typer.Option(help="List only the prices of this provider")] = None,
) -> None:
    """List the snapshot of prices, with the age in days and the doubts about each."""
    facts, today = load_facts(hardware.DEPLOYMENTS), utc_today()
    if provider:
        _check(provider, sorted({fact.provider for fact in facts}), "has no prices")
    shown = [fact for fact in facts if provider in (None, fact.provider)]
    if not shown:
        say(f"no prices in {hardware.DEPLOYMENTS / FILE}")
        return
    rows = [
        (
            (fact.name, fact.purchase, fact.region or "every", usd_text(fact.usd_per_hour)),
            (today - fact.date).days,
            (f"from {fact.source}", *(f"to check: {doubt}" for doubt in fact_doubts(fact, facts, today))),
        )
        for fact in shown
    ]
    _print(("what", "purchase", "region", "USD/h"), rows)


def offers(
    gpu: Annotated[str, typer.Option(help="Part of the GPU's name, such as h100")] = "",
    gpu_memory: Annotated[float, typer.Option(min=0, help="Least memory of each GPU, GiB")] = 0.0,
    gpus: Annotated[int, typer.Option(min=1, help="Least number of GPUs")] = 1,
    max_usd: Annotated[float | None, typer.Option(min=0, help="Highest price of the machine, USD/h")] = None,
    provider: Annotated[str | None, typer.Option(help="List only the offers of this provider")] = None,
    spot: Annotated[bool, typer.Option("--spot/--no-spot", help="List spot capacity, too")] = True,
    most: Annotated[int, typer.Option(min=1, help="Most rows")] = 40,
) -> None:
    """List machines with GPUs that providers rent out, the cheapest first, and how to reach each."""
    today = utc_today()
    every = rentable(hardware.DEPLOYMENTS, today)
    if provider:
        _check(provider, sorted({one.offer.provider for one in every}), "has no offers")
    offers_shown = [
        one
        for one in every
        if gpu.lower() in one.offer.gpu.lower()
        and (one.offer.gpu_memory_gib or 0) >= gpu_memory
        and one.offer.gpus >= gpus
        and (max_usd is None or one.offer.usd_per_hour <= max_usd)
        and provider in (None, one.offer.provider)
        and (spot or one.offer.purchase != "spot")
    ]
    if not offers_shown:
        say(f"none of {len(every)} offers is like this; `gridbench prices refresh` asks for newer ones")
        return
    offers_shown.sort(key=lambda one: (one.offer.usd_per_hour, one.offer.provider, one.offer.instance))
    columns = ("USD/h", "purchase", "GPUs", "CPUs", "machine", "region", "--on")
    _print(columns, [_row(one, today) for one in offers_shown[:most]])
    if len(offers_shown) > most:
        say(f"{len(offers_shown) - most} more offers: --most {len(offers_shown)} shows them")
    say("ssh://…: rent the machine at its provider, then measure with --on 'ssh://USER@HOST?usd=PRICE'")


def _row(one: Rentable, today: date) -> tuple[tuple[str, ...], int, tuple[str, ...]]:
    offer = one.offer
    memory = f", {offer.gpu_memory_gib:.4g} GiB" if offer.gpu_memory_gib else ""
    cells = (
        usd_text(offer.usd_per_hour),
        offer.purchase,
        f"{offer.gpus} x {offer.gpu}{memory}",
        str(offer.cpus or "?"),
        f"{offer.provider} {offer.instance}",
        offer.region or "",
        one.reach,
    )
    notes = (f"from {offer.source}", *(f"to check: {doubt}" for doubt in one.doubts))
    return cells, (today - offer.date).days, notes


def _print(columns: Sequence[str], rows: Iterable[tuple[Sequence[str], int, Sequence[str]]]) -> None:
    """Print rows with their age in days and numbered notes, then each note once."""
    notes: dict[str, int] = {}
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in (*columns, "days", "notes"):
        table.add_column(column, overflow="fold", justify="right" if column in RIGHT else "left")
    for cells, days, texts in rows:
        numbers = " ".join(str(notes.setdefault(text, len(notes) + 1)) for text in texts)
        table.add_row(*map(escape, (*cells, str(days), numbers)))
    log_or_screen().print(table)
    for text, number in notes.items():
        say(f"{number} {text}")


@app.command("refresh")
def refresh(
    provider: Annotated[
        list[str] | None,
        typer.Option(help="Provider to ask, such as aws; repeat for several; by default all"),
    ] = None,
) -> None:
    """Fetch the newest prices and offers of eighteen providers; a price without an answer stays.

    They are gpuhunt's: nine providers from its public catalogue, nine asked online, most of which need a key.
    """
    every = [*market.providers()]
    names = list(dict.fromkeys(provider or every))
    for name in names:
        _check(name, every, "has no price API")
    facts, offers, today = load_facts(hardware.DEPLOYMENTS), load_offers(hardware.DEPLOYMENTS), utc_today()
    newest = market.ask(names, today)
    for name, answer in newest.answers.items():
        ours = [fact for fact in facts if fact.provider == name]
        new, missing = market.facts_of(ours, answer)
        rented, wrong = market.offers_of(name, answer)
        facts = renewed(facts, new)
        offers = (*(offer for offer in offers if not rented or offer.provider != name), *rented)
        say(
            f"{name}: {len(rented)} offers, {len(new)} prices of {answer.day}, {len(ours) - len(new)} unchanged"
        )
        if wrong:
            say(f"  {wrong} rows of the answer are left out: their price is 0 or a field is invalid")
        _report(name, ours, new, missing, facts, today)
    for name, reason in (newest.failed | newest.keyless).items():
        days = sorted(
            [
                *(str(fact.date) for fact in facts if fact.provider == name),
                *(str(offer.date) for offer in offers if offer.provider == name),
            ]
        )
        stay = (
            f"those of {' to '.join(dict.fromkeys((days[0], days[-1])))} stay" if days else "none is on file"
        )
        say(f"{name}: no new prices: {reason}; {stay}")
    if newest.answers:
        paths = write_facts(hardware.DEPLOYMENTS, facts), write_offers(hardware.DEPLOYMENTS, offers)
        say(f"wrote {' and '.join(map(str, paths))}")
    unanswered = newest.keyless if provider else {}
    raise typer.Exit(0 if newest.answers and not newest.failed and not unanswered else 1)


def utc_today() -> date:
    return datetime.now(UTC).date()


def _check(name: str, providers: list[str], problem: str) -> None:
    if name not in providers:
        raise GridbenchError(f"provider {name!r} {problem}; {hint(name, providers)}")


def _report(
    name: str,
    ours: Sequence[Fact],
    new: Sequence[Fact],
    missing: Sequence[str],
    facts: Sequence[Fact],
    today: date,
) -> None:
    for sentence in missing:
        say(f"  no answer: {sentence}")
    for fact in kept(ours, new, name):
        say(f"  unchanged: {fact.words}, {usd_text(fact.usd_per_hour)} USD/h of {fact.date}")
    for sentence in jumps(ours, new):
        say(f"  jumped: {sentence}")
    for fact in new:
        for doubt in fact_doubts(fact, facts, today):
            say(f"  to check: {fact.words}: {doubt}")
