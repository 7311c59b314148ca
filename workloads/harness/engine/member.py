"""The engine's interface to a group of processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from workloads.harness.engine.clock import Step
from workloads.harness.engine.device import Device
from workloads.harness.engine.readings import Readings
from workloads.harness.records.parts import Group
from workloads.harness.records.record import Memory, Timing


@dataclass(frozen=True, slots=True)
class Apart:
    """Steps while the ranks do not exchange gradients.

    Attributes:
        communication_share: share of the slowest rank's step that goes away, from 0 to 1.
        own_s: seconds of this rank's step, without waiting for others.
    """

    communication_share: float
    own_s: float


class GroupMember(Protocol):
    """This process as one of several that measure a case together; they share a clock."""

    device: Device

    @property
    def rank(self) -> int: ...

    @property
    def world(self) -> int: ...

    def mean(self, value: float) -> float: ...

    def slowest(self, seconds: float | None) -> float | None: ...

    def cpu_s(self) -> float:
        """Return CPU seconds of all members, their children and their starter."""

    def note(self, timing: Timing, memory: Memory, probes: dict[str, float]) -> None: ...

    def group(self, scaling: str, apart: Apart | None) -> Group: ...

    def measure_apart(
        self, step: Step, unexchanged: Callable[[], AbstractContextManager[object]], block: int, cap_s: float
    ) -> Apart: ...

    def measure_alone(self, step: Step, block: int) -> None: ...

    def merge(self, readings: Readings) -> None: ...

    def leave(self) -> Any: ...


Join = Callable[[Device, float], GroupMember]  # of a device, and the seconds of the repeat's timeout
