"""Guard the linked files of a script against writes by its processes.

The guard holds a lease on each file (fcntl(2), F_SETLEASE): the kernel makes a process that opens the file
for writing wait until the lease is given up. The guard keeps it until that process is gone, unless it belongs
to another program.
"""

from __future__ import annotations

import fcntl
import os
import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from types import TracebackType

from workloads.harness.repeat.descendants import is_opening_a_leased_file

LOOK_S = 0.5  # between two looks: the kernel waits for /proc/sys/fs/lease-break-time, 45 s
SPARE = 256  # descriptors that this process needs for other things
MOST = 1000


class WriteGuard:
    """Leases on files, from `__enter__` to `__exit__`.

    Args:
        files: to be guarded; only the first ones if this process has too few descriptors.
        opened: called once, from a thread, with the first file that the measurement opens for writing.

    Attributes:
        unguarded: writable files that cannot be guarded here.
    """

    def __init__(self, files: Sequence[Path], opened: Callable[[Path], None]) -> None:
        self.unguarded: list[Path] = []
        self._opened, self._leases = opened, dict[int, Path]()
        self._over = Event()
        most = min(max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE, 0), MOST)
        for file in files[:most]:
            self._guard(file)
        self.unguarded += [file for file in files[most:] if os.access(file, os.W_OK)]

    def __enter__(self) -> WriteGuard:
        if self._leases:
            Thread(target=self._watch, name="write guard", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for lease in self._leases:
            os.close(lease)

    def _guard(self, file: Path) -> None:
        descriptor = None
        try:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.fcntl(
                descriptor, fcntl.F_SETSIG, signal.SIGURG
            )  # which is ignored; SIGIO would end the process
            fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        except (OSError, AttributeError):  # AttributeError: not on this system
            if descriptor is not None:
                os.close(descriptor)
            if os.access(file, os.W_OK):
                self.unguarded.append(file)
        else:
            self._leases[descriptor] = file

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            for lease, file in self._leases.items():
                with suppress(OSError):
                    if fcntl.fcntl(lease, fcntl.F_GETLEASE) == fcntl.F_RDLCK or self._over.is_set():
                        continue
                    if is_opening_a_leased_file():
                        self._opened(file)
                        return
                    fcntl.fcntl(lease, fcntl.F_SETLEASE, fcntl.F_UNLCK)  # another program goes on
