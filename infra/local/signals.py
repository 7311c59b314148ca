"""SIGTERM and SIGHUP end a `with` block as an exception does; a second one, or Ctrl-C, hurries its ending."""

import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """The handlers of this process while it has a stack; without effect outside of the main thread."""

    def __init__(self) -> None:
        self.hurry = False
        self._before: dict[int, Any] = {}

    def take(self) -> None:
        """Have SIGTERM and SIGHUP raise SystemExit from here on."""
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                self._before[number] = signal.signal(number, self._exit)

    def closing(self) -> None:
        """Have a signal only say that the user is impatient from here on."""
        if threading.current_thread() is threading.main_thread():
            for number in (*ENDING, signal.SIGINT):
                before = signal.signal(number, self._note)
                self._before.setdefault(number, before)

    def give_back(self) -> None:
        """Restore the handlers that were there before."""
        for number, before in self._before.items():
            with suppress(ValueError, TypeError):  # another thread; a handler that Python did not set
                signal.signal(number, before)
        self._before = {}
        self.hurry = False

    def _exit(self, number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.hurry = True
