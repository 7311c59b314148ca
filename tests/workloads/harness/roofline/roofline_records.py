"""Handmade records for tests of ceilings and roofline, as from a CPU and a GPU."""

from typing import Any

from workloads.harness.records.case import Case
from workloads.harness.records.parts import Group, Profile, Rank
from workloads.harness.records.record import COUNTING, Record, Timing, Transfer, Verdict, Work
from workloads.harness.roofline.ceilings import Ceiling, Ceilings

REFUSED = [verdict for verdict in Verdict if verdict not in COUNTING]
FLOPS, BANDWIDTH, LAUNCH_S = 104e9, 10e9, 1e-6
CEILINGS = Ceilings(
    compute=(("fp32", Ceiling(FLOPS, "a matmul")),),
    memory=Ceiling(BANDWIDTH, "a copy"),
    launch_s=Ceiling(LAUNCH_S, "a row of kernels"),
)


def timing(seconds: float) -> Timing:
    """Return three samples around a median, to the last bit."""
    low, high = 0.99 * seconds, 1.01 * seconds
    return Timing((low, seconds, high), 1, seconds, None, None, high, high, 0, 0, True, True)


def record(
    workload: str = "a_workload",
    size: dict[str, int] | None = None,
    *,
    seconds: float,
    device_s: float | None = None,
    flops: float | None = 1.0,
    nbytes: float | None = 1.0,
    launches: int | None = None,
    precision: str = "fp32",
    **changes: Any,
) -> Record:
    """Return an ok record of a step of `seconds` by the host's clock, `device_s` by a GPU's events."""
    fields: dict[str, Any] = {"verdict": Verdict.OK, "threads": 2, "transfer": Transfer()}
    return Record(
        **{
            "run": "a-run",
            "hardware": "a-box",
            "case": Case.of(workload, size or {"n": 8}, precision),
            "repeat": 1,
            "wall": timing(seconds),
            "device_time": timing(device_s) if device_s else None,
            "work": Work(1, "steps", flops, nbytes, launches=launches),
            **(fields | changes),
        }
    )


def blur(**changes: Any) -> Record:
    """Return a cell that no ceiling explains."""
    return record("gaussian_blur", {"pixels": 64}, flops=1e9, **changes)


def profile(steps: int, busy_s: float) -> Profile:
    """Return a profile of a GPU that ran kernels for `busy_s` of `steps` steps."""
    return Profile(steps, 10.0, "self_device_time_total", (), kernels=100 * steps, busy_s=busy_s)


def group(count: int, device: str, communication_share: float | None) -> Group:
    """Return `count` processes that measured together."""
    ranks = tuple(Rank(i, device, 1.0) for i in range(count))
    return Group("nccl" if device == "cuda" else "gloo", "weak", ranks, communication_share, 0.0)
