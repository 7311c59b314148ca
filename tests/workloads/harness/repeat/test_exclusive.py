import errno
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise

import pytest

from tests.workloads.harness.repeat.box_holders import ROOT, is_free
from tests.workloads.harness.repeat.dying import wait_for
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.repeat.exclusive import INHERITED, lock_path, not_for_children, whole_box

TAKES_TURNS = """
import sys, time
from workloads.harness.repeat.exclusive import whole_box
for _ in range(8):
    with whole_box():
        began = time.monotonic()
        time.sleep(0.005)
        print(began, time.monotonic(), flush=True)
    time.sleep(0.001)
"""


HOLDS = """
import sys, time
from workloads.harness.repeat.exclusive import whole_box
with whole_box():
    print("held", flush=True)
    time.sleep(600)
"""


def start(script):
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=ROOT)


@pytest.fixture
def holder(box_lock):
    process = start(HOLDS)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_processes_that_lock_the_box_take_turns(box_lock):
    processes = [start(TAKES_TURNS) for _ in range(3)]
    spans = [tuple(map(float, line.split())) for p in processes for line in p.communicate()[0].splitlines()]
    assert len(spans) == 24
    assert all(ended <= began for (_, ended), (began, _) in pairwise(sorted(spans)))


def test_threads_take_turns_too(box_lock):
    spans = []

    def measure():
        with whole_box():
            began = time.monotonic()
            time.sleep(0.02)
            spans.append((began, time.monotonic()))

    threads = [threading.Thread(target=measure) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ended <= began for (_, ended), (began, _) in pairwise(sorted(spans)))


def test_a_waiting_process_is_told_once_and_gets_the_box_after_a_kill(holder):
    said = []

    def waits(text):
        said.append(text)
        threading.Timer(0.5, holder.kill).start()  # after more looks than one

    with whole_box(waits):
        assert holder.wait(timeout=60) == -9
    assert said == ["another measurement runs on this machine: waiting for it to end"]


def test_the_box_is_free_after_an_error(box_lock):
    with pytest.raises(ZeroDivisionError), whole_box():
        raise ZeroDivisionError
    said = []
    with whole_box(said.append):
        assert said == []


def test_a_child_of_ours_does_not_wait_for_us(box_lock, monkeypatch):
    with whole_box() as lock:
        monkeypatch.setenv(INHERITED, str(lock))
        with whole_box() as inherited:
            assert inherited == lock
        os.fstat(lock)  # still open: it is not the child's to close


@pytest.mark.parametrize("double", [False, True])
def test_forks_of_a_child_do_not_hold_the_box(box_lock, double):
    fork = "os.fork() or (os.open('/dev/null', 0), " + ("os.fork(), " if double else "") + "time.sleep(600))"
    script = (
        "import os, sys, time\n"
        "from workloads.harness.repeat.exclusive import not_for_children\n"
        "not_for_children(int(sys.argv[1]))\n"
        f"child = {fork}\n"
        "print(child, flush=True)"
    )
    with whole_box() as lock:
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(lock)],
            stdout=subprocess.PIPE,
            pass_fds=(lock,),
            cwd=ROOT,
            start_new_session=True,
        )
        process.stdout.readline()
        process.wait()
    try:
        wait_for(lambda: is_free(box_lock))  # who was forked lets go of it once it runs
    finally:
        os.killpg(process.pid, 9)
        process.stdout.close()


def test_a_number_that_is_not_the_lock_is_left_alone(box_lock, tmp_path):
    with whole_box():
        pass
    with (tmp_path / "other").open("w") as other:
        not_for_children(other.fileno())
        not_for_children(10_000)
        assert os.get_inheritable(other.fileno()) is False
        if (child := os.fork()) == 0:
            os._exit(0 if os.fstat(other.fileno()) else 1)
        assert os.waitpid(child, 0)[1] == 0


class TestPath:
    @pytest.mark.parametrize("named", [None, ""])
    def test_the_default_is_the_users_own(self, monkeypatch, tmp_path, named):
        """Only the owner can enter its folder, hold it, or link it elsewhere."""
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("GRIDBENCH_BOX_LOCK", raising=False)
        if named is not None:
            monkeypatch.setenv("GRIDBENCH_BOX_LOCK", named)
        with whole_box():
            path = tmp_path / ".gridbench" / "box.lock"
            assert lock_path() == path and not is_free(path)
            assert [each.stat().st_mode & 0o777 for each in (path, path.parent)] == [0o600, 0o700]

    def test_without_a_home_it_is_in_a_folder_that_is_ours(self, monkeypatch, tmp_path):
        monkeypatch.setenv("HOME", "/nowhere")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        monkeypatch.delenv("GRIDBENCH_BOX_LOCK", raising=False)
        folder = tmp_path / f"gridbench-{os.getuid()}"
        with whole_box():
            assert not is_free(folder / "box.lock") and folder.stat().st_mode & 0o777 == 0o700
        shutil.rmtree(folder)
        folder.symlink_to("/var")
        with pytest.raises(WorkloadsError, match="its folder belongs to another user"), whole_box():
            pass

    def test_every_user_can_take_one_that_is_named(self, box_lock):
        before = os.umask(0o077)
        try:
            with whole_box():
                assert box_lock.stat().st_mode & 0o777 == 0o666
        finally:
            os.umask(before)

    @pytest.mark.parametrize(
        ("make", "why"),
        [
            (lambda path: path.parent.joinpath("file").write_text(""), None),
            (lambda path: path.mkdir(), "Is a directory"),
            (lambda path: path.symlink_to("/dev/null"), "Too many levels of symbolic links"),
        ],
    )
    def test_a_lock_that_can_not_be_opened_is_reported_in_one_sentence(
        self, box_lock, monkeypatch, make, why
    ):
        make(box_lock)
        if why is None:
            monkeypatch.setenv("GRIDBENCH_BOX_LOCK", str(box_lock.parent / "file" / "box.lock"))
            why = "Not a directory"
        with (
            pytest.raises(
                WorkloadsError, match=rf"the box lock .* can't be opened \({why}\); remove it or name another"
            ),
            whole_box(),
        ):
            pass


def test_a_file_system_without_locks_is_named(box_lock, monkeypatch):
    def no_locks(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(WorkloadsError, match=r"\(No locks available\).*GRIDBENCH_BOX_LOCK"), whole_box():
        pass
