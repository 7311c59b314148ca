"""Watch the ranks of a group, and name one that hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

from workloads.harness.group.ranks import ProgressBoard, RankProgress

LOOK_S = 0.5
STALL_S = 30.0  # without progress and without work: a rank that only waits for others works no more than that
STALL_SHARE = 0.25  # of the timeout, if that is less
MARGIN_SHARE, LEAST_MARGIN_S = 0.05, 3.0  # of the timeout, in which the sentence is said before it is up
IDLE_SHARE = 0.02  # of a core: a pulse, not work
GRACE_S = 3.0  # in which torch's launcher ends the other ranks when one has died


class Watch:
    """A thread that ends all ranks when they cannot finish.

    Attributes:
        rows: every rank's last known progress.
        stopped: why it ended them, naming the rank that the others waited for; else None.
        killed: ranks that it ended because another had died.
    """

    def __init__(self, board: ProgressBoard, timeout_s: float, spent_s: float = 0.0) -> None:
        self.rows = board.rows()
        self.stopped: str | None = None
        self.killed: set[int] = set()
        self._board, self._timeout_s, self._spent_s = board, timeout_s, spent_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.rows = self._board.rows()

    def _run(self) -> None:
        margin_s = max(MARGIN_SHARE * self._timeout_s, LEAST_MARGIN_S)
        changed = time.monotonic()
        ends = changed - self._spent_s + max(self._timeout_s - margin_s, 0.5 * self._timeout_s)
        stall_s = min(STALL_S, STALL_SHARE * self._timeout_s)
        worked: dict[int, float] = {}
        died: float | None = None
        while not self._stop.wait(LOOK_S):
            now, rows = time.monotonic(), self._board.rows()
            if rows != self.rows or not worked:
                changed, self.rows = now, rows
                worked = {row.pid: cpu_s(row.pid) for row in rows}
            if any(row.pid and not row.ended and not alive(row.pid) for row in rows):
                died = died or now
                if now > died + GRACE_S:
                    self._end_all()
            elif now > ends or (now > changed + stall_s and self._idle(worked, now - changed)):
                self.stopped = hung(rows, now - changed)
                self._end_all()
                return

    def _idle(self, worked: dict[int, float], since_s: float) -> bool:
        waited = laggards(self.rows)
        return all(row.pid for row in self.rows) and all(
            cpu_s(self.rows[rank].pid) - worked.get(self.rows[rank].pid, 0.0) < IDLE_SHARE * since_s
            for rank in waited
        )

    def _end_all(self) -> None:
        for rank, row in enumerate(self.rows):
            if row.pid and alive(row.pid):
                self.killed.add(rank)
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(row.pid, signal.SIGKILL)


def laggards(rows: Sequence[RankProgress]) -> list[int]:
    going = [rank for rank, row in enumerate(rows) if not row.ended]
    for reached in ([row.exchanges for row in rows], [row.steps for row in rows]):
        least = min((reached[rank] for rank in going), default=0)
        going = [rank for rank in going if reached[rank] == least]
    return going


def hung(rows: Sequence[RankProgress], for_s: float) -> str:
    waited, since = laggards(rows), f"made no progress for {for_s:.3g} s"
    if len(rows) == 1:
        return f"rank 0 of 1 {since}; it was last seen {place(rows[0])}"
    if len(waited) == len(rows):
        where = place(rows[0]).replace("its", "the")
        return f"no rank of {len(rows)} made progress for {for_s:.3g} s; all were last seen {where}"
    names = " and ".join(map(str, waited))
    others = {place(row) for rank, row in enumerate(rows) if rank not in waited}
    last = place(rows[waited[0]])
    there = "there too" if others == {last} else " or ".join(sorted(others))
    return (
        f"rank{'s' * (len(waited) > 1)} {names} of {len(rows)} {since}; last seen {last}, "
        f"while the others wait {there}"
    )


def place(row: RankProgress) -> str:
    """Say where a rank is: its steps count from the first call on."""
    return f"in step {row.steps + 1}" if row.steps or row.exchanges else "before its first step"


def alive(pid: int) -> bool:
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def cpu_s(pid: int) -> float:
    """Of a process; 0 if it is gone."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if len(fields) > 12 else 0.0


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat after the name, from the state on; proc(5)."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
