"""A run's answer with caveats and supporting results."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from tasks.results.finding import Finding
from tasks.results.format import format_count
from tasks.results.model import Family, Machine, Pairing, Summary, Total

F = TypeVar("F")
MOST_KINDS = 5  # kinds of caveats that their line names


class Caveat(NamedTuple):
    """A limit of the answer: its kind and the whole reason."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that a report states about a run.

    Attributes:
        answer: at most four lines of at most 25 words.
        unpaired: cells without a baseline cell, with what to run.
        findings: one of every kind, in a report's order.
        refusals: why a sound record is implausible.
    """

    baseline: str
    machines: tuple[Machine, ...]
    summaries: tuple[Summary, ...]
    pairings: tuple[Pairing, ...]
    totals: tuple[Total, ...]
    answer: tuple[str, ...]
    details: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    unpaired: tuple[str, ...] = ()
    families: tuple[Family, ...] = ()
    observations: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    refusals: Mapping[tuple[str, str, str, int], tuple[str, ...]] = field(default_factory=dict)

    @property
    def caveat_line(self) -> str:
        """Return the kinds with their numbers; else empty."""
        counted = Counter(caveat.kind for caveat in self.caveats)
        kinds = [f"{kind} ({count})" if count > 1 else kind for kind, count in counted.items()]
        if not kinds:
            return ""
        others = len(kinds) - MOST_KINDS
        more = f" and {format_count(others, 'other kind')}" if others > 0 else ""
        return f"{format_count(len(self.caveats), 'caveat')}: {', '.join(kinds[:MOST_KINDS])}{more}."

    @property
    def sentences(self) -> tuple[str, ...]:
        return (*self.answer, *self.details, *(caveat.reason for caveat in self.caveats))

    def finding(self, kind: type[F]) -> F | None:
        return next((finding for finding in self.findings if isinstance(finding, kind)), None)
