import math
from dataclasses import replace

import pytest

from tasks.findings.compare import compare
from tasks.plausibility.physics import gate
from tasks.plausibility.trainings import Standing, courses, deviation, fall, grossly_apart
from tasks.results.repeats import key
from tests.tasks.examples.records import A10G, machine
from tests.tasks.examples.script_records import losses, script_record, script_repeats
from workloads.harness.records.record import Grade, Verdict

GPU = {"device": "cuda", "environment": A10G}
L4 = {"device": "cuda", "environment": A10G | {"gpus": [{"name": "NVIDIA L4"}]}}


def judged(*groups):
    records = [record for members in groups for record in members]
    names = list(dict.fromkeys(record.hardware for record in records))
    found = courses(records, [machine(name) for name in names])
    return {name: [c.standing for c in found if c.record.hardware == name] for name in names}, found


def group(hardware, curves, **changes):
    return [script_record(hardware, number, losses=curve, **changes) for number, curve in enumerate(curves)]


def rounded(number, **options):
    return losses(summed=number, **options)


def test_sums_in_another_order_are_the_same_training_on_one_kind_of_device():
    assert losses() != rounded(3)
    standings, found = judged(
        group("a", [losses(), losses(), losses()]), group("b", [rounded(n) for n in (1, 2, 3)])
    )
    assert standings == {
        "a": [Standing.REFERENCE, Standing.SAME, Standing.SAME],
        "b": [Standing.SAME] * 3,
    }
    assert found[1].detail == "12 equal losses" and found[3].detail.startswith("12 losses within 1e-0")


@pytest.mark.parametrize("change", [{"data": 1}, {"rate": 0.2}, {"rate": 0.01}, {"seed": 5}])
def test_other_data_another_rate_or_another_seed_on_one_kind_of_device_is_wrong(change):
    standings, found = judged(group("a", [losses()] * 2), group("b", [rounded(n, **change) for n in (1, 2)]))
    assert standings["b"] == [Standing.WRONG] * 2 and standings["a"] == [Standing.REFERENCE, Standing.SAME]
    assert "on a" in found[-1].detail and "more than rounding on one kind of device" in found[-1].detail


def test_one_repeat_that_is_not_the_others_is_wrong_and_they_are_not():
    standings, found = judged(group("a", [losses(data=1), losses(), rounded(1)]))
    assert standings["a"][0] is Standing.WRONG and Standing.WRONG not in standings["a"][1:]
    assert "in repeat 1" in found[0].detail


@pytest.mark.parametrize("changes", [GPU, L4])
def test_another_kind_of_device_with_other_random_numbers_is_not_accused(changes):
    standings, found = judged(
        group("a", [losses(data=1)] * 3, **GPU), group("b", [losses(data=2)] * 3, **(GPU | changes))
    )
    if changes is GPU:
        assert standings["b"] == [Standing.WRONG] * 3
    else:
        assert standings["b"] == [Standing.UNSHOWN] * 3
        assert found[-1].detail.startswith("its kind of device is not that of a")


def test_another_kind_of_device_that_agrees_is_the_same():
    standings, _ = judged(group("a", [losses()]), group("b", [rounded(1)], **L4))
    assert standings["b"] == [Standing.SAME]


def test_one_repeat_each_that_differ_show_no_seed():
    _, found = judged(group("a", [losses()]), group("b", [losses(data=1)]))
    assert found[1].standing is Standing.UNSHOWN and found[1].detail.startswith("one repeat alone")


def test_a_script_without_a_seed_is_reported_and_not_accused():
    curves = [losses(seed=n, data=n) for n in range(6)]
    standings, found = judged(group("a", curves[:3]), group("b", curves[3:], **L4))
    assert set(standings["b"]) == {Standing.UNSHOWN} and Standing.WRONG not in standings["a"]
    assert all("no fixed seed" in course.detail for course in found)


@pytest.mark.parametrize("rate", [0.0, -0.05])
def test_a_loss_that_falls_on_one_machine_alone_is_wrong_even_without_a_seed(rate):
    curves = [losses(seed=n, data=n, rate=rate if n > 2 else 0.1) for n in range(6)]
    standings, found = judged(group("a", curves[:3]), group("b", curves[3:], **L4))
    assert standings["b"] == [Standing.WRONG] * 3 and Standing.WRONG not in standings["a"]
    assert "over 48 steps its loss" in found[-1].detail and "on a it fell by" in found[-1].detail


def test_the_one_that_does_not_fall_is_accused_though_it_is_the_baseline_where_two_others_fall():
    curves = [losses(seed=n, data=n, rate=0.0 if n < 2 else 0.1) for n in range(6)]
    standings, _ = judged(
        group("a", curves[:2]), group("b", curves[2:4], **L4), group("c", curves[4:], **GPU)
    )
    assert standings["a"] == [Standing.WRONG] * 2 and Standing.WRONG not in standings["b"] + standings["c"]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_wrong_at_once(bad):
    (course,) = judged([script_record("a", 0, losses=(2.0, bad, 1.0))])[1]
    assert course.standing is Standing.WRONG and course.detail == f"its loss at step 2 is {bad}"


def test_other_code_or_another_batch_is_another_task_and_not_compared():
    other = group("b", [losses(data=1)] * 2, code="sha256:22")
    larger = group("c", [losses(data=2)] * 2, samples=64)
    standings, _ = judged(group("a", [losses()] * 2), other, larger)
    assert all(members == [Standing.REFERENCE, Standing.SAME] for members in standings.values())


def test_a_wrong_training_is_refused_as_wrong_and_enters_no_ratio():
    records = [
        *script_repeats("a", [1.0, 1.01, 1.02]),
        *(
            replace(r, script=replace(r.script, losses=losses(data=1)))
            for r in script_repeats("b", [0.5, 0.51])
        ),
    ]
    refused = gate(records, [machine("a"), machine("b")])
    assert set(refused) == {key(record) for record in records[3:]}
    found = compare(records, [machine("a"), machine("b")], "a")
    assert [(s.verdict, s.grade) for s in found.summaries] == [
        (Verdict.OK, Grade.SOUND),
        (Verdict.WRONG, Grade.REFUSED),
    ]
    assert found.pairings[0].compute is None and found.pairings[0].refused.startswith(
        "b is wrong: its loss at step 1"
    )


def test_a_record_that_is_wrong_and_impossible_is_impossible():
    bad = replace(script_record("a", 0, losses=(1.0, math.nan)), energy_j=-1.0)
    (summary,) = compare([bad], [machine("a")], "a").summaries
    assert summary.verdict is Verdict.IMPOSSIBLE and len(summary.reasons) == 2


def test_tolerance_grows_from_step_to_step():
    curve = (1.0,) * 12
    late = (*curve[:11], 1.02)
    early = (1.0, 1.02, *curve[2:])
    assert deviation(late, curve) < 1 < deviation(early, curve)
    assert deviation((), curve) == 0.0 and deviation((0.0,), (0.0,)) == 0.0


def test_noise_of_batches_is_no_fall():
    noisy = [1 + 0.5 * (-1) ** n for n in range(40)]
    share, error = fall(noisy)
    assert abs(share) < 5 * error and not grossly_apart(noisy, [1.0] * 40)
    assert grossly_apart([1.0 - 0.02 * n for n in range(40)], [1.0] * 40)
    assert not grossly_apart([1.0, 0.1], [1.0, 1.0])
