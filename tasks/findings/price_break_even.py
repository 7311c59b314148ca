"""The price up to which a faster machine is cheaper."""

from dataclasses import dataclass

from tasks.results.finding import Finding, Results
from tasks.results.model import Pairing
from tasks.results.table import Column, Quantity, Table
from tasks.results.values import RatioVerdict

MOST_SHOWN = 12  # rows that people see
COLUMNS = (
    Column("Case"),
    Column("Machine", Quantity.MACHINE),
    Column("Cheaper below (× the baseline's price)", Quantity.RATIO),
    Column("Dearer above", Quantity.RATIO),
    Column("Calls to repay the cold start", Quantity.CALLS),
)


@dataclass(frozen=True, slots=True)
class PriceBreakEvens(Finding):
    """The break-even ratio of prices is the speedup.

    Within its interval neither machine is shown to be cheaper.
    """

    name = "price-break-evens"
    title = "Break-even by price and by calls"
    section = "money"
    order = 65
    faster: tuple[Pairing, ...]

    @classmethod
    def find(cls, results: Results) -> "PriceBreakEvens":
        pairings = results.pairings
        return cls(tuple(p for p in pairings if p.compute and p.compute.outcome is RatioVerdict.FASTER))

    def table(self) -> Table | None:
        rows = tuple(
            (p.case.id, p.hardware, p.compute.estimate.low, p.compute.estimate.high, p.payback_calls or None)
            for p in self.faster
            if p.compute
        )
        return Table(COLUMNS, rows, brief=MOST_SHOWN) if rows else None
