"""The engine: one repeat of a case, from an empty process to a record."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from workloads.harness.engine import profiling
from workloads.harness.engine.build import build
from workloads.harness.engine.cache import cache_of, flushed, single_steps
from workloads.harness.engine.clock import Clock
from workloads.harness.engine.correctness import (
    WrongError,
    check,
    check_inputs,
    check_loss,
    first_step,
    recheck,
)
from workloads.harness.engine.count import Counts, counted
from workloads.harness.engine.device import Device, UnsupportedError, count_without_nvml, open_device
from workloads.harness.engine.failures import findings_of_failures
from workloads.harness.engine.member import GroupMember, Join
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.rules import Rules, rules_of
from workloads.harness.engine.sampling.single import busy_s, latency, singles_s
from workloads.harness.engine.sampling.summary import summarise
from workloads.harness.engine.timing import Timed, quiet_collector, time_step
from workloads.harness.engine.transfer import fetch, measure_transfer
from workloads.harness.prepared import Job, JobResult, Prepared
from workloads.harness.records.amounts import least_flops
from workloads.harness.records.parts import Group, Latency, MemoryAt, Profile, Training
from workloads.harness.records.record import Cache, Check, Record, Timing, Transfer, Verdict, Work
from workloads.harness.records.repeat import Repeat, now_text
from workloads.harness.records.verdict import Finding, judge
from workloads.harness.registry import find

if TYPE_CHECKING:
    import torch


# After thousands of steps on one batch a model has memorised it: gradients near zero need less power on a
# GPU, and are slow denormal numbers on a CPU. Real trainings have neither.
RESTART_AFTER = 300  # steps


class Restarts:
    """A reset before each sample that would exceed `RESTART_AFTER` steps in a row."""

    def __init__(self, reset: Callable[[], None] | None) -> None:
        self._reset, self._taken = reset, 0
        self._ended: tuple[float, int] | None = None

    def __call__(self, steps: int, result: torch.Tensor | None) -> None:
        if self._reset and result is not None and self._taken + steps > RESTART_AFTER:
            self._ended = (float(result.float().mean()), self._taken)
            self._reset()
            self._taken = 0
        self._taken += steps

    def last_loss(self, result: torch.Tensor) -> tuple[float, int]:
        """Return the last loss of the longest row of steps, and the row's length."""
        return self._ended or (float(result.float().mean()), self._taken)


Say = Callable[[str], None]


@dataclass(slots=True)
class Draft:
    """A record in the making, which keeps the parts of stages before a failure."""

    layout: str | None = None
    layout_trials_s: dict[str, float] | None = None
    data: str = "synthetic"
    work: Work | None = None
    check: Check | None = None
    transfer: Transfer | None = None
    wall: Timing | None = None
    device_time: Timing | None = None
    training: Training | None = None
    group: Group | None = None
    profile: Profile | None = None
    cache: Cache | None = None
    latency: Latency | None = None
    device_busy_s: float | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """The context of every stage; `member` is set if several processes measure together."""

    repeat: Repeat
    device: Device
    rules: Rules
    phases: Phases
    readings: Readings
    draft: Draft
    say: Say
    member: GroupMember | None = None

    @property
    def world(self) -> int:
        return self.member.world if self.member else 1


def measure(
    repeat: Repeat,
    threads: int,
    phases: Phases,
    say: Say,
    rules: Rules | None = None,
    join: Join | None = None,
) -> Record:
    """Measure a repeat in this process and return its record, whatever the workload does.

    With `join` several processes measure together, and the record is the group's.
    """
    imported_s = sum(phases.seconds.get(name, 0.0) for name in ("import", "build"))  # by a fork server
    started_at, draft = now_text(imported_s), Draft()
    with phases("import"):
        import torch  # noqa: F401
    with phases("probe"):
        readings = Readings(repeat.device, threads, phases.origin_s)
        if readings.gpu.is_lost:
            count_without_nvml()
    with readings.monitored(), findings_of_failures(repeat.case) as failures:
        with phases("context"):
            device = open_device(repeat.device, repeat.case.precision, threads)
            readings.opened()
            member = join(device, repeat.timeout_s) if join else None
        if member:
            device, readings.own_cpu_s = member.device, member.cpu_s
        rules = rules or rules_of(repeat)
        stage = Stage(repeat, device, rules, phases, readings, draft, say, member)
        failures += _run(stage)
        if member:
            member.leave()
    return _record(repeat, threads, started_at, phases, readings, draft, failures)


