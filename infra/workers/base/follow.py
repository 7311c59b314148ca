"""The common part of all followers."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from prefect.client.schemas.objects import FlowRun

from .outcome import NOT_SEEN, JobOutcome, MachineTime
from .run_log import RepeatLimit


@dataclass(eq=False, kw_only=True)
class JobFollow(ABC):
    """One run's job, and its observed state.

    Attributes:
        stop: why the worker itself ends the job; None otherwise.
        stopped: the backend has accepted the request to end it.
        since: the begin of following, in seconds of anyio's clock.
    """

    run: FlowRun
    job_id: str
    log: "logging.LoggerAdapter[Any]"
    set_labels: Callable[[dict[str, float]], Awaitable[None]]
    stop: JobOutcome | None = None
    stopped: bool = False
    handed_over: bool = False
    since: float = field(default_factory=anyio.current_time)
    machine_time: MachineTime = field(default_factory=MachineTime)
    _repeats: RepeatLimit = field(default_factory=RepeatLimit)

    def cancel(self) -> None:
        if self.stop is None or self.stop.name != "Cancelled":
            self.stop = JobOutcome("Cancelled", self.cancelled_message)
        self.wake()

    def end_of(self, outcome: JobOutcome) -> JobOutcome:
        """Return the worker's reason for the end, or the job's own if the worker failed or came too late."""
        if self.stop is None or self.stopped:
            return self.stop or outcome
        if self.stop.name != "Cancelled":
            return outcome
        what = "its end was not observed" if outcome.name in NOT_SEEN else "the job ended by itself first"
        text = f"Cancelled from Prefect, but {what}: {outcome.message}"
        return JobOutcome("Cancelled", text, outcome.exit_code)

    def warn_limited(self, text: str) -> None:
        """Log a sentence; repeat it only after a while."""
        if self._repeats.is_due(text):
            self.log.warning("%s", text)

    def hand_over(self) -> None:
        self.handed_over = True
        self.wake()

    @property
    @abstractmethod
    def cancelled_message(self) -> str: ...

    @abstractmethod
    def wake(self) -> None:
        """Check the job now."""

    @abstractmethod
    async def to_the_end(self) -> JobOutcome | None:
        """Follow the job to its end; return None if another worker takes over."""

    async def show_last_lines(self) -> None:  # noqa: B027
        """Send the container's last lines, after its run has its state."""

    def close(self) -> None:  # noqa: B027
        ...
