from dataclasses import replace

import pytest

from tasks.plausibility import coherence
from tasks.plausibility.coherence import copied, shrinks, superlinear
from tasks.plausibility.physics import (
    above_bandwidth,
    above_peak,
    elsewhere,
    gate,
    not_a_time,
    not_its_median,
    not_its_sum,
)
from tasks.results.repeats import key
from tasks.results.values import Estimate
from tests.tasks.examples import seed_table
from tests.tasks.examples.records import IMAGES, MATMUL, failed, machine, record, repeats, timing
from workloads.harness.records.case import Case
from workloads.harness.records.record import Transfer, Verdict, Work

PEAKS = machine("gpu", peak_flops=(("fp32", 31.2e12),), peak_bytes_per_s=600e9, devices=1)
FLOPS = 2.0 * 5000**3


def matmul(n):
    return Case.of("matmul", {"n": n})


def with_samples(seconds, samples, case=MATMUL, hardware="cpu-box"):
    return record(seconds, case, hardware, wall=replace(timing(seconds), samples_s=tuple(samples)))


def test_a_sound_run_passes():
    good = [r for n in (1000, 5000, 8000) for r in repeats([n**3 / 1e12] * 3, matmul(n))]
    assert gate(good, [machine()]) == {} == gate([], [])


@pytest.mark.parametrize(("share", "fires"), [(1.04, False), (1.06, True)])
def test_a_rate_above_the_peak_is_impossible(share, fires):
    fast = record(FLOPS / (share * 31.2e12), hardware="gpu", device="cuda")
    assert bool(above_peak(fast, PEAKS)) is fires
    if fires:
        assert above_peak(fast, PEAKS) == ("33.1 TFLOP/s is 1.06 times the peak of gpu in fp32, 31.2 TFLOP/s")


@pytest.mark.parametrize(
    ("conv_flops", "precision", "fires"),
    [(FLOPS, "fp32", False), (FLOPS / 2, "fp32", True), (None, "fp32", True), (FLOPS, "tf32", True)],
)
def test_a_convolution_in_fp32_can_be_had_with_fewer_products(conv_flops, precision, fires):
    """Winograd's tiles need 2.25 times fewer products than the definition."""
    peaks = machine("gpu", peak_flops=(("fp32", 10e12), ("tf32", 10e12)))
    made = record(FLOPS / 20e12, Case.of("ddpm", {"batch": 32}, precision), "gpu", device="cuda")
    made = replace(made, work=Work(1, "images", FLOPS, None, FLOPS, conv_flops=conv_flops))
    assert bool(above_peak(made, peaks)) is fires


def test_no_peak_no_verdict():
    fast = record(1e-9, Case.of("matmul", {"n": 5000}, "bf16"), "gpu")
    assert above_peak(fast, PEAKS) is None
    assert above_peak(fast, None) is None
    assert above_peak(record(1e-9, hardware="gpu", work=Work(1, "x", None, None)), PEAKS) is None


def test_a_rate_above_the_bandwidth_is_impossible_only_beyond_the_cache():
    moved = Work(1, "images", None, 10e9)
    at_peak, too_fast = 10e9 / 600e9, 10e9 / 700e9
    assert above_bandwidth(record(at_peak, IMAGES, "gpu", device="cuda", work=moved), PEAKS) is None
    reason = above_bandwidth(record(too_fast, IMAGES, "gpu", device="cuda", work=moved), PEAKS)
    assert reason == "691 GB/s, caches excluded, is 1.15 times the bandwidth of gpu, 600 GB/s"
    in_cache = Work(1, "images", None, 100e6)
    assert above_bandwidth(record(1e-5, IMAGES, "gpu", device="cuda", work=in_cache), PEAKS) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"wall": None}, "it counts but holds no time"),
        ({"wall": timing(0.0)}, "its compute time is 0 s"),
        ({"wall": timing(float("inf"))}, "its compute time is inf s"),
        ({"transfer": Transfer(h2d_pageable_s=-2.0)}, "its end-to-end time is -1 s"),
        ({"wall": replace(timing(1.0), mean_s=-1.0)}, "its mean time is -1 s"),
        ({}, None),
    ],
)
def test_a_time_is_positive_and_finite(changes, reason):
    assert not_a_time(record(1.0, **changes)) == reason


def test_the_median_is_that_of_the_samples():
    good = timing(0.5)
    assert not_its_median(good) is None
    assert not_its_median(None) is None
    assert not_its_median(replace(good, median_s=0.5 * (1 + 1e-10))) is None
    wrong = not_its_median(replace(good, median_s=0.25))
    assert wrong == "it states a median of 0.25 s, its 11 samples have 0.5 s"
    assert not_its_median(replace(good, samples_s=())) == "it states a median without samples"


