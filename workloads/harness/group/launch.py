"""Start the ranks of a group; the record names one that fails.

The starting process only holds the box and does not measure.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from threading import Thread, Timer
from typing import IO, Any

from workloads.harness.engine.failures import finding
from workloads.harness.engine.measure import measure
from workloads.harness.engine.phases import Phases
from workloads.harness.group import ranks
from workloads.harness.group.distributed import RankProcess
from workloads.harness.group.meeting import no_meeting
from workloads.harness.group.ranks import FOLDER, Membership, ProgressBoard
from workloads.harness.group.watch import GRACE_S, Watch, alive, place
from workloads.harness.probes.cpu import affinity, binding
from workloads.harness.probes.device_here import driver_answer
from workloads.harness.probes.memory import oom_kills
from workloads.harness.records import out_of_memory
from workloads.harness.records.case import smaller
from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import Workload
from workloads.harness.repeat.exclusive import INHERITED, whole_box
from workloads.harness.repeat.local_limits import asked_gpus
from workloads.harness.repeat.runs import LAST_S, PARENT, arguments, die_with_parent, listen, signal_name

Say = Callable[[str], None]
LOOK_S = 1.0  # torch's own tenth of a second takes some percent of a core from the ranks
PREFIX = "gridbench-group-"  # of a group's folder; its starter's process id follows
SHUTDOWN_S = 1  # for ranks that torch ends; before 2.13 its launcher always gives them 30 s
TOGETHER_S = 0.5  # a failing rank waits before it ends: others can have failed for the same reason
# What torch raises on a rank whose peers have gone: it is not that rank's fault.
LOST_PEER = ("closed by peer", "reset by peer", "broken pipe", "socket", "distbackenderror", "nccl", "store")


def membership_of(workload: Workload, repeat: Repeat) -> Membership | None:
    member = ranks.membership_in()
    if member is None:
        return None
    if not workload.in_group:
        raise WorkloadsError(f"{workload.name} is measured by one process; start it without torchrun")
    expected = repeat.case.params["processes"]
    if member.world != expected:
        raise WorkloadsError(
            f"torchrun started {member.world} processes, but the size has processes={expected}; "
            "make them equal"
        )
    return member


def follow(repeat: Repeat, member: Membership, phases: Phases, say: Say, out: IO[str]) -> int:
    """Measure as one rank of several; return 0 if all ended together.

    The first rank's record is the group's; it goes to `lead` if that started the ranks.
    """
    die_with_parent()
    if member.folder:
        ProgressBoard(member.folder, member.world).sit(member.rank)
    else:
        _check_unbound(repeat, member)
    if repeat.device == "cuda":  # make only this rank's GPU visible, as device 0, before torch looks
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[member.rank] if visible else str(member.rank)
    with ExitStack() as held:
        if member.rank == 0:
            held.enter_context(whole_box(say))
            held.enter_context(nullcontext() if member.folder else _limited(repeat, out))
        try:
            tell = say if member.rank == 0 else lambda text: None
            record = measure(repeat, repeat.threads or 1, phases, tell, join=partial(RankProcess, member))
        except WorkloadsError as error:
            if member.folder is None:
                raise
            member.path("mistake").write_text(str(error))
            time.sleep(TOGETHER_S)
            return 2
    if member.folder:
        member.path("record").write_text(record.to_json())
    elif member.rank == 0:
        print(record.to_json(), file=out, flush=True)
    elif not ranks.have_ended():
        say(f"rank {member.rank} of {member.world}: {'; '.join(record.reasons)}")
    if not ranks.have_ended():
        time.sleep(TOGETHER_S)
        return 1
    return 0 if member.folder or member.rank or record.ok else 1


def _check_unbound(repeat: Repeat, member: Membership) -> None:
    if not binding() or repeat.device != "cpu":
        return
    if reason := no_room("cpu", member.world, repeat.threads or 1):
        raise WorkloadsError(f"{reason}: torchrun was bound to them by {_text(binding())}; start it without")


@contextmanager
def _limited(repeat: Repeat, out: IO[str]) -> Iterator[None]:
    """End this process of torchrun at its time limit, with a record; torchrun ends the others."""

    def end() -> None:
        reason = f"no result within {repeat.timeout_s:g} s: the process was stopped"
        print(repeat.failed(Verdict.TIMEOUT, reason, repeat.timeout_s).to_json(), file=out, flush=True)
        os._exit(1)

    timer = Timer(repeat.timeout_s, end)
    timer.daemon = True
    timer.start()
    signal.setitimer(signal.ITIMER_REAL, repeat.timeout_s + GRACE_S)  # the kernel's, if Python hangs
    try:
        yield
    finally:
        timer.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)


def lead(repeat: Repeat, lock: int, spent_s: float) -> Record:
    """Start the case's ranks, wait until all have ended, and return their record.

    `spent_s` are the seconds that this process has already spent on it.
    """
    processes, threads = processes_of(repeat), repeat.threads or 1
    repeat = replace(repeat, threads=threads)
    started = time.perf_counter()
    try:
        if reason := no_room(repeat.device, processes, threads) or no_meeting(repeat.device):
            return repeat.failed(Verdict.UNSUPPORTED, reason)
        if repeat.script is None:
            _unbind()
        return _record_of_ranks(repeat, processes, lock, spent_s)
    except WorkloadsError:
        raise
    except Exception as error:  # torch's launcher can raise anything, and a record must still be written
        verdict, text = finding(error, repeat.case)
        text = text.removeprefix("the workload raised ")
        reason = f"{processes} processes could not be started: {text}"
        return repeat.failed(verdict, reason, time.perf_counter() - started)


def _unbind() -> None:
    """Remove variables that would bind all ranks' main threads to one CPU."""
    if bound := binding():
        print(f"{_text(bound)} is left out: it would bind all ranks to one CPU", file=sys.stderr, flush=True)
    for name in bound:
        del os.environ[name]


