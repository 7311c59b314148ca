"""Reported ends compared with stated ones."""

import re

from infra.workers.base.outcome import OUTCOME_LABEL, PULL_LABEL, QUEUE_LABEL
from tests.infra.workers.ssh.ends.ends import End
from tests.infra.workers.ssh.ends.lanes import SLURM, Lanes
from tests.infra.workers.worker_prefect import Pool

LABEL_S = 60
CANCELLED_BY_US = ("PENDING", "SUSPENDED")


def is_said(message: str, told: str) -> bool:
    """Return whether it is the sentence, with anything for each …."""
    return re.fullmatch(".*".join(map(re.escape, message.split("…"))), told, re.DOTALL) is not None


async def end_of(pool: Pool, run_id: str) -> None:
    """Wait for a run's end and its cause, which the worker reports a moment later."""
    await pool.end(run_id)
    await pool.until(run_id, lambda run: OUTCOME_LABEL in run.labels, LABEL_S)


async def faults(pool: Pool, lanes: Lanes, run_id: str, end: End) -> list[str]:
    said, run = end.said[lanes.kind], await pool.run(run_id)
    found = []
    if run.state.name != said.state:
        found.append(f"state {run.state.name}, not {said.state}: {run.state.message}")
    if not is_said(said.message, run.state.message or ""):
        found.append(f"message {run.state.message!r}, not {said.message!r}")
    if (cause := run.labels.get(OUTCOME_LABEL)) != said.cause:
        found.append(f"cause {cause}, not {said.cause}")
    if end.runs and not {QUEUE_LABEL, PULL_LABEL} & set(run.labels):
        found.append("no label says that it ran")
    if lanes.kind == SLURM and end.slurm_state:
        states = end.slurm_state.split(" or ")
        wanted = ["CANCELLED" if state in CANCELLED_BY_US else state for state in states]
        asked = f"sacct -X -n -P -S now-1hour -o State --name=prefect-{run_id}-1"
        if (state := lanes.cluster.login.run(asked).partition(" ")[0]) not in wanted:
            found.append(f"Slurm's state {state}, not {' or '.join(wanted)}")
    return [f"{run.name}: {fault}" for fault in found]
