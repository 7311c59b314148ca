"""The commands `gridbench prices …`: list the snapshot of prices, and refresh it."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from gridbench.terminal import console, say
from tasks.errors import GridbenchError
from tasks.planning import hardware
from tasks.pricing import aws, lambda_cloud
from tasks.pricing.checks import usd_text
from tasks.pricing.facts import (
    FILE,
    Fact,
    PriceAnswer,
    dates,
    jumps,
    kept,
    load_facts,
    renewed,
    write_facts,
)
from tasks.pricing.price import fact_doubts
from workloads.harness.records.errors import hint

app = typer.Typer(help="List the prices of machines, or refresh them.", no_args_is_help=True)
Ask = Callable[[Sequence[Fact], date], PriceAnswer]
SOURCES: dict[str, Ask] = {"aws": aws.ask, "lambda": lambda_cloud.ask}


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
    notes: dict[str, int] = {}
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in ("what", "purchase", "region", "USD/h", "days", "notes"):
        table.add_column(column, no_wrap=True, justify="right" if column in ("USD/h", "days") else "left")
    for fact in shown:
        texts = [f"from {fact.source}", *(f"to check: {doubt}" for doubt in fact_doubts(fact, facts, today))]
        numbers = " ".join(str(notes.setdefault(text, len(notes) + 1)) for text in texts)
        row = (fact.name, fact.purchase, fact.region or "every", usd_text(fact.usd_per_hour))
        table.add_row(*map(escape, (*row, str((today - fact.date).days), numbers)))
    console.print(table)
    for text, number in notes.items():
        say(f"{number} {text}")


@app.command("refresh")
def refresh(
    provider: Annotated[
        list[str] | None,
        typer.Option(help=f"Provider to ask; repeat for several; by default all: {', '.join(SOURCES)}"),
    ] = None,
) -> None:
    """Fetch today's prices from providers into the snapshot; prices without an answer stay.

    AWS needs credentials that boto3 finds. Lambda needs the key in LAMBDA_API_KEY.
    """
    names = list(dict.fromkeys(provider or SOURCES))
    for name in names:
        _check(name, [*SOURCES], "has no price API")
    old, today = load_facts(hardware.DEPLOYMENTS), utc_today()
    answers = {name: _answer(name, old, today) for name in names}
    new = [fact for answer in answers.values() if answer for fact in answer.facts]
    if new:
        facts = renewed(old, new)
        path = write_facts(hardware.DEPLOYMENTS, facts)
        for name, answer in answers.items():
            if answer:
                _report(name, answer, old, facts, today)
        say(f"wrote {len(new)} prices of {today} to {path}")
    whole = all(answer and not answer.broken for answer in answers.values())
    raise typer.Exit(0 if whole else 1)


def utc_today() -> date:
    """Return the UTC day, which dates prices."""
    return datetime.now(UTC).date()


def _check(name: str, providers: list[str], problem: str) -> None:
    if name not in providers:
        raise GridbenchError(f"provider {name!r} {problem}; {hint(name, providers)}")


def _answer(name: str, old: Sequence[Fact], today: date) -> PriceAnswer | None:
    """Return a provider's answer; if there is none, print the reason and return None."""
    ours = [fact for fact in old if fact.provider == name]
    try:
        return SOURCES[name](ours, today)
    except GridbenchError as error:
        say(f"{name}: no new prices: {error}; the prices of {dates(ours)} stay")
        return None


def _report(name: str, answer: PriceAnswer, old: Sequence[Fact], facts: Sequence[Fact], today: date) -> None:
    """Print new and unchanged prices, large changes, and doubts."""
    left = kept(old, answer.facts, name)
    say(f"{name}: {len(answer.facts)} new prices, {len(left)} unchanged")
    for sentence in answer.missing:
        say(f"  no answer: {sentence}")
    for fact in left:
        say(f"  unchanged: {fact.words}, {usd_text(fact.usd_per_hour)} USD/h of {fact.date}")
    for sentence in jumps(old, answer.facts):
        say(f"  jumped: {sentence}")
    for fact in answer.facts:
        for doubt in fact_doubts(fact, facts, today):
            say(f"  to check: {fact.words}: {doubt}")
