"""The start of a program whose parent left something odd, and standard streams that are closed or full."""

import os
import signal
import sys
from typing import Any, TextIO


def begin_whole() -> None:
    """Open the standard streams that are closed: the next file would take the place of one, and get the printed text.

    Standard output then refuses all text, as the closed one did; standard error drops it. An ignored SIGCHLD,
    which is inherited, gets its default back.
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
    """A stream that drops everything from the first text on that can't be written; a reader that has left is an error.

    Attributes:
        fault: why it can't be written; empty so far.
    """

    def __init__(self, stream: TextIO) -> None:
        self.fault = ""
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text if it can be written."""
        self._try(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream if it can be written."""
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