def test_phases_add_up_within_two_percent():
    good = record(1.0)
    assert not_its_sum(good) is None
    assert not_its_sum(replace(good, wall_s=good.wall_s * 1.019)) is None
    assert "its process took 17 s" in not_its_sum(replace(good, wall_s=17.0))
    assert not_its_sum(replace(good, phases_s={}, wall_s=0.0)) is None


def test_the_blogs_job_has_a_quarter_of_its_time_in_no_row():
    """10.13 s on the CPU, of which the rows account for 7.78 s."""
    rows = {case.id: times[0] for case, times in seed_table.ROWS.items()}
    job = record(1.0, phases_s=rows, unattributed_s=0.0, wall_s=seed_table.JOB_S[0])
    assert not_its_sum(job) == "its phases and the rest add up to 7.78 s, its process took 10.1 s"


def test_a_copied_row_is_caught():
    samples = timing(0.29).samples_s
    one, other = with_samples(0.29, samples), with_samples(0.29, samples, IMAGES)
    reason = copied(one, other, elsewhere=False)
    assert reason and f"11 samples equal those of {IMAGES.id}" in reason
    assert gate([one, other], []).keys() == {key(one), key(other)}


def test_samples_that_differ_or_are_coarse_are_no_copies():
    samples = timing(0.29).samples_s
    one = with_samples(0.29, samples)
    nearly = with_samples(0.29, (*samples[:-1], samples[-1] * (1 + 1e-15)), IMAGES)
    assert copied(one, nearly, elsewhere=True) is None
    assert copied(one, replace(one, repeat=1), elsewhere=True) is None
    assert gate([one, with_samples(0.29, samples, IMAGES, "other-box")], []) == {}
    coarse = [with_samples(0.04, [0.04] * 11), with_samples(0.04, [0.04] * 11, IMAGES)]
    assert gate(coarse, []) == {}


def test_the_row_that_the_blog_copied_is_caught_and_its_coincidences_are_not():
    """4096 b1 repeats 2048 b1 on both machines; 0.04 s comes three times on the GPU, by rounding."""
    found = gate(seed_table.records(), [seed_table.CPU, seed_table.GPU])
    assert {name[2] for name in found} == {
        "image_pipeline/pixels=2048,batch=1/fp32",
        "image_pipeline/pixels=4096,batch=1/fp32",
    }
    assert len(found) == 4


def test_time_that_falls_with_work():
    others = [record(0.10, matmul(2000)), record(0.80, matmul(4000))]
    assert shrinks(record(0.01, matmul(5000)), others) == (
        "it took 0.01 s for 15.6 times the work of matmul/n=2000/fp32, which took 0.1 s"
    )
    found = gate([*others, record(0.01, matmul(5000))], [])
    assert [name[2] for name in found] == ["matmul/n=5000/fp32"]


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        ({2000: 0.10, 4000: 0.10, 5000: 0.10}, "flat: launches make the time"),
        ({2000: 0.10, 5000: 0.01}, "two cases: either may be the odd one"),
        ({1000: 0.88, 5000: 0.010, 8000: 0.040}, "the small one was slow, the large ones agree"),
        ({500: 60e-6, 1000: 80e-6, 2000: 20e-6}, "all below 100 us"),
        ({2000: 0.10, 2100: 0.04, 4000: 0.9}, "less than twice the work"),
    ],
)
def test_time_that_need_not_grow(seconds, why):
    assert gate([record(t, matmul(n)) for n, t in seconds.items()], []) == {}, why


@pytest.mark.parametrize(("work", "most"), [(True, 2), (False, 0)])
def test_a_night_of_many_sizes_is_not_compared_pair_by_pair(monkeypatch, work, most):
    compared = []
    gain = coherence._gain
    monkeypatch.setattr(coherence, "_gain", lambda *pair: compared.append(pair) or gain(*pair))
    sizes = range(1000, 1100)
    made = [record(n**3 / 1e12, matmul(n)) for n in sizes]
    assert gate([r if work else replace(r, work=None) for r in made], []) == {}
    assert bool(compared) is work and len(compared) <= most * len(sizes)


def test_other_precisions_and_machines_are_no_family():
    half = Case.of("matmul", {"n": 5000}, "bf16")
    mixed = [record(0.1, matmul(2000)), record(0.8, matmul(4000)), record(0.01, half)]
    assert gate(mixed, []) == {}


def test_work_without_flops_is_measured_in_bytes_or_units():
    def images(batch, seconds):
        case = Case.of("image_pipeline", {"pixels": 512, "batch": batch})
        return record(seconds, case, work=Work(batch, "images", None, None))

    assert "8 times the work" in shrinks(images(8, 0.01), [images(1, 0.1), images(2, 0.2)])