def _text(variables: Mapping[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items())


def processes_of(repeat: Repeat) -> int:
    return repeat.script.processes if repeat.script else repeat.case.params["processes"]


def _record_of_ranks(repeat: Repeat, processes: int, lock: int, spent_s: float) -> Record:
    kills, started = oom_kills(), time.perf_counter()
    _clear_up()
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as name:
        folder = Path(name)
        os.environ.update({FOLDER: name, INHERITED: str(lock), PARENT: str(os.getpid())})
        board = ProgressBoard(folder, processes)
        with overheard() as last_words, Watch(board, repeat.timeout_s, spent_s) as watch:
            codes = _run_ranks(processes, arguments(repeat), folder)
        wall_s = time.perf_counter() - started
        if watch.stopped:
            return repeat.failed(Verdict.TIMEOUT, watch.stopped, wall_s)
        members = [Membership(rank, processes, folder) for rank in range(processes)]
        for member in members:
            if member.path("mistake").exists():
                raise WorkloadsError(member.path("mistake").read_text())
        records = {member.rank: record for member in members if (record := _read(member))}
        if 0 in records and (not codes or all(row.ended for row in watch.rows)):
            return records[0]  # whole, whatever came after it
        codes = {rank: code for rank, code in codes.items() if rank not in watch.killed} or codes
        return _blamed(repeat, codes, records, watch, last_words, oom_kills() != kills, wall_s)


def _clear_up() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid = folder.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def no_room(device: str, processes: int, threads: int) -> str | None:
    if device == "cuda":
        visible = _visible_gpus()
        return (
            f"{processes} processes need a GPU each, but {visible} can be used here"
            if visible is not None and processes > visible
            else None
        )
    cpus = len(affinity())
    if processes * threads <= cpus:
        return None
    each = f"{threads} thread{'s' * (threads > 1)} each"
    return f"{processes} processes of {each} need {processes * threads} CPUs, but this process can use {cpus}"


def _visible_gpus() -> int | None:
    try:
        if (found := asked_gpus()[1]) is not None:
            return found
        return int(driver_answer("import torch; print(torch.cuda.device_count())") or 0)
    except WorkloadsError:
        return None


def _run_ranks(processes: int, arguments: list[str], folder: Path) -> dict[int, int]:
    """Run the ranks by torch's elastic launcher, until one fails; return failures' codes.

    Raises:
        KeyboardInterrupt: this process was told to end, and the ranks have.
    """
    import logging

    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)  # a record says it in one sentence
    try:
        elastic_launch(_launch_config(processes, folder), sys.executable)("-m", "workloads", *arguments)
    except ChildFailedError as error:
        return {rank: failure.exitcode for rank, failure in error.failures.items()}
    except SignalException as error:
        raise KeyboardInterrupt from error
    return {}


