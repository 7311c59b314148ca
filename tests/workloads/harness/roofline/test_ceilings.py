import json
from dataclasses import replace

import pytest
import torch

from tests.workloads.harness.roofline.roofline_records import REFUSED, record
from workloads.harness.engine.correctness import WrongError, check, check_inputs, first_step, recheck
from workloads.harness.engine.device import open_device
from workloads.harness.engine.transfer import measure_transfer
from workloads.harness.prepared import Env
from workloads.harness.records.parts import Group, Rank
from workloads.harness.records.record import Cache, Transfer, Verdict
from workloads.harness.registry import find
from workloads.harness.roofline.ceilings import MOVES, ceilings_by_machine, ceilings_of, machine_of

MIB = 2**20


def build(name, precision="fp32", **size):
    kinds = {"fp32": torch.float32, "bf16": torch.bfloat16}
    generator = torch.Generator().manual_seed(0)
    env = Env(
        torch.device("cpu"), kinds[precision], "contiguous", generator, lambda tensor: tensor, precision
    )
    return find(name).build(env, **size)


def matmul(n, seconds, precision="fp32", **changes):
    return record("matmul", {"n": n}, seconds=seconds, flops=2.0 * n**3, precision=precision, **changes)


def copy(mib, bytes_per_s, cache_mib=32, **changes):
    size = 2 * mib * MIB
    cache = Cache("warm", size, cache_mib * MIB if cache_mib else None)
    return record(
        "memory_bandwidth",
        {"mib": mib},
        seconds=size / bytes_per_s,
        flops=0.0,
        nbytes=size,
        cache=cache,
        **changes,
    )


def launches(kernels, seconds, **changes):
    return record("kernel_launch", {"kernels": kernels}, seconds=seconds, flops=0.0, **changes)


class TestWorkloads:
    @pytest.mark.parametrize("precision", ["fp32", "bf16"])
    def test_a_copy_moves_as_many_bytes_in_every_precision(self, precision):
        made = build("memory_bandwidth", precision, mib=2)
        assert made.bytes == made.units == 2 * 2 * MIB
        assert torch.equal(made.step(), made.inputs[0])

    def test_a_copy_that_leaves_out_a_part_is_caught(self):
        made = build("memory_bandwidth", mib=2)
        made.step().fill_(0)
        source = made.inputs[0]
        lazy = replace(made, step=lambda: torch.cat([source[:1], torch.zeros_like(source[1:])]))
        with pytest.raises(WrongError, match="off by"):
            check(lazy, first_step(lazy), "fp32")

    @pytest.mark.parametrize("kernels", [1, 2, 7])
    def test_as_many_operations_are_handed_over_as_it_says(self, kernels):
        from workloads.harness.engine.count import counted

        made = build("kernel_launch", kernels=kernels)
        with counted() as counts:
            result = made.step()
        assert counts.launches == kernels == made.units
        assert torch.equal(result, made.inputs[0] * (-1) ** kernels)

    @pytest.mark.parametrize("precision", ["fp32", "bf16"])
    def test_a_transfer_keeps_the_contract_and_has_all_four_moves(self, monkeypatch, precision):
        """On a CPU without pinned memory, which needs CUDA's driver."""
        pinned = []
        monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pinned.append(tensor) or tensor)
        made = build("transfer_bandwidth", precision, mib=2)
        assert [tensor.shape for tensor in pinned] == [made.inputs[0].shape]
        assert made.bytes == made.units == 2 * MIB
        check_inputs(made)
        assert check(made, first_step(made), precision).error == 0.0
        recheck(made, first_step(made), precision)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
        device = replace(open_device("cpu", "fp32", 1), name="cuda")
        moved = measure_transfer(device, made.inputs, made.step())
        assert moved.h2d_bytes == moved.d2h_bytes == 2 * MIB
        assert min(getattr(moved, f"{kind}_s") for kind in MOVES) > 0

    def test_without_a_gpu_a_transfer_is_unsupported(self, engine):
        made = engine("transfer_bandwidth", mib=1)
        assert made.verdict is Verdict.UNSUPPORTED
        assert made.reasons == ("transfer_bandwidth needs cuda; this is measured on cpu",)


