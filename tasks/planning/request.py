"""The request for a run."""

from pydantic import NonNegativeFloat, field_validator

from tasks.planning.channel import Night
from tasks.planning.cluster import Cluster
from tasks.planning.hardware import Hardware
from tasks.planning.plan import Plan, contradiction
from tasks.schema import Strict
from tasks.store.address import ResultsAddress


class RunRequest(Strict):
    """A suite on hardware within a budget.

    Attributes:
        suite: in `deployments/suites`, or a path.
        hardware: in `deployments/hardware`, or `found`; ignored with a `cluster`.
        found: probed boxes without a file.
        baseline: machine or box; the first by default.
        repeats, sessions: the suite's by default.
        session_gap_s: least seconds between sessions, unless rented.
        budget_usd: above it the run is refused by the estimate, or stopped once spent.
        resume: run to complete; all else but the budget is ignored.
        results: folder, or storage block.
        break_even: measure further sizes until each is known.
        shortlist: measure the first machine, and only possibly fastest or cheapest others.
        session_effect: assumed standard deviation; None for the usual one.
        cluster: its boxes replace the hardware.
        boxes: copies of each rented machine.
        seed: random if None.
        plan: as shown for this request, or as checked for the run to resume.
    """

    suite: str = "quick"
    hardware: tuple[str, ...] = ()
    found: tuple[Hardware, ...] = ()
    baseline: str | None = None
    repeats: int | None = None
    sessions: int | None = None
    session_gap_s: NonNegativeFloat = 0.0
    budget_usd: float | None = None
    resume: str | None = None
    results: str | None = None
    break_even: bool = False
    shortlist: bool = False
    session_effect: NonNegativeFloat | None = None
    cluster: Cluster | None = None
    boxes: int = 1
    night: Night | None = None
    seed: int | None = None
    plan: Plan | None = None

    @field_validator("plan")
    @classmethod
    def _is_possible(cls, plan: Plan | None) -> Plan | None:
        if plan and (mistake := contradiction(plan)):
            raise ValueError(mistake)
        return plan

    @property
    def address(self) -> ResultsAddress:
        return ResultsAddress.parse(self.results)
