"""Prices of eighteen providers, by gpuhunt: nine from its catalogue, nine online."""

import logging
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime
from importlib import import_module
from importlib.metadata import version
from typing import Any

from pydantic import ValidationError

from tasks.pricing.checks import no_price
from tasks.pricing.facts import Fact
from tasks.pricing.offers import MarketOffer

TIMEOUT_S = 30.0
OURS = {"lambdalabs": "lambda"}  # providers with another name here
MARKETS = ("lium", "vastai")  # where an instance is one host, and hundreds are alike
DATED = re.compile(
    r"(\d{8})-\d+"
)  # a version of the catalogue: the day on which it was collected, and a number
GPU_VENDOR = "nvidia"  # Gridbench measures on CUDA


@dataclass(frozen=True, slots=True)
class Answer:
    """A provider's answer.

    Attributes:
        items: gpuhunt's `CatalogItem`s, with and without GPUs.
    """

    items: Sequence[Any]
    source: str
    day: date


@dataclass(frozen=True, slots=True)
class Market:
    """Answers by provider, and reasons for missing ones."""

    answers: dict[str, Answer] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    keyless: dict[str, str] = field(default_factory=dict)


def providers() -> dict[str, str]:
    """Return gpuhunt's name by ours."""
    from gpuhunt._internal.catalog import OFFLINE_PROVIDERS, ONLINE_PROVIDERS

    return {OURS.get(name, name): name for name in sorted((*OFFLINE_PROVIDERS, *ONLINE_PROVIDERS))}


def ask(names: Sequence[str], today: date) -> Market:
    """Fetch all prices; no provider stops the others."""
    from gpuhunt import Catalog, GPUHuntError, MissingCredsError

    market, theirs, catalog = Market(), providers(), Catalog(auto_reload=False)
    with _quiet() as reasons, _patient():
        if any(theirs[name] not in _online() for name in names):
            with suppress(GPUHuntError):  # each provider's reason is in the log
                catalog.load()
        for name in names:
            try:
                market.answers[name] = _answer(catalog, theirs[name], today)
            except MissingCredsError as error:
                market.keyless[name] = str(error)
            except Exception as error:  # gpuhunt raises any error that an answer leads to
                market.failed[name] = reasons.get(theirs[name]) or _words(error)
    return market


def _online() -> dict[str, tuple[str, str]]:
    from gpuhunt._internal.default import ONLINE_PROVIDER_MODULES

    return {module.rpartition(".")[2]: (module, kind) for module, kind in ONLINE_PROVIDER_MODULES}


def _answer(catalog: Any, name: str, today: date) -> Answer:
    ours = f"gpuhunt {version('gpuhunt')}"
    if name in _online():
        module, kind = _online()[name]
        catalog.add_provider(getattr(import_module(module), kind).from_env())
        return Answer(catalog.query(provider=name), f"{ours}, asked online", today)
    published = catalog.catalog[name]
    dated = DATED.fullmatch(published.version)
    day = datetime.strptime(dated[1], "%Y%m%d").date() if dated else today
    return Answer(published.items, f"{ours}, catalogue {published.version[:40]}", day)


def offers_of(name: str, answer: Answer) -> tuple[list[MarketOffer], int]:
    """Return the cheapest region of each machine with GPUs, and the number of invalid rows."""
    cheapest: dict[tuple[object, ...], MarketOffer] = {}
    wrong = 0
    for item in answer.items:
        if not item.gpu_count or item.gpu_vendor != GPU_VENDOR:
            continue
        try:
            offer = MarketOffer(
                provider=name,
                instance=item.instance_name,
                region=item.location or None,
                purchase="spot" if item.spot else "on-demand",
                usd_per_hour=round(item.price, 6),
                gpus=item.gpu_count,
                gpu=item.gpu_name,
                gpu_memory_gib=item.gpu_memory or None,
                cpus=item.cpu or None,
                memory_gib=item.memory or None,
                source=answer.source,
                date=answer.day,
            )
        except (ValidationError, TypeError):
            wrong += 1
            continue
        if offer.usd_per_hour == 0:
            wrong += 1
            continue
        machine = None if name in MARKETS else offer.instance
        key = (machine, offer.gpu, offer.gpu_memory_gib, offer.gpus, offer.purchase)
        cheapest[key] = min(cheapest.get(key, offer), offer, key=lambda one: one.usd_per_hour)
    return [*cheapest.values()], wrong


def facts_of(facts: Sequence[Fact], answer: Answer) -> tuple[list[Fact], list[str]]:
    """Return facts at the answer's prices, and a sentence on each missing one.

    A fact newer than the answer stays.
    """
    new, missing = [], []
    for fact in facts:
        if not fact.instance or fact.date > answer.day:
            continue
        prices = {
            item.price
            for item in answer.items
            if item.instance_name == fact.instance
            and item.spot == (fact.purchase == "spot")
            and fact.region in (None, item.location)
        }
        usd = max(prices, default=0.0)
        if len(prices) > 1:
            missing.append(f"{fact.words}: it has {len(prices)} prices, by region")
        elif reason := no_price(usd) or ("the catalogue has no price" if usd == 0 else ""):
            missing.append(f"{fact.words}: {reason}")
        else:
            changed = {"usd_per_hour": round(usd, 6), "source": answer.source, "date": answer.day}
            new.append(fact.model_copy(update=changed))
    return new, missing


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.reasons: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error and isinstance(record.args, tuple) and record.args:
            self.reasons[str(record.args[0])] = _words(error)


@contextmanager
def _quiet() -> Iterator[dict[str, str]]:
    """Keep gpuhunt's log from the terminal; yield its reasons by provider."""
    log, handler = logging.getLogger("gpuhunt"), _Errors()
    log.addHandler(handler)
    log.propagate = False
    try:
        yield handler.reasons
    finally:
        log.propagate = True
        log.removeHandler(handler)


@contextmanager
def _patient() -> Iterator[None]:
    """Bound waits for the catalogue, which gpuhunt fetches without a time limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_S)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:100]}".removesuffix(": ")