class TestCompute:
    def test_the_rate_of_one_row_is_that_of_weights_beyond_the_cache_by_precision(self):
        def row(mib, bytes_per_s, precision="fp32", m=1):
            size, cache = mib * MIB, Cache("warm", mib * MIB, 32 * MIB)
            shape = {"m": m, "n": mib * MIB // 4096, "k": 1024}
            return record(
                "gemm", shape, seconds=size / bytes_per_s, nbytes=size, precision=precision, cache=cache
            )

        made = [row(16, 90e9), row(512, 22e9), row(256, 26e9), row(256, 24e9, "bf16"), row(256, 70e9, m=16)]
        rates = {precision: ceiling.value for precision, ceiling in ceilings_of(made).gemv}
        assert rates == pytest.approx({"fp32": 26e9, "bf16": 24e9})

    def test_the_fastest_product_of_each_precision_that_fills_the_device(self):
        made = [
            matmul(500, 1e-4),  # 2.5 TFLOP/s, but within a cache
            matmul(1000, 4e-3),
            matmul(2000, 2e-2),
            replace(matmul(2000, 1.6e-2), repeat=2),
            matmul(2000, 1e-3, "bf16"),
        ]
        found = dict(ceilings_of(made).compute)
        assert found["fp32"].value == pytest.approx(1e12)
        assert found["fp32"].source == "a-box/matmul/n=2000/fp32#2"
        assert found["bf16"].value == pytest.approx(16e12)

    def test_where_none_fills_it_the_largest(self):
        found = dict(ceilings_of([matmul(100, 1e-6), matmul(500, 1e-3)]).compute)["fp32"]
        assert found.value == pytest.approx(0.25e12)

    @pytest.mark.parametrize(("device", "n", "doubtful"), [("cpu", 999, True), ("cpu", 1000, False)])
    def test_a_product_that_might_not_fill_the_device_has_a_note(self, device, n, doubtful):
        found = dict(ceilings_of([matmul(n, 1.0, device=device)]).compute)["fp32"]
        assert bool(found.note) == doubtful

    def test_a_gpu_takes_more_to_fill(self):
        made = [matmul(n, 1.0, device="cuda", device_s=0.5) for n in (2000,)]
        assert "n=2000 is below 4096" in dict(ceilings_of(made).compute)["fp32"].note

    @pytest.mark.parametrize("verdict", REFUSED)
    def test_a_record_that_does_not_count_is_no_ceiling(self, verdict):
        assert ceilings_of([matmul(2000, 1.0, verdict=verdict)]).compute == ()


class TestMemory:
    def test_a_copy_of_four_caches_is_the_memorys_and_a_smaller_one_the_caches(self):
        found = ceilings_of([copy(1, 90e9), copy(63, 80e9), copy(64, 10e9), copy(1024, 9e9)])
        assert found.memory.value == pytest.approx(10e9)
        assert found.memory.source == "a-box/memory_bandwidth/mib=64/fp32#1"
        assert found.cache.value == pytest.approx(90e9)
        assert found.last_level_bytes == 32 * MIB

    def test_only_small_copies_give_no_ceiling_of_the_memory(self):
        found = ceilings_of([copy(1, 90e9)])
        assert found.memory is None
        assert found.cache is not None

    def test_an_unknown_cache_size_is_noted(self):
        found = ceilings_of([copy(1024, 9e9, cache_mib=None)])
        assert found.memory.note == "not known to be 4 times the last-level cache"
        assert (found.cache, found.last_level_bytes) == (None, None)
        assert ceilings_of([copy(1024, 9e9)]).memory.note == ""


class TestLaunchAndMoves:
    def test_seconds_for_each_kernel_of_the_fastest_row(self):
        found = ceilings_of([launches(10, 9e-5), launches(1000, 4e-3), launches(1000, 5e-3, repeat=2)])
        assert found.launch_s.value == pytest.approx(4e-6)

    def test_the_launch_time_is_that_of_the_hosts_clock(self):
        made = launches(1000, 4e-3, device_s=1e-3, device="cuda")
        assert ceilings_of([made]).launch_s.value == pytest.approx(4e-6)

    def test_all_four_moves(self):
        moved = Transfer(10**9, 2 * 10**9, 0.5, 99.0, 0.4, 0.2)
        made = record(
            "transfer_bandwidth",
            {"mib": 953},
            seconds=0.1,
            device_s=0.08,
            nbytes=1e9,
            transfer=moved,
            device="cuda",
        )
        found = {kind: ceiling.value for kind, ceiling in ceilings_of([made]).moves}
        assert found == pytest.approx(
            {"h2d_pinned": 12.5e9, "h2d_pageable": 2e9, "d2h_pinned": 10e9, "d2h_pageable": 5e9}
        )


class TestMachines:
    @pytest.mark.parametrize(
        "changes", [{"hardware": "b"}, {"device": "cuda"}, {"threads": 3}, {"environment_id": "another"}]
    )
    def test_another_machine_has_other_ceilings(self, changes):
        one, other = matmul(2000, 1.0), matmul(2000, 0.5, **changes)
        assert len(ceilings_by_machine([one, other])) == 2
        with pytest.raises(ValueError, match="several machines"):
            ceilings_of([one, other])

    def test_processes_that_share_a_cpu_have_its_threads_together(self):
        ranks = tuple(Rank(i, "cpu", 1.0) for i in range(2))
        together = record(seconds=1.0, threads=1, group=Group("gloo", "weak", ranks))
        assert machine_of(together) == machine_of(matmul(2000, 1.0, threads=2))

    def test_no_records_have_no_ceilings(self):
        found = ceilings_of([])
        assert (found.compute, found.memory, found.moves, found.launch_s) == ((), None, (), None)

    def test_measured_ones_come_out_of_real_records(self, engine):
        cases = (("matmul", {"n": 64}), ("memory_bandwidth", {"mib": 1}), ("kernel_launch", {"kernels": 10}))
        made = [replace(engine(name, **size), verdict=Verdict.OK) for name, size in cases]
        found = ceilings_of(made)
        assert dict(found.compute)["fp32"].value > 0
        assert found.memory or found.cache
        assert found.launch_s.value > 0
        assert json.loads(made[1].to_json())["cache"]["working_set_bytes"] == 2 * MIB
