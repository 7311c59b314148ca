"""A reason, from any thread, to end a process early."""

import os
from threading import Event


class Alarm:
    """An alarm that `select` can wait for; `reason` is empty so far."""

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
        return self._rung.wait(seconds)

    def fileno(self) -> int:
        return self._reading

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)
