import random
from dataclasses import replace

import pytest

from tasks.plausibility.remarks import bimodal, remarks
from tests.tasks.examples.records import MATMUL, repeats
from workloads.harness.records.record import Verdict


def test_two_groups_are_named_with_their_times():
    records = repeats([1.0, 1.13, 1.002, 1.131, 0.998])
    sentence = bimodal(records)
    groups = "(3 near 1.00 s, 2 near 1.13 s)"
    assert sentence.startswith(f"Repeats fall into two groups in cpu-box/matmul/n=5000/fp32 {groups}: ")
    assert sentence in remarks(records, records[0].run, [records[0].cell], "2026-01-01", 5)


@pytest.mark.parametrize(
    "times",
    [
        [1.0, 1.0, 1.13, 1.13],  # four can look so by chance
        [1.0, 1.001, 1.002, 1.003, 1.13],  # one is an outlier
        [1.0, 1.03, 1.06, 1.09, 1.13],
        [1.0, 1.001, 1.002, 1.02, 1.021],  # 2 % is what machines do
        [1.0],
        [],
    ],
)
def test_times_in_one_group_are_not_bimodal(times):
    assert bimodal(repeats(times, MATMUL)) == ""


def test_wide_repeats_seldom_look_so_by_chance():
    generator = random.Random(1)
    cells = [[generator.lognormvariate(0, 0.1) for _ in range(5)] for _ in range(600)]
    assert sum(bool(bimodal(repeats(times))) for times in cells) <= 12


@pytest.mark.parametrize(
    ("verdict", "named"), [(Verdict.IMPRECISE, True), (Verdict.NOISY, False), (Verdict.WRONG, False)]
)
def test_wide_repeats_count_and_those_beside_others_load_do_not(verdict, named):
    records = [replace(r, verdict=verdict) for r in repeats([1.0, 1.13, 1.002, 1.131, 0.998])]
    assert bool(bimodal(records)) is named


def test_reasons_are_whole_and_only_a_name_of_absurd_length_is_shortened():
    long, absurd = "m" * 250, "m" * 5000
    for name, is_whole in ((long, True), (absurd, False)):
        (sentence,) = remarks(repeats([1.0], MATMUL, name), "another run", [], "2026-01-01", 5)
        assert (name in sentence) is is_whole and ("…" not in sentence) is is_whole
        assert sentence.endswith("not in the plan of this run.") and len(sentence) < 400
