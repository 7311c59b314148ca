"""Measure a script: from an empty process to a record with a verdict."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from workloads.harness.engine.failures import finding
from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.rules import rules_of
from workloads.harness.group.ranks import FOLDER, Membership, membership_in
from workloads.harness.probes.memory import available_bytes, resident_bytes
from workloads.harness.probes.orphans import adopt_orphans
from workloads.harness.records.record import Memory, Record, Verdict, Work
from workloads.harness.records.repeat import Repeat, now_text
from workloads.harness.records.script import OWN, JobTime, Script, ScriptRun
from workloads.harness.records.verdict import Finding, judge
from workloads.harness.repeat.exclusive import INHERITED
from workloads.harness.repeat.runs import PARENT
from workloads.harness.script.amounts import Amounts
from workloads.harness.script.command import check_script, filled
from workloads.harness.script.instances import DeclaredStep
from workloads.harness.script.job_prediction import OTHER_TIMES, SHARED_TIMES, ScriptPace, job_time, pace_of
from workloads.harness.script.main_module import (
    MARKS,
    end_as,
    first_folder,
    make_room,
    print_error,
    run_as_main,
    when_imported,
)
from workloads.harness.script.measurement import (
    EnoughError,
    Measurement,
    Seat,
    end_children,
)
from workloads.harness.script.outcome import Ending, findings_of, losses_of, misplaced, shares_of, timings
from workloads.harness.script.sampling import BRIEF_CAP_S, CAP_S, PROFILED, QUICK_CAP_S, SamplingPlan
from workloads.harness.script.step_model import StepModel
from workloads.harness.script.timers import gpus_in_use, uses_gpu

RECORD = "GRIDBENCH_RECORD_FD"  # descriptors if standard output is the script's: the record's, and a pipe's
RANKS = "GRIDBENCH_RANKS"  # the folder of ranks that the user's torchrun has started
OWN_VARIABLES = (INHERITED, PARENT, FOLDER, RECORD, RANKS)  # hidden from the script
Out = Callable[[Record], None]


def measure_script(repeat: Repeat, phases: Phases, out: Out) -> int:
    """Run a repeat's script, pass its record to `out`, and return the exit code.

    Raises:
        SystemExit: the script ran whole, or this is a process that it forked.
    """
    script, member = repeat.script, membership_in()
    assert script is not None
    check_script(script, member.world if member else None)
    words, started_at = filled(script, repeat.case), now_text()
    if not script.whole:
        adopt_orphans()
    with phases("probe"):
        readings = Readings(repeat.device, repeat.threads or 1, phases.origin_s)
    rules = rules_of(repeat)
    cap_s = BRIEF_CAP_S if repeat.brief else QUICK_CAP_S if repeat.quick else CAP_S
    profiled = 0 if script.whole else PROFILED
    predicts = bool(script.steps or script.epochs)
    plan = SamplingPlan(rules, cap_s, predicts, script.through, bool(script.epochs), profiled)
    declared = DeclaredStep.of(script.step_of)
    measurement = Measurement(plan, phases, readings, script.whole, _seat(member), declared)
    with ExitStack() as stack:
        if not script.whole:
            stack.enter_context(readings.monitored())

        def finish(ending: Ending) -> int:
            stack.close()
            try:
                record = _record(repeat, words, started_at, measurement, ending)
            except Exception as error:  # such as a device's failure: a record must still be written
                record = repeat.failed(*finding(error, repeat.case), phases.wall_s())
            if member and member.folder:
                member.path("record").write_text(record.to_json())
                return int(ending.ended != "stopped" and bool(ending.code))
            out(record)
            return 0 if record.ok else 1

        measurement.finish = finish
        if not script.whole:
            Watchdog(repeat.timeout_s, BRIEFLY_S if repeat.brief else BACKWARDS_S).watch(measurement)
        ending = _run(script, words, measurement, repeat.threads)
        _wait_for_threads()
        code = measurement.end(ending)
    if script.whole:
        end_as(ending.code, ending.error)
    measurement.run_exit_handlers()
    end_children()
    return code


def _seat(member: Membership | None) -> Seat | None:
    folder = os.environ.get(RANKS)
    if member is None or not (member.folder or folder):
        return None
    return Seat(member.rank, member.world, member.folder or Path(str(folder)))


def _wait_for_threads() -> None:
    """Wait for the script's threads as Python does; stop pools' threads first."""
    calls = getattr(threading, "_threading_atexits", [])
    while calls:
        calls.pop()()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


def _run(script: Script, words: tuple[str, ...], measurement: Measurement, threads: int | None) -> Ending:
    pid = os.getpid()
    for name in OWN_VARIABLES:
        os.environ.pop(name, None)
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
    os.chdir(script.folder)
    make_room(first_folder(words))
    marks: Any = ModuleType(MARKS)
    marks.step = measurement.step
    sys.modules[MARKS] = marks
    when_imported("torch", measurement.hooks.install)
    measurement.cold.enter_context(measurement.phases("first_step"))
    try:
        run_as_main(words)
    except EnoughError:
        return Ending("stopped")
    except SystemExit as error:
        if os.getpid() != pid:
            raise
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
        return Ending(code=code)
    except BaseException as error:
        print_error(error)
        if os.getpid() != pid:
            raise SystemExit(1) from None
        return Ending(code=1, error=error)
    if os.getpid() != pid:
        raise SystemExit(0)
    return Ending(code=0)


def _record(
    repeat: Repeat, words: tuple[str, ...], started_at: str, measurement: Measurement, ending: Ending
) -> Record:
    times, observed, readings = measurement.times, measurement.observed, measurement.readings
    script = repeat.script
    assert script is not None
    if repeat.any_device and observed.ends_s:
        repeat = replace(repeat, device="cuda" if uses_gpu() else "cpu")
        readings.computed_on(repeat.device)
    wall, device_time = timings(times, observed, measurement.plan.rules)
    losses, wrong = losses_of(observed)
    model = measurement.step_model(ending.ended == "finished")
    findings: list[Finding] = findings_of(
        ending, observed, times, repeat.case, measurement.follows, model.refusal
    )
    if measurement.trouble is not None:
        findings.insert(0, (Verdict.CRASHED, f"the measurement itself failed: {measurement.trouble!r}"))
    elsewhere = misplaced(repeat.device, observed)
    findings += [*wrong, *elsewhere]
    readings.add(window_steps=times.window_steps)
    readings.shared_by(max(measurement.world, gpus_in_use()))
    if wall and not findings and not measurement.follows:
        findings += judge(wall, readings.probes, 0.0, None)
    parts = readings.parts()
    other_times = _other_times(findings, parts["environment"].get("hypervisor"), uses_gpu())
    run = _script_run(script, words, measurement, ending, model, losses, parts["memory"], other_times)
    if elsewhere:  # a job on another device is not this one's
        run = replace(run, job=None)
    wall_s, unattributed_s = measurement.phases.close()
    torch: Any = sys.modules.get("torch")
    return repeat.record(
        verdict=findings[0][0] if findings else Verdict.OK,
        reasons=tuple(text for _, text in findings),
        started_at=started_at,
        threads=int(torch.get_num_threads()) if torch else None,
        wall_s=wall_s,
        phases_s=measurement.phases.seconds,
        unattributed_s=unattributed_s,
        wall=wall,
        device_time=device_time,
        work=_work(run) if run.steps else None,
        data=OWN,
        script=run,
        **parts,
    )


def _script_run(
    script: Script,
    words: tuple[str, ...],
    measurement: Measurement,
    ending: Ending,
    model: StepModel,
    losses: tuple[float, ...],
    memory: Memory,
    other_times: float,
) -> ScriptRun:
    observed, times = measurement.observed, measurement.times
    amounts = observed.amounts_of_step(script.samples)
    ranks = 1 if amounts.source == "declared" else measurement.world
    plain_s = observed.ends_s[: None if script.whole else times.plain_steps]
    warm_steps = times.warm_steps or 1
    epoch_steps = observed.epoch_steps
    pace = pace_of(plain_s, observed.epochs_at, epoch_steps, warm_steps, other_times, observed.compiled)
    mean_s, mean_low_s, mean_high_s = pace.mean() if pace else (None, None, None)
    return ScriptRun(
        command=words,
        code=script.code,
        dirty=script.dirty,
        counted="backward" if model.step_of == "backward" else measurement.counted or "optimizer",
        step_of=model.step_of,
        steps=len(observed.ends_s),
        optimizers=tuple(dict.fromkeys(measurement.optimizers.classes)),
        optimizer_steps=model.optimizer_steps,
        accumulation=model.backwards,
        samples=amounts.samples and amounts.samples * ranks,
        tokens=amounts.tokens and amounts.tokens * ranks,
        samples_from=amounts.source,
        doubts=_doubts(script, amounts, epoch_steps),
        losses=losses,
        shares=shares_of(times.profile, times.loader_share) if times.profile else {},
        mean_s=mean_s,
        mean_low_s=mean_low_s,
        mean_high_s=mean_high_s,
        first_step_s=measurement.first_step_s,
        epoch_steps=epoch_steps,
        job=_job(script, measurement, pace, ending, bool(model.refusal)),
        memory_left_bytes=_left_bytes(memory),
        ended=ending.ended,
        exit_code=ending.code,
    )


def _doubts(script: Script, amounts: Amounts, epoch_steps: int | None) -> tuple[str, ...]:
    doubts = [*amounts.doubts]
    if script.epochs and epoch_steps is None:
        doubts.append("no loader shows how long an epoch is: --steps N states the length of the job")
    return tuple(doubts)


def _other_times(findings: Sequence[Finding], is_virtual: bool | None, on_gpu: bool) -> float:
    """Return the share by which the machine can differ at another time; an unknown one (None) can be virtual."""
    is_busy = any(verdict in (Verdict.NOISY, Verdict.UNSTEADY) for verdict, _ in findings)
    may_be_shared = is_virtual is not False and not on_gpu
    return SHARED_TIMES if is_busy or may_be_shared else OTHER_TIMES


def _job(
    script: Script, measurement: Measurement, pace: ScriptPace | None, ending: Ending, is_refused: bool
) -> JobTime | None:
    """Return the job's time, measured or predicted; a whole run's is a fact, also if its step `is_refused`."""
    observed, steps = measurement.observed, script.steps
    has_finished = ending.ended == "finished" and not ending.code
    if script.whole and has_finished and (is_refused or not observed.ends_s):
        seconds = measurement.phases.wall_s()
        return JobTime(0, seconds, seconds, seconds, measured=True)
    if is_refused:
        return None
    if script.epochs and pace and pace.epoch_steps:
        steps = script.epochs * pace.epoch_steps
    is_asked_for = (script.steps or script.epochs) is None or steps == len(observed.ends_s)
    if is_asked_for and has_finished and observed.ends_s:
        seconds = measurement.phases.wall_s()
        epochs = len(observed.epochs_at) or None
        return JobTime(len(observed.ends_s), seconds, seconds, seconds, epochs, measured=True)
    if steps is None or pace is None or measurement.first_step_s is None:
        return None
    warm_steps = measurement.times.warm_steps or 1
    hooks, first_s = measurement.hooks, measurement.first_step_s
    unseen = (*hooks.unused_loaders(), *hooks.unseen_saves())
    return job_time(pace, observed.ends_s, observed.epochs_at, first_s, warm_steps, steps, unseen)


def _work(run: ScriptRun) -> Work:
    if run.tokens:
        return Work(run.tokens, "tokens", None, None)
    return Work(run.samples, "samples", None, None) if run.samples else Work(1, "steps", None, None)


def _left_bytes(memory: Memory) -> int | None:
    torch: Any = sys.modules.get("torch")
    if memory.process_reserved_bytes is not None and torch:  # the driver and other processes take the rest
        now_bytes = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved()
        return max(int(now_bytes) - memory.process_reserved_bytes, 0)
    free, resident = available_bytes(), resident_bytes()
    if free is None or resident is None or memory.peak_rss_bytes is None:
        return free
    return max(free + min(resident - memory.peak_rss_bytes, 0), 0)


LOOK_S = 0.5
MARGIN_SHARE, LEAST_MARGIN_S = 0.05, 2.0  # before the timeout, so that the record can still be written
BACKWARDS, BACKWARDS_S, BRIEFLY_S = 50, 20.0, 1.0  # calls and seconds without an optimizer's step: none comes


def limit_s(timeout_s: float) -> float:
    """Return the seconds until a process must stop, to write its record in time."""
    return max(timeout_s - max(MARGIN_SHARE * timeout_s, LEAST_MARGIN_S), timeout_s / 2)


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Limits of a script's seconds, in all and of backward calls without a step."""

    timeout_s: float
    backwards_s: float = BACKWARDS_S

    def watch(self, measurement: Measurement) -> None:
        threading.Thread(target=self._run, args=(measurement,), name="watchdog", daemon=True).start()

    def _run(self, measurement: Measurement) -> None:
        ends_s = limit_s(self.timeout_s)
        pause = threading.Event()
        while not pause.wait(LOOK_S):
            observed = measurement.observed
            if measurement.phases.wall_s() > ends_s:
                late = (
                    f"not measured within {self.timeout_s:g} s: the script was {observed.position}{_line()}"
                )
                measurement.end_now(Ending("stopped", after="" if measurement.times.sampled else late))
            first_s = observed.first_backward_s
            if (
                first_s is not None
                and (
                    not measurement.counted or (measurement.counted == "forward" and not measurement.declared)
                )
                and observed.backwards >= BACKWARDS
                and observed.now_s() - first_s > self.backwards_s
            ):
                measurement.end_now(Ending("stopped"))


def _line() -> str:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_globals.get("__name__") == "__main__":
            return f", at line {frame.f_lineno} of {frame.f_code.co_filename}"
        frame = frame.f_back
    return ""