def _run(stage: Stage) -> tuple[Finding, ...]:
    draft, workload = stage.draft, find(stage.repeat.case.workload)
    if stage.repeat.device not in workload.devices:
        supported = " or ".join(workload.devices)
        raise UnsupportedError(
            f"{workload.name} needs {supported}; this is measured on {stage.repeat.device}"
        )
    rank = stage.member.rank if stage.member else 0
    built = build(workload, stage.repeat, stage.device, stage.phases, rank, stage.world)
    thing, draft.layout, draft.layout_trials_s = built.thing, built.layout, built.trials_s
    draft.data = thing.data
    draft.work = _work(thing)
    if stage.repeat.trial:  # built and stepped once: it fits
        if isinstance(thing, Job):
            thing.warm_up()
        return ()
    findings = _run_job(stage, thing) if isinstance(thing, Job) else _run_steps(stage, thing, built.counts)
    if stage.member:
        stage.member.merge(stage.readings)
    peak = stage.readings.peak_flops(stage.repeat.case.precision)
    bound = peak * stage.world if peak else None
    flops = least_flops(thing.flops, draft.work.conv_flops, stage.repeat.case.precision)
    probes = stage.readings.probes
    if stage.member:  # a group waits for its slowest rank, so that each host counts
        probes = {name: value for name, value in probes.items() if name != "device_busy_share"}
    judged = judge(draft.wall, probes, flops, bound) if draft.wall else ()
    return (*findings, *judged)


def _work(thing: Prepared | Job) -> Work:
    return Work(
        thing.units,
        thing.unit,
        thing.flops,
        thing.bytes,
        thing.matmul_flops,
        parameters=thing.parameters,
        conv_flops=thing.matmul_flops if isinstance(thing, Job) else None,  # those of a job are not counted
        chosen=() if isinstance(thing, Job) else thing.chosen,
    )


def _run_job(stage: Stage, job: Job) -> tuple[Finding, ...]:
    window = stage.readings.window(stage.phases)
    done, draft = measure_job(job, stage.device.clock, stage.phases, window), stage.draft
    draft.wall, draft.device_time, draft.training = done.wall, done.device_time, done.training
    draft.transfer = Transfer()  # a job moves its own data
    if done.device_time:
        stage.readings.busy(None, "a whole job runs once and can't be queued as one")
    if stage.member:
        stage.member.note(done.wall, stage.readings.memory(), stage.readings.of_own_gpu())
        draft.group = stage.member.group(_scaling(stage), None)
    return done.findings


def _run_steps(stage: Stage, prepared: Prepared, counts: Counts | None) -> tuple[Finding, ...]:
    draft, phases, precision = stage.draft, stage.phases, stage.repeat.case.precision
    draft.cache = cache_of(stage.device, prepared.bytes, stage.repeat.cold_cache)
    first_loss = _checked(stage, prepared, counts)
    window, rules = stage.readings.window(phases), stage.rules
    before: Callable[[int, Any], None] = (restarts := Restarts(prepared.reset))
    if draft.cache.state == "cold" and draft.cache.last_level_bytes:
        rules, before = single_steps(rules), flushed(before, stage.device, draft.cache.last_level_bytes)
    swings = stage.readings.limit_watch()
    if stage.member:  # ranks take the same steps: one card at its limit holds all of them back
        swings = partial(_any, stage.member, swings)
    timed = time_step(prepared.step, stage.device.clock, rules, phases, window, before, swings)
    results, timed = (
        [timed.result],
        replace(timed, result=None),
    )  # the only reference, so that it can be freed
    draft.wall, draft.device_time = timed.wall, timed.device_time
    stage.readings.add(
        straggle_share=timed.straggle_share,
        timer_share=timed.timer_cost_s / (timed.wall.median_s * timed.wall.block),
        window_steps=timed.window_steps,
    )
    if stage.member:
        draft.group = _group(stage, stage.member, prepared, timed.wall)
    with phases("device_to_host"):
        fetch(results[0])
    with phases("check"):
        if first_loss is not None:
            draft.training = _trained(stage, first_loss, restarts.last_loss(results[0]))
        draft.check = recheck(prepared, results.pop(), precision)
    with phases("latency"), quiet_collector(phases):
        _single_steps(stage, prepared, timed)
    if stage.repeat.profile:
        with phases("profile"):
            draft.profile = profiling.profiled(prepared.step, stage.device)
    return ()


def _checked(stage: Stage, prepared: Prepared, counts: Counts | None) -> float | None:
    """Check the first step, and time its transfers; return a training's loss.

    The result is freed, so that timed steps need no more memory than one. `counts` are an eager step's; None
    in eager mode, which counts this step.
    """
    draft, phases = stage.draft, stage.phases
    with phases("check"):
        check_inputs(prepared)
        with counted() if counts is None else nullcontext(counts) as counts:
            result = first_step(prepared)
        draft.check = check(prepared, result, stage.repeat.case.precision)
        assert draft.work is not None
        if counts.missing:
            stage.readings.missing["counted_flops"] = counts.missing
        draft.work = draft.work.with_counts(
            None if counts.missing else counts.flops * stage.world,
            counts.launches,
            counts.conv_flops * stage.world,
            tuple(sorted(counts.attention)),
        )
    stage.say(f"{stage.repeat.id}: result correct (error {draft.check.error:.1g}), measuring")
    with phases("transfer"):
        moved = () if prepared.moves_inputs else prepared.inputs
        draft.transfer = measure_transfer(stage.device, moved, result)
    return float(result.float().mean()) if prepared.is_training else None


