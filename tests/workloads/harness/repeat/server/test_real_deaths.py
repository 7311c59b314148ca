import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.workloads.harness.repeat.box_holders import is_free
from tests.workloads.harness.repeat.dying import CASE, ROOT, gone, wait_for
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.limits import WITHOUT_ROOM, at_least
from workloads.harness.repeat.runs import run_repeat
from workloads.harness.repeat.series import measure_or_skip

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a neighbour's load changes what is measured, and when processes end"
)


def repeat_of(name, timeout_s=60.0, **size):
    return Repeat(
        "a-run", "a-box", Case.of(name, size or {"n": 64}), threads=1, quick=True, timeout_s=timeout_s
    )


class TestForReal:
    @pytest.mark.parametrize(
        ("name", "verdict", "reason"),
        [
            ("exits", "crashed", "^the measuring process ended with code 3 .*result correct"),
            ("exits_politely", "crashed", r"^the measuring process ended with code 1 \(enough of this\)"),
            ("aborts", "crashed", "^the measuring process was killed by SIGABRT"),
            ("floods_stderr", "crashed", "^the measuring process ended with code 4"),
        ],
    )
    def test_ends_with_a_reason(self, cheats, run, name, verdict, reason):
        record = run(repeat_of(name))
        assert record.verdict == verdict
        assert re.search(reason, record.reasons[0]), record.reasons

    @pytest.mark.parametrize(
        "mib", [60, 200]
    )  # torch's libraries find no room, or Python while it imports them
    def test_too_little_memory_for_torch_itself_is_out_of_memory(self, box_lock, mib):
        script = f'ulimit -d {mib * 1024}; exec {sys.executable} -m workloads "$@"'
        with whole_box() as lock:
            record = run_repeat(repeat_of("matmul"), lock, print, ("bash", "-c", script, "--"))
        assert record.verdict is Verdict.OUT_OF_MEMORY, record.reasons

    @pytest.mark.chaos
    def test_hanging_ends_with_the_time_and_with_all_children(self, cheats, run, note):
        record = run(repeat_of("hangs_beside_children", timeout_s=20))
        assert record.verdict is Verdict.TIMEOUT
        pids = [int(pid) for pid in note.read_text().split()]
        assert len(pids) == 3
        wait_for(lambda: all(map(gone, pids)), limit_s=20)

    @pytest.mark.chaos
    @pytest.mark.parametrize("name", ["leaves_a_child", "leaves_a_thread"])
    def test_processes_left_behind_do_not_delay_the_record(self, cheats, run, note, name):
        record = run(repeat_of(name))
        assert record.wall.median_s > 0
        assert record.wall_s < 50
        assert name == "leaves_a_thread" or wait_for(lambda: gone(int(note.read_text())), limit_s=20)

    @pytest.mark.chaos
    def test_killed_from_outside_in_the_midst(self, cheats, run, note):
        killer = threading.Thread(
            target=lambda: os.kill(int(wait_for(lambda: note.exists() and note.read_text())), 9)
        )
        killer.start()
        record = run(repeat_of("hangs"))
        killer.join()
        assert record.verdict is Verdict.CRASHED
        assert record.reasons[0].startswith("the measuring process was killed by SIGKILL")

    def test_a_size_far_too_large_ends_at_once_and_larger_ones_are_skipped(self, run):
        said = []
        large = repeat_of("matmul", n=1_000_000)
        started = time.monotonic()
        record = run(large)
        assert time.monotonic() - started < 50
        assert record.verdict is Verdict.OUT_OF_MEMORY
        assert re.search(
            r"^memory ran out at n=1000000: 4 TB more could not be allocated; try n=500000", record.reasons[0]
        )
        for larger in (large, repeat_of("matmul", n=1_000_001)):
            skipped = measure_or_skip(larger, [record], said.append)
            assert skipped.verdict is Verdict.SKIPPED
            assert skipped.reasons == (
                "matmul/n=1000000/fp32 ran out of memory, and this case is at least as large",
            )
            assert skipped.wall_s == 0

    def test_piece_by_piece_ends_before_the_machine_does(self, cheats, run):
        script = (
            "import sys; import workloads.harness.repeat.runs as runs; runs.available_bytes = lambda: 2**30\n"
            "from workloads.__main__ import main; sys.exit(main(sys.argv[1:]))"
        )
        record = run(repeat_of("allocates", gib=1_000_000), script)
        assert record.verdict is Verdict.OUT_OF_MEMORY
        assert 0.5 * 2**30 < record.memory.peak_rss_bytes < 1.3 * 2**30

    @pytest.mark.chaos
    @pytest.mark.parametrize("name", ["hangs", "hangs_beside_children"])
    def test_the_parent_is_killed(self, cheats, box_lock, note, name):
        script = (
            "import tests.workloads.harness.repeat.server.test_real_deaths as t; from workloads.harness.repeat.series import measure_or_skip\n"
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

    @pytest.mark.parametrize("verdict", [v for v in Verdict if v not in WITHOUT_ROOM])
    def test_only_memory_makes_larger_ones_hopeless(self, box_lock, verdict):
        ended = [Record("a-run", "a-box", CASE, 1, verdict)]
        record = measure_or_skip(Repeat("a-run", "a-box", CASE), ended, print, (sys.executable, "-c", ""))
        assert record.verdict is Verdict.CRASHED  # it was tried
