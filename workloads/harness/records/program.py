"""A command as a case: its program, its numbers, and a run's results."""

import re
from dataclasses import dataclass
from enum import StrEnum

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.printable import printable

SEED = "seed"  # the placeholder of the repeat's seed
# Placeholders of a command with a server: a port that is free there, and the seconds that are left for the command.
PORT, LEFT = "port", "left_s"
LOADER = ("-m", "workloads.serving")  # the words with which our own load generator begins
LONGEST_REASON = 200  # characters that a sentence quotes of a load's
PROMISED = "promised"  # the key of its output that holds a `PromisedRate`
MOST_METRICS = 30
TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "h": 3600.0}
_SMALL = {*TIMES, *("B", "kB", "KB", "MB", "GB", "KiB", "MiB", "GiB", "bytes", "W", "J", "kJ", "Wh", "USD")}
_RATE = re.compile(r"(?P<thing>\S.*?)\s*(?:/ ?s|/sec|/second| per second)")
_METRIC = re.compile(r"(?P<name>[^:()]+?)\s*(?:\((?P<terms>[^()]*)\)\s*)?:\s+(?P<source>\S.*)", re.DOTALL)
_SOURCE = re.compile(
    r"(?:in (?P<file>\S+): )?(?:(?P<kind>json|csv) (?P<path>\S+)|(?P<pattern>.+))", re.DOTALL
)
EXAMPLE = "'tokens/s: Throughput: ([0-9.]+) tok', 'p99 (ms): json latency.p99' or 'loss (lower): csv loss'"


class Better(StrEnum):
    """The better direction of a number."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Number:
    """A number's name, such as `tokens/s`, its unit and its better direction."""

    name: str
    unit: str
    better: Better

    @property
    def is_time(self) -> bool:
        return self.unit in TIMES and self.better is Better.LOWER

    @property
    def thing(self) -> str:
        return thing_of(self.unit)


@dataclass(frozen=True, slots=True)
class Metric(Number):
    """A number that a command reports, and its place in the output.

    Attributes:
        pattern: a regular expression, whose only group is the number.
        kind: `json` or `csv` if `path` gives the place; empty for a pattern.
        path: keys and indexes from 0, such as `results.0.p99`; for CSV the row, if there are several, and the
            column.
        file: in the command's folder; empty for its output.
    """

    pattern: str = ""
    kind: str = ""
    path: str = ""
    file: str = ""

    @property
    def text(self) -> str:
        terms = ", ".join(filter(None, (self.unit, self.better)))
        file = f"in {self.file}: " if self.file else ""
        return f"{self.name} ({terms}): {file}{f'{self.kind} {self.path}' if self.kind else self.pattern}"


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that runs as long as a command needs it; `ready` is an address with status 200 by then."""

    command: tuple[str, ...]
    ready: str
    ready_timeout_s: float


@dataclass(frozen=True, slots=True)
class Program:
    """A command that is measured as it is, without watching.

    Attributes:
        metrics: the most important first; without any, the time of a call is its number.
        warm_ups: calls before the one that counts.
        env: variables of its process, never secrets.
    """

    metrics: tuple[Metric, ...] = ()
    warm_ups: int = 0
    env: tuple[tuple[str, str], ...] = ()
    serving: Serving | None = None


@dataclass(frozen=True, slots=True)
class MetricValue(Number):
    """A metric's number in one run."""

    value: float


