import os
import re
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.__main__ import main
from workloads.command import largest
from workloads.command.largest import Largest, answer, find_largest, first_case, search
from workloads.harness.records.case import Case
from workloads.harness.records.record import Memory, Record, Verdict
from workloads.harness.records.repeat import Repeat

ROOT = Path(__file__).parents[3]
MIB = 2**20
FILLS = '''
"""Fills so much memory."""
from workloads.harness.prepared import Prepared
from workloads.harness.registry import workload

@workload(mib=(1, 1000), tiny={"mib": 1})
def fills(env, mib):
    import torch
    x = torch.ones(mib, 2**18)
    return Prepared(step=lambda: x[:1] * 2, inputs=(x,), reference=lambda: x[:1].double() * 2, view=lambda y: y,
                    units=1, unit="steps", flops=2**18, bytes=2**20, matmul_flops=0)
'''


def outcome(value, verdict=Verdict.OK, reason="", peak=5 * 10**9):
    reasons = (reason,) if reason else ()
    return Record(
        "r", "b", Case.of("any", {"n": value}), 1, verdict, reasons, memory=Memory(peak_rss_bytes=peak)
    )


def trials(capacity, limit=None, start=1):
    tried = []

    def trial(value):
        tried.append(value)
        return outcome(value, Verdict.OK if value <= capacity else Verdict.OUT_OF_MEMORY)

    return search(start, limit, trial), tried


class TestSearch:
    @given(
        capacity=st.integers(0, 10**6),
        start=st.integers(1, 10**6),
        limit=st.none() | st.integers(1, 10**6),
    )
    def test_the_search_finds_the_largest_size_that_fits(self, capacity, start, limit):
        found, tried = trials(capacity, limit, start)
        best = capacity if limit is None else min(capacity, limit)
        assert (found.fits or 0) <= best
        assert best - (found.fits or 0) <= best // 100
        assert found.too_large is None or found.too_large > best
        assert (found.too_large is None) == (limit is not None and capacity >= limit)
        assert found.reason == ""
        assert len(tried) == len(set(tried)) <= 45
        assert limit is None or max(tried) <= limit
        assert not found.fits or found.record.case.params["n"] == found.fits

    @pytest.mark.parametrize("capacity", range(1, 130))
    def test_is_exact_while_numbers_are_small(self, capacity):
        found, _ = trials(capacity)
        assert (found.fits, found.too_large) == (capacity, capacity + 1)

    def test_doubles_then_bisects(self):
        assert trials(11)[1] == [1, 2, 4, 8, 16, 12, 10, 11]
        assert trials(11, start=3)[1] == [3, 6, 12, 9, 10, 11]
        assert trials(0)[1] == [1]
        assert trials(3, start=100)[1] == [100, 50, 25, 12, 6, 3, 4]
        assert trials(10**6, limit=5)[1] == [1, 2, 4, 5]
        assert trials(10**6, limit=5, start=9)[1] == [5]

    @pytest.mark.parametrize(
        "verdict", [Verdict.TIMEOUT, Verdict.CRASHED, Verdict.UNSUPPORTED, Verdict.WRONG]
    )
    def test_another_end_ends_it_with_its_reason(self, verdict):
        found = search(1, None, lambda n: outcome(n) if n < 4 else outcome(n, verdict, "it says why"))
        assert (found.fits, found.too_large) == (2, None)
        assert found.reason == f"the trial of 4 ended with verdict {verdict.value}: it says why"
        assert answer(found, "batch", None) == f"stopped: {found.reason}; batch=2 fits"

    def test_the_answer_is_a_sentence(self):
        assert answer(Largest(8, outcome(8), 9), "batch", None) == "batch=8 fits, peak 5 GB; batch=9 does not"
        on_gpu = replace(outcome(8), memory=Memory(1, 2, 21 * 10**9))
        assert "peak 21 GB on the device" in answer(Largest(8, on_gpu, 9), "batch", None)
        all_do = answer(Largest(8, outcome(8), None), "batch", 8)
        assert all_do == "batch=8 fits, peak 5 GB; the limit was 8"
        assert answer(Largest(None, None, 1), "batch", None) == "not even batch=1 fits"
        stopped = Largest(None, outcome(1, Verdict.CRASHED), None, "it broke")
        assert answer(stopped, "n", None) == "stopped: it broke; no tried size fits"


