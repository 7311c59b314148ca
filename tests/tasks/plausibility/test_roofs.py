from dataclasses import asdict, replace

import pytest

from tasks.plausibility.physics import gate
from tasks.results.repeats import key
from tests.tasks.examples.records import ENVIRONMENT, MATMUL, machine, record
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict, Work
from workloads.harness.roofline.roof import COPY, PRODUCT, READ, RoofRate

TOP = 1e12
ROOF = Case.of("roof", {"side": 4096})
STEP = Case.of("transformer_train", {"width": 256})


def roof(rate=TOP, case=ROOF, **changes):
    return record(1e10 / rate, case, work=Work(1e10, "FLOP", 1e10, 1.0), **changes)


def step(rate, flops=1e10, **changes):
    return record(flops / rate, STEP, work=Work(1, "steps", flops, 1.0), **changes)


@pytest.mark.parametrize(
    ("times", "fires"), [(0.9, False), (1.05, False), (1.9, False), (2.1, True), (100, True)]
)
def test_twice_the_roof_is_refused_and_less_is_not(times, fires):
    fast = step(times * TOP)
    reasons = gate([roof(), fast], [machine()])
    assert reasons.keys() == ({key(fast)} if fires else set())
    if fires:
        assert (
            "times the fastest product of this machine in fp32, 1 TFLOP/s, its measured roof"
            in reasons[key(fast)][0]
        )


def test_a_product_that_beats_the_roof_raises_it():
    product = record(2.0 * 5000**3 / (1.9 * TOP), MATMUL)
    assert gate([roof(), product, step(3 * TOP)], [machine()]) == {}


@pytest.mark.parametrize(
    "change", [{"verdict": Verdict.NOISY}, {"verdict": Verdict.IMPRECISE}, {"hardware": "other"}]
)
def test_a_roof_that_is_not_sound_or_of_another_machine_refuses_nothing(change):
    assert gate([replace(roof(), **change), step(10 * TOP)], [machine()]) == {}


def test_another_precision_has_another_roof():
    other = replace(step(10 * TOP), case=Case.of("transformer_train", {"width": 256}, "bf16"))
    assert gate([roof(), other], [machine()]) == {}


def test_without_a_roof_products_alone_refuse_nothing():
    product = record(2.0 * 5000**3 / TOP, MATMUL)
    assert gate([product, step(10 * TOP)], [machine()]) == {}


def test_cached_rates_of_a_box_bound_a_step_too():
    kept = ENVIRONMENT | {"roof": [asdict(RoofRate(PRODUCT, TOP))]}
    fast = step(3 * TOP, environment=kept)
    assert gate([fast], [machine()]).keys() == {key(fast)}
    noisy = ENVIRONMENT | {"roof": [asdict(RoofRate(PRODUCT, TOP, verdict="noisy"))]}
    assert gate([step(3 * TOP, environment=noisy)], [machine()]) == {}


def test_traffic_beyond_the_caches_is_compared_with_reads_and_copies():
    kept = ENVIRONMENT | {"roof": [asdict(RoofRate(READ, 40e9)), asdict(RoofRate(COPY, 20e9))]}

    def moved(nbytes, seconds):
        return record(seconds, STEP, work=Work(1, "steps", 1.0, nbytes), environment=kept)

    assert gate([moved(8e9, 0.11)], [machine()]) == {}  # 73 GB/s, less than twice 40
    fast = moved(8e9, 0.05)
    assert (
        "the fastest read or copy of this machine's memory, 40 GB/s"
        in gate([fast], [machine()])[key(fast)][0]
    )
    assert gate([moved(0.5e9, 1e-3)], [machine()]) == {}  # a cache can have held all of it


def test_a_fast_convolution_in_fp32_can_have_had_fewer_products():
    made = record(
        1e10 / (4 * TOP),
        Case.of("ddpm", {"batch": 32}),
        work=Work(1, "images", 1e10, 1.0, 1e10, conv_flops=1e10),
    )
    assert gate([roof(), made], [machine()]) == {}
