"""Estimated time and cost of lanes."""

from collections.abc import Collection, Mapping, Sequence

from tasks.planning.channel import Night
from tasks.planning.hardware import Hardware
from tasks.results.billing import usd
from workloads.harness.records.case import Case
from workloads.harness.repeat.suite import Suite


def controls_on(machine: Hardware, night: Night | None) -> bool:
    """Return whether repeats have a control, or a version in turns."""
    return night is not None and machine.reference is not None


def lane_s(
    machine: Hardware,
    suite: Suite,
    repeats: int,
    skipped: Collection[Case],
    controls: bool = False,
    sessions: int = 1,
    in_turns: bool = False,
) -> float:
    """Return a lane's seconds with soaks, 0 if all is skipped.

    A control, or a version in turns, is like its repeat. Sessions start the machine.
    """
    measured_s = [
        entry.repeat_s * (2 if in_turns or (controls and not entry.script) else 1)
        for entry in suite.entries
        if entry.case not in skipped
    ]
    return sessions * machine.start_s + repeats * sum(measured_s) if measured_s else 0.0


def lane_usd(machine: Hardware, seconds: float, sessions: int = 1) -> float:
    """Return the cost, with the idle time after each session."""
    return usd(seconds + sessions * machine.idle_s, machine.price.usd_per_hour) if seconds else 0.0


def estimate_s(lanes_s: Mapping[str, float], machines: Sequence[Hardware]) -> float:
    """Return the time until all lanes end; those of one box take turns."""
    boxes_s: dict[str, float] = {}
    for machine in machines:
        box = machine.box or machine.name
        boxes_s[box] = boxes_s.get(box, 0.0) + lanes_s[machine.name]
    return max(boxes_s.values())
