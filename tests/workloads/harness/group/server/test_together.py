import re
import subprocess
import sys
import time

import pytest

from tests.workloads.harness.group.small_groups import MEASURED, ROOT, TORCHRUN, ranks_in, repeat_of
from workloads.harness.group.distributed import ALONE_S
from workloads.harness.records.record import Record, Verdict


def test_two_ranks_make_one_record(run, note):
    record = run(repeat_of("small_weak"))
    assert record.verdict in MEASURED, record.reasons
    group, work = record.group, record.work
    assert (group.backend, group.scaling) == ("gloo", "weak")
    assert [(r.rank, r.device) for r in group.ranks] == [(0, "cpu"), (1, "cpu")]
    assert all(r.peak_rss_bytes > 5e7 and r.median_s > 0 for r in group.ranks)
    assert record.wall.median_s >= 0.5 * max(r.median_s for r in group.ranks)
    assert 0 <= group.communication_share < 1
    assert group.spread >= 0
    assert (work.units, work.unit, record.threads) == (16, "rows", 1)
    assert work.counted_flops == work.matmul_flops == 2 * 2 * 8 * (64 * 65 * 2 + 64)
    assert record.training.last_loss < record.training.first_loss
    assert record.phases_s["import"] > 0.1
    assert sorted(ranks_in(note)) == [0, 1]
    assert "foreign_cores" in record.probes or "foreign_cores" in record.missing


def test_each_process_is_measured_in_company_and_alone(run):
    record = run(repeat_of("matmul_weak", quick=False, brief=True))
    assert record.verdict in MEASURED, record.reasons
    assert [rank.rank for rank in record.group.ranks] == [0, 1]
    for rank in record.group.ranks:
        assert 0 < rank.alone_s < 1 and 0 < rank.mean_s < 1 and rank.probes == {}
    assert record.phases_s["alone"] >= 2 * ALONE_S
    assert (record.work.units, record.work.flops) == (2, 2 * 2 * 64**3)


@pytest.mark.chaos
def test_a_single_process_is_a_group_too(run):
    record = run(repeat_of("small_strong", processes=1))
    assert record.verdict in MEASURED, record.reasons
    assert (record.group.scaling, len(record.group.ranks)) == ("strong", 1)
    assert record.group.communication_share is None
    assert record.work.units == 8


@pytest.mark.chaos
def test_a_trial_only_sees_whether_it_fits(run):
    record = run(repeat_of("small_weak", trial=True))
    assert (record.verdict, record.wall) == (Verdict.OK, None)


@pytest.mark.chaos
def test_a_job_takes_as_long_as_its_slowest_rank_and_every_rank_shows_its_memory(run):
    record = run(repeat_of("small_job"))
    assert record.verdict in MEASURED, record.reasons
    assert record.wall.median_s >= 0.6
    assert min(record.training.step_s) >= 0.2
    assert [(m.step, m.rank) for m in record.training.memory] == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert all(m.peak_bytes >= 0.5 * m.allocated_bytes > 1e7 for m in record.training.memory)


@pytest.mark.chaos
def test_in_a_plain_shell(groups, tmp_path):
    command = [
        sys.executable,
        "-m",
        "workloads",
        "run",
        "small_weak",
        "--size",
        "n=64,processes=2",
        "--quick",
    ]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600)
    record = Record.from_json(found.stdout)
    assert record.verdict in MEASURED
    assert len(record.group.ranks) == 2
    assert found.returncode == (0 if record.ok else 1)


@pytest.mark.chaos
def test_a_group_can_be_started_by_torchrun(groups):
    words = ["-m", "workloads", "run", "small_weak", "--size", "n=64,processes=2", "--quick"]
    found = subprocess.run(
        [*TORCHRUN, "--nproc-per-node=2", *words], capture_output=True, text=True, cwd=ROOT, timeout=600
    )
    record = Record.from_json(found.stdout)
    assert record.verdict in MEASURED, found.stderr
    assert len(record.group.ranks) == 2


def test_too_many_are_unsupported_before_anything_starts(groups, note):
    command = [sys.executable, "-m", "workloads", "run", "small_weak", "--size", "n=64,processes=9999"]
    started = time.monotonic()
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    record = Record.from_json(found.stdout)
    assert (record.verdict, found.returncode) == (Verdict.UNSUPPORTED, 1)
    assert re.search(
        "9999 processes of 1 thread each need 9999 CPUs, but this process can use", record.reasons[0]
    )
    assert not list(note.iterdir())
    assert time.monotonic() - started < 100


def test_a_mistake_in_the_call_is_reported_once(box_lock):
    command = [sys.executable, "-m", "workloads", "run", "ddpm_strong", "--size", "batch=3,processes=2"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (found.returncode, found.stdout) == (2, "")
    sentence = "error: batch=3 can't be divided by processes=2; choose a multiple of 2\n"
    assert found.stderr.count("can't be divided") == 1
    assert found.stderr.endswith(sentence)


@pytest.mark.parametrize(
    ("name", "verdict", "reason"),
    [
        ("forgets_to_exchange", "wrong", "gradients differ after a step: "),
        *(
            pytest.param(*end, marks=pytest.mark.chaos)
            for end in (
                ("one_is_killed", "crashed", r"^rank 1 of 2 was killed by SIGKILL in step \d+$"),
                ("one_exits", "crashed", r"^rank 1 of 2 ended with code 3 in step \d+$"),
                ("one_raises", "crashed", "^rank 1 of 2: the workload raised KeyError: 'a key'"),
                ("one_dies_early", "crashed", "^rank 1 of 2 ended with code 5 "),
                (
                    "one_runs_out_of_memory",
                    "out_of_memory",
                    "^rank 1 of 2: memory ran out at n=64,processes=2",
                ),
                ("all_raise", "crashed", "^the workload raised ZeroDivisionError: before it was built$"),
            )
        ),
    ],
)
def test_the_end_of_one_is_the_end_of_all_and_says_whose_it_was(run, name, verdict, reason):
    record = run(repeat_of(name))
    assert record.verdict == verdict, record.reasons
    assert re.search(reason, record.reasons[0]), record.reasons
    assert record.wall_s < 200
