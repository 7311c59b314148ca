"""The request for a run: the one value from which its plan is made, whoever sent it."""

from pydantic import Field

from tasks.planning.channel import Night
from tasks.planning.cluster import Cluster
from tasks.planning.hardware import Hardware
from tasks.planning.plan import Plan, digest
from tasks.schema import Strict


class RunRequest(Strict):
    """A suite to measure on hardware within a budget.

    Attributes:
        suite: name of a file in `deployments/suites`, or a path.
        hardware: names of files in `deployments/hardware`, or of what was `found`; ignored where
            there is a `cluster`.
        found: machines without a file: boxes that were asked what they are.
        baseline: the machine or box that speedups are relative to; the first one by default.
        repeats: fresh processes per cell; the suite's own number by default.
        budget_usd: the run is refused above it by the estimate, and stopped once it is spent; None: no limit.
        resume: name of an earlier run; what it lacks is measured, and all else but the budget is ignored.
        results: folder of the results store, or a storage block; the default folder where None.
        break_even: measure further sizes after the suite, until each break-even is known.
        cluster: boxes of one kind that replace the hardware.
        boxes: copies of each rented machine.
        night: what makes the run a night; None for any other run.
        run, seed, created_at: taken over by the plan, so that it can be made again; chosen by it where None.
        plan_digest: of the plan that was shown to the user, if one was.
    """

    suite: str = "quick"
    hardware: tuple[str, ...] = ()
    found: tuple[Hardware, ...] = ()
    baseline: str | None = None
    repeats: int | None = None
    budget_usd: float | None = None
    resume: str | None = None
    results: str | None = None
    break_even: bool = False
    cluster: Cluster | None = None
    boxes: int = 1
    night: Night | None = None
    run: str | None = Field(default=None, pattern=r"^[^/.][^/]*$")
    seed: int | None = None
    created_at: str | None = None
    plan_digest: str | None = None

    def pinned(self, plan: Plan) -> "RunRequest":
        """Return the request with which another process makes the same plan again."""
        identity = {"run": plan.run, "seed": plan.seed, "created_at": plan.created_at}
        return self.model_copy(update={**identity, "plan_digest": digest(plan)})

    def matches(self, plan: Plan) -> bool:
        """Return True unless the user was shown another plan."""
        return self.plan_digest in (None, digest(plan))
