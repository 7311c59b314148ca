import errno
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from infra.local.database import PATIENCE_S, DatabaseWatch, database_file, fault_of
from infra.local.errors import LocalStackError
from infra.local.stack import wait_until_free

HOLDS = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
print(flush=True)
sys.stdin.read()
"""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = database_file(tmp_path)
    with closing(sqlite3.connect(file)) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE run (name TEXT)")
        made.executemany("INSERT INTO run VALUES (?)", [["x" * 500]] * 500)
        made.commit()
    return file


@pytest.fixture
def holder(database: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def after(watch: DatabaseWatch, clock: Clock, seconds: float) -> str:
    clock.now += seconds
    return watch.fault()


def test_a_database_in_use_is_well_and_stays_as_it_is(database: Path):
    before = database.read_bytes()
    assert fault_of(database) == ""
    with closing(sqlite3.connect(database)) as reader:
        reader.execute("SELECT * FROM run").fetchone()
        assert fault_of(database) == ""
    assert database.read_bytes() == before


def test_the_process_that_locks_the_database_is_named_only_after_a_while(database: Path, holder):
    watch = DatabaseWatch(database.parent, database.parent / "log", clock := Clock())
    assert watch.fault() == ""
    assert after(watch, clock, PATIENCE_S / 2) == ""
    fault = after(watch, clock, PATIENCE_S / 2)
    assert str(database) in fault and f"process {holder.pid} (python" in fault
    holder.communicate()
    assert after(watch, clock, 10) == "" == after(watch, clock, PATIENCE_S)


def test_a_server_is_not_started_on_a_locked_database(database: Path, holder, monkeypatch):
    monkeypatch.setattr("infra.local.stack.LOCKED_S", 0.5)
    with pytest.raises(LocalStackError, match=f"locked by process {holder.pid} "):
        wait_until_free(database)
    holder.communicate()
    wait_until_free(database)


@pytest.mark.parametrize("start", [0, 16])
def test_a_damaged_file_is_reported(database: Path, start: int):
    content = bytearray(database.read_bytes())
    content[start : start + 84] = b"\xff" * 84
    database.with_name(f"{database.name}-wal").unlink(missing_ok=True)
    database.write_bytes(content)
    assert fault_of(database).startswith("is damaged")


def test_a_damaged_page_is_known_by_the_servers_log(database: Path):
    log = database.parent / "log"
    log.write_text("database disk image is malformed, long ago\n")
    watch = DatabaseWatch(database.parent, log, clock := Clock())
    for _ in range(4):
        assert after(watch, clock, 10) == ""
        with log.open("a") as file:
            file.write("sqlite3.DatabaseError: database disk image is malformed\n")
    assert "is damaged" in after(watch, clock, 10)
    assert after(watch, clock, 60) == ""


def test_one_error_in_the_log_is_no_fault(database: Path):
    log = database.parent / "log"
    watch = DatabaseWatch(database.parent, log, clock := Clock())
    log.write_text("database or disk is full\n")
    assert [after(watch, clock, 10) for _ in range(6)] == [""] * 6


def test_a_file_that_is_gone_or_read_only_is_reported(database: Path):
    assert fault_of(database.with_name("none")) == "is gone"


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_or_quota_is_reported(database: Path, monkeypatch, reason):
    def full(**kwargs):
        raise OSError(reason, "no room")

    monkeypatch.setattr("infra.local.database.TemporaryFile", full)
    assert "its disk is full" in fault_of(database)
