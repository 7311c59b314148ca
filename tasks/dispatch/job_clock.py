"""Lane jobs by this machine's clock, which no box can stop."""

import time
from dataclasses import dataclass, field
from uuid import UUID

from prefect.client.schemas.objects import FlowRun

from tasks.dispatch.flow_runs import is_final

SPARE_S = 900.0  # after `timeout_s`, at which its worker ends the job if it can
LONGEST_S = 14 * 86_400.0  # the longest `timeout_s` that a worker takes; the limit of a job that states none


@dataclass(slots=True)
class JobClock:
    """Seconds of lane jobs, from the first poll that saw each run."""

    _since: dict[UUID, float] = field(default_factory=dict)

    def ran_s(self, run: FlowRun) -> float:
        """Return seconds so far; once finished, by the server's clock.

        The server counts only Running, which a job can leave and still go on.
        """
        counted_s, now = run.estimated_run_time.total_seconds(), time.monotonic()
        since = self._since.setdefault(run.id, now - counted_s)
        if is_final(run.state) and run.start_time and run.end_time:
            return max(counted_s, (run.end_time - run.start_time).total_seconds())
        return max(counted_s, now - since)

    def overrun(self, run: FlowRun) -> str:
        """Return why an overdue job is given up; else empty."""
        stated_s = run.parameters.get("timeout_s")
        limit_s = stated_s if isinstance(stated_s, int | float) else LONGEST_S
        late_s = self.ran_s(run) - limit_s
        if late_s <= SPARE_S:
            return ""
        return f"lane job {run.name!r} has not ended {late_s:.0f} s after its timeout_s of {limit_s:.0f} s"
