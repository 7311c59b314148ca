"""The processes around a script: the ranks that it trains with, and those that it has started."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

from workloads.harness.group import ranks
from workloads.harness.group.ranks import ProgressBoard

AHEAD = 4  # steps of the rank that is furthest, after which all stop: the news needs less than one
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


class Seat:
    """This process's place among the ranks of a script, which stop after the same step.

    They agree by a file that all have mapped, beside the script's own process group: a rank that left in the
    middle of a step would leave the others waiting for it.
    """

    def __init__(self, rank: int, world: int, folder: Path) -> None:
        self.rank, self.world = rank, world
        self._board = ProgressBoard(folder, world)
        self._board.sit(rank)

    def is_last(self, step: int) -> bool:
        """Note a step that has ended; return whether it is the last one."""
        ranks.stepped(step)
        last = self._board.last
        return 0 < last <= step

    def stop_all(self) -> None:
        """Have all ranks stop, a few steps after the one that the furthest has ended."""
        self._board.stop_after(max(row.steps for row in self._board.rows()) + AHEAD)


def adopt_orphans() -> None:
    """Have processes that their parents leave behind become this one's children, and can be found."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """Kill all processes that the script has started and left running."""
    with suppress(Exception):
        import psutil

        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
