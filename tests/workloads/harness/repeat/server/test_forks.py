import errno
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import psutil
import pytest

from tests.workloads.harness.repeat.box_holders import is_free
from tests.workloads.harness.repeat.controls import frozen
from tests.workloads.harness.repeat.dying import ROOT, gone, wait_for
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.forks import ForkServers
from workloads.harness.repeat.runs import run_repeat
from workloads.harness.repeat.series import measure_or_skip

STATES = Path(__file__).parents[1] / "states"
SERVER = "fork-server"

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a neighbour's load changes what is measured, and when processes end"
)


def repeat_of(name, number=1, timeout_s=100.0, **size):
    case = Case.of(name, size or {"n": 64})
    return Repeat("a-run", "a-box", case, repeat=number, threads=1, brief=True, timeout_s=timeout_s)


def refuses(pid):
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def servers():
    family = psutil.Process().children(recursive=True)
    return [process for process in family if SERVER in process.cmdline() and not gone(process.pid)]


@pytest.fixture
def series(box_lock):
    """Return a function that measures repeats in order and checks that no server remains."""
    said = []

    def measure(*repeats, between=lambda number: None):
        records = []
        with ForkServers.of(repeats, said.append) as forks, whole_box() as lock:
            for number, repeat in enumerate(repeats):
                records.append(run_repeat(repeat, lock, said.append, start=forks.start))
                between(number)
        assert not servers()
        return records

    measure.said = said
    return measure


