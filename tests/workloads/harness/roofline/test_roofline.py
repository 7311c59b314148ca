from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.harness.roofline.roofline_records import (
    BANDWIDTH,
    CEILINGS,
    FLOPS,
    LAUNCH_S,
    REFUSED,
    group,
    profile,
    record,
    timing,
)
from workloads.harness.records.record import Cache, Transfer, Work
from workloads.harness.roofline.ceilings import Ceiling, Ceilings, ceilings_of
from workloads.harness.roofline.roofline import (
    ABOVE,
    DEVICE,
    EXPLAINS,
    LIMITS,
    UNEXPLAINED,
    bound,
    percent,
    si,
)


def work(nbytes, **changes):
    return Work(1, "tokens", 2472.0, nbytes, **changes)


def gemm(m, **changes):
    return record("gemm", {"m": m, "n": 8, "k": 8}, **changes)


def judged(**changes):
    return bound(record(**changes), CEILINGS)


class TestOneLimitAtATime:
    def test_compute(self):
        found = judged(seconds=1.0, flops=0.83 * FLOPS, nbytes=0.1 * BANDWIDTH)
        assert found.by == "compute"
        assert found.shares == pytest.approx({"compute": 0.83, "memory": 0.1})
        assert found.why == "compute-bound: 83 % of the measured 104 GFLOP/s in fp32"
        assert found.missing == ()

    def test_memory(self):
        found = judged(seconds=1.0, flops=0.1 * FLOPS, nbytes=0.71 * BANDWIDTH)
        assert (found.by, found.share) == ("memory", pytest.approx(0.71))
        assert found.why == "memory-bound: 71 % of the measured 10 GB/s"

    def test_launch(self):
        found = judged(seconds=104 * LAUNCH_S / 0.71, flops=0.0, nbytes=1.0, launches=104)
        assert found.by == "launch"
        assert found.why == "launch-bound: launching 104 operations takes 71 % of the step"

    def test_products_of_one_row(self):
        """Torch computes them on one core of some CPUs, far below the memory's rate."""
        rows = gemm(1, seconds=1.0, nbytes=0.3 * BANDWIDTH)
        ceilings = replace(CEILINGS, gemv=ceilings_of([rows]).gemv)
        token = work(parameters=1236, matmul_flops=2472.0, nbytes=0.29 * BANDWIDTH)
        found = bound(record("llm_decode", seconds=1.0, work=token), ceilings)
        assert found.by == "gemv"
        assert found.shares == pytest.approx({"compute": 0.0, "memory": 0.29, "gemv": 0.29 / 0.3}, abs=1e-6)
        assert found.why == "gemv-bound: 97 % of the 3 GB/s at which single-row products read their weights"

    def test_where_the_memory_bounds_products_of_one_row_it_is_the_memory(self):
        ceilings = replace(CEILINGS, gemv=(("fp32", Ceiling(0.96 * BANDWIDTH, "a gemm")),))
        token = work(parameters=1236, matmul_flops=2472.0, nbytes=0.9 * BANDWIDTH)
        found = bound(record("llm_decode", seconds=1.0, work=token), ceilings)
        assert found.by == "memory" and "gemv" not in found.shares

    @pytest.mark.parametrize("parameters", [None, 77, 2472 * 2])
    def test_weights_that_are_used_for_several_rows_or_none_are_no_such_products(self, parameters):
        ceilings = replace(CEILINGS, gemv=(("fp32", Ceiling(0.3 * BANDWIDTH, "a gemm")),))
        several = work(parameters=parameters, matmul_flops=2472.0, nbytes=0.29 * BANDWIDTH)
        assert "gemv" not in bound(record("llm_decode", seconds=1.0, work=several), ceilings).shares

    def test_a_rate_of_one_row_that_is_missing_is_named_with_its_command(self):
        token = work(parameters=1236, matmul_flops=2472.0, nbytes=0.29 * BANDWIDTH)
        found = bound(record("llm_decode", seconds=1.0, work=token), CEILINGS)
        assert found.missing == (
            "the rate of single-row products is not measured: "
            "python -m workloads run gemm --size m=1,n=16384,k=2048 --precision fp32 --device cpu",
        )

    def test_communication(self):
        found = judged(seconds=1.0, flops=0.2 * FLOPS, group=group(2, "cpu", 0.62), threads=1)
        assert found.by == "communication"
        assert found.why == "communication-bound: exchanging gradients takes 62 % of the step"

    def test_none_of_them_is_reported_and_not_guessed(self):
        found = judged(seconds=1.0, flops=0.3 * FLOPS, nbytes=0.4 * BANDWIDTH)
        assert (found.by, found.share) == (UNEXPLAINED, None)
        assert found.why == (
            "unexplained: no measured limit explains 50 % of the time; the largest is memory with 40 %"
        )

    def test_more_than_a_ceiling_is_reported_with_its_number(self):
        found = judged(seconds=1.0, flops=1.3 * FLOPS)
        assert found.shares["compute"] == pytest.approx(1.3)
        assert "130 % of the measured 104 GFLOP/s in fp32, so the ceiling is too low" in found.why
        within = judged(seconds=1.0, flops=0.999 * ABOVE * FLOPS)
        assert "again" not in within.why

    def test_without_any_ceiling_the_commands_that_measure_them_are_named(self):
        found = bound(record(seconds=1.0, launches=5), Ceilings())
        assert found.by == UNEXPLAINED
        assert found.why == "unexplained: no ceiling of this machine was measured"
        assert [text.partition(" is not measured: ")[2] for text in found.missing] == [
            "python -m workloads run matmul --size n=2000 --precision fp32 --device cpu",
            "python -m workloads run memory_bandwidth --size mib=1024 --precision fp32 --device cpu",
            "python -m workloads run kernel_launch --size kernels=1000 --precision fp32 --device cpu",
        ]

    @pytest.mark.parametrize(("cache", "mib"), [(480, 1024), (32, 64), (40, 128), (1, 16)])
    def test_the_copy_that_is_named_is_four_times_the_cache(self, cache, mib):
        found = bound(record(seconds=1.0), Ceilings(last_level_bytes=cache * 2**20))
        assert f"mib={mib} " in "".join(found.missing)
        assert 2 * mib >= 4 * cache

    @pytest.mark.parametrize("verdict", REFUSED)
    def test_a_record_that_does_not_count_has_no_bound(self, verdict):
        assert judged(seconds=1.0, verdict=verdict) is None

    def test_other_precisions_have_other_ceilings(self):
        found = judged(seconds=1.0, flops=FLOPS, nbytes=0.0, precision="bf16")
        assert "compute" not in found.shares
        assert "the compute ceiling in bf16 is not measured" in found.missing[0]
        assert "--precision bf16" in found.missing[0]


