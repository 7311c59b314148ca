from dataclasses import replace

import pytest

from tests.workloads.harness.repeat.limited import MATMUL
from workloads.harness import registry
from workloads.harness.engine.sampling.summary import summarise
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Verdict
from workloads.harness.registry import workload
from workloads.harness.repeat.limits import (
    LEAST_STEPS,
    Limits,
    at_least,
    tells_of_others,
    too_large,
    too_much_for,
)


class TestTooLarge:
    @pytest.mark.parametrize(
        ("limits", "reason"),
        [
            (Limits("a-box"), None),
            (Limits("a-box", memory_bytes=12e6), None),
            (Limits("a-box", memory_bytes=12e6 - 1), "needs at least 12 MB, but a-box has 12 MB"),
            (Limits("a-box", memory_bytes=8e6), "needs at least 12 MB, but a-box has 8 MB"),
            (Limits("a-box", peak_flops={"fp32": LEAST_STEPS * 2e9 / 60}), None),
            (
                Limits("a-box", peak_flops={"fp32": LEAST_STEPS * 2e9 / 61}),
                "takes at least 61 s at the peak of a-box, but the timeout is 60 s",
            ),
            (Limits("a-box", peak_flops={"bf16": 1.0}), None),
            (
                Limits("a-box", peak_flops={"fp32": 1e6}),
                "takes at least 5 h at the peak of a-box, but the timeout is 60 s",
            ),
            (Limits("a-box", processes=1), None),
        ],
    )
    def test_memory_and_time(self, limits, reason):
        assert too_large(MATMUL, limits, 60) == reason

    def test_half_precision_needs_half(self):
        for precision, needed in (("fp32", 12e6), ("tf32", 12e6), ("fp16", 6e6), ("bf16", 6e6)):
            case = Case.of("matmul", {"n": 1000}, precision)
            assert too_large(case, Limits("a-box", memory_bytes=needed), 60) is None
            assert too_large(case, Limits("a-box", memory_bytes=needed - 1), 60)

    def test_more_processes_than_a_machine_has_room_for(self, monkeypatch):
        case = Case.of("several", {"batch": 1, "processes": 4})
        reason = "4 processes measure together, but a-box has room for 2"
        assert too_large(case, Limits("a-box", processes=2), 60) == reason
        assert too_large(case, Limits("a-box", processes=4), 60) is None
        assert too_large(case, Limits("a-box"), 60) is None

    @pytest.mark.parametrize(("shared", "needed"), [(False, 4e6), (True, 16e6)])
    def test_processes_share_a_hosts_memory_and_each_has_a_gpu(self, monkeypatch, shared, needed):
        monkeypatch.setattr(registry, "_found", dict(registry.all_workloads()))

        def several(env, n, processes): ...

        workload(tiny={"n": 1, "processes": 1}, n=(1,), processes=(1, 4), elements=lambda n, processes: n)(
            several
        )
        case = Case.of("several", {"n": 10**6, "processes": 4})
        assert too_large(case, Limits("a-box", needed, shared), 60) is None
        assert too_large(case, Limits("a-box", needed - 1, shared), 60)

    def test_a_workload_that_only_the_machine_knows_is_tried(self):
        assert (
            too_large(
                Case.of("of_another_box", {"n": 10**9}), Limits("a-box", 1.0, peak_flops={"fp32": 1.0}), 1
            )
            is None
        )

    def test_a_workload_without_formulas_is_tried(self, cheats):
        case = Case.of("raises", {"n": 10**9})
        assert too_large(case, Limits("a-box", 1.0, peak_flops={"fp32": 1.0}), 1) is None

    @pytest.mark.parametrize(
        ("processes", "gpus", "skipped"),
        [
            (2, 2, False),
            (2, 3, False),
            (2, 4, True),
            (4, 4, False),
            (4, 8, True),
            (8, 8, False),
            (2, None, False),
        ],
    )
    def test_a_case_that_loads_all_gpus_leaves_less_than_half_of_them_idle(self, processes, gpus, skipped):
        case = Case.of("matmul_weak", {"n": 64, "processes": processes})
        assert bool(too_large(case, Limits("a-box", processes=gpus), 60)) == skipped
        assert too_large(case, Limits("a-box", memory_shared=True, processes=64), 60) is None  # CPUs


