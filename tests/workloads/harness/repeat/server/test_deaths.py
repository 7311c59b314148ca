import json
import os
import re
import subprocess
import sys
import time

import pytest

from tests.workloads.harness.repeat.dying import CASE, ROOT, gone, wait_for
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.runs import INHERITED

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a neighbour's load changes what is measured, and when processes end"
)


def record_text(**changes):
    raw = json.loads(Record("a-run", "a-box", CASE, 1, Verdict.OK).to_json())
    return json.dumps(raw | changes)


class TestWithoutTorch:
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
            (
                "import sys; sys.exit('\\x1b[31mRuntimeError: \\udcff no\\x1b[0m\\n\\x1b[0m')",
                r"with code 1 \(RuntimeError: .* no\)$",
            ),
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
        repeat = Repeat("a-run", "a-box", CASE, timeout_s=4)
        script = f"print({record_text()!r}, flush=True); import time; time.sleep(600)"
        assert run(repeat, script).verdict is Verdict.OK

    def test_the_time_is_up(self, run, note):
        script = (
            "import os, sys, time; sys.stderr.write('working\\n')\n"
            "child = os.fork() or time.sleep(600)\n"
            "open(os.environ['TEST_NOTE'], 'w').write(f'{os.getpid()} {child}'); time.sleep(600)"
        )
        record = run(Repeat("a-run", "a-box", CASE, timeout_s=4), script)
        assert record.verdict is Verdict.TIMEOUT
        assert record.reasons == ("no result within 4 s: the process was stopped",)
        assert 4 <= record.wall_s < 60
        wait_for(lambda: all(gone(int(pid)) for pid in note.read_text().split()), limit_s=20)

    def test_an_interrupt_of_ours_ends_the_child_too(self, run, note, monkeypatch):
        def interrupted(process, timeout_s, alarm):
            wait_for(lambda: note.exists() and note.read_text())
            raise KeyboardInterrupt

        script = (
            "import os, time; open(os.environ['TEST_NOTE'], 'w').write(str(os.getpid())); time.sleep(600)"
        )
        monkeypatch.setattr("workloads.harness.repeat.runs._ended_within", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(self.REPEAT, script)
        assert gone(int(note.read_text()))

    def test_the_kernels_kill_for_memory_is_distinguished_from_others(self, run, monkeypatch):
        kills = iter([4, 5])
        monkeypatch.setattr("workloads.harness.repeat.runs.oom_kills", lambda: next(kills))
        record = run(self.REPEAT, "import os; os.kill(os.getpid(), 9)")
        assert record.verdict is Verdict.OUT_OF_MEMORY
        assert record.reasons == ("the kernel ran out of memory at n=64 and killed the process; try n=32",)

    @pytest.mark.parametrize(
        "words",
        [
            "raise MemoryError",
            "raise MemoryError('Out of memory interning an attribute name')",
            "raise ImportError('libtorch_cpu.so: cannot map zero-fill pages')",
            "sys.stderr.write('terminate called\\n  what():  std::bad_alloc\\n'); os.abort()",
            "sys.stderr.write('OpenBLAS error: Memory allocation still failed after 10 retries\\n'); sys.exit(1)",
        ],
    )
    def test_memory_that_ran_out_has_many_names(self, run, words):
        record = run(self.REPEAT, f"import os, sys; {words}")
        assert record.verdict is Verdict.OUT_OF_MEMORY, record.reasons
        assert record.reasons[0].startswith("memory ran out at n=64: ")
        assert record.reasons[0].endswith("; try n=32")

    @pytest.mark.parametrize(
        "words",
        [
            "raise ImportError('libgomp.so.1: cannot allocate memory in static TLS block')",
            "sys.stderr.write('out of memory\\n')",  # and ends well, without a record
        ],
    )
    def test_not_every_word_of_memory_means_that_it_ran_out(self, run, words):
        assert run(self.REPEAT, f"import os, sys; {words}").verdict is Verdict.CRASHED

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
