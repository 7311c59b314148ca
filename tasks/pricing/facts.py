"""The snapshot of prices, `deployments/prices.yaml`."""

from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, StringConstraints, model_validator

from tasks.errors import GridbenchError
from tasks.pricing.checks import jump
from tasks.schema import Strict, read_mapping, validated
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text

FILE = "prices.yaml"
Usd = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Name = Annotated[str, StringConstraints(min_length=1)]
Kind = Literal["instance", "host", "gpu"]
Purchase = Literal["on-demand", "spot", "reserved"]


class Fact(Strict):
    """A price with source and date.

    Attributes:
        instance: a whole machine; `host`: without its GPUs; `gpu`: one GPU.
        region: or a zone, such as `us-east-1b`; None for all.
    """

    provider: Name
    instance: Name | None = None
    host: Name | None = None
    gpu: Name | None = None
    region: Name | None = None
    purchase: Purchase
    usd_per_hour: Usd
    source: Name
    date: date

    @model_validator(mode="after")
    def _is_of_one_thing(self) -> "Fact":
        named = [kind for kind in ("instance", "host", "gpu") if getattr(self, kind)]
        if len(named) != 1:
            raise ValueError(f"a price is of one of instance, host or gpu, not of {named or 'none'}")
        return self

    @property
    def part(self) -> tuple[Kind, str]:
        """Return `instance`, `host` or `gpu`, and its name."""
        if self.instance:
            return "instance", self.instance
        return ("host", self.host) if self.host else ("gpu", self.gpu or "")

    @property
    def key(self) -> tuple[str, Kind, str, str, str]:
        """Return the identity, unique in a snapshot."""
        return (self.provider, *self.part, self.region or "", self.purchase)

    @property
    def name(self) -> str:
        """Return such as `aws g5.8xlarge` or `gcp gpu l4`."""
        kind, name = self.part
        return f"{self.provider} {name}" if kind == "instance" else f"{self.provider} {kind} {name}"

    @property
    def words(self) -> str:
        """Return such as `aws g5.8xlarge, spot, us-east-1`."""
        return ", ".join(filter(None, (self.name, self.purchase, self.region)))


class Snapshot(Strict):
    """All facts of a file."""

    facts: tuple[Fact, ...]

    @model_validator(mode="after")
    def _has_each_once(self) -> "Snapshot":
        seen: set[object] = set()
        for fact in self.facts:
            if fact.key in seen:
                raise ValueError(f"{fact.words} has two prices; keep one")
            seen.add(fact.key)
        return self


def load_facts(folder: Path) -> tuple[Fact, ...]:
    """Return none without a snapshot.

    Raises:
        GridbenchError: unreadable, or a mistake.
    """
    path = folder / FILE
    try:
        changed = path.stat().st_mtime_ns
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise GridbenchError(f"{path} can't be read ({error.strerror})") from None
    return _load(path, changed)


@lru_cache(maxsize=8)
def _load(path: Path, changed_ns: int) -> tuple[Fact, ...]:
    """Parse each version once, because every machine of a plan needs it."""
    return validated(Snapshot, read_mapping(path), FILE).facts


def write_facts(folder: Path, facts: Iterable[Fact]) -> Path:
    """Replace the snapshot atomically, except for its head comment.

    Raises:
        GridbenchError: unwritable; the old one is unchanged.
    """
    lines = (f"- {_line(fact)}" for fact in sorted(facts, key=lambda f: f.key))
    return rewrite(folder / FILE, ["facts:", *lines])


def rewrite(path: Path, lines: Sequence[str]) -> Path:
    """Replace a file atomically, except for its head comment.

    Raises:
        GridbenchError: unwritable; the old one is unchanged.
    """
    old = path.read_text().splitlines() if path.exists() else []
    head = takewhile(lambda line: line.startswith("#"), old)
    try:
        write_text(path, "\n".join([*head, *lines]) + "\n")
    except WorkloadsError as error:
        raise GridbenchError(str(error)) from None
    return path


def _line(fact: Fact) -> str:
    raw = fact.model_dump(exclude_none=True)
    # In ASCII, because YAML reads some of Unicode's line ends as a space.
    return yaml.safe_dump(raw, default_flow_style=True, sort_keys=False, width=inf).strip()


def renewed(old: Sequence[Fact], new: Sequence[Fact]) -> tuple[Fact, ...]:
    """Return all; a new one replaces the old one with its key."""
    return tuple(({fact.key: fact for fact in old} | {fact.key: fact for fact in new}).values())


def kept(old: Sequence[Fact], new: Sequence[Fact], provider: str) -> list[Fact]:
    """Return a provider's facts without a new price."""
    came = {fact.key for fact in new}
    return [fact for fact in old if fact.provider == provider and fact.key not in came]


def jumps(old: Sequence[Fact], new: Sequence[Fact]) -> list[str]:
    """Describe prices that changed by more than is likely."""
    before = {fact.key: fact for fact in old}
    pairs = ((before[fact.key], fact) for fact in new if fact.key in before)
    return [
        f"{fact.words} went {moved} since {was.date}"
        for was, fact in pairs
        if (moved := jump(was.usd_per_hour, fact.usd_per_hour))
    ]