def threads(count, times, **changes):
    return repeats(times, hardware=f"local-{count}", threads=count, **changes)


def test_more_than_all_of_the_scaling():
    one, eight = threads(1, [8.0, 8.01, 7.99]), threads(8, [0.7, 0.701, 0.699])
    found = gate([*one, *eight], [])
    assert found == {
        key(r): ("11.4 times the speed of local-1 with 8 times its devices is 143 % scaling",) for r in eight
    }


def test_scaling_that_can_be_true_is_not_impossible():
    one = threads(1, [8.0, 8.01, 7.99])
    assert gate([*one, *threads(8, [1.0, 1.001, 0.999])], []) == {}
    assert gate([*one, *threads(8, [0.7, 1.2, 0.9])], []) == {}, "its interval reaches below 105 %"
    assert gate([*one[:1], *threads(8, [0.7])], []) == {}, "no interval"
    (reason,) = set(gate([*one[:1], *threads(8, [0.372])], []).values())
    assert "269 % scaling" in str(reason), "one repeat is enough for what no caches give"
    other_box = threads(8, [0.7, 0.701, 0.699], environment={"cpu_model": "Faster CPU"})
    assert gate([*one, *other_box], []) == {}
    unknown = threads(8, [0.7, 0.701, 0.699], environment={})
    assert gate([*one, *unknown], []) == {}
    assert superlinear(Estimate(1.2, 1.04, 1.4), 8, "one") is None


@pytest.mark.parametrize("probes", [{"foreign_load_share": 0.5}, {"canary_drift": 0.3}])
def test_load_on_one_machine_does_not_make_the_other_impossible(probes):
    """One thread took 1.3 s under load, 0.9 s without it."""
    noisy = {"verdict": Verdict.NOISY, "probes": probes}
    two = threads(2, [0.500, 0.501, 0.499])
    assert gate([*threads(1, [1.30, 1.31, 1.29], **noisy), *two], []) == {}
    assert gate([*threads(1, [1.6], **noisy), *two[:1]], []) == {}, "not by one repeat either"
    assert set(gate([*threads(1, [1.30, 1.31, 1.29]), *two], [])) == set(map(key, two))


def test_only_ok_records_are_judged_and_only_plausible_ones_compared():
    broken = record(1.0, wall=replace(timing(1.0), median_s=2.0))
    twin = record(2.0, IMAGES, wall=broken.wall)
    assert gate([failed(Verdict.CRASHED, "it died")], []) == {}
    assert gate([replace(broken, verdict=Verdict.THROTTLED)], []) == {}
    assert set(gate([broken, replace(twin, wall=replace(broken.wall, median_s=1.0))], [])) == {key(broken)}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"instance_type": "g5.xlarge", "purchase": "spot"}, None),
        ({}, None),
        ({"instance_type": None, "purchase": None}, None),
        ({"instance_type": "g5.2xlarge", "purchase": "spot"}, "measured on g5.2xlarge"),
        ({"instance_type": "g5.xlarge", "purchase": "on-demand"}, "but spot was planned and priced"),
    ],
)
def test_another_machine_than_planned_is_refused(said, reason):
    planned = machine("gpu", instance_type="g5.xlarge", purchase="spot")
    measured = record(1.0, hardware="gpu", environment=said)
    found = elsewhere(measured, planned)
    assert found is None if reason is None else reason in found
    assert bool(gate([measured], [planned])) is bool(reason)
    assert elsewhere(measured, machine("gpu")) is None and elsewhere(measured, None) is None


CALLED = (("a10", "A10"), ("a10g", "A10G"), ("h100-sxm", "H100 80GB HBM3"))


@pytest.mark.parametrize(
    ("model", "gpus", "reason"),
    [
        (
            "a10",
            [{"name": "NVIDIA A10G"}],
            "it was measured on NVIDIA A10G (a10g), but a10 was planned and priced",
        ),
        ("a10g", [{"name": "NVIDIA A10G"}], None),
        ("h100-sxm", [{"name": "NVIDIA H100 GEN2"}], None),  # of a name that is on no list
        ("a6000", [{"name": "NVIDIA A10G"}], None),  # whose names are unknown
        (None, [{"name": "NVIDIA A10G"}], None),
        ("a10", [], None),
        ("a10", None, None),
        ("a10", ["no description", {"name": 7}], None),
        ("a10", "NVIDIA A10G", None),
    ],
)
def test_another_gpu_than_the_hardware_file_names_is_refused(model, gpus, reason):
    planned = machine("gpu", gpu=model, gpus_called=CALLED)
    measured = record(1.0, hardware="gpu", environment={"gpus": gpus})
    assert elsewhere(measured, planned) == reason
    assert bool(gate([measured], [planned])) is bool(reason)
