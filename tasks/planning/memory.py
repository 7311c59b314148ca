"""Memory of cells, predicted in a process, as planning has no torch."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from threading import Timer
from typing import IO, Any

from tasks.errors import GridbenchError
from tasks.planning.hardware import Hardware
from tasks.planning.limits import LOCAL_POOL, limits_of, threads_on
from tasks.planning.plan import PlannedCase
from workloads.harness.checks.fits import Fit, Needs, Room, StepWork, fit, sentence
from workloads.harness.records.case import Cell
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.files import write_text
from workloads.harness.records.places import user_cache
from workloads.harness.repeat.limits import at_least, processes_of

ROOT = Path(__file__).parents[2]
OFF = "GRIDBENCH_FITS"  # `off`: plans skip nothing by prediction alone
TIMEOUT_S = 900.0  # of one question, with the search for a fitting size


@dataclass(frozen=True, slots=True)
class Predicted:
    """A cell's predicted memory against its machine's.

    Attributes:
        needs: of one process.
        room: the machine's, if known.
        best: largest fitting size, such as `batch=96`; empty if the case fits, or none is known.
    """

    cell: Cell
    needs: Needs
    room: Room | None
    fit: Fit
    best: str

    @property
    def reason(self) -> str | None:
        """Return why it is skipped."""
        return sentence(self.needs, self.room, self.best) if self.room and self.fit is Fit.NO else None


def predict(cells: Iterable[tuple[Hardware, PlannedCase]], with_step: bool = False) -> list[Predicted]:
    """Predict memory, `with_step` also the work of a step.

    First steps of scripts are run, unless cached.

    Raises:
        GridbenchError: the process failed.
    """
    wanted = [(machine, case, room_of(machine, case)) for machine, case in cells]
    more = {"step": True} if with_step else {}
    answers = _answers([_question(machine, case, room) | more for machine, case, room in wanted])
    return [_predicted(*what, answer) for what, answer in zip(wanted, answers, strict=True)]


def unfit(cells: Iterable[tuple[Hardware, PlannedCase]]) -> dict[Cell, str]:
    """Return cells that do not fit on machines that cost money; this machine just tries.

    Cases no larger than one that fits need no prediction. Without predictions, as without torch, all can be
    tried.
    """
    if os.environ.get(OFF) == "off":
        return {}
    asked = {
        Cell(machine.name, case.case): (machine, case)
        for machine, case in cells
        if machine.pool != LOCAL_POOL and not case.script and room_of(machine, case)
    }
    left = [*asked.values()]
    reasons: dict[Cell, str] = {}
    while left:
        tried = [cell for cell in left if not any(_covers(other, cell) for other in left)]
        found_here: list[Predicted] = []
        with suppress(GridbenchError):
            found_here = predict(tried)
        for found in found_here:
            if found.reason:
                reasons[found.cell] = found.reason
            else:
                left = [cell for cell in left if not _covers(asked[found.cell], cell)]
        left = [cell for cell in left if cell not in tried]
    return reasons


def _covers(larger: tuple[Hardware, PlannedCase], cell: tuple[Hardware, PlannedCase]) -> bool:
    return larger is not cell and larger[0] is cell[0] and at_least(larger[1].case, cell[1].case)


def room_of(machine: Hardware, case: PlannedCase) -> Room | None:
    """Return None if its file lacks it."""
    limits = limits_of(machine, threads_on(machine, case.threads))
    if limits.memory_bytes is None:
        return None
    together = processes_of(case.case, case.script) if limits.memory_shared else 1
    return Room(machine.name, limits.memory_bytes, together)


def _question(machine: Hardware, case: PlannedCase, room: Room | None) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "workload": case.workload,
        "size": case.size,
        "precision": case.precision,
        "device": machine.device,
    }
    if case.script:
        return parts | {"script": asdict(case.script)}
    return parts | ({"room_bytes": room.bytes, "processes": room.processes} if room else {})


def _predicted(
    machine: Hardware, case: PlannedCase, room: Room | None, answer: Mapping[str, Any]
) -> Predicted:
    step = StepWork(*answer["step"]) if answer["step"] else None
    needs = Needs(machine.device, answer["tensors_bytes"], answer["peak_bytes"], answer["reason"], step)
    best = f"{answer['grown_by']}={answer['largest']}" if answer["largest"] else ""
    return Predicted(
        Cell(machine.name, case.case), needs, room, fit(needs, room) if room else Fit.UNKNOWN, best
    )


def _answers(questions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return cached ones, scripts one at a time, the rest in one process."""
    keys = [json.dumps(question, sort_keys=True) for question in questions]
    scripts = {key for key, question in zip(keys, questions, strict=True) if "script" in question}
    kept = _kept()
    missing = [key for key in dict.fromkeys(keys) if key not in kept and key not in scripts]
    try:
        for key, answer in zip(missing, _asked(missing), strict=True):
            kept[key] = answer
            with suppress(WorkloadsError):  # at once: the rest can take too long, or be stopped
                write_text(_file(), json.dumps(_kept() | kept))  # also from other processes
        for key in scripts:  # their code can change until the next time
            (kept[key],) = _asked([key])
    except (OSError, ValueError) as error:
        raise GridbenchError(f"the memory of these cells can't be predicted: {error}") from None
    return [kept[key] for key in keys]


def _asked(keys: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield answers as they come; stop the process if one takes too long.

    Raises:
        OSError: it did not start, took too long, or ended early.
        ValueError: an answer is not JSON.
    """
    if not keys:
        return
    command, pipe = [sys.executable, "-m", "workloads", "needs"], subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+", errors="replace") as said,
        subprocess.Popen(
            command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=said, text=True, start_new_session=True
        ) as process,
    ):
        assert process.stdin and process.stdout
        try:
            with _stopped_after(TIMEOUT_S, process), suppress(BrokenPipeError):  # its output has the reason
                process.stdin.write(f"[{','.join(keys)}]")
                process.stdin.close()
            for _ in keys:
                with _stopped_after(TIMEOUT_S, process) as late:
                    line = process.stdout.readline()
                if not line.endswith("\n"):
                    raise OSError(
                        f"one took longer than {TIMEOUT_S:g} s" if late else _last_words(said, process)
                    )
                yield json.loads(line)
        finally:
            _end(process)


@contextmanager
def _stopped_after(seconds: float, process: subprocess.Popen[str]) -> Iterator[list[bool]]:
    """Add an element to the yielded list once the process is killed."""
    late: list[bool] = []

    def stop() -> None:
        late.append(True)
        _end(process)

    timer = Timer(seconds, stop)
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _end(process: subprocess.Popen[str]) -> None:
    """Kill its children too, such as a script's: they would hold our pipe open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _last_words(said: IO[str], process: subprocess.Popen[str]) -> str:
    code = process.wait()
    said.seek(0)
    return next(reversed(said.read().strip().splitlines()), f"exit code {code}")


def _kept() -> dict[str, Any]:
    with suppress(OSError, ValueError):
        kept: dict[str, Any] = json.loads(_file().read_text())
        return kept
    return {}


def _file() -> Path:
    return user_cache() / f"needs-{_code(os.environ.get('GRIDBENCH_WORKLOADS'))}.json"


@cache
def _code(own: str | None) -> str:
    """Hash torch and the code of the workloads."""
    folders = [ROOT / "workloads", *([Path(own)] if own else [])]
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    summary = hashlib.sha256(version("torch").encode())
    for path in files:
        summary.update(path.read_bytes())
    return summary.hexdigest()[:16]