def _single_steps(stage: Stage, prepared: Prepared, timed: Timed) -> None:
    draft, clock = stage.draft, stage.device.clock
    if not stage.member:
        is_one = timed.wall.block == 1
        draft.latency = latency(timed.blocks_s if is_one else singles_s(prepared.step, clock))
    if timed.device_time and draft.work:
        step_s, launches = timed.device_time.median_s, draft.work.launches or 1
        if stage.member:  # all must queue equally many steps, for they wait for each other
            launches = round(stage.member.mean(launches))
        profiled_s = partial(profiling.busy_s, prepared.step, stage.device, stage.member)
        is_limited = timed.device_time.sustained is not None
        found = busy_s(prepared.step, clock, launches, step_s, profiled_s, is_limited)
        draft.device_busy_s = stage.readings.busy(*found, step_s)


def _group(stage: Stage, member: GroupMember, prepared: Prepared, wall: Timing) -> Group:
    member.note(wall, stage.readings.memory(), stage.readings.of_own_gpu())
    apart = None
    if prepared.unexchanged and stage.world > 1:  # one alone does not exchange
        cap_s = stage.rules.for_step(wall.median_s).sample_cap_s
        with stage.phases("communication"):
            apart = member.measure_apart(prepared.step, prepared.unexchanged, wall.block, cap_s)
    if prepared.alone and stage.world > 1:
        with stage.phases("alone"):
            member.measure_alone(prepared.step, wall.block)
    return member.group(_scaling(stage), apart)


def _any(member: GroupMember, own: Callable[[], bool]) -> bool:
    return bool(member.slowest(float(own())))


def _scaling(stage: Stage) -> str:
    return find(stage.repeat.case.workload).scaling or "weak"


def _trained(stage: Stage, first_loss: float, ended: tuple[float, int]) -> Training:
    last_loss, steps = ended
    if stage.member:
        first_loss, last_loss = stage.member.mean(first_loss), stage.member.mean(last_loss)
    check_loss(first_loss, last_loss, steps)
    return Training(first_loss, last_loss)


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
    return repeat.record(
        verdict=findings[0][0] if findings else Verdict.OK,
        reasons=tuple(text for _, text in findings),
        started_at=started_at,
        threads=threads,
        wall_s=wall_s,
        phases_s=phases.seconds,
        inherited_s=phases.inherited_s,
        unattributed_s=unattributed_s,
        **parts,
        **readings.parts(),
    )


@dataclass(frozen=True, slots=True)
class Done:
    """The results of a whole job, and the findings against it."""

    wall: Timing
    device_time: Timing | None
    training: Training
    findings: tuple[Finding, ...]


def measure_job(job: Job, clock: Clock, phases: Phases, window: AbstractContextManager[Any]) -> Done:
    """Run a job once, or raise WrongError without losses or times of its steps."""
    with phases("warm_up"):
        job.warm_up()
    with window, phases("samples"):
        reading = clock.time(job.run, 1)
    outcome: JobResult = reading.result
    if not (outcome.losses or outcome.step_s) or not all(map(math.isfinite, outcome.losses)):
        raise WrongError(
            f"the job's {len(outcome.losses)} losses must be finite, and it must report a loss or the time of a step"
        )
    device = _once(reading.device_s) if reading.device_s is not None else None
    findings: tuple[Finding, ...] = ()
    if not outcome.met:
        way = "at least" if outcome.higher_is_better else "at most"
        text = f"{outcome.metric} reached {outcome.value:.4g}; the target is {way} {outcome.target:.4g}"
        findings = ((Verdict.WRONG, text),)
    return Done(_once(reading.wall_s), device, _training(outcome), findings)


def _once(seconds: float) -> Timing:
    return replace(summarise((seconds,), 1), whole=True)


def _training(outcome: JobResult) -> Training:
    return Training(
        first_loss=outcome.losses[0] if outcome.losses else None,
        last_loss=outcome.losses[-1] if outcome.losses else None,
        losses=outcome.losses,
        step_s=outcome.step_s,
        metric=outcome.metric,
        value=outcome.value,
        target=outcome.target,
        memory=tuple(MemoryAt(*map(int, row)) for row in outcome.memory),
    )
