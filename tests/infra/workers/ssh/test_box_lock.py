import os
import subprocess
from pathlib import Path

import pytest

from infra.workers.ssh import box

SCRIPT = Path(box.__file__).with_name("box.sh")
LOCK = "~/.gridbench/box.lock"
REFUSED, BUSY = 73, 75


def verb(home, *words):
    environment = os.environ | {"HOME": str(home)}
    command = ["sh", SCRIPT, *words]
    return subprocess.run(command, input="", capture_output=True, text=True, env=environment, timeout=60)


def test_the_default_is_the_users_own(tmp_path):
    assert verb(tmp_path, "free", LOCK, "0").returncode == 0
    path = tmp_path / ".gridbench" / "box.lock"
    assert [each.stat().st_mode & 0o777 for each in (path, path.parent)] == [0o600, 0o700]
    path.with_name("box.lock.holder").write_text("somebody\n")
    with subprocess.Popen(["flock", path, "sleep", "60"]) as holder:
        while (done := verb(tmp_path, "free", LOCK, "0")).returncode == 0:
            assert holder.poll() is None
        holder.kill()
    assert (done.returncode, done.stdout) == (BUSY, "somebody\n")


@pytest.mark.parametrize("target", ["there", "missing"])
def test_a_link_in_its_place_is_not_followed(tmp_path, target):
    (tmp_path / "there").write_text("precious")
    (tmp_path / "shared.lock").symlink_to(tmp_path / target)
    done = verb(tmp_path, "free", str(tmp_path / "shared.lock"), "0")
    assert done.returncode == REFUSED
    assert (tmp_path / "there").read_text() == "precious" and not (tmp_path / "missing").exists()


def test_a_job_that_starts_writes_its_name_behind_no_link(tmp_path):
    name = f"job-{os.getpid()}"  # /dev/shm, which all share, gets a folder of this name
    folder, lock = tmp_path / name, tmp_path / "box.lock"
    folder.mkdir()
    (folder / "run").write_bytes(b"run\0")
    (tmp_path / "precious").write_text("precious")
    lock.with_name("box.lock.holder").symlink_to(tmp_path / "precious")
    assert verb(tmp_path, "start", str(folder), str(lock), "60", "0", "0", "label", "true").returncode == 0
    assert (tmp_path / "precious").read_text() == "precious"
    assert lock.with_name("box.lock.holder").read_text() == f"{name}\n"


def busy(home, lock, put):
    """Answer a request for the box after another user has replaced the note."""
    lock.write_text("")
    holder = lock.with_name(f"{lock.name}.holder")
    with subprocess.Popen(["flock", lock, "sleep", "60"]) as held:
        while subprocess.run(["flock", "-n", lock, "true"], check=False).returncode == 0:
            assert held.poll() is None
        put(holder)
        try:
            return verb(home, "free", str(lock), "0")
        finally:
            held.kill()


@pytest.mark.parametrize("target", ["/dev/zero", "private", "missing"])
def test_a_note_that_is_a_link_is_not_read(tmp_path, target):
    """It flooded the worker, or showed a file that only its owner reads."""
    (tmp_path / "private").write_text("SECRETDATA")
    done = busy(tmp_path, tmp_path / "l", lambda holder: holder.symlink_to(tmp_path / target))
    assert (done.returncode, done.stdout) == (BUSY, "")


def test_a_lock_note_that_is_a_pipe_does_not_block(tmp_path):
    done = busy(tmp_path, tmp_path / "l", os.mkfifo)
    assert (done.returncode, done.stdout) == (BUSY, "")


def test_a_note_is_short_and_has_no_control_sequence(tmp_path):
    done = busy(
        tmp_path, tmp_path / "l", lambda holder: holder.write_text("\x1b[2J\x1b]0;x\x07evil" + "x" * 10**6)
    )
    assert done.returncode == BUSY and done.stdout.startswith("[2J]0;xevil")
    assert len(done.stdout) <= 200 and done.stdout.isprintable()


def test_a_pipe_in_the_place_of_the_note_stops_no_job(tmp_path):
    """In a sticky folder it can't be removed, and a write would wait for a reader."""
    name = f"pipe-{os.getpid()}"
    folder, lock, removing = tmp_path / name, tmp_path / "box.lock", tmp_path / "bin" / "rm"
    folder.mkdir()
    (folder / "run").write_bytes(b"run\0")
    removing.parent.mkdir()
    removing.write_text('#!/bin/sh\ncase "$*" in *holder) exit 1 ;; esac\nexec /bin/rm "$@"\n')
    removing.chmod(0o755)
    os.mkfifo(tmp_path / "box.lock.holder")
    environment = os.environ | {"HOME": str(tmp_path), "PATH": f"{removing.parent}:{os.environ['PATH']}"}
    command = ["sh", SCRIPT, "start", str(folder), str(lock), "60", "0", "0", "label", "true"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, env=environment, timeout=40)
    assert done.returncode == 0