class TestCache:
    """Data in the cache are not bound by memory."""

    WITH_CACHE = replace(CEILINGS, cache=Ceiling(4 * BANDWIDTH, "small"))

    def found(self, state, ceilings=WITH_CACHE):
        made = record(seconds=1.0, flops=0.0, nbytes=2.4 * BANDWIDTH)
        return bound(replace(made, cache=Cache(state, 1, 2)), ceilings)

    def test_a_warm_step_is_compared_with_the_cache(self):
        assert self.found("warm").why == "memory-bound: 60 % of the measured 40 GB/s within the cache"

    @pytest.mark.parametrize("state", ["cold", "n/a"])
    def test_a_cold_one_and_a_large_one_against_the_memory(self, state):
        assert self.found(state).shares["memory"] == pytest.approx(2.4)
        assert "240 % of the measured 10 GB/s, more than memory" in self.found(state).why

    def test_without_a_cache_measured_the_memory_it_is(self):
        assert self.found("warm", CEILINGS).shares["memory"] == pytest.approx(2.4)


class TestGpu:
    """Records as from a GPU: events for device time, and a profile's kernels."""

    def step(self, wall_s, device_s, launches=100, flops=0.1, **changes):
        return record(
            seconds=wall_s,
            device_s=device_s,
            launches=launches,
            flops=flops * FLOPS * wall_s,
            device="cuda",
            **changes,
        )

    def test_shares_are_of_the_devices_time(self):
        found = bound(self.step(2.0, 1.0, flops=0.4), CEILINGS)
        assert found.shares["compute"] == pytest.approx(0.8)

    def test_an_idle_device_with_many_operations_is_launch_bound(self):
        made = self.step(
            100 * LAUNCH_S / 0.8, 100 * LAUNCH_S / 0.8, profile=profile(3, 3 * 0.1 * 100 * LAUNCH_S)
        )
        found = bound(made, CEILINGS)
        assert found.by == "launch"
        assert found.shares["launch"] == pytest.approx(0.8)
        assert found.shares["host"] == pytest.approx(1 - 0.08 - 0.8)
        assert "--profile" not in found.why

    def test_a_busy_device_is_not_launch_bound_at_any_host_time(self):
        step_s = 100 * LAUNCH_S / 0.8
        made = self.step(step_s, step_s, flops=0.6, profile=profile(3, 3 * step_s * 0.98))
        found = bound(made, CEILINGS)
        assert found.by == "compute"
        assert found.shares["launch"] == pytest.approx(0.02)
        assert found.shares["host"] == pytest.approx(0.0, abs=1e-9)

    @pytest.mark.parametrize(
        ("busy_share", "launch", "host"), [(0.1, 0.8, 0.1), (0.98, 0.02, 0.0), (1.0, 0.0, 0.0)]
    )
    def test_the_busy_time_of_a_device_explains_a_step_without_a_profile(self, busy_share, launch, host):
        step_s = 100 * LAUNCH_S / 0.8
        found = bound(self.step(step_s, step_s, flops=0.6, device_busy_s=busy_share * step_s), CEILINGS)
        assert found.by == ("launch" if launch > 0.6 else "compute")
        assert found.shares["launch"] == pytest.approx(launch)
        assert found.shares["host"] == pytest.approx(host, abs=1e-9)
        assert "--profile" not in found.why

    @pytest.mark.parametrize("busy_s", [-1.0, 0.0])
    def test_no_time_of_the_device_alone_tells_nothing(self, busy_s):
        found = bound(self.step(1.0, 0.9, launches=0, device_busy_s=busy_s), CEILINGS)
        assert found.shares["host"] == pytest.approx(0.1)

    def test_a_bound_without_a_profile_names_the_unknown(self):
        step_s = 100 * LAUNCH_S / 0.8
        found = bound(self.step(step_s, step_s), CEILINGS)
        assert found.by == "launch"
        assert found.why.endswith("check with --profile")

    def test_an_idle_device_with_few_operations_waits_for_the_host(self):
        found = bound(self.step(1.0, 0.9, profile=profile(2, 2 * 0.2)), CEILINGS)
        assert found.by == "host"
        assert found.why.startswith("host-bound: the step waits 80 % of its time for the host")

    def test_wall_over_device_shows_waiting_too(self):
        assert bound(self.step(1.0, 0.3, launches=0), CEILINGS).shares["host"] == pytest.approx(0.7)

    def test_profiling_stretches_the_steps_and_not_the_kernels(self):
        slow = replace(profile(3, 3 * 0.9), wall_s=3 * 40.0)
        assert bound(self.step(1.0, 1.0, launches=0, profile=slow), CEILINGS).shares["host"] == pytest.approx(
            0.1
        )

    def test_transfer_is_a_share_of_end_to_end(self):
        made = self.step(1.0, 1.0, flops=0.05, transfer=Transfer(3 * 10**9, 10**9, 6.0, 3.0, 3.0, 1.0))
        found = bound(made, CEILINGS)
        assert found.shares["transfer"] == pytest.approx(0.9)
        assert (
            found.why
            == "transfer-bound: moving 4 GB to the device and back takes 90 % of the end-to-end time"
        )

    def test_the_bound_without_transfers_is_named_with_the_transfer(self):
        made = self.step(1.0, 1.0, flops=0.8, transfer=Transfer(10, 10, 6.0, 3.0, 3.0, 1.0))
        found = bound(made, CEILINGS)
        assert found.why.endswith("; in place it is compute-bound: 80 % of the measured 104 GFLOP/s in fp32")

    def test_a_step_slower_than_its_transfers_is_bound_in_place(self):
        made = self.step(1.0, 1.0, flops=0.8, transfer=Transfer(10, 10, 0.3, 0.1, 0.2, 0.1))
        assert bound(made, CEILINGS).by == "compute"

    def test_each_gpu_of_a_group_has_ceilings_of_its_own(self):
        made = self.step(1.0, None, flops=1.6, group=group(2, "cuda", 0.1))
        assert bound(made, CEILINGS).shares["compute"] == pytest.approx(0.8)

    def test_processes_on_a_cpu_share_the_machines(self):
        made = record(seconds=1.0, flops=0.8 * FLOPS, group=group(2, "cpu", 0.1), threads=1)
        assert bound(made, CEILINGS).shares["compute"] == pytest.approx(0.8)


