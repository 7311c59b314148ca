"""Standard streams and signals, as a parent process can leave them."""

import os
import signal
import sys
from typing import Any, TextIO


def begin_whole() -> None:
    """Open closed standard streams, whose number the next file would get.

    Standard output then still refuses all text; standard error drops it. SIGCHLD gets its default back.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # the lowest number that is free is this one
            os.open(os.devnull, os.O_RDWR if number == 2 else os.O_RDONLY)
    if (
        signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
    ):  # inherited: the exit codes of children would be lost
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.stdout = sys.stdout or os.fdopen(os.dup(1), "w")
    sys.stderr = sys.stderr or os.fdopen(os.dup(2), "w")


class Forgiving:
    """A stream that drops everything after a failed write, for the reason in `fault`."""

    def __init__(self, stream: TextIO) -> None:
        self.fault = ""
        self._stream = stream

    def write(self, text: str) -> int:
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, act: Any, *arguments: str) -> None:
        try:
            if not self.fault:
                act(*arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            self.fault = error.strerror or str(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
