"""The ranks' progress, as their starter sees it.

Do not import torch: the starter looks at the ranks even while they import it.
"""

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from workloads.harness.records.errors import WorkloadsError

FOLDER = "GRIDBENCH_GROUP"  # set by our starter: the folder of the board and the records
_ROW = struct.Struct("=qqqqq")
_row: memoryview | None = None  # this process's row, if there is a board
_ended = False


@dataclass(frozen=True, slots=True)
class Membership:
    """This process is rank `rank` of `world`; `folder` is None under a user's torchrun."""

    rank: int
    world: int
    folder: Path | None = None

    def path(self, kind: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{kind}-{self.rank}"


@dataclass(frozen=True, slots=True)
class RankProgress:
    """The progress of a rank.

    Attributes:
        pid: 0 before it began.
        steps: steps that it has finished.
        exchanges: collective operations that it has begun; a rank that waits for others has begun more.
        ended: it is done, together with the others.
        last: the step after which all stop, as the first rank decides; 0 before.
    """

    pid: int = 0
    steps: int = 0
    exchanges: int = 0
    ended: bool = False
    last: int = 0


def membership_in(environ: Mapping[str, str] = os.environ) -> Membership | None:
    if "TORCHELASTIC_RUN_ID" not in environ:
        return None
    world, local = int(environ["WORLD_SIZE"]), int(environ["LOCAL_WORLD_SIZE"])
    if world != local:
        raise WorkloadsError(
            f"{local} of {world} ranks are on this machine, but a group is measured on one machine; use --nnodes=1"
        )
    folder = environ.get(FOLDER)
    return Membership(int(environ["RANK"]), world, Path(folder) if folder else None)


class ProgressBoard:
    """A row for each rank in a file mapped by all: writing costs next to nothing."""

    def __init__(self, folder: Path, world: int) -> None:
        path = folder / "board"
        size = _ROW.size * world
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)  # whichever rank comes first
        with open(descriptor, "r+b") as file:
            file.truncate(size)
            self._memory = memoryview(mmap.mmap(file.fileno(), size))
        self._world = world

    def rows(self) -> tuple[RankProgress, ...]:
        unpacked = (_ROW.unpack_from(self._memory, rank * _ROW.size) for rank in range(self._world))
        return tuple(
            RankProgress(pid, steps, exchanges, bool(ended), last)
            for pid, steps, exchanges, ended, last in unpacked
        )

    @property
    def last(self) -> int:
        """0 before the first rank's decision."""
        found: int = _ROW.unpack_from(self._memory, 0)[4]
        return found

    def stop_after(self, step: int) -> None:
        """Have all ranks stop after this step; the first rank calls it."""
        struct.pack_into("=q", self._memory, _ROW.size - 8, step)

    def sit(self, rank: int) -> None:
        global _row
        _row = self._memory[rank * _ROW.size : (rank + 1) * _ROW.size].cast("q")
        _row[0] = os.getpid()


def stepped(steps: int | None = None) -> None:
    if _row is not None:
        _row[1] = _row[1] + 1 if steps is None else steps


def exchanged(count: int) -> None:
    if _row is not None:
        _row[2] = count


def ended() -> None:
    global _ended
    _ended = True
    if _row is not None:
        _row[3] = 1


def have_ended() -> bool:
    return _ended
