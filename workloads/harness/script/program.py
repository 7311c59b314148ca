"""Measuring a command: its calls, its numbers, and a record with a verdict."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.summary import summarise
from workloads.harness.probes.memory import oom_kills
from workloads.harness.probes.orphans import adopt_orphans
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.printable import printable
from workloads.harness.records.program import MetricValue, Program, ProgramRun
from workloads.harness.records.record import Memory, Record, Verdict
from workloads.harness.records.repeat import Repeat, now_text
from workloads.harness.records.script import OWN, Script, ScriptRun
from workloads.harness.records.verdict import Finding, judge
from workloads.harness.repeat.runs import LAST_S, finding_of_end, stop, waits_for_end
from workloads.harness.script.command import filled, filled_env
from workloads.harness.script.measure import OWN_VARIABLES, Out, limit_s
from workloads.harness.script.metrics import value_of

MOST_BYTES = 8_000_000  # of each stream: its end, in which metrics are searched
MOST_FILE_BYTES = 64_000_000
LAST_LINES, LONGEST_LINE = 20, 300  # of the end of its output in a record
FIRST_LOOK_S, LOOK_S = 0.01, 0.25  # at the memory of its processes
CALLS = ("warm_up", "call")


@dataclass(slots=True)
class Call:
    """One call of a command.

    Attributes:
        seconds: from the start of its process to its end.
        code: its exit code, negative for a signal; None if it was stopped at the time limit.
        output, errors: the end of its streams.
        peak_bytes: the most resident memory of its processes together; 0 if it ended before the first look.
    """

    seconds: float = 0.0
    code: int | None = None
    output: str = ""
    errors: str = ""
    peak_bytes: int = 0
    out_of_memory: bool = False

    @property
    def last_lines(self) -> list[str]:
        """Return the last lines of its errors, or of its output if it wrote no errors."""
        return _lines(self.errors) or _lines(self.output)


def measure_program(repeat: Repeat, phases: Phases, out: Out) -> int:
    """Call a repeat's command, hand its record to `out`, and return the exit code.

    Raises:
        WorkloadsError: the command has a mistake.
    """
    script = repeat.script
    assert script is not None and script.program is not None
    words, env = filled(script, repeat.case, repeat.seed), filled_env(script, repeat.case, repeat.seed)
    started_at, program = now_text(), script.program
    environ = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES} | env
    if repeat.threads is not None:
        environ.setdefault("OMP_NUM_THREADS", str(repeat.threads))
    # Tools of this interpreter's packages are found after those of the machine.
    environ["PATH"] = os.pathsep.join(filter(None, [environ.get("PATH"), str(Path(sys.executable).parent)]))
    adopt_orphans()
    with phases("probe"):
        readings = Readings(repeat.device, repeat.threads or 1, phases.origin_s)
    ends_s = phases.origin_s + limit_s(repeat.timeout_s)
    calls: list[Call] = []
    findings: list[Finding] = []
    with readings.monitored():
        for _ in range(program.warm_ups):
            with phases("warm_up"):
                calls.append(_call(words, environ, script.folder, ends_s, findings))
            if findings or (findings := _end(repeat, calls[-1], program)):
                break
        else:
            with readings.window(phases), phases("call"):
                calls.append(_call(words, environ, script.folder, ends_s, findings))
            findings = findings or _end(repeat, calls[-1], program)
    counted = calls[program.warm_ups :]
    metrics = _metrics(script, program, counted[0], findings) if counted and not findings else ()
    out(record := _record(repeat, words, started_at, phases, readings, calls, metrics, findings))
    return 0 if record.ok else 1


def _call(
    words: tuple[str, ...], environ: Mapping[str, str], folder: str, ends_s: float, findings: list[Finding]
) -> Call:
    """Call a command, and stop it with all its processes at `ends_s`; a command that cannot start is a finding."""
    call, kills = Call(), oom_kills()
    started_s = time.perf_counter()
    try:
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        advice = "; install it there, or name its packages" if isinstance(error, FileNotFoundError) else ""
        why = printable(getattr(error, "strerror", None) or str(error))
        findings.append(
            (Verdict.UNSUPPORTED, f"the machine can't start {printable(words[0])}: {why}{advice}")
        )
        return call
    ends = [_End(process.stdout), _End(process.stderr)]
    for end in ends:
        end.thread.start()
    with _watched(process, call):
        has_ended = waits_for_end(process.pid, max(ends_s - time.perf_counter(), 0.0))
        call.seconds = time.perf_counter() - started_s
    stop(process, has_ended)
    for end in ends:
        end.thread.join(LAST_S)
    call.output, call.errors = (bytes(end.kept).decode(errors="replace") for end in ends)
    call.code = process.returncode if has_ended else None
    call.out_of_memory = oom_kills() != kills
    return call


@dataclass(slots=True)
class _End:
    """The end of a stream, which a thread reads so that its writer never waits."""

    stream: IO[bytes] | None
    kept: bytearray = field(default_factory=bytearray)
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        assert self.stream is not None
        with suppress(OSError, ValueError):
            while piece := os.read(self.stream.fileno(), 1 << 16):
                self.kept += piece
                if len(self.kept) > 2 * MOST_BYTES:
                    del self.kept[:-MOST_BYTES]


@contextmanager
def _watched(process: subprocess.Popen[bytes], call: Call) -> Iterator[None]:
    """Note the most memory that a process and its descendants have together."""
    ended = threading.Event()

    def look() -> None:
        import psutil

        root, wait_s = psutil.Process(process.pid), FIRST_LOOK_S
        while not ended.wait(wait_s):
            wait_s = min(2 * wait_s, LOOK_S)
            used = 0
            for each in (root, *root.children(recursive=True)):
                with suppress(psutil.Error):
                    used += each.memory_info().rss
            call.peak_bytes = max(call.peak_bytes, used)

    def run() -> None:
        with suppress(Exception):  # psutil is missing, or the process has ended
            look()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(LAST_S)


def _end(repeat: Repeat, call: Call, program: Program) -> list[Finding]:
    """Return the finding about a call that did not end well."""
    if call.code == 0:
        return []
    last = f" ({call.last_lines[-1]})" if call.last_lines else ""
    if call.code is None:
        return [(Verdict.TIMEOUT, f"the command was stopped after {call.seconds:.4g} s without an end{last}")]
    return [finding_of_end(repeat.case, "the command", call.code, call.last_lines, call.out_of_memory)]


def _metrics(
    script: Script, program: Program, call: Call, findings: list[Finding]
) -> tuple[MetricValue, ...]:
    """Return the metrics of a call; each that is not clear is a finding."""

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


def _record(
    repeat: Repeat,
    words: tuple[str, ...],
    started_at: str,
    phases: Phases,
    readings: Readings,
    calls: list[Call],
    metrics: tuple[MetricValue, ...],
    findings: list[Finding],
) -> Record:
    script = repeat.script
    assert script is not None and script.program is not None
    seconds = [call.seconds for call in calls]
    counted, last = calls[script.program.warm_ups :], calls[-1]
    wall = replace(summarise((counted[0].seconds,), 1), whole=True) if counted and not findings else None
    if wall:
        readings.add(window_steps=1)
        findings += judge(wall, readings.probes, 0.0, None)
    parts = readings.parts()
    parts["memory"] = _memory(parts, calls)
    run = ProgramRun(
        call_s=counted[0].seconds if counted and counted[0].code is not None else None,
        warm_ups_s=tuple(seconds[: script.program.warm_ups]),
        metrics=metrics,
        output=tuple(_lines(last.output)),
        errors=tuple(_lines(last.errors)),
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


def _memory(parts: Mapping[str, Any], calls: list[Call]) -> Memory:
    """Return the peaks of a command's processes; that of a GPU is what was in use above that before."""
    peak = max(call.peak_bytes for call in calls)
    if not peak:
        parts["missing"]["peak_rss_bytes"] = "the call ended before its memory was read"
    on_gpu = parts["monitor"].get("gpu_memory_used_bytes", ())
    others = parts["probes"].get("gpu_foreign_memory_bytes", 0.0)
    total = int(max(max(on_gpu) - others, 0.0)) if on_gpu else None
    return Memory(peak_rss_bytes=peak or None, process_total_bytes=total)


def _lines(text: str) -> list[str]:
    """Return the last lines of an output, each shortened and printable."""
    tail = text[-LAST_LINES * LONGEST_LINE :].splitlines()
    return [line for line in (printable(line)[:LONGEST_LINE].rstrip() for line in tail[-LAST_LINES:]) if line]
