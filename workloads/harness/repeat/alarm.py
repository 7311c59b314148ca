"""A reason, from any thread, to end a process early."""

import os
from threading import Event


class Alarm:
    """An alarm that `select` can wait for.

    Attributes:
        reason: the first that was given; empty so far.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._rung = Event()
        self._reading, self._writing = os.pipe()

    def ring(self, reason: str) -> None:
        """Give a reason; later ones are ignored."""
        if not self._rung.is_set():
            self.reason = reason
            self._rung.set()
            os.write(self._writing, b"!")

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for a reason; return whether there is one."""
        return self._rung.wait(seconds)

    def fileno(self) -> int:
        """Return the descriptor that is readable once a reason is given."""
        return self._reading

    def close(self) -> None:
        """Close the alarm's pipe."""
        os.close(self._reading)
        os.close(self._writing)
