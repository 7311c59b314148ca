"""Findings that weigh time against money, or boxes against each other: offers, crossings, bills, siblings."""

from dataclasses import dataclass

from tasks.results.values import Estimate
from workloads.harness.records.case import Case


@dataclass(frozen=True, slots=True)
class Offer:
    """A machine at one of its prices, as a point of time against money.

    Attributes:
        case: what is weighed; None for one pass through the suite's common cases.
        purchase: `listed` for the machine's own price, `spot` for spot capacity.
        seconds, usd: of one step, or of one pass through the suite.
        energy_j: of one step, where it was measured.
        dominated_by: a machine that is better in one and no worse in the other; empty on the front.
        tied_with: machines that can't be told from it in time nor money.
    """

    hardware: str
    purchase: str
    case: Case | None
    seconds: Estimate
    usd: Estimate
    energy_j: float | None = None
    dominated_by: str = ""
    tied_with: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ranking:
    """Machines in order, the best first.

    Attributes:
        case: what they are ranked by; None for one pass through the suite's common cases.
        by: `time` (compute) or `cost`.
        places: place and machine; a place is 1 more than the number of machines that are shown to be better,
            so machines that the intervals don't tell apart share one.
    """

    case: Case | None
    by: str
    places: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where, along one size parameter, a machine starts to beat the baseline.

    Attributes:
        parameter: the parameter that grows; `fixed` are the others.
        by: `time` (compute), `end to end` or `cost`.
        below: largest measured value at which the baseline is still ahead; None: the machine is ahead from
            the smallest on.
        above: smallest measured value from which the machine is ahead at every larger one; None: at none.
        sentence: the finding in words, such as "gke-l4 is faster than local-cpu from n between 400 and 480".
        undecided: values at which the interval holds 1.
        falls: the other way round: the machine is ahead up to `below`, and the baseline from `above` on.
    """

    hardware: str
    baseline: str
    workload: str
    precision: str
    parameter: str
    fixed: tuple[tuple[str, int], ...]
    by: str
    below: int | None
    above: int | None
    sentence: str
    undecided: tuple[int, ...] = ()
    falls: bool = False


@dataclass(frozen=True, slots=True)
class Bill:
    """What a machine's part of a run cost, beside what its steps alone would have.

    Attributes:
        parts_s: billed seconds by what they went to, such as boot, import, warm-up, samples, idle.
        billed_s: all of them; the machine was paid for that long. Time in a provider's queue is in it where
            it can't be told from the boot, so it errs on the side of too much.
        usd: `billed_s` at the machine's price; None without one.
        compute_usd: the timed steps alone at that price.
        notes: what the bill lacks, and which accelerators were paid for and left unused, in words.
    """

    hardware: str
    parts_s: tuple[tuple[str, float], ...]
    billed_s: float
    usd: float | None
    compute_usd: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SiblingBox:
    """A box among others of its kind.

    Attributes:
        ratio: its time over that of the median box, over the common cases; above 1 is slower.
        straggler: whether it is shown to be slower than its siblings differ among themselves.
    """

    hardware: str
    ratio: Estimate
    straggler: bool = False


@dataclass(frozen=True, slots=True)
class Siblings:
    """Boxes of one kind against each other.

    Attributes:
        shape: the hardware that each of them is.
        boxes: the fastest first.
        spread: the slowest box's time over the fastest's, over the common cases. Its interval allows for the
            two being picked out of all pairs.
        cases: how many cases are ok on every one of the boxes.
        left_out: boxes without an ok cell.
    """

    shape: str
    boxes: tuple[SiblingBox, ...]
    spread: Estimate
    cases: int
    left_out: tuple[str, ...] = ()
