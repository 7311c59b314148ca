"""The snapshot of price facts, `deployments/prices.yaml`: read whole, written whole, a line a fact."""

from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, StringConstraints, model_validator

from tasks.errors import GridbenchError
from tasks.schema import Strict, read_mapping, validated
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text

FILE = "prices.yaml"
Usd = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Name = Annotated[str, StringConstraints(min_length=1)]
Kind = Literal["instance", "host", "gpu"]
Purchase = Literal["on-demand", "spot", "reserved"]


class Fact(Strict):
    """A provider's price for a machine or a part, with its source and date.

    Attributes:
        instance: a whole machine; or `host`, a machine without its GPUs; or `gpu`, one of them alone.
        region: or a zone, such as `us-east-1b`; None where the price is the same in all of the provider's.
        usd_per_hour: of one of it.
        date: when it was read.
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
        """Return what identifies the price; a snapshot holds each once."""
        return (self.provider, *self.part, self.region or "", self.purchase)

    @property
    def name(self) -> str:
        """Name the thing that is priced, such as `aws g5.8xlarge` or `gcp gpu l4`."""
        kind, name = self.part
        return f"{self.provider} {name}" if kind == "instance" else f"{self.provider} {kind} {name}"

    @property
    def words(self) -> str:
        """Name the thing that is priced and how it is bought, such as `aws g5.8xlarge, spot, us-east-1`."""
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
    """Load the facts of a deployments folder; none if it has no snapshot.

    Raises:
        GridbenchError: the snapshot has a mistake.
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
    """Parse each version of a file once: every machine of a plan asks."""
    return validated(Snapshot, read_mapping(path), FILE).facts


def write_facts(folder: Path, facts: Iterable[Fact]) -> Path:
    """Put a new snapshot in the place of the old one in one step; the comment at its head stays.

    Raises:
        GridbenchError: it can't be written; the old one is as it was.
    """
    path = folder / FILE
    lines = [*_head(path), "facts:", *(f"- {_line(fact)}" for fact in sorted(facts, key=lambda f: f.key))]
    try:
        write_text(path, "\n".join(lines) + "\n")
    except WorkloadsError as error:
        raise GridbenchError(str(error)) from None
    return path


def dates(facts: Sequence[Fact]) -> str:
    """Return the day of the facts, or the first and the last."""
    days = sorted({fact.date for fact in facts})
    return " to ".join(map(str, dict.fromkeys((days[0], days[-1])))) if days else "no day"


def _head(path: Path) -> list[str]:
    lines = path.read_text().splitlines() if path.exists() else []
    end = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return lines[:end]


def _line(fact: Fact) -> str:
    raw = fact.model_dump(exclude_none=True)
    # in ASCII, for some of Unicode's line ends would come back as a space
    return yaml.safe_dump(raw, default_flow_style=True, sort_keys=False, width=inf).strip()