@dataclass(frozen=True, slots=True)
class ServingRun:
    """The server of a command in one run.

    Attributes:
        ready_s: seconds from the start of its process until it was ready; None if it never was.
        exit_code: of a server that ended by itself; None if it was stopped.
    """

    command: tuple[str, ...]
    ready_s: float | None = None
    exit_code: int | None = None
    output: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """A rate of requests with which a server was loaded.

    Attributes:
        rate: offered requests per second.
        verdict: whether the promises hold: `kept`, `broken` or `undecided`.
        seconds: the promised quantile of each promise, in their order; None if too many requests failed.
        reason: why this point decides nothing; empty if it does.
    """

    rate: float
    output_tokens_per_s: float
    verdict: str
    seconds: tuple[float | None, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PromisedRate:
    """The largest rate of requests at which a server keeps promised latencies.

    Attributes:
        promises: such as `ttft_p99_ms=500`; `limits_s` are their limits.
        requests_per_s: 0 if no tried rate keeps them.
        low, high: the largest rate shown to keep them, or 0; the smallest shown to break one, or None.
        output_tokens_per_s: at this rate.
    """

    promises: tuple[str, ...]
    limits_s: tuple[float, ...]
    requests_per_s: float
    low: float
    high: float | None
    output_tokens_per_s: float
    points: tuple[LoadPoint, ...]

    @property
    def limited_by(self) -> str:
        larger = [point for point in self.points if point.rate > self.requests_per_s and point.reason]
        return "" if self.high is not None else next((point.reason[:LONGEST_REASON] for point in larger), "")


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """One run of a command.

    Attributes:
        call_s: seconds of the call that counts, from process start to end; None if none ended.
        warm_ups_s: seconds of the calls before it.
        output, errors: the end of the last call's streams.
        promised: None unless our load generator searched a rate.
    """

    call_s: float | None = None
    warm_ups_s: tuple[float, ...] = ()
    metrics: tuple[MetricValue, ...] = ()
    output: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    serving: ServingRun | None = None
    promised: PromisedRate | None = None


def thing_of(unit: str) -> str:
    """Return the thing that a unit counts: `tokens` of `tokens/s`."""
    match = _RATE.fullmatch(unit)
    return match["thing"] if match else ""


def metric_of(text: str) -> Metric:
    """Read a metric such as `tokens/s: Throughput: ([0-9.]+) tok`.

    Parentheses after the name give its unit and better direction, unless the name implies them: rates per
    second are better when higher; times, bytes, watts and joules when lower.
    """
    match = _METRIC.fullmatch(text.strip())
    if not match:
        raise WorkloadsError(f"metric {text!r} is not of the form NAME: PATTERN, such as {EXAMPLE}")
    name, source = printable(match["name"]).strip(), _SOURCE.fullmatch(match["source"])
    terms = [term.strip() for term in (match["terms"] or "").split(",") if term.strip()]
    units = [term for term in terms if term not in [*Better]]
    ways = [Better(term) for term in terms if term in [*Better]]
    if len(units) > 1 or len(ways) > 1 or not source or len(name) > 60 or len(units and units[0]) > 30:
        raise WorkloadsError(
            f"metric {text!r} has more than a name, a unit and a direction, such as {EXAMPLE}"
        )
    unit = printable(units[0]) if units else name if thing_of(name) or name in (*_SMALL, "%") else ""
    better = ways[0] if ways else _better(unit)
    if not better:
        raise WorkloadsError(
            f"metric {name}: say whether higher or lower is better, "
            f"such as '{name} ({', '.join([*units, Better.LOWER])}): …'"
        )
    metric = Metric(
        name, unit, better, source["pattern"] or "", *(source[key] or "" for key in ("kind", "path", "file"))
    )
    if metric.pattern:
        _check_pattern(metric)
    return metric


def _better(unit: str) -> Better | None:
    if thing_of(unit):
        return Better.HIGHER
    return Better.LOWER if unit.partition("/")[0] in _SMALL else None


def _check_pattern(metric: Metric) -> None:
    try:
        groups = re.compile(metric.pattern).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise WorkloadsError(
            f"metric {metric.name}: {metric.pattern!r} is not a regular expression: {error}"
        ) from None
    if groups != 1:
        raise WorkloadsError(
            f"metric {metric.name}: {metric.pattern!r} has {groups} groups; put the number alone in parentheses, "
            "and write (?:…) for others"
        )
