"""Measuring a script: from an empty process to a record with a verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import ModuleType
from typing import Any

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.rules import Rules, rules_of
from workloads.harness.probes.memory import available_bytes
from workloads.harness.records.record import Memory, Record, Verdict, Work
from workloads.harness.records.repeat import Repeat, now_text
from workloads.harness.records.script import Script, ScriptRun
from workloads.harness.records.verdict import Finding, judge
from workloads.harness.repeat.exclusive import INHERITED
from workloads.harness.repeat.runs import PARENT
from workloads.harness.script.apart import MARKS, make_room, when_imported
from workloads.harness.script.course import BRIEF_CAP_S, CAP_S, PROFILED, QUICK_CAP_S, CoursePlan
from workloads.harness.script.main_module import print_error, run_as_main
from workloads.harness.script.measurement import EnoughError, Measurement
from workloads.harness.script.outcome import Ending, findings_of, losses_of, timings
from workloads.harness.script.words import check_script, filled

OWN_VARIABLES = (INHERITED, PARENT)  # of ours, which the script doesn't see


def measure_script(
    repeat: Repeat, phases: Phases, say: Callable[[str], None], out: Callable[[Record], None]
) -> int:
    """Run a repeat's script in this process, hand its record to `out`, and return the exit code.

    Raises:
        WorkloadsError: the command has a mistake.
        SystemExit: the script has ended in a process that it forked, which goes its own way.
    """
    script = repeat.script
    assert script is not None
    check_script(script)
    words, started_at = filled(script, repeat.case), now_text()
    with phases("probe"):
        readings = Readings(repeat.device, repeat.threads or 1, phases.origin_s)
    rules = rules_of(repeat, readings.energy_window_s)
    session = Measurement(_plan(repeat, rules), phases, readings, script.whole)
    with ExitStack() as stack:
        if not script.whole:
            stack.enter_context(readings.monitored())

        def finish(ending: Ending) -> int:
            stack.close()
            record = _record(repeat, words, started_at, phases, readings, session, rules, ending)
            out(record)
            return 0 if record.ok else 1

        session.when_done(finish)
        return session.end(_run(script, words, session, phases))


def _plan(repeat: Repeat, rules: Rules) -> CoursePlan:
    script = repeat.script
    assert script is not None
    cap_s = BRIEF_CAP_S if repeat.brief else QUICK_CAP_S if repeat.quick else CAP_S
    return CoursePlan(rules, cap_s, bool(script.steps or script.epochs), 0 if script.whole else PROFILED)


def _run(script: Script, words: tuple[str, ...], session: Measurement, phases: Phases) -> Ending:
    """Run the script to its end, or until it is stopped."""
    pid = os.getpid()
    for name in OWN_VARIABLES:
        os.environ.pop(name, None)
    os.chdir(script.folder)
    make_room()
    marks: Any = ModuleType(MARKS)
    marks.step = session.step
    sys.modules[MARKS] = marks
    when_imported("torch", session.hooks.install)
    session.cold.enter_context(phases("first_step"))
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
    repeat: Repeat,
    words: tuple[str, ...],
    started_at: str,
    phases: Phases,
    readings: Readings,
    session: Measurement,
    rules: Rules,
    ending: Ending,
) -> Record:
    taken, seen, script = session.taken, session.seen, repeat.script
    assert script is not None
    wall, device_time = timings(taken, seen, rules)
    losses, wrong = losses_of(seen)
    findings: list[Finding] = findings_of(ending, seen, taken, repeat.case)
    findings += wrong
    readings.add(window_steps=taken.window_steps)
    if wall and not findings:
        findings += judge(wall, readings.probes, 0.0, None)
    parts = readings.parts()
    run = _seen_run(script, words, session, ending, losses, parts["memory"])
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
        threads=_threads(),
        wall_s=wall_s,
        phases_s=phases.seconds,
        unattributed_s=unattributed_s,
        wall=wall,
        device_time=device_time,
        work=_work(run),
        data="the script's own" if script.data is None else script.data,
        script=run,
        **parts,
    )


def _seen_run(
    script: Script,
    words: tuple[str, ...],
    session: Measurement,
    ending: Ending,
    losses: tuple[float, ...],
    memory: Memory,
) -> ScriptRun:
    seen, turns = session.seen, session.turns
    steps = len(seen.ends_s)
    calls = 1.0
    accumulation = None
    if seen.backwards and steps:
        accumulation = max(seen.backwards / steps, 1.0)
        calls = max(accumulation / turns.length, 1.0) if "LBFGS" not in turns.names else 1.0
    return ScriptRun(
        command=words,
        code=script.code,
        dirty=script.dirty,
        counted=session.counted or "optimizer",
        steps=steps,
        optimizers=tuple(turns.names),
        accumulation=accumulation,
        samples=round(seen.samples * calls) if seen.samples else None,
        tokens=round(seen.tokens * calls) if seen.tokens else None,
        losses=losses,
        first_step_s=session.first_step_s,
        memory_left_bytes=_left_bytes(memory),
        ended=ending.ended,
        exit_code=ending.code,
    )


def _work(run: ScriptRun) -> Work:
    """Return the work of a step: tokens, or samples, or the step itself where neither was seen."""
    if run.tokens:
        return Work(run.tokens, "tokens", None, None)
    return Work(run.samples, "samples", None, None) if run.samples else Work(1, "steps", None, None)


def _threads() -> int | None:
    torch: Any = sys.modules.get("torch")
    return int(torch.get_num_threads()) if torch else None


def _left_bytes(memory: Memory) -> int | None:
    """Return the bytes that were left at the peak: of the GPU if it was used, or of the host."""
    torch: Any = sys.modules.get("torch")
    if memory.process_reserved_bytes is not None and torch:
        return int(torch.cuda.mem_get_info()[1]) - memory.process_reserved_bytes
    free = available_bytes()
    return free
