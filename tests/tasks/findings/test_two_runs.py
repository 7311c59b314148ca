from tasks.findings.two_runs import ComparedRun, compare_runs
from tasks.results.values import RatioVerdict
from tests.tasks.examples.records import IMAGES, MATMUL, failed, machine, repeats
from workloads.harness.records.record import Verdict

CPU, GPU = machine("cpu-box", 1.0), machine("gpu-box", 3.0)
NIGHT = [0.101, 0.100, 0.099]


def side(name, *records, machines=(CPU, GPU), baseline="cpu-box"):
    return ComparedRun(name, tuple(records), machines, baseline)


def test_the_same_machine_is_paired_across_runs_and_no_other():
    old = side("old", *repeats(NIGHT), *repeats([0.0101, 0.01, 0.0099], hardware="gpu-box"))
    slow = [1.1 * seconds for seconds in NIGHT]
    new = side("new", *repeats(slow), *repeats([0.0101, 0.01, 0.0099], hardware="gpu-box"))
    records, found = compare_runs(old, new)
    ratios = {pairing.case.workload: pairing.compute for pairing in found.pairings}
    assert ratios["matmul@cpu-box"].outcome is RatioVerdict.SLOWER
    assert abs(ratios["matmul@cpu-box"].estimate.value * 1.1 - 1) < 1e-9
    assert ratios["matmul@gpu-box"].outcome is RatioVerdict.UNDECIDED
    assert {record.hardware for record in records} == {"old", "new"} and found.baseline == "old"
    assert all(pairing.cost is None for pairing in found.pairings)


def test_runs_of_different_machines_stand_side_by_side():
    old = side("old", *repeats(NIGHT), machines=(CPU,))
    new = side(
        "new", *repeats([0.011, 0.010, 0.009], hardware="gpu-box"), machines=(GPU,), baseline="gpu-box"
    )
    _, found = compare_runs(old, new)
    (pairing,) = found.pairings
    assert (pairing.hardware, pairing.baseline, found.baseline) == ("gpu-box", "cpu-box", "cpu-box")
    assert pairing.compute.outcome is RatioVerdict.FASTER and pairing.cost is not None


def test_a_case_that_only_one_run_measured_is_named():
    old, new = side("old", *repeats(NIGHT)), side("new", *repeats(NIGHT), *repeats(NIGHT, IMAGES))
    _, found = compare_runs(old, new)
    assert [text for text in found.unpaired if "image_pipeline@cpu-box" in text]


def test_an_impossible_record_enters_no_ratio_though_a_run_has_no_peak():
    fast = machine("cpu-box", 1.0, peak_flops=(("fp32", 1e12),))
    old = side("old", *repeats(NIGHT, MATMUL), machines=(fast,))  # 2.5e11 FLOP in 0.1 s: above 1e12 FLOP/s
    new = side("new", *repeats(NIGHT, MATMUL))
    records, found = compare_runs(old, new)
    assert found.pairings[0].compute is None and "impossible" in found.pairings[0].refused
    assert {record.verdict for record in records if record.hardware == "old"} == {Verdict.IMPOSSIBLE}


def test_runs_without_a_number_give_no_ratio():
    bad = failed(Verdict.CRASHED, "exit status 139")
    for old, new in ((side("old"), side("new")), (side("old", bad), side("new", bad))):
        _, found = compare_runs(old, new)
        assert not any(pairing.compute for pairing in found.pairings) and found.sentences
