"""However a measuring process ends, there is a record with a reason in words, and nothing of it is left."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from tests.workloads.harness.repeat.test_exclusive import is_free
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.limits import at_least
from workloads.harness.repeat.runs import INHERITED, run_repeat
from workloads.harness.repeat.series import measure_or_skip

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a neighbour's load changes what is measured, and when processes end"
)

ROOT = Path(__file__).parents[5]
CASE = Case.of("matmul", {"n": 64})


def repeat_of(name, timeout_s=60.0, **size):
    return Repeat(
        "a-run", "a-box", Case.of(name, size or {"n": 64}), threads=1, quick=True, timeout_s=timeout_s
    )


def wait_for(condition, limit_s=20.0):
    end_s = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < end_s, "it did not happen"
        time.sleep(0.02)
    return found


def gone(pid):
    """Whether a process has ended, reaped or not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture
def note(tmp_path, monkeypatch):
    """Where a workload writes its process ids as soon as it has come to its end."""
    path = tmp_path / "note"
    monkeypatch.setenv("TEST_NOTE", str(path))
    return path


@pytest.fixture
def run(box_lock):
    """Runs a repeat by a command of the test's own, or by the real one; its standard error is kept."""
    said = []

    def start(repeat, *script):
        command = (sys.executable, "-c", *script) if script else (sys.executable, "-m", "workloads")
        with whole_box() as lock:
            return run_repeat(repeat, lock, said.append, command)

    start.said = said
    return start


def record_text(**changes):
    raw = json.loads(Record("a-run", "a-box", CASE, 1, Verdict.OK).to_json())
    return json.dumps(raw | changes)