SHARE = st.floats(0, 10)


@st.composite
def anything(draw):
    """Draw a record and ceilings of any proportion, on a CPU or a GPU."""
    device = draw(st.sampled_from(["cpu", "cuda"]))
    seconds = draw(st.floats(1e-6, 1e3))
    device_s = seconds * draw(st.floats(0.01, 1)) if device == "cuda" else None
    made = record(
        seconds=seconds,
        device_s=device_s,
        device=device,
        flops=draw(SHARE) * FLOPS * seconds,
        nbytes=draw(SHARE) * BANDWIDTH * seconds,
        launches=draw(st.integers(0, 10**6)),
        transfer=Transfer(1, 1, *(draw(SHARE) * seconds for _ in range(4))),
        group=draw(
            st.none() | st.builds(group, st.integers(1, 8), st.just(device), st.none() | st.floats(-0.2, 1))
        ),
        profile=draw(st.none() | st.builds(profile, st.integers(1, 5), st.floats(0, 10 * seconds))),
    )
    parts = {
        "compute": ((("fp32", Ceiling(FLOPS, "a")),), ()),
        "memory": (Ceiling(BANDWIDTH, "b"), None),
        "cache": (Ceiling(3 * BANDWIDTH, "c"), None),
        "launch_s": (Ceiling(LAUNCH_S, "d"), None),
    }
    return made, Ceilings(**{name: draw(st.sampled_from(values)) for name, values in parts.items()})


