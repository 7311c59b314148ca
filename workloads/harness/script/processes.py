"""Start other programs, read the end of their output, and watch their memory."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Protocol

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.printable import printable
from workloads.harness.repeat.runs import LAST_S

MOST_BYTES = 8_000_000  # of each stream: its end, in which metrics are searched
LAST_LINES, LONGEST_LINE = 20, 300  # of the end of its output in a record
FIRST_LOOK_S, LOOK_S = 0.01, 0.25  # at the memory of its processes


class HasPeak(Protocol):
    """An object that keeps the peak memory of processes, in bytes."""

    peak_bytes: int


def start_program(
    words: Sequence[str], environ: Mapping[str, str], folder: str, errors: int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            words,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        advice = "; install it there, or name its packages" if isinstance(error, FileNotFoundError) else ""
        why = printable(getattr(error, "strerror", None) or str(error))
        raise WorkloadsError(f"the machine can't start {printable(words[0])}: {why}{advice}") from None


@dataclass(slots=True)
class StreamEnd:
    """The end of a stream, read by a thread so that writers never wait."""

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
def watched(pids: Sequence[int], peak: HasPeak) -> Iterator[None]:
    ended = threading.Event()

    def look() -> None:
        import psutil

        roots, wait_s = [*map(psutil.Process, pids)], FIRST_LOOK_S
        while not ended.wait(wait_s):
            wait_s = min(2 * wait_s, LOOK_S)
            used = 0
            for root in roots:
                for each in (root, *root.children(recursive=True)):
                    with suppress(psutil.Error):
                        used += each.memory_info().rss
            peak.peak_bytes = max(peak.peak_bytes, used)

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


def last_lines(text: str) -> list[str]:
    tail = text[-LAST_LINES * LONGEST_LINE :].splitlines()
    return [line for line in (printable(line)[:LONGEST_LINE].rstrip() for line in tail[-LAST_LINES:]) if line]
