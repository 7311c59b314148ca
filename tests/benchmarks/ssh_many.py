"""One ssh worker that drives 1 box, and 50 at once: memory, file descriptors, CPU time, seconds.

Each box is a namespace of this machine with a real sshd; a script replaces Docker, so that the worker is
measured and not 50 containers. The boxes and the Prefect server share its cores and take most of the seconds.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from infra.workers.ssh.worker import SshWorker
from tests.emulators.boxes import Box, boxes
from tests.infra.workers.worker_prefect import Pool, Prefect

BOXES = 50
HOLD_S = 15.0  # that all containers run at the same time
SAMPLE_S = 0.25
UP_S = 300.0  # until all of them do
# A container prints a line every 5 s, like a lane of short cells, until a file `go` is there; `up`: it runs.
DOCKER = """#!/bin/sh
state={etc}/container
ended() {{ ! kill -0 "$(cat "$state/pid")"; }} 2>/dev/null
case "$1" in
ps) ended || echo container ;;
info) echo '{{}}' ;;
image) echo sha256:none ;;
inspect) echo '0 false' ;;
logs)
    [ "$2" = -f ] && exec tail -n +1 -f --pid="$(cat "$state/pid")" "$state/log"
    exec cat "$state/log"
    ;;
stop | rm)
    ended || kill "$(cat "$state/pid")"
    rm -rf "$state"
    ;;
run)
    mkdir "$state"
    setsid sh -c 'until [ -e {etc}/go ]; do
        date
        for _ in 1 2 3 4 5; do [ -e {etc}/go ] || sleep 1; done
    done' >"$state/log" 2>&1 </dev/null &
    echo $! >"$state/pid"
    : >{etc}/up
    ;;
esac
"""


@dataclass(frozen=True)
class Driven:
    """Cost of driving some boxes with a job each.

    Attributes:
        seconds: from the first submission until all jobs have ended, without the hold.
        cpu_s: the worker's in that time, above its idle use.
        memory_bytes, fds: the worker's highest while all containers ran.
    """

    boxes: int
    seconds: float
    cpu_s: float
    memory_bytes: int
    fds: int

    @property
    def job_cpu_s(self) -> float:
        return self.cpu_s / self.boxes


def main() -> None:
    """Print memory, file descriptors, seconds and CPU time with 1 box and with 50, and their ratios."""
    with tempfile.TemporaryDirectory() as folder, boxes(BOXES) as made:
        for box in made:
            (box.folder / "bin/docker").write_text(DOCKER.format(etc=box.folder / "etc"))
        prefect = Prefect(Path(folder))
        try:
            prefect.start()
            one, many = asyncio.run(_measure(prefect, made))
        finally:
            prefect.kill()
    print("\n".join(sentences(one, many)))


async def _measure(prefect: Prefect, made: Sequence[Box]) -> tuple[Driven, Driven]:
    """Drive one box, and all, by one worker that has driven one before, so that imports are done."""
    pool = await Pool.make(prefect, SshWorker, image="none", least_free_mib=1)
    worker = prefect.worker_process(pool.name, "one", SshWorker.type)
    try:
        process = psutil.Process(worker.pid)
        await _drive(pool, process, made[:1], 0.0)
        before_s = _cpu_s(process)
        await asyncio.sleep(HOLD_S)
        idle = (_cpu_s(process) - before_s) / HOLD_S
        return await _drive(pool, process, made[:1], idle), await _drive(pool, process, made, idle)
    finally:
        worker.kill()
        worker.wait()


async def _drive(pool: Pool, worker: psutil.Process, made: Sequence[Box], idle: float) -> Driven:
    """Give each box a job and wait for their ends; `idle` is the worker's share of a core without jobs."""
    for box in made:
        for sign in ("up", "go"):
            (box.folder / "etc" / sign).unlink(missing_ok=True)
    began, cpu_s = time.monotonic(), _cpu_s(worker)
    runs = [await pool.start(box.name, script="true", hosts=[box.host]) for box in made]
    await _up(made)
    up, peaks = time.monotonic(), []
    while time.monotonic() < up + HOLD_S:
        peaks.append((worker.memory_info().rss, worker.num_fds()))
        await asyncio.sleep(SAMPLE_S)
    held_s = time.monotonic() - up
    for box in made:
        (box.folder / "etc/go").touch()
    states = [await pool.end(run) for run in runs]
    spent_s = time.monotonic() - began
    assert all(state.is_completed() for state in states), [state.message for state in states]
    memory_bytes, fds = (max(column) for column in zip(*peaks, strict=True))
    cpu_s = _cpu_s(worker) - cpu_s - idle * spent_s
    return Driven(len(made), spent_s - held_s, cpu_s, memory_bytes, fds)


async def _up(made: Sequence[Box]) -> None:
    deadline = time.monotonic() + UP_S
    while down := [box.name for box in made if not (box.folder / "etc/up").exists()]:
        assert time.monotonic() < deadline, f"no container within {UP_S:.0f} s on {', '.join(down)}"
        await asyncio.sleep(SAMPLE_S)


def _cpu_s(worker: psutil.Process) -> float:
    times = worker.cpu_times()
    return times.user + times.system


def sentences(one: Driven, many: Driven) -> list[str]:
    """Return the cost of one box, of all as ratios, and of each further box."""
    more = many.boxes - one.boxes
    one_mib, many_mib = one.memory_bytes / 2**20, many.memory_bytes / 2**20
    return [
        f"ssh worker, 1 box: {one_mib:.0f} MiB, {one.fds} file descriptors, "
        f"{one.seconds:.1f} s from submission to the end, {one.cpu_s:.2f} s of CPU beyond an idle worker's",
        f"ssh worker, {many.boxes} boxes at once: {many_mib:.0f} MiB, {many_mib / one_mib:.2f} times those "
        f"of one ({(many_mib - one_mib) / more:.2f} MiB a box more); {many.fds} file descriptors "
        f"({(many.fds - one.fds) / more:.1f} a box more); {many.seconds:.1f} s, "
        f"{many.seconds / one.seconds:.2f} times those of one; {many.job_cpu_s:.2f} s of CPU a job, "
        f"{many.job_cpu_s / one.job_cpu_s:.2f} times that of one",
    ]
