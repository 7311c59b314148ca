"""A worker of a process pool whose flow runs are forked from a process that has imported Prefect.

    python -m infra.local.warm_worker start --type process --pool local …

The arguments are those of `prefect worker`. Prefect itself starts two Pythons for each flow run, which both
import it: two seconds of CPU. Here the worker's process imports it once and forks a nursery, before it has
threads; the nursery forks the flow runs. Each run reads our files anew.

A flow run ends with its nursery. A nursery without its worker waits for its flow runs, and ends.
"""

import ctypes
import gc
import importlib
import os
import runpy
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from infra.local.supervisor import PR_SET_PDEATHSIG

WARM = (
    "prefect.engine",
    "prefect.flow_engine",
    "prefect.runner._workspace_supervisor",
    "prefect.runner._starter_engine",
    "prefect.client.schemas.sorting",
    "prefect.deployments",
    "prefect.artifacts",
    "prefect.states",
    "altair",
    "tenacity",
    "vl_convert",
)  # none of them starts a thread, which a fork would lose
NURSERY, FLOW_RUN = "nursery", "flow-run"  # the names of their processes
PR_SET_NAME = 15
HELD_BACK = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}  # from a flow run until it can handle them
Ended = tuple[int, int | None]  # process id, and its exit status once it has one


class FlowStart(NamedTuple):
    """A flow run's process: command, folder and environment, which `forked` sends."""

    words: list[str]
    folder: Path
    environment: dict[str, str]
    quiet: bool


def nursery(pipe: Connection) -> FlowStart | None:
    """Fork a process for each job; send its id, and later its exit status.

    Return twice: the job in its process, None in the nursery at its end.
    """
    _call(NURSERY)
    signal.pthread_sigmask(signal.SIG_BLOCK, HELD_BACK)
    wake = _wake_up_on_ended_children()
    children: set[int] = set()
    is_open = True
    while is_open or children:
        ready = wait([pipe, wake] if is_open else [wake])
        if wake in ready:
            os.read(wake, 4096)
        if pipe in ready:
            try:
                job = FlowStart(*pipe.recv())  # plain values: files can be newer than we are
            except EOFError:
                is_open = False
                continue
            if not (child := os.fork()):
                pipe.close()
                return job
            os.setpgid(child, child)  # before its id is known outside: a kill addresses its group
            children.add(child)
            pipe.send((child, None))
        for child in list(children):
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                children.discard(child)
                with suppress(OSError):  # the worker is gone
                    pipe.send((child, os.waitstatus_to_exitcode(status)))
    return None


def _call(name: str) -> None:
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())


def _wake_up_on_ended_children() -> int:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def note(number: int, frame: FrameType | None) -> None:
        """Do nothing: the wake-up pipe carries the number."""

    signal.signal(signal.SIGCHLD, note)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def run_flow(job: FlowStart, nursery_id: int) -> int:
    _call(FLOW_RUN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != nursery_id:
        return 1
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2) if job.quiet else (0,):
        os.dup2(null, stream)
    for name in [name for name in sys.modules if name.split(".")[0] == "infra"]:
        del sys.modules[name]
    _move(job.folder, job.environment)
    return _supervised(job.words)


def _supervised(words: list[str]) -> int:
    """Prepare the workspace as Prefect's supervisor does, and run the engine in this process."""
    from prefect.runner import _workspace_supervisor as supervisor

    launch, engine = supervisor._launch_engine, [sys.executable, "-m", "prefect.engine"]
    prepared: list[tuple[Path, dict[str, str]]] = []

    async def note(command: list[str], *, cwd: Path, environment: dict[str, str]) -> int:
        """Start the engine later, outside of the supervisor's event loop."""
        if command != engine:
            return await launch(command, cwd=cwd, environment=environment)
        prepared.append((cwd, environment))
        return 0

    supervisor._launch_engine = note
    status = supervisor.main(words)
    if prepared:
        _move(*prepared[0])
        sys.argv = ["prefect.engine"]
        sys.modules.pop("prefect.engine", None)
        runpy.run_module("prefect.engine", run_name="__main__", alter_sys=True)
    return status


def _move(folder: Path, environment: dict[str, str]) -> None:
    """Continue as if Python had been started in this folder and environment."""
    os.chdir(folder)
    before = _settings_in(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    if _settings_in(environment) != before:
        from prefect.context import refresh_global_settings_context

        refresh_global_settings_context()  # as read at the import, before the fork; it takes 30 ms
    sys.path[0] = str(folder)
    added = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[1:1] = [entry for entry in added if entry not in sys.path]


def _settings_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Return Prefect's settings, without those of a single flow run, which contain two underscores."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith("PREFECT_") and not name.startswith("PREFECT__")
    }


def main(words: list[str]) -> int:
    """Become the worker, its nursery and its flow runs."""
    for module in WARM:
        importlib.import_module(module)
    ours, theirs = Pipe()
    if os.fork():
        theirs.close()
        importlib.import_module("infra.local.forked").install(ours)
        sys.argv = ["prefect", "worker", *words]
        runpy.run_module("prefect", run_name="__main__", alter_sys=True)
        return 0
    ours.close()
    gc.freeze()  # a collection writes to objects, which are then no longer shared
    nursery_id = os.getpid()
    job = nursery(theirs)
    return run_flow(job, nursery_id) if job else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
