"""The verdict on a measurement, from its own readings."""

from collections.abc import Iterator, Mapping

from workloads.harness.records.grade import (
    CANARY_DRIFT,
    FOREIGN_CORES,
    HELD_SHARE,
    SM_CLOCK_DRIFT,
    STEAL_SHARE,
    held_share,
)
from workloads.harness.records.record import Timing, Verdict
from workloads.harness.records.text import LOOSEST, UNKNOWN, duration, precision
from workloads.harness.records.timing import FEWEST_BATCHES

# Shares over the sampling window above which a reading taints the time: proposals, until records set them.
THROTTLED_SHARE = 0.02
STRAGGLE_SHARE = 0.05
GPU_FOREIGN_SHARE = 0.02
DEVICE_BOUND_SHARE = 0.9  # of a step in which the device is busy; below it the host sets the pace

Finding = tuple[Verdict, str]


def judge(
    wall: Timing, probes: Mapping[str, float], flops: float, peak_flops: float | None
) -> tuple[Finding, ...]:
    """Return the findings against a record, gravest first; none if it is ok.

    `peak_flops` is the device's upper bound in FLOP/s, None if unknown.
    """
    return tuple(
        finding
        for rule in (
            _impossible(wall, probes, flops, peak_flops),
            _machine(wall, probes),
            _statistics(wall, probes),
        )
        for finding in rule
    )


def _impossible(
    wall: Timing, probes: Mapping[str, float], flops: float, peak_flops: float | None
) -> Iterator[Finding]:
    rate = flops / wall.median_s
    if peak_flops is not None and rate > peak_flops:
        yield (
            Verdict.IMPOSSIBLE,
            f"{rate / 1e12:.3g} TFLOP/s is above this device's bound of {peak_flops / 1e12:.3g}",
        )
    if (share := probes.get("straggle_share", 0.0)) > STRAGGLE_SHARE:
        yield (
            Verdict.WRONG,
            f"{share:.0%} of a step ran after its stream had ended: work on other streams escapes the timing",
        )


def _machine(wall: Timing, probes: Mapping[str, float]) -> Iterator[Finding]:
    if (
        share := probes.get("thermal_throttled_share", 0.0)
    ) > THROTTLED_SHARE:  # a power limit is not a disturbance
        yield Verdict.THROTTLED, f"heat slowed the device for {share:.1%} of the time"
    if (share := probes.get("gpu_foreign_share", 0.0)) > GPU_FOREIGN_SHARE:
        yield Verdict.SHARED, f"other processes used {share:.0%} of the GPU"
    yield from _host(wall, probes)


def _host(wall: Timing, probes: Mapping[str, float]) -> Iterator[Finding]:
    host_share = 1 - probes.get("device_busy_share", 0.0)
    if host_share > 1 - DEVICE_BOUND_SHARE:
        if (share := probes.get("steal_share", 0.0)) > STEAL_SHARE:
            yield Verdict.NOISY, f"the hypervisor took {share:.1%} of the CPU time"
        if (share := held_share(probes, wall)) > HELD_SHARE:
            held_s = probes["cgroup_throttled_s"]
            yield (
                Verdict.NOISY,
                f"the container's CPU quota paused the process for {held_s:.3g} s ({share:.1%})",
            )
        if (cores := probes.get("foreign_cores", 0.0)) > FOREIGN_CORES:
            yield Verdict.NOISY, f"other processes kept {cores:.2f} cores busy"
    drift = probes.get("canary_drift", 0.0)
    if abs(drift) * host_share > CANARY_DRIFT:
        way = "slower" if drift > 0 else "faster"
        yield Verdict.NOISY, f"the CPU ran {abs(drift):.1%} {way} after the samples than before"


def _statistics(wall: Timing, probes: Mapping[str, float]) -> Iterator[Finding]:
    is_swinging = wall.sustained is not None  # its governor moves the clock all the time
    if not is_swinging and abs(drift := probes.get("sm_clock_drift", 0.0)) > SM_CLOCK_DRIFT:
        yield Verdict.UNSTEADY, f"the GPU's clock {_way(drift)} by {abs(drift):.1%} within the samples"
    if wall.drift:
        yield Verdict.UNSTEADY, _drifting(wall)
    elif not wall.steady:
        yield Verdict.UNSTEADY, f"{len(wall.warmup_s)} warm-up samples did not settle before the cap"
    if not wall.precision_reached:
        yield Verdict.IMPRECISE, _imprecise(wall)


def _drifting(wall: Timing) -> str:
    left = wall.to_come or 0.0
    if abs(left) > abs(wall.drift):
        way = "above" if left < 0 else "below"
        return f"the mean of the samples is still {abs(left):.1%} {way} the level that they approach"
    way = "slower" if wall.drift > 0 else "faster"
    return f"the second half of the samples is {abs(wall.drift):.1%} {way} than the first"


def _way(drift: float) -> str:
    return "rose" if drift > 0 else "fell"


def _imprecise(wall: Timing) -> str:
    what = "mean" if wall.sustained or wall.batches is not None else "median"
    known, count, batches = precision(wall), len(wall.samples_s), wall.batches
    text = f"{count} samples are too few to bound the {what}"
    if batches is not None and batches < min(FEWEST_BATCHES, count) and not wall.sustained:
        text = f"{count} samples are worth {batches} independent ones, too few to bound the mean"
    elif known:
        how = f"known to {known}" if known != UNKNOWN else f"not known within a factor of {LOOSEST:g}"
        text = f"the {what} is {how} after {count} samples"
    if wall.needed_s is None:
        return f"{text}, at the limit in time"
    return f"{text}; a precise one would take {duration(wall.needed_s)}"
