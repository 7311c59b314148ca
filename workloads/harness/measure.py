"""The engine: one repeat of a case, from an empty process to a record with a verdict."""

from collections.abc import Callable
from dataclasses import dataclass

from workloads.harness.build import build
from workloads.harness.correctness import check, check_inputs, recheck
from workloads.harness.device import open_device
from workloads.harness.failures import findings_of_failures
from workloads.harness.phases import Phases
from workloads.harness.readings import Readings
from workloads.harness.record import Check, Record, Timing, Transfer, Verdict, Work
from workloads.harness.registry import find
from workloads.harness.runs import Repeat, now_text
from workloads.harness.sampling import Rules
from workloads.harness.timing import time_step
from workloads.harness.transfer import measure_transfer
from workloads.harness.verdict import Finding, judge

Say = Callable[[str], None]


@dataclass(slots=True)
class Draft:
    """What is known of a record so far: each stage adds its own, and a failure keeps what came before it."""

    layout: str | None = None
    layout_trials_s: dict[str, float] | None = None
    work: Work | None = None
    check: Check | None = None
    transfer: Transfer | None = None
    wall: Timing | None = None
    device_time: Timing | None = None


def measure(repeat: Repeat, threads: int, phases: Phases, say: Say, rules: Rules | None = None) -> Record:
    """Measure a repeat in this process and return its record, whatever the workload does.

    Raises:
        WorkloadsError: the workload, its size or the device's name is a mistake of the user's.
    """
    started_at, draft = now_text(), Draft()
    with phases("import"):
        import torch  # noqa: F401
    with phases("probe"):
        readings = Readings(repeat.device, threads, phases.origin_s)
    with readings.monitored(), findings_of_failures() as failures:
        failures += _run(repeat, threads, phases, readings, draft, rules or _rules(repeat), say)
    return _record(repeat, threads, started_at, phases, readings, draft, failures)


def _rules(repeat: Repeat) -> Rules:
    return Rules().quick() if repeat.quick else Rules()


def _run(
    repeat: Repeat, threads: int, phases: Phases, readings: Readings, draft: Draft, rules: Rules, say: Say
) -> tuple[Finding, ...]:
    """Fill the draft stage by stage and return what speaks against the result."""
    workload, precision = find(repeat.case.workload), repeat.case.precision
    with phases("context"):
        device = open_device(repeat.device, precision, threads)
    built = build(workload, repeat, device, phases)
    prepared, draft.layout, draft.layout_trials_s = built.prepared, built.layout, built.trials_s
    draft.work = Work(prepared.units, prepared.unit, prepared.flops, prepared.bytes)
    with phases("check"):
        check_inputs(prepared)
        draft.check = check(prepared, prepared.step(), precision)
    say(f"{repeat.id}: correct to {draft.check.error:.1g}, measuring")
    with phases("transfer"):
        draft.transfer = measure_transfer(device, prepared.inputs, prepared.step())
    timed = time_step(prepared.step, device.clock, rules, phases, readings.window(phases))
    draft.wall, draft.device_time = timed.wall, timed.device_time
    readings.add(
        straggle_share=timed.straggle_share,
        timer_share=timed.timer_cost_s / (timed.wall.median_s * timed.wall.block),
    )
    with phases("device_to_host"):
        timed.result.cpu()
    with phases("check"):
        draft.check = recheck(prepared, timed.result, precision)
    return judge(timed.wall, readings.probes, prepared.flops, readings.peak_flops(precision))


def _record(
    repeat: Repeat,
    threads: int,
    started_at: str,
    phases: Phases,
    readings: Readings,
    draft: Draft,
    findings: list[Finding],
) -> Record:
    parts = {name: getattr(draft, name) for name in Draft.__dataclass_fields__}
    parts["layout_trials_s"] = draft.layout_trials_s or {}
    wall_s, unattributed_s = phases.close()
    return Record(
        run=repeat.run,
        hardware=repeat.hardware,
        case=repeat.case,
        repeat=repeat.repeat,
        verdict=findings[0][0] if findings else Verdict.OK,
        reasons=tuple(text for _, text in findings),
        order=repeat.order,
        seed=repeat.seed,
        started_at=started_at,
        device=repeat.device,
        threads=threads,
        wall_s=wall_s,
        phases_s=phases.seconds,
        unattributed_s=unattributed_s,
        **parts,
        **readings.parts(),
    )
