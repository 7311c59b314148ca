"""Shared by the steps of a proof: remaining time, card, folder, and processes that end in time."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from tests.gpu_proof.cards import can
from workloads.harness.repeat.forks import ForkServers

ROOT = Path(__file__).parents[2]
LAST_WORDS = 4000  # characters of a process's standard error that the log keeps
GONE_S = 5.0  # in which a process that was killed is gone


class Card(NamedTuple):
    name: str
    count: int
    capability: tuple[int, int]
    memory_bytes: int


class Ended(NamedTuple):
    """The end of a process; `late` if its time or all time was up."""

    code: int | None
    out: str
    err: str
    seconds: float
    late: bool

    def json(self) -> Any:
        """Return the last line of its output; its last words are the error without one."""
        lines = self.out.strip().splitlines()
        if self.code or self.late or not lines:
            raise RuntimeError(self.why)
        return json.loads(lines[-1])

    @property
    def why(self) -> str:
        if self.late:
            return f"stopped after {self.seconds:.0f} s"
        last = (self.err.strip().splitlines() or ["it said nothing"])[-1]
        return f"ended with code {self.code}: {last}"


@dataclass
class Bench:
    out: Path
    device: str
    ends_at: float  # by time.monotonic
    soak_s: float = 60.0
    card: Card | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # of the card, and versions
    clocks: dict[str, dict[str, float]] = field(
        default_factory=dict
    )  # of the stage of that name, for later ones
    costs_s: list[float] = field(default_factory=list)  # of forked records, without their measurement
    running: set[int] = field(default_factory=set)
    stopped: str = ""  # why nothing more can begin

    @cached_property
    def forks(self) -> ForkServers:
        """Processes forked from one that has imported torch, as in a suite."""
        return ForkServers(self.log)

    @property
    def on_gpu(self) -> bool:
        return self.device == "cuda"

    def lacks(self, precision: str) -> bool:
        return bool(self.on_gpu and self.card and not can(self.card.capability, precision))

    def left_s(self) -> float:
        return self.ends_at - time.monotonic()

    def run(self, command: Sequence[str], limit_s: float, environ: Mapping[str, str] | None = None) -> Ended:
        """Run a process from the root of the tree; at the end it and its children are gone.

        Output goes to files: a pipe that a grandchild holds open would block beyond its end.
        """
        begun, left_s = time.monotonic(), 0.0 if self.stopped else self.left_s()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = self.start(command, out, err, environ)
            late = False
            try:
                process.wait(max(min(limit_s, left_s), 0.1))
            except subprocess.TimeoutExpired:
                late = True
            finally:
                self.end(process)
            seconds = time.monotonic() - begun
            ended = Ended(process.returncode, _read(out), _read(err), seconds, late)
        if late and left_s < limit_s:  # a step cut short says nothing about the card
            self.stop("no time was left")
        self.log(f"$ {' '.join(command)}\n{ended.err[-LAST_WORDS:]}\n# {seconds:.1f} s, code {ended.code}")
        return ended

    def log(self, text: str) -> None:
        with open(self.out / "log.txt", "a") as log:
            log.write(f"{text}\n")

    def start(
        self,
        command: Sequence[str],
        out: Any,
        err: Any = subprocess.STDOUT,
        environ: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        env = {**os.environ, **(environ or {})}
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        self.running.add(process.pid)
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process and its children, also in other sessions."""
        kill_tree(process.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a driver can hold it: that must not hold us
            process.wait(GONE_S)
        self.running.discard(process.pid)

    def child(self, module: str, *arguments: str, limit_s: float = 200) -> Any:
        """Run one of our scripts in a fresh process; return its last line's JSON."""
        command = [sys.executable, "-m", f"tests.gpu_proof.children.{module}", *arguments]
        return self.run(command, limit_s).json()

    def stop(self, why: str) -> None:
        self.stopped = self.stopped or why
        self.forks.kill()
        for pid in [*self.running]:
            kill_tree(pid)


def kill_tree(pid: int) -> None:
    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(pid)
        for process in [*parent.children(recursive=True), parent]:
            with contextlib.suppress(psutil.Error):
                process.kill()


def _read(file: Any) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
