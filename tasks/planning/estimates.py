"""How long the lanes of a plan will take."""

from collections.abc import Collection, Mapping, Sequence

from tasks.planning.channel import Night
from tasks.planning.hardware import Hardware
from workloads.harness.records.case import Case
from workloads.harness.repeat.suite import Suite


def controls_on(machine: Hardware, night: Night | None) -> bool:
    """Whether each repeat on a machine has a control beside it."""
    return night is not None and machine.reference is not None


def lane_s(
    machine: Hardware, suite: Suite, repeats: int, skipped: Collection[Case], controls: bool = False
) -> float:
    """Seconds of a lane; a control takes what its repeat does. Where all is skipped, no lane is started."""
    measured_s = [entry.estimate_s for entry in suite.entries if entry.case not in skipped]
    each = 2 if controls else 1
    return machine.start_s + each * repeats * sum(measured_s) if measured_s else 0.0


def lane_usd(machine: Hardware, seconds: float) -> float:
    """What a lane of so many seconds costs: a machine is paid for until somebody takes it away."""
    return machine.price.usd_per_hour * (seconds + machine.idle_s) / 3600 if seconds else 0.0


def estimate_s(lanes_s: Mapping[str, float], machines: Sequence[Hardware]) -> float:
    """Seconds until all lanes are through: boxes work side by side, lanes of one box take turns."""
    boxes_s: dict[str, float] = {}
    for machine in machines:
        box = machine.box or machine.name
        boxes_s[box] = boxes_s.get(box, 0.0) + lanes_s[machine.name]
    return max(boxes_s.values())
