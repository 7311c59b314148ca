from dataclasses import asdict, replace

import pytest

from tests.workloads.harness.roofline.roofline_records import REFUSED, record
from workloads.harness.records.parts import Group, Rank
from workloads.harness.records.record import Cache, Timing, Verdict, Work
from workloads.harness.roofline.ceilings import ceilings_of
from workloads.harness.roofline.roof import (
    ALL_REDUCE,
    COPY,
    LATENCY,
    LAUNCH,
    PRODUCT,
    READ,
    RoofRate,
    best,
    measured_rates,
    rates_from,
    roof_of,
)

FLOPS = 100e9
MIB = 2**20


def product(rate=FLOPS, side=4096, precision="fp32", **changes):
    """Return a record of a roof's product of 1e9 FLOP, with an interval of 2 %."""
    seconds = 1e9 / rate
    timing = Timing(
        (seconds,), 1, seconds, 0.99 * seconds, 1.01 * seconds, seconds, seconds, 0, 0, True, True
    )
    work = Work(1e9, "FLOP", 1e9, 1.0, chosen=(2048, 1024, 512))
    return record(
        "roof",
        {"side": side},
        seconds=seconds,
        precision=precision,
        **({"wall": timing, "work": work} | changes),
    )


def moved(workload, mib, cache_mib=32, rate=10e9):
    size = mib * MIB
    return record(
        workload,
        {"mib": mib},
        seconds=size / rate,
        flops=0.0,
        nbytes=size,
        cache=Cache("n/a", size, cache_mib * MIB),
    )


def exchange(kib, seconds):
    work = Work(1024.0 * kib, "bus bytes", 0, 1.0)
    group = Group("gloo", "weak", (Rank(0, "cpu", seconds), Rank(1, "cpu", seconds)))
    return record("all_reduce", {"kib": kib, "processes": 2}, seconds=seconds, work=work, group=group)


class TestMeasured:
    def test_a_product_has_its_rate_its_interval_and_its_chosen_size(self):
        (rate,) = measured_rates([product(started_at="2026-11-01T00:00:00+00:00")])
        assert (rate.kind, rate.precision, rate.mode) == (PRODUCT, "fp32", "eager")
        assert (rate.value, rate.low, rate.high) == pytest.approx((FLOPS, FLOPS / 1.01, FLOPS / 0.99))
        assert (rate.size, rate.measured_at) == ("m=2048,n=1024,k=512", "2026-11-01T00:00:00+00:00")

    def test_each_limit_is_measured_by_its_workload(self):
        records = [
            moved("memory_bandwidth", 512), moved("memory_read", 512), exchange(1, 5e-5), exchange(1024, 1e-3),
            record("kernel_launch", {"kernels": 1000}, seconds=2e-3), record("matmul", {"n": 5000}, seconds=1.0),
        ]  # fmt: skip
        rates = {rate.kind: rate for rate in measured_rates(records)}
        assert rates.keys() == {COPY, READ, LAUNCH, ALL_REDUCE, LATENCY}
        assert rates[COPY].value == rates[READ].value == pytest.approx(10e9)
        assert rates[LAUNCH].value == pytest.approx(2e-6)
        assert rates[LATENCY].value == pytest.approx(5e-5)
        assert (rates[ALL_REDUCE].value, rates[ALL_REDUCE].processes) == (
            pytest.approx(1024 * 1024 / 1e-3),
            2,
        )

    def test_sizes_too_small_to_reach_the_limit_give_no_rate(self):
        assert measured_rates([product(side=512), moved("memory_read", 16)]) == []

    def test_the_best_of_each_name_is_taken(self):
        rates = measured_rates([product(), product(2 * FLOPS), product(precision="bf16"),
            *(record("kernel_launch", {"kernels": 1}, seconds=s) for s in (2e-6, 1e-6, 3e-6))])  # fmt: skip
        assert [(rate.kind, rate.precision) for rate in rates] == [
            (PRODUCT, "fp32"),
            (PRODUCT, "bf16"),
            (LAUNCH, "fp32"),
        ]
        assert rates[0].value == pytest.approx(2 * FLOPS) and rates[2].value == pytest.approx(1e-6)

    @pytest.mark.parametrize("verdict", REFUSED)
    def test_a_record_that_does_not_count_is_no_roof(self, verdict):
        assert measured_rates([product(verdict=verdict)]) == []


class TestKept:
    def test_cached_rates_come_back(self):
        rates = measured_rates([product(), exchange(1, 5e-5)])
        assert rates_from([asdict(rate) for rate in rates]) == rates

    @pytest.mark.parametrize("change", [{"kind": "magic"}, {"value": -1}, {"value": "1"}, {"value": None}, {"low": float("nan")},
        {"value": True}, {"size": 3}, {"processes": "2"}, {"value": 1e300}])  # fmt: skip
    def test_an_invalid_cached_rate_is_left_out(self, change):
        row = asdict(RoofRate(PRODUCT, 1e12)) | change
        assert rates_from([row, "x", None]) == rates_from({"a": 1}) == rates_from(None) == []

    def test_a_field_of_another_version_is_ignored(self):
        assert rates_from([asdict(RoofRate(PRODUCT, 1e12)) | {"colour": "red"}]) == [RoofRate(PRODUCT, 1e12)]

    def test_the_newest_records_cached_rates_count_and_better_measurements_replace_them(self):
        kept = [asdict(RoofRate(PRODUCT, value)) for value in (1e11, 3e11)]
        records = [
            product(started_at=f"2026-11-0{day}", environment={"roof": [row]}, side=512)
            for day, row in enumerate(kept, 1)
        ]
        assert [rate.value for rate in roof_of(records)] == [3e11]
        assert [rate.value for rate in roof_of([*records, product(4e11)])] == pytest.approx([4e11])
        assert best([RoofRate(LAUNCH, 2e-6), RoofRate(LAUNCH, 1e-6)]) == [RoofRate(LAUNCH, 1e-6)]


class TestCeilings:
    def test_a_roof_is_a_ceiling_beside_products(self):
        slower = record("matmul", {"n": 5000}, seconds=1.0, flops=FLOPS / 2)
        found = dict(ceilings_of([slower, product()]).compute)["fp32"]
        assert (found.value, found.source) == (pytest.approx(FLOPS), "the roof, m=2048,n=1024,k=512, ")

    def test_a_product_that_beats_the_roof_is_the_ceiling(self):
        faster = record("matmul", {"n": 5000}, seconds=1.0, flops=2 * FLOPS)
        assert dict(ceilings_of([faster, product()]).compute)["fp32"].source == faster.id

    def test_cached_rates_fill_the_ceilings_that_a_run_lacks(self):
        rates = [
            RoofRate(PRODUCT, 5e11, precision="bf16", mode="graph"),
            RoofRate(READ, 7e10),
            RoofRate(COPY, 4e10),
            RoofRate(LAUNCH, 1e-6),
        ]
        blur = record(
            "gaussian_blur",
            {"pixels": 64},
            seconds=1.0,
            environment={"roof": [asdict(rate) for rate in rates]},
        )
        found = ceilings_of([blur])
        assert dict(found.compute)["bf16"].value == 5e11
        assert (found.memory.value, found.launch_s.value) == (7e10, 1e-6)

    def test_a_noisy_roof_is_not_sound(self):
        (rate,) = measured_rates([replace(product(), verdict=Verdict.IMPRECISE)])
        assert not rate.is_sound and measured_rates([product()])[0].is_sound
