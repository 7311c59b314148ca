"""Whether a lane's flow run was cancelled or given up."""

import time
from contextlib import suppress
from uuid import UUID

from prefect.client.orchestration import get_client

from tasks.delivery.api_trouble import LOST_TOUCH

LOOK_S = 5.0  # least time between two checks, each a request


class OwnRun:
    """The calling lane's flow run, checked between repeats.

    A worker that cannot delete a job cannot stop its lane. `ended`: a sentence once the flow run is over.
    """

    def __init__(self, flow_run_id: UUID, every_s: float = 0.0) -> None:
        self.ended = ""
        self._id, self._every_s = flow_run_id, max(LOOK_S, every_s)
        self._due_at = time.monotonic() + self._every_s

    def must_stop(self) -> bool:
        """Return False if the API does not answer."""
        if self.ended or time.monotonic() < self._due_at:
            return bool(self.ended)
        with suppress(*LOST_TOUCH), get_client(sync_client=True) as client:
            state = client.read_flow_run(self._id).state
            if state is not None and (state.is_cancelling() or state.is_final()):
                self.ended = f"this lane job is {state.name}"
        self._due_at = time.monotonic() + self._every_s
        return bool(self.ended)
