"""The box lock: one measurement at a time, also after crashes."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.places import home, temporary_home

INHERITED = "GRIDBENCH_BOX_LOCK_FD"  # set for a child whose parent holds the lock for it
POLL_S = 0.2
WAITING = "another measurement runs on this machine: waiting for it to end"


def lock_path() -> Path:
    """Return this user's lock file, or GRIDBENCH_BOX_LOCK for a shared box.

    Its folder is private: no other user can hold the lock for ever, or put a link in its place.
    """
    named = os.environ.get("GRIDBENCH_BOX_LOCK")
    return Path(named) if named else _own_folder() / "box.lock"


def _own_folder() -> Path:
    folder = home()
    return folder / ".gridbench" if os.access(folder, os.W_OK | os.X_OK) else temporary_home()


@contextmanager
def whole_box(waiting: Callable[[str], None] = lambda text: None) -> Iterator[int]:
    """Hold the box while measuring; yield a descriptor for children; `waiting` is called once if it is taken."""
    if (inherited := os.environ.get(INHERITED)) is not None:
        yield int(inherited)
        return
    descriptor = _open(lock_path())
    try:
        reported = False
        while not _taken(descriptor):
            if not reported:
                waiting(WAITING)
                reported = True
            time.sleep(POLL_S)
        yield descriptor
    finally:
        os.close(descriptor)


def not_for_children(descriptor: int) -> None:
    """Close an inherited lock in forked children, which can outlive this process."""
    held = [descriptor]

    def let_go() -> None:
        while held:  # once: a grandchild can have opened another file under that number
            os.close(held.pop())

    with suppress(OSError):
        if os.path.samestat(os.fstat(descriptor), os.stat(lock_path())):
            os.set_inheritable(descriptor, False)
            os.register_at_fork(after_in_child=let_go)


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    is_own = path.parent == _own_folder()
    try:
        if is_own:
            _make_own(path.parent)
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            mode = 0o600 if is_own else 0o666
            descriptor = os.open(path, flags | os.O_CREAT, mode)
            os.fchmod(descriptor, mode)  # a shared one is for every user of the box, whatever the umask
            return descriptor
    except OSError as error:
        raise WorkloadsError(
            f"the box lock {path} can't be opened ({error.strerror}); "
            "remove it or name another in GRIDBENCH_BOX_LOCK"
        ) from None


def _make_own(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise NotADirectoryError(errno.ENOTDIR, "its folder belongs to another user")


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # such as ENOLCK of NFS without a lock service
        raise WorkloadsError(
            f"the box lock can't be taken ({error.strerror}): its file system has no locks; name a file on a local "
            "disk in GRIDBENCH_BOX_LOCK"
        ) from None
    return True
