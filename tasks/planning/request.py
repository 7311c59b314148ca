"""The request for a run: the one value from which its plan is made."""

from pydantic import NonNegativeFloat, field_validator

from tasks.planning.channel import Night
from tasks.planning.cluster import Cluster
from tasks.planning.hardware import Hardware
from tasks.planning.plan import Plan, contradiction
from tasks.schema import Strict
from tasks.store.address import ResultsAddress


class RunRequest(Strict):
    """A suite to measure on hardware within a budget.

    Attributes:
        suite: name of a file in `deployments/suites`, or a path.
        hardware: names of files in `deployments/hardware`, or of `found` machines; ignored with a `cluster`.
        found: machines without a file: boxes that were probed.
        baseline: the machine or box that speedups are relative to; the first by default.
        repeats, sessions: of each cell and of each machine; the suite's own by default.
        session_gap_s: least seconds between sessions, unless rented.
        budget_usd: the run is refused above it by the estimate, and stopped once it is spent.
        resume: name of an earlier run to complete; all else but the budget is then ignored.
        results: folder of the results store, or a storage block.
        break_even: measure further sizes until each break-even is known.
        shortlist: measure the first machine, and only possibly fastest or cheapest others.
        session_effect: assumed standard deviation of times between sessions; None for the usual one.
        cluster: boxes of one kind that replace the hardware.
        boxes: copies of each rented machine.
        seed: of the order and the inputs; random if None.
        plan: the plan made of this request and shown, or that of the run to resume as the command has checked
            it.
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
        """Return the results store."""
        return ResultsAddress.parse(self.results)