class TestWithoutTorch:
    """What the parent makes of a child, with children that are over at once."""

    REPEAT = Repeat("a-run", "a-box", CASE, timeout_s=30)

    @pytest.mark.parametrize(
        ("script", "reason"),
        [
            ("", "^the measuring process ended with code 0$"),
            ("import os; os._exit(3)", "^the measuring process ended with code 3$"),
            ("raise SystemExit('no more')", r"^the measuring process ended with code 1 \(no more\)$"),
            ("1 / 0", r"ended with code 1 \(ZeroDivisionError: division by zero\)"),
            ("import os; os.abort()", "^the measuring process was killed by SIGABRT"),
            ("import os; os.kill(os.getpid(), 9)", "^the measuring process was killed by SIGKILL"),
            ("import os; os.kill(os.getpid(), 40)", "^the measuring process was killed by signal 40"),
            ("print('{')", "ended with code 0"),
            ("print('garbage\\x00\\n' * 9999)", "ended with code 0"),
            ("import os; os.write(1, b'\\xff\\xfe' * 99_999)", "ended with code 0"),
            ("import sys; sys.stderr.write('x' * 50_000_000)", "ended with code 0 "),
            ("import sys; sys.stderr.write('line\\n' * 50_000); sys.exit(7)", r"with code 7 \(line\)"),
            ("import os; os.close(1); os.close(2)", "ended with code 0"),
            (f"print({record_text(hardware='other')!r})", "ended with code 0"),
            (f"print({record_text(repeat=2)!r})", "ended with code 0"),
            (f"print({record_text(schema=9)!r})", "ended with code 0"),
            (f"print({record_text()[:-1]!r})", "ended with code 0"),
        ],
        ids=lambda value: value[:40],
    )
    def test_no_record_is_a_crash_with_its_last_words(self, run, script, reason):
        record = run(self.REPEAT, script)
        assert record.verdict is Verdict.CRASHED
        assert re.search(reason, record.reasons[0]), record.reasons
        assert len(record.reasons[0]) < 5000
        assert 0 < record.wall_s == record.unattributed_s < 30
        assert Record.from_json(record.to_json()) == record

    @pytest.mark.parametrize(
        "script",
        [
            "print({})",
            "print('noise'); print({}); print()",
            "import os; os.write(1, b'\\xff\\n'); print({}, flush=True); os._exit(1)",
            "print({}, flush=True); import os; os.kill(os.getpid(), 9)",
            "import sys; sys.stderr.write('x' * 5_000_000); print({})",
        ],
        ids=lambda value: value[:40],
    )
    def test_a_whole_record_counts_however_it_came(self, run, script):
        assert run(self.REPEAT, script.replace("{}", repr(record_text()))).verdict is Verdict.OK

    def test_a_child_that_stays_behind_takes_no_record_with_it(self, run):
        script = "import os, time; os.fork() or time.sleep(600)\nprint(os.getpid(), flush=True)\n"
        started = time.monotonic()
        record = run(self.REPEAT, f"{script}print({record_text()!r})")
        assert record.verdict is Verdict.OK
        assert time.monotonic() - started < 25

    def test_a_record_that_came_before_the_time_was_up_counts(self, run):
        repeat = Repeat("a-run", "a-box", CASE, timeout_s=1)
        script = f"print({record_text()!r}, flush=True); import time; time.sleep(600)"
        assert run(repeat, script).verdict is Verdict.OK

    def test_the_time_is_up(self, run, note):
        script = (
            "import os, sys, time; sys.stderr.write('working\\n')\n"
            "child = os.fork() or time.sleep(600)\n"
            "open(os.environ['TEST_NOTE'], 'w').write(f'{os.getpid()} {child}'); time.sleep(600)"
        )
        record = run(Repeat("a-run", "a-box", CASE, timeout_s=1), script)
        assert record.verdict is Verdict.TIMEOUT
        assert record.reasons == ("no result within 1 s: the process was stopped",)
        assert 1 <= record.wall_s < 60
        wait_for(lambda: all(gone(int(pid)) for pid in note.read_text().split()), limit_s=20)

    def test_an_interrupt_of_ours_ends_the_child_too(self, run, note, monkeypatch):
        def interrupted(process, timeout_s):
            wait_for(note.exists)
            raise KeyboardInterrupt

        script = (
            "import os, time; open(os.environ['TEST_NOTE'], 'w').write(str(os.getpid())); time.sleep(600)"
        )
        monkeypatch.setattr("workloads.harness.repeat.runs._ended_within", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(self.REPEAT, script)
        assert gone(int(note.read_text()))

    def test_the_kernels_kill_for_memory_is_told_from_others(self, run, monkeypatch):
        kills = iter([4, 5])
        monkeypatch.setattr("workloads.harness.repeat.runs.oom_kills", lambda: next(kills))
        record = run(self.REPEAT, "import os; os.kill(os.getpid(), 9)")
        assert record.verdict is Verdict.OUT_OF_MEMORY
        assert record.reasons == ("the kernel ran out of memory at n=64 and killed the process; try n=32",)

    def test_standard_error_is_passed_on_as_it_comes(self, run):
        run(self.REPEAT, "import sys; print('one', file=sys.stderr); print('two', file=sys.stderr)")
        assert run.said == ["one", "two"]

    def test_a_line_without_end_comes_in_pieces(self, run):
        run(self.REPEAT, "import sys; sys.stderr.write('x' * 100_000)")
        assert max(map(len, run.said)) <= 4000
        assert sum(map(len, run.said)) == 100_000

    def test_a_child_whose_parent_is_gone_already_does_not_begin(self, box_lock):
        ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True)
        environment = os.environ | {INHERITED: "0", "GRIDBENCH_PARENT": ended.stdout.decode().strip()}
        command = [sys.executable, "-m", "workloads", "run", "matmul", "--size", "n=64"]
        found = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
        assert found.returncode == 1
        assert found.stderr == "the parent died before the measurement began\n"