class TestCase:
    def test_the_search_begins_at_the_tiny_value_or_at_a_given_one(self):
        assert first_case("image_pipeline", {"pixels": 99}, "batch", "fp32").params == {
            "pixels": 99,
            "batch": 2,
        }
        size = {"pixels": 99, "batch": 7}
        assert (
            first_case("image_pipeline", size, "batch", "bf16").id == "image_pipeline/pixels=99,batch=7/bf16"
        )

    def test_an_optional_size_begins_at_its_default(self, monkeypatch):
        first = first_case("ddpm", {"batch": 1}, "channels", "fp32")
        assert first.params == {"batch": 1}
        tried = []

        def run(repeat, lock, say):
            tried.append(repeat.case.id)
            return outcome(1)

        monkeypatch.setattr(largest, "run_repeat", run)
        find_largest(Repeat("r", "b", first), "channels", 200, print)
        assert tried[:2] == ["ddpm/batch=1/fp32", "ddpm/batch=1,channels=200/fp32"]

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (
                ["--grow=n"],
                "workload image_pipeline has no size parameter 'n' to grow; it takes pixels, batch",
            ),
            (["--grow=batch"], "workload image_pipeline needs the size parameter 'pixels'"),
            (["--grow=batch", "--size=pixels=0"], "size pixels=0 must be above 0"),
            (["--grow=batch", "--size=pixels=9", "--precision=fp64"], "precision 'fp64' is unknown"),
        ],
    )
    def test_a_mistake_is_one_sentence(self, capsys, arguments, words):
        assert main(["largest", "image_pipeline", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert words in err

    def test_a_limit_is_a_number_above_0(self, capsys):
        with pytest.raises(SystemExit):
            main(["largest", "matmul", "--grow=n", "--limit=0"])
        assert "'0' must be a whole number above 0" in capsys.readouterr().err


def test_a_case_too_large_for_the_machine_is_not_tried(box_lock, monkeypatch):
    from tests.workloads.harness.repeat.box_holders import is_free

    tried, said = [], []

    def run_repeat(repeat, lock, say):
        assert repeat.trial
        assert not is_free(box_lock)
        tried.append(repeat.case.params["n"])
        return outcome(tried[-1])

    monkeypatch.setattr(largest, "run_repeat", run_repeat)
    monkeypatch.setattr("workloads.harness.repeat.local_limits.total_bytes", lambda root=None: 12 * 1000**2)
    first = Repeat("r", "a-box", Case.of("matmul", {"n": 250}))
    found = find_largest(first, "n", None, said.append)
    assert tried[:3] == [250, 500, 1000]
    assert max(tried) <= 1000 == found.fits < found.too_large <= 1010
    assert "matmul/n=2000/fp32: out_of_memory: needs at least 48 MB, but a-box has 12 MB" in said
    assert is_free(box_lock)


@pytest.fixture
def fills(tmp_path, monkeypatch):
    (tmp_path / "fills.py").write_text(FILLS)
    monkeypatch.setenv("GRIDBENCH_WORKLOADS", str(tmp_path))


def command(*arguments, data_bytes=resource.RLIM_INFINITY):
    """Run the program with at most this much data; return exit code, standard output and error."""
    found = subprocess.run(
        [sys.executable, "-m", "workloads", "largest", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        timeout=250,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (data_bytes, resource.RLIM_INFINITY)),
    )
    return found.returncode, found.stdout.strip(), found.stderr


@pytest.mark.chaos
def test_processes_that_really_run_out(fills, box_lock):
    """Torch itself holds the same amount for each size."""
    code, out, err = command("fills", "--grow=mib", "--size=mib=64", "--threads=1", data_bytes=1000 * MIB)
    found = re.fullmatch(r"mib=(\d+) fits, peak ([\d.]+) (MB|GB); mib=(\d+) does not", out)
    assert found, (out, err)
    fits, over = int(found[1]), int(found[4])
    assert 64 <= fits < over < 1000
    assert over - fits <= max(fits // 100, 1)
    assert float(found[2]) * {"MB": 1e6, "GB": 1e9}[found[3]] > fits * MIB
    assert code == 0
    assert re.search(r"fills/mib=64/fp32: fits, peak", err)
    assert f"fills/mib={over}/fp32: out_of_memory: memory ran out at mib={over}: " in err
    # a size barely too large can have its tensor and lack a little more; twice as large cannot
    assert "memory ran out at mib=1024: 1.07 GB more could not be allocated" in err


@pytest.mark.server
@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        (
            "raises_on_build",
            [],
            "stopped: the trial of 64 ended with verdict crashed: the workload raised ZeroDivisionError: before",
        ),
        (
            "hangs_on_build",
            ["--timeout-s=4"],
            "stopped: the trial of 64 ended with verdict timeout: no result within 4 s",
        ),
    ],
)
def test_trials_that_end_otherwise(cheats, tmp_path, monkeypatch, name, arguments, reason):
    (tmp_path / "hangs.py").write_text(
        '"""Hangs."""\nimport time\nfrom workloads.harness.registry import workload\n'
        '@workload(n=(1,), tiny={"n": 64})\ndef hangs_on_build(env, n): time.sleep(1000)\n'
    )
    if name == "hangs_on_build":
        monkeypatch.setenv("GRIDBENCH_WORKLOADS", str(tmp_path))
    code, out, _ = command(name, "--grow=n", *arguments)
    assert code == 1
    assert out.startswith(reason)
    assert out.endswith("; no tried size fits")
