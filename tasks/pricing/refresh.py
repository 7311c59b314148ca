"""Replacement of old price facts by new ones; a fact without a new price stays as it is."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.pricing.checks import jump
from tasks.pricing.facts import Fact


@dataclass(frozen=True, slots=True)
class PriceAnswer:
    """A provider's answer.

    Attributes:
        facts: new ones.
        missing: a sentence for each price that could not be fetched.
        broken: the provider stopped answering before the end.
    """

    facts: tuple[Fact, ...]
    missing: tuple[str, ...] = ()
    broken: bool = False


def renewed(old: Sequence[Fact], new: Sequence[Fact]) -> tuple[Fact, ...]:
    """Return all facts, with new ones in place of those with the same key."""
    return tuple(({fact.key: fact for fact in old} | {fact.key: fact for fact in new}).values())


def kept(old: Sequence[Fact], new: Sequence[Fact], provider: str) -> list[Fact]:
    """Return the facts of a provider without a new price."""
    came = {fact.key for fact in new}
    return [fact for fact in old if fact.provider == provider and fact.key not in came]


def jumps(old: Sequence[Fact], new: Sequence[Fact]) -> list[str]:
    """Write a sentence for each price that moved by more than is likely."""
    before = {fact.key: fact for fact in old}
    sentences = []
    for fact in new:
        was = before.get(fact.key)
        if was and (moved := jump(was.usd_per_hour, fact.usd_per_hour)):
            sentences.append(f"{fact.words} went {moved} since {was.date}")
    return sentences