class TestState:
    @pytest.fixture
    def facts(self, use_workloads, tmp_path, monkeypatch):
        use_workloads(STATES)
        monkeypatch.setenv("TEST_NOTE", str(tmp_path))

        def read():
            paths = sorted(tmp_path.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
            texts = [json.loads(path.read_text()) for path in paths]
            for path in paths:
                path.unlink()
            return texts

        return read

    def test_a_forked_process_has_the_state_of_a_fresh_process(self, series, facts, box_lock):
        names = ("tells_state", "tells_state_of_a_model")
        repeats = [repeat_of(name, n=n) for n in (1, 2) for name in names]
        records, forked = series(*repeats), facts()
        with whole_box() as lock:
            own = [run_repeat(repeat, lock, print) for repeat in repeats[:2]]
        fresh = facts()
        assert {record.check is not None for record in (*records, *own)} == {True}, records
        assert len({fact["parent"] for fact in forked}) == 2  # one server, and one for models
        assert [fact["compiler"] for fact in forked] == [False, True, False, True]
        for fact in (*forked, *fresh):
            assert fact["alike"] == fresh[0]["alike"]
        assert fresh[0]["alike"]["files"] == sorted(["/dev/null", *3 * ["pipe"], str(box_lock)])
        assert fresh[0]["alike"]["dies_with_parent"] == signal.SIGKILL
        for name in fresh[0]["drawn"]:
            assert len({fact["drawn"][name] for fact in (*forked, *fresh)}) == 6, name

    def test_repeats_of_a_cell_come_from_different_servers(self, series, facts):
        repeats = [repeat_of("tells_state", number, n=n) for number in (1, 2) for n in (1, 2)]
        series(*repeats)
        first, second, third, fourth = facts()
        assert first["parent"] == second["parent"] != third["parent"] == fourth["parent"]
        assert first["hash"] == second["hash"] != third["hash"]

    def test_a_process_has_the_variables_of_its_time(self, series, facts, monkeypatch):
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        repeats = [repeat_of("tells_state", n=n) for n in (1, 2, 3)]
        series(*repeats, between=lambda number: number or monkeypatch.setenv("OMP_NUM_THREADS", "2"))
        first, second, third = facts()
        assert [fact["alike"]["threads"] for fact in (first, second, third)] == [1, 2, 2]
        assert first["parent"] != second["parent"] == third["parent"]

    def test_a_process_has_the_code_of_its_time(self, series, facts, monkeypatch):
        """A record names the hash of the files it finds; these must be the ones that ran."""
        repeats = [repeat_of("tells_state", n=n) for n in (1, 2, 3)]
        hashed = "workloads.harness.repeat.forks.code_hash"
        series(*repeats, between=lambda number: number or monkeypatch.setattr(hashed, lambda: "another"))
        first, second, third = facts()
        assert first["parent"] != second["parent"] == third["parent"]

    def test_peaks_of_memory_and_seconds_of_a_start_are_those_of_fresh_processes(self, series, box_lock):
        repeats = [repeat_of("matmul", n=n) for n in (62, 64)] + [repeat_of("mnist", batch=b) for b in (2, 4)]
        ends_s = []
        records = series(*repeats, between=lambda _: ends_s.append(time.time()))
        with whole_box() as lock:
            fresh = [run_repeat(repeat, lock, print) for repeat in repeats]
        for forked, end_s in zip(records, ends_s, strict=True):
            began_s = datetime.fromisoformat(forked.started_at).timestamp() - forked.phases_s["process_start"]
            assert -3 < began_s + forked.wall_s - end_s < 0.5  # a text is to the second
        for forked, own in zip(records, fresh, strict=True):
            assert forked.memory.peak_rss_bytes == pytest.approx(own.memory.peak_rss_bytes, rel=0.05)
            assert own.inherited_s == {}
            assert own.fresh_phases_s == own.phases_s
            assert forked.wall_s == pytest.approx(sum(forked.phases_s.values()) + forked.unattributed_s)
            assert 0 <= forked.unattributed_s < 1
        first, second, model, other = records
        assert first.inherited_s == {} and first.phases_s["import"] > 0.1
        assert second.phases_s["import"] + second.phases_s["process_start"] < 0.5 * first.phases_s["import"]
        assert second.inherited_s.keys() == model.inherited_s.keys() == {"process_start", "import"}
        assert second.inherited_s["import"] == pytest.approx(first.phases_s["import"], abs=0.01)
        assert other.inherited_s["build"] == pytest.approx(model.phases_s["build"], rel=0.9)
        assert other.phases_s["build"] < other.inherited_s["build"]
        assert other.fresh_phases_s["import"] == other.phases_s["import"] + other.inherited_s["import"]


class TestFresh:
    def test_a_cell_alone_needs_no_server(self, series):
        records = series(*(repeat_of("matmul", number, n=64) for number in (1, 2)))
        assert [record.inherited_s for record in records] == [{}, {}]
        assert all(record.phases_s["import"] > 0.1 for record in records)

    def test_a_repeat_with_a_control_is_as_fresh_as_that_and_servers_give_their_memory_back(self, box_lock):
        with ForkServers.of([repeat_of("matmul", n=n) for n in (62, 64)], print) as forks:
            measure_or_skip(repeat_of("matmul", n=62), [], print, forks=forks)
            assert servers()
            watched = repeat_of("matmul", n=64)
            record = measure_or_skip(watched, [], print, reference=frozen(), forks=forks)
            assert not servers()
            assert record.inherited_s == {} and record.phases_s["import"] > 0.1
            assert record.control.compute_s == 2.0
            after = measure_or_skip(repeat_of("matmul", 2, n=64), [], print, forks=forks)
            assert servers() and after.check

    @pytest.mark.parametrize("is_there", [False, True])
    def test_without_pidfds_every_repeat_runs_in_a_fresh_process(self, series, monkeypatch, is_there):
        """Only Linux has them, and some sandboxes refuse them."""
        if is_there:
            monkeypatch.setattr(os, "pidfd_open", refuses)
        else:
            monkeypatch.delattr(os, "pidfd_open")
        records = series(*(repeat_of("matmul", n=n) for n in (62, 64)))
        assert [record.inherited_s for record in records] == [{}, {}]
        assert all(record.check for record in records), records
        assert len([text for text in series.said if "Operation not permitted" in text]) == is_there

    @pytest.mark.parametrize(
        ("code", "why"),
        [
            (
                "import threading, time; threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
                "1 threads",
            ),
            ("import os; os.open(os.devnull, os.O_RDONLY)", "/dev/null"),
            ("import os, sys; 'fork-server' in sys.orig_argv and os._exit(3)", "has ended"),
        ],
    )
    def test_a_server_that_is_unfit_is_not_used(self, series, monkeypatch, tmp_path, code, why):
        (tmp_path / "sitecustomize.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        records = series(*(repeat_of("matmul", n=n) for n in (62, 64)))
        assert [record.inherited_s for record in records] == [{}, {}]
        assert all(record.check for record in records), records
        (sentence,) = [text for text in series.said if "fresh process" in text]
        assert why in sentence


@pytest.mark.usefixtures("cheats")
class TestEnds:
    """A forked process that dies leaves a record with a reason, and the next repeat is measured."""

    @pytest.mark.parametrize(
        ("name", "reason"),
        [
            ("exits", "^the measuring process ended with code 3 .*result correct"),
            ("exits_politely", r"^the measuring process ended with code 1 \(enough of this\)"),
            ("aborts", "^the measuring process was killed by SIGABRT"),
            ("kills_its_parent", "^the measuring process was killed by SIGKILL"),
        ],
    )
    def test_the_end_of_a_fork_is_reported_and_the_next_repeat_is_measured(self, series, name, reason):
        record, after, later = series(repeat_of(name), *(repeat_of("matmul", n=n) for n in (62, 64)))
        assert record.verdict is Verdict.CRASHED
        assert re.search(reason, record.reasons[0]), record.reasons
        assert after.check and later.check and later.inherited_s

    def test_without_a_handle_its_end_and_its_limit_are_noticed(self, series, monkeypatch, note):
        def refuses_all(*_):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        monkeypatch.setattr("workloads.harness.repeat.runs.waits_for_end", refuses_all)
        monkeypatch.setattr("workloads.harness.repeat.forks.REAP_S", 0.05)
        began_s = time.monotonic()
        slow, hanging = series(repeat_of("matmul", n=64), repeat_of("hangs", timeout_s=8.0))
        assert slow.check and slow.wall_s > 0.1, slow
        assert hanging.verdict is Verdict.TIMEOUT and "within 8 s" in hanging.reasons[0]
        assert 8 < time.monotonic() - began_s < 60

    @pytest.mark.parametrize("generation", [0, 1], ids=["its own", "of both"])
    def test_a_server_that_is_killed_takes_its_process_along(self, series, note, generation):
        def kill():
            pid = int(wait_for(lambda: note.exists() and note.read_text(), 60))
            family = psutil.Process(pid).parents()[: 1 + generation]
            found.extend(SERVER in process.cmdline() for process in family)
            family[-1].kill()

        found, killer = [], threading.Thread(target=kill)
        killer.start()
        record, after = series(repeat_of("hangs_with_a_model"), repeat_of("matmul", n=64))
        killer.join()
        assert found == [True] * (1 + generation)
        assert record.reasons[0].startswith("the measuring process was killed by SIGKILL")
        assert after.check

    def test_a_server_that_hangs_is_replaced(self, series, monkeypatch):
        monkeypatch.setattr("workloads.harness.repeat.forks.REAP_S", 1.0)
        record, after = series(repeat_of("stops_its_parent"), repeat_of("matmul", n=64))
        assert record.check and after.check, (record, after)
        assert after.inherited_s == {}  # the first of a new server

    def test_too_little_memory_is_out_of_memory(self, series):
        large = repeat_of("matmul", n=1_000_000)
        record, after = series(large, repeat_of("matmul", n=64))
        assert record.verdict is Verdict.OUT_OF_MEMORY, record.reasons
        assert after.inherited_s and after.check

    def test_hanging_ends_with_the_time_and_with_all_children(self, series, note):
        record, after = series(repeat_of("hangs_beside_children", timeout_s=10), repeat_of("matmul", n=64))
        assert record.verdict is Verdict.TIMEOUT
        pids = [int(pid) for pid in note.read_text().split()]
        wait_for(lambda: all(map(gone, pids)), limit_s=20)
        assert after.inherited_s and after.check

    def test_a_child_that_stays_behind_holds_nothing_up(self, series, note):
        record, after = series(repeat_of("leaves_a_child"), repeat_of("matmul", n=64))
        assert record.wall.median_s > 0 and after.check
        assert wait_for(lambda: gone(int(note.read_text())), limit_s=20)

    def test_killed_from_outside(self, series, note):
        killer = threading.Thread(
            target=lambda: os.kill(int(wait_for(lambda: note.exists() and note.read_text(), 60)), 9)
        )
        killer.start()
        record, after = series(repeat_of("hangs"), repeat_of("matmul", n=64))
        killer.join()
        assert record.reasons[0].startswith("the measuring process was killed by SIGKILL")
        assert after.check

    @pytest.mark.chaos
    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("has_model", [False, True])
    def test_forks_end_with_the_process_that_ordered_them(self, box_lock, note, has_model, number):
        script = (
            "import tests.workloads.harness.repeat.server.test_forks as t\n"
            f"t.measure_until_killed({'hangs_with_a_model' if has_model else 'hangs'!r})"
        )
        parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.DEVNULL)
        pid = int(wait_for(lambda: note.exists() and note.read_text(), 60))
        family = psutil.Process(parent.pid).children(recursive=True)
        assert len(family) == 2 + has_model
        parent.send_signal(number)
        parent.wait()
        try:
            wait_for(lambda: all(gone(process.pid) for process in family), limit_s=5)
            assert gone(pid)
            wait_for(lambda: is_free(box_lock), limit_s=1)
        finally:
            for process in family:
                if not gone(process.pid):
                    process.kill()


def measure_until_killed(name):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    repeats = [repeat_of(name), repeat_of("matmul", n=64)]
    with ForkServers.of(repeats, print) as forks, whole_box() as lock:
        run_repeat(repeats[0], lock, print, start=forks.start)