class TestForReal:
    """The same through `python -m workloads` and torch."""

    @pytest.mark.parametrize(
        ("name", "verdict", "reason"),
        [
            ("exits", "crashed", "^the measuring process ended with code 3 .*correct to"),
            ("exits_politely", "crashed", r"^the measuring process ended with code 1 \(enough of this\)"),
            ("aborts", "crashed", "^the measuring process was killed by SIGABRT"),
            ("floods_stderr", "crashed", "^the measuring process ended with code 4"),
        ],
    )
    def test_ends_with_a_reason(self, cheats, run, name, verdict, reason):
        record = run(repeat_of(name))
        assert record.verdict == verdict
        assert re.search(reason, record.reasons[0]), record.reasons

    def test_hanging_ends_with_the_time_and_with_all_children(self, cheats, run, note):
        record = run(repeat_of("hangs_beside_children", timeout_s=20))
        assert record.verdict is Verdict.TIMEOUT
        pids = [int(pid) for pid in note.read_text().split()]
        assert len(pids) == 3
        wait_for(lambda: all(map(gone, pids)), limit_s=20)

    @pytest.mark.parametrize("name", ["leaves_a_child", "leaves_a_thread"])
    def test_what_is_left_behind_holds_nothing_up(self, cheats, run, note, name):
        record = run(repeat_of(name))
        assert record.wall.median_s > 0
        assert record.wall_s < 50
        assert name == "leaves_a_thread" or wait_for(lambda: gone(int(note.read_text())), limit_s=20)

    def test_killed_from_outside_in_the_midst(self, cheats, run, note):
        killer = threading.Thread(
            target=lambda: os.kill(int(wait_for(lambda: note.exists() and note.read_text())), 9)
        )
        killer.start()
        record = run(repeat_of("hangs"))
        killer.join()
        assert record.verdict is Verdict.CRASHED
        assert record.reasons[0].startswith("the measuring process was killed by SIGKILL")

    def test_far_too_large_ends_at_once_and_what_is_no_smaller_is_skipped(self, run):
        said = []
        large = repeat_of("matmul", n=1_000_000)
        started = time.monotonic()
        record = run(large)
        assert time.monotonic() - started < 50
        assert record.verdict is Verdict.OUT_OF_MEMORY
        assert re.search(
            r"^memory ran out at n=1000000: 4 TB more could not be had; try n=500000", record.reasons[0]
        )
        for larger in (large, repeat_of("matmul", n=1_000_001)):
            skipped = measure_or_skip(larger, [record], said.append)
            assert skipped.verdict is Verdict.SKIPPED
            assert skipped.reasons == ("matmul/n=1000000/fp32 ran out of memory, and this is no smaller",)
            assert skipped.wall_s == 0

    def test_piece_by_piece_ends_before_the_machine_does(self, cheats, run):
        """A child that is told that 1 GiB is left must stop there, whatever the machine has."""
        script = (
            "import sys; import workloads.harness.repeat.runs as runs; runs.available_bytes = lambda: 2**30\n"
            "from workloads.__main__ import main; sys.exit(main(sys.argv[1:]))"
        )
        record = run(repeat_of("allocates", gib=1_000_000), script)
        assert record.verdict is Verdict.OUT_OF_MEMORY
        assert 0.5 * 2**30 < record.memory.peak_rss_bytes < 1.3 * 2**30

    @pytest.mark.parametrize("name", ["hangs", "hangs_beside_children"])
    def test_the_parent_is_killed(self, cheats, box_lock, note, name):
        """The measuring process dies with its parent, and the box is free at once, whoever lives on."""
        script = (
            "import tests.workloads.harness.repeat.server.test_deaths as t; from workloads.harness.repeat.series import measure_or_skip\n"
            f"measure_or_skip(t.repeat_of({name!r}), [], print)"
        )
        parent = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.DEVNULL)
        pids = [int(pid) for pid in wait_for(lambda: note.exists() and note.read_text()).split()]
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        try:
            wait_for(lambda: gone(pids[0]), limit_s=5)
            wait_for(lambda: is_free(box_lock), limit_s=1)
        finally:
            for pid in pids:
                if not gone(pid):
                    os.kill(pid, signal.SIGKILL)


class TestNoSmaller:
    @pytest.mark.parametrize(
        ("size", "other", "expected"),
        [
            ({"pixels": 64, "batch": 2}, {"pixels": 64, "batch": 2}, True),
            ({"pixels": 64, "batch": 4}, {"pixels": 64, "batch": 2}, True),
            ({"pixels": 128, "batch": 1}, {"pixels": 64, "batch": 2}, False),
            ({"pixels": 32, "batch": 2}, {"pixels": 64, "batch": 2}, False),
        ],
    )
    def test_every_parameter_counts(self, size, other, expected):
        assert at_least(Case.of("a", size), Case.of("a", other)) is expected

    def test_other_workloads_and_precisions_tell_nothing(self):
        small = Case.of("a", {"n": 1})
        assert not at_least(Case.of("b", {"n": 2}), small)
        assert not at_least(Case.of("a", {"n": 2}, "bf16"), small)

    @pytest.mark.parametrize("verdict", [v for v in Verdict if v != Verdict.OUT_OF_MEMORY])
    def test_only_memory_makes_larger_ones_hopeless(self, box_lock, verdict):
        ended = [Record("a-run", "a-box", CASE, 1, verdict)]
        record = measure_or_skip(Repeat("a-run", "a-box", CASE), ended, print, (sys.executable, "-c", ""))
        assert record.verdict is Verdict.CRASHED  # it was tried
