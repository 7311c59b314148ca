import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from infra.local.database import PATIENCE_S, database_file
from infra.local.supervisor import sweep
from tests.emulators.prefect_api import with_tables
from workloads.harness.records.files import read_records

pytestmark = [
    pytest.mark.flaky(reruns=1, reason="a real Prefect server answers late where the machine is busy"),
    pytest.mark.timeout(900),
]
ROOT = Path(__file__).parents[4]
PROGRAM = Path(sys.executable).with_name("gridbench")
SUITE = """
repeats = 1
quick = true
timeout_s = 60
minutes = 5
[[cases]]
workload = "nap"
size = { ms = %s }
"""
CASES = 59  # more than can be measured before the command ends
ENDS_S = PATIENCE_S + 90  # with a busy machine's time to stop everything
HELD = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
database.execute("BEGIN IMMEDIATE")
print(flush=True)
sys.stdin.read()
"""


class Box:
    """A machine with a state folder, a results store and a home."""

    def __init__(self, folder):
        self.folder = folder
        (folder / "disk").mkdir(exist_ok=True)
        self.state = with_tables(folder / "disk" / "state")
        self.database = database_file(self.state)
        (folder / "naps.toml").write_text(SUITE % [*range(1, CASES + 1)])
        self.environ = os.environ | {
            "HOME": str(folder),
            "GRIDBENCH_RESULTS": str(folder / "results"),
            "GRIDBENCH_WORKLOADS": str(ROOT / "tests" / "flows" / "workloads"),
            "GRIDBENCH_BOX_LOCK": str(folder / "lock"),
        }

    def start(self, *words):
        command = [PROGRAM, "--state", self.state, *words]
        return subprocess.Popen(
            command, env=self.environ, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def records(self):
        folders = [*(self.folder / "results").glob("*/records")]
        return [*read_records(folders[0])] if folders else []

    def run(self):
        """Start a run; return once some repeats are stored."""
        process = self.start("run", self.folder / "naps.toml", "--on", "local-cpu-1")
        until = time.monotonic() + 200
        while len(self.records()) < 3:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < until
            time.sleep(0.5)
        return process

    def ended(self, process, within_s=ENDS_S):
        """Return exit code and standard error."""
        _, err = process.communicate(timeout=within_s)
        assert "Traceback" not in err, err
        return process.returncode, err

    def server(self):
        for process in psutil.process_iter():
            try:
                is_server = process.cmdline()[1:3] == ["-m", "infra.local.server"]
                if is_server and process.environ()["GRIDBENCH_STACK"] == str(self.state):
                    return process
            except (psutil.Error, KeyError):
                continue
        raise AssertionError("there is no server")


@pytest.fixture
def box(tmp_path):
    made = Box(tmp_path)
    yield made
    for servers in (False, True):
        sweep(str(made.state), servers=servers)


def finish(box, err):
    """Finish the run by the command of its last sentence; its measured repeats stay."""
    before = {record.cell: record.to_json() for record in box.records()}
    name = err.rpartition("gridbench resume ")[2].split()[0]
    code, err = box.ended(box.start("resume", name), within_s=600)
    after = {record.cell: record.to_json() for record in box.records()}
    assert code in (0, 1) and len(after) == CASES and after.items() >= before.items(), err


def test_a_database_that_another_process_has_locked(box):
    run = box.run()
    command = [sys.executable, "-c", HELD, str(box.database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        holder.stdout.readline()
        code, err = box.ended(run)
        holder.communicate()
    assert code == 2 and f"locked by process {holder.pid} (" in err
    unsent = box.folder / ".gridbench" / "unsent"
    assert list(unsent.rglob("*.json")), "records of repeats measured meanwhile are on the box"
    finish(box, err)
    # A record whose confirmation alone was lost stays there, since its repeat is not measured again.
    stored = {record.to_json() for record in box.records()}
    assert {record.to_json() for record in read_records(unsent)} <= stored


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 160 MiB for the state folder: a stack needs 100 MB at its start."""
    (disk := tmp_path / "disk").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_full_disk_ends_a_run_with_the_database_error(small_disk, box):
    run = box.run()
    filling = small_disk / "other"
    with suppress(OSError), filling.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    code, err = box.ended(run)
    assert code == 2 and "can't grow" in err
    filling.unlink()
    finish(box, err)


def test_a_damaged_database_ends_a_run_with_one_sentence(box):
    run = box.run()
    server = box.server()
    server.send_signal(signal.SIGSTOP)
    with closing(sqlite3.connect(box.database)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = box.database.read_bytes()
    with box.database.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (len(content) - 4096))
    server.send_signal(signal.SIGCONT)
    code, err = box.ended(run)
    assert code == 2 and "is damaged" in err
    for file in box.state.glob("prefect.db*"):
        file.unlink()
    with_tables(box.state)
    finish(box, err)