def measured(seconds, case=MATMUL, verdict=Verdict.OK, **changes):
    timing = summarise((seconds, 1.5 * seconds, 1.2 * seconds), 1, True, True)
    return Record("r", "a-box", case, 1, verdict, wall=timing, **changes)


class TestTooMuch:
    LARGER = Case.of("matmul", {"n": 2000})  # 8 times the work

    def test_a_smaller_size_that_took_too_long_leaves_no_hope(self):
        record = measured(1.0)  # so this takes 8 s a step, 72 s at least
        reason = "takes about 72 s at the rate of matmul/n=1000/fp32, but the timeout is 35 s"
        assert too_much_for(self.LARGER, [record], 35) == reason
        assert too_much_for(self.LARGER, [record], 36) is None  # not twice as long: it can do better

    @pytest.mark.parametrize(
        "record",
        [
            measured(0.09),  # a short step says nothing of a long one
            measured(1.0, verdict=Verdict.SHARED),
            measured(1.0, verdict=Verdict.TIMEOUT),
            replace(measured(1.0), wall=None),
            measured(1.0, Case.of("matmul", {"n": 1000}, "bf16")),
            measured(1.0, Case.of("gaussian_blur", {"pixels": 1000})),
            measured(1.0, Case.of("matmul", {"n": 3000})),
        ],
    )
    def test_but_only_one_that_counts_of_the_same_case(self, record):
        assert too_much_for(self.LARGER, [record], 0.001) is None

    def test_a_record_that_could_tell_something_is_kept_for_the_next(self):
        layout = measured(0.01, layout_trials_s={"contiguous": 0.01, "channels_last": 0.02})
        unchecked = measured(0.01, verdict=Verdict.UNCHECKED)
        for record in (measured(1.0), measured(0.01, verdict=Verdict.OUT_OF_MEMORY), unchecked, layout):
            assert tells_of_others(record)
        died = replace(measured(1.0, verdict=Verdict.CRASHED), wall=None)
        assert not tells_of_others(measured(0.09)) and not tells_of_others(died)

    @pytest.mark.parametrize(
        ("verdict", "said"),
        [
            (Verdict.OUT_OF_MEMORY, "ran out of memory"),
            (Verdict.UNCHECKED, "ran out of memory while checking its result"),
        ],
    )
    def test_out_of_memory_is_for_all_that_is_no_smaller(self, verdict, said):
        record = measured(1.0, verdict=verdict)
        reason = f"matmul/n=1000/fp32 {said}, and this case is at least as large"
        assert too_much_for(self.LARGER, [record], 60) == reason
        assert too_much_for(MATMUL, [record], 60) == reason
        assert too_much_for(Case.of("matmul", {"n": 999}), [record], 60) is None

    def test_more_processes_are_not_more_of_the_same(self):
        one, two = (Case.of("several", {"batch": 8, "processes": n}) for n in (1, 2))
        assert at_least(two, two)
        assert not at_least(two, one)
        assert too_much_for(two, [measured(1.0, one, Verdict.OUT_OF_MEMORY)], 60) is None

    def test_of_cases_with_other_parameters_neither_is_larger(self):
        plain, narrow = Case.of("ddpm", {"batch": 8}), Case.of("ddpm", {"batch": 8, "channels": 76})
        assert not at_least(narrow, plain) and not at_least(plain, narrow)
        assert too_much_for(narrow, [measured(1.0, plain, Verdict.OUT_OF_MEMORY)], 60) is None
