"""Measure a command: its calls, its numbers, and a record with a verdict."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.summary import summarise
from workloads.harness.probes.memory import oom_kills
from workloads.harness.probes.orphans import adopt_orphans
from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.program import LOADER, PROMISED, MetricValue, Program, ProgramRun, PromisedRate
from workloads.harness.records.record import Memory, Record, Verdict
from workloads.harness.records.repeat import Repeat, now_text
from workloads.harness.records.script import OWN, Script, ScriptRun
from workloads.harness.records.typed_json import build
from workloads.harness.records.verdict import Finding, judge
from workloads.harness.repeat.runs import LAST_S, finding_of_end, stop, waits_for_end
from workloads.harness.script.command import filled, filled_env, filled_serving
from workloads.harness.script.measure import OWN_VARIABLES, Out, limit_s
from workloads.harness.script.metrics import parsed_json, value_of
from workloads.harness.script.processes import StreamEnd, last_lines, start_program, watched
from workloads.harness.script.serving import TO_END_S, LiveServer, free_port, served

MOST_FILE_BYTES = 64_000_000
CALLS = ("warm_up", "call")
ROOT = Path(__file__).parents[3]


@dataclass(slots=True)
class Call:
    """One call of a command.

    Attributes:
        seconds: from the start of its process to its end.
        code: exit code, negative for a signal; None if stopped at the time limit.
        output, errors: the end of its streams.
        peak_bytes: peak resident memory of its processes together; 0 if it ended before the first look.
    """

    seconds: float = 0.0
    code: int | None = None
    output: str = ""
    errors: str = ""
    peak_bytes: int = 0
    out_of_memory: bool = False

    @property
    def last_lines(self) -> list[str]:
        return last_lines(self.errors) or last_lines(self.output)


def measure_program(repeat: Repeat, phases: Phases, out: Out) -> int:
    script = repeat.script
    assert script is not None and script.program is not None
    started_at, program = now_text(), script.program
    port = free_port() if program.serving else 0
    words = filled(script, repeat.case, repeat.seed, port)
    environ = _environ(repeat, filled_env(script, repeat.case, repeat.seed, port))
    adopt_orphans()
    with phases("probe"):
        readings = Readings(repeat.device, repeat.threads or 1, phases.origin_s)
    most_s = limit_s(repeat.timeout_s)
    ends_s = phases.origin_s + most_s
    calls: list[Call] = []
    findings: list[Finding] = []
    run = ProgramRun()
    with readings.monitored(), ExitStack() as stack:
        server = None
        if program.serving:
            ends_s -= min(TO_END_S, most_s / 2)
            serving = filled_serving(program.serving, script, repeat.case, repeat.seed, port)
            server = stack.enter_context(
                served(serving, repeat.case, environ, script.folder, ends_s, phases, findings)
            )
        for number in range(program.warm_ups + 1):
            if findings:
                break
            is_counted = number == program.warm_ups
            left_s = (ends_s - time.perf_counter()) / (program.warm_ups + 1 - number)
            words = filled(script, repeat.case, repeat.seed, port, max(left_s - LAST_S, 1.0))
            with readings.window(phases) if is_counted else nullcontext(), phases(CALLS[is_counted]):
                calls.append(_call(words, environ, script.folder, ends_s, findings, server))
            findings = findings or _end(repeat, calls[-1], server)
        run = replace(run, serving=server.run() if server else None)
    counted = calls[program.warm_ups :]
    if counted and not findings:
        metrics = _metrics(script, program, counted[0], findings)
        run = replace(run, metrics=metrics, promised=_promised(words, counted[0].output))
    peak_bytes = max([server.peak_bytes if server else 0, *(call.peak_bytes for call in calls)])
    out(record := _record(repeat, words, started_at, phases, readings, calls, run, findings, peak_bytes))
    return 0 if record.ok else 1


def _environ(repeat: Repeat, own: Mapping[str, str]) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES} | {**own}
    if repeat.threads is not None:
        environ.setdefault("OMP_NUM_THREADS", str(repeat.threads))
    # Tools of this interpreter's packages are found after those of the machine.
    environ["PATH"] = os.pathsep.join(filter(None, [environ.get("PATH"), str(Path(sys.executable).parent)]))
    return environ


def _call(
    words: tuple[str, ...],
    environ: Mapping[str, str],
    folder: str,
    ends_s: float,
    findings: list[Finding],
    server: LiveServer | None,
) -> Call:
    """Call a command until `ends_s`; if its server ends, it gets a few seconds to end, too."""
    call, kills = Call(), oom_kills()
    if words[0] == "-m":  # our own module: this interpreter runs it, and finds it outside of the folder
        paths = [str(ROOT), environ.get("PYTHONPATH", "")]
        words, environ = (
            (sys.executable, *words),
            {**environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
    started_s = time.perf_counter()
    try:
        process = start_program(words, environ, folder)
    except WorkloadsError as error:
        findings.append((Verdict.UNSUPPORTED, str(error)))
        return call
    ends = [StreamEnd(process.stdout), StreamEnd(process.stderr)]
    for end in ends:
        end.thread.start()
    with watched([process.pid, *([server.process.pid] if server else [])], call):
        has_ended = waits_for_end(process.pid, max(ends_s - time.perf_counter(), 0.0), server)
        if not has_ended and server and server.has_ended:
            has_ended = waits_for_end(process.pid, LAST_S)
        call.seconds = time.perf_counter() - started_s
    stop(process, has_ended)
    for end in ends:
        end.thread.join(LAST_S)
    call.output, call.errors = (bytes(end.kept).decode(errors="replace") for end in ends)
    call.code = process.returncode if has_ended else None
    call.out_of_memory = oom_kills() != kills
    return call


def _end(repeat: Repeat, call: Call, server: LiveServer | None) -> list[Finding]:
    if server and server.has_ended and (call.code != 0 or server.process.returncode):
        return [server.end(repeat.case, "while it was called")]
    if call.code == 0:
        return []
    last = f" ({call.last_lines[-1]})" if call.last_lines else ""
    if call.code is None:
        return [(Verdict.TIMEOUT, f"the command was stopped after {call.seconds:.4g} s without an end{last}")]
    return [finding_of_end(repeat.case, "the command", call.code, call.last_lines, call.out_of_memory)]


def _metrics(
    script: Script, program: Program, call: Call, findings: list[Finding]
) -> tuple[MetricValue, ...]:
    def file_text(name: str) -> str:
        path = Path(script.folder, name)
        try:
            if path.stat().st_size > MOST_FILE_BYTES:
                raise WorkloadsError(f"file {name} is larger than {MOST_FILE_BYTES:,} bytes")
            return path.read_text(errors="replace")
        except OSError as error:
            raise WorkloadsError(f"file {name} can't be read: {error.strerror}") from None

    values = []
    for metric in program.metrics:
        try:
            values.append(value_of(metric, (call.output, call.errors), file_text))
        except WorkloadsError as error:
            findings.append((Verdict.WRONG, str(error)))
    return tuple(values)


def _promised(words: tuple[str, ...], output: str) -> PromisedRate | None:
    if words[:2] != LOADER:
        return None
    try:
        result = parsed_json(output)
        return build(PromisedRate, result[PROMISED], PROMISED) if PROMISED in result else None
    except (ValueError, TypeError, RecordError):
        return None


def _record(
    repeat: Repeat,
    words: tuple[str, ...],
    started_at: str,
    phases: Phases,
    readings: Readings,
    calls: list[Call],
    run: ProgramRun,
    findings: list[Finding],
    peak_bytes: int,
) -> Record:
    script = repeat.script
    assert script is not None and script.program is not None
    seconds = [call.seconds for call in calls]
    counted, last = calls[script.program.warm_ups :], calls[-1] if calls else Call()
    wall = replace(summarise((counted[0].seconds,), 1), whole=True) if counted and not findings else None
    if wall:
        readings.add(window_steps=1)
        findings += judge(wall, readings.probes, 0.0, None)
    parts = readings.parts()
    parts["memory"] = _memory(parts, peak_bytes)
    run = replace(
        run,
        call_s=counted[0].seconds if counted and counted[0].code is not None else None,
        warm_ups_s=tuple(seconds[: script.program.warm_ups]),
        output=tuple(last_lines(last.output)),
        errors=tuple(last_lines(last.errors)),
    )
    wall_s, unattributed_s = phases.close()
    return repeat.record(
        verdict=findings[0][0] if findings else Verdict.OK,
        reasons=tuple(text for _, text in findings),
        started_at=started_at,
        threads=repeat.threads,
        wall_s=wall_s,
        phases_s=phases.seconds,
        unattributed_s=unattributed_s,
        wall=None if script.program.metrics else wall,  # its numbers are its metrics
        data=OWN,
        script=ScriptRun(
            words,
            script.code,
            script.dirty,
            counted="call",
            ended="stopped" if last.code is None else "finished",
            exit_code=last.code,
            program=run,
        ),
        **parts,
    )


def _memory(parts: Mapping[str, Any], peak: int) -> Memory:
    if not peak:
        parts["missing"]["peak_rss_bytes"] = "the call ended before its memory was read"
    on_gpu = parts["monitor"].get("gpu_memory_used_bytes", ())
    others = parts["probes"].get("gpu_foreign_memory_bytes", 0.0)
    total = int(max(max(on_gpu) - others, 0.0)) if on_gpu else None
    return Memory(peak_rss_bytes=peak or None, process_total_bytes=total)