def _launch_config(processes: int, folder: Path) -> Any:
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig

    has_shutdown = any(field.name == "shutdown_timeout" for field in fields(LaunchConfig))
    newer: dict[str, Any] = {"shutdown_timeout": SHUTDOWN_S} if has_shutdown else {}
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # a port that is free
        local_addr="localhost",
        max_restarts=0,
        monitor_interval=LOOK_S,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder)),
        **newer,
    )


def _read(member: Membership) -> Record | None:
    try:
        return Record.from_json(member.path("record").read_text())
    except (OSError, RecordError):
        return None


def _blamed(
    repeat: Repeat,
    codes: Mapping[int, int],
    records: Mapping[int, Record],
    watch: Watch,
    last_words: Sequence[str],
    oom: bool,
    wall_s: float,
) -> Record:
    world = processes_of(repeat)
    failed = {rank: record for rank, record in records.items() if codes.get(rank) == 1}
    if len(failed) == world and len({record.reasons for record in failed.values()}) == 1:
        return failed[0]  # all of them for one reason
    rank = min(codes, key=lambda rank: (_innocence(codes[rank], failed.get(rank)), rank), default=0)
    name = f"rank {rank} of {world}"
    if rank in failed:
        reasons = tuple(f"{name}: {reason}" for reason in failed[rank].reasons)
        return replace(failed[rank], reasons=reasons)
    code, step = codes.get(rank, 0), place(watch.rows[rank])
    if code == -9 and oom:
        advice = smaller(repeat.case)
        reason = f"the kernel ran out of memory at {repeat.case.size_text} and killed {name} {step}{advice}"
        return repeat.failed(Verdict.OUT_OF_MEMORY, reason, wall_s)
    end = f"was killed by {signal_name(-code)}" if code < 0 else f"ended with code {code}"
    if line := next(filter(out_of_memory.says_so, last_words), "") if code else "":
        reason = f"memory ran out at {repeat.case.size_text}: {name} {end} {step} ({line.strip()})"
        return repeat.failed(Verdict.OUT_OF_MEMORY, f"{reason}{smaller(repeat.case)}", wall_s)
    return repeat.failed(Verdict.CRASHED, f"{name} {end} {step}", wall_s)


def _innocence(code: int, record: Record | None) -> int:
    """Rank a process's end: ranks that only lost their peers come last."""
    if code == -15:  # torch's launcher ends the others so when one has failed
        return 3
    if record is None:
        return 0 if code < 0 else 1
    lost = any(words in reason.lower() for reason in record.reasons for words in LOST_PEER)
    return 2 if lost and record.verdict is Verdict.CRASHED else 0


STDERR = 2


@contextmanager
def overheard() -> Iterator[list[str]]:
    own, (end, start) = os.dup(STDERR), os.pipe()
    os.dup2(start, STDERR)
    os.close(start)
    last_words: list[str] = []
    with os.fdopen(own, "w") as passed_on, os.fdopen(end, errors="replace") as stream:

        def say(text: str) -> None:
            print(text, file=passed_on, flush=True)

        thread = Thread(target=listen, args=(stream, say, last_words), daemon=True)
        thread.start()
        try:
            yield last_words
        finally:
            os.dup2(own, STDERR)
            thread.join(LAST_S)
