"""Whether orphaned processes become children of this one (prctl(2), Linux)."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37


def adopt_orphans(adopts: bool = True) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)


@contextmanager
def adopting(adopts: bool) -> Iterator[None]:
    given = ctypes.c_int(0)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(given), 0, 0, 0)
    adopt_orphans(adopts)
    try:
        yield
    finally:
        adopt_orphans(bool(given.value))