class TestProperties:
    @given(anything())
    def test_shares_are_no_less_than_nothing_and_the_largest_one_binds(self, drawn):
        found = bound(*drawn)
        assert set(found.shares) <= set(LIMITS)
        assert all(share >= 0 for share in found.shares.values())
        largest = max(found.shares.values(), default=0.0)
        if largest >= EXPLAINS:
            assert found.share == largest
        else:
            assert (found.by, found.share) == (UNEXPLAINED, None)
        assert found.why.startswith(found.by)
        assert "\n" not in found.why

    @given(anything(), st.floats(1, 100))
    def test_more_work_in_the_same_time_is_more_of_the_ceiling(self, drawn, factor):
        made, ceilings = drawn
        more = replace(
            made, work=replace(made.work, flops=made.work.flops * factor, bytes=made.work.bytes * factor)
        )
        one, other = bound(made, ceilings).shares, bound(more, ceilings).shares
        for name in ("compute", "memory"):
            assert other.get(name, 0.0) >= one.get(name, 0.0)

    @given(anything(), st.floats(1, 100))
    def test_a_higher_ceiling_explains_less(self, drawn, factor):
        made, ceilings = drawn
        if not ceilings.compute:
            return
        higher = replace(ceilings, compute=(("fp32", Ceiling(FLOPS * factor, "e")),))
        assert bound(made, higher).shares.get("compute", 0) <= bound(made, ceilings).shares.get("compute", 0)

    @given(anything(), st.integers(0, 10**6))
    def test_more_operations_never_take_less_of_the_step(self, drawn, more):
        made, ceilings = drawn
        heavier = replace(made, work=replace(made.work, launches=made.work.launches + more))
        one, other = bound(made, ceilings).shares, bound(heavier, ceilings).shares
        assert other.get("launch", 0.0) >= one.get("launch", 0.0)

    @given(anything())
    def test_a_profile_never_lets_launch_and_waiting_exceed_the_step(self, drawn):
        made, ceilings = drawn
        shares = bound(made, ceilings).shares
        if made.profile and made.device == "cuda":
            assert shares.get("launch", 0.0) + shares.get("host", 0.0) <= 1 + 1e-9

    @given(st.floats(0, 1e3))
    def test_a_share_reads_as_it_is(self, share):
        text = percent(share)
        assert text.endswith(" %")
        assert float(text[:-2]) / 100 == pytest.approx(
            share, rel=0.06, abs=0.005 if share >= 0.095 else 1e-12
        )

    @given(st.floats(1, 1e17))
    def test_a_rate_reads_as_it_is(self, value):
        number, _, prefix = si(value).partition(" ")
        factor = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}[prefix]
        assert float(number) * factor == pytest.approx(value, rel=0.006)


def test_a_step_without_work_or_time_is_not_judged():
    assert bound(replace(record(seconds=1.0), work=None), CEILINGS) is None
    assert bound(replace(record(seconds=1.0), wall=None), CEILINGS) is None
    assert bound(replace(record(seconds=1.0), work=Work(1, "x", None, None)), CEILINGS).shares == {}
    assert timing(1.0).median_s == 1.0


class TestBusyDevice:
    """An H100 that trains GPT-2 is busy, and one at LoRA waits for its host."""

    def found(self, busy_share, flops):
        step = TestGpu().step(1.0, 1.0, launches=0, flops=flops, device_busy_s=busy_share)
        return bound(step, CEILINGS)

    def test_a_busy_device_below_every_ceiling_is_named_first(self):
        found = self.found(0.96, flops=0.47)
        assert found.by == DEVICE and found.share == pytest.approx(0.96)
        assert all(
            fact in found.why for fact in ("busy for 96 %", "compute rate would take 47 %", "--profile")
        )
        assert "waits" not in found.why

    def test_a_device_that_waits_is_reported_before_its_ceiling(self):
        found = self.found(0.64, flops=0.34)
        assert found.by == DEVICE
        assert found.why.index("waits for its host for 36 %") < found.why.index(
            "compute rate would take 34 %"
        )

    def test_half_by_a_ceiling_is_that_ceilings(self):
        assert self.found(0.94, flops=0.6).by == "compute"
