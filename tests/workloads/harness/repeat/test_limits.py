"""What is planned as skipped could not have been measured: every bound is held against the real thing."""

import math
import resource
import subprocess
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.workloads.test_contract import build, takes_seconds
from workloads.harness import registry
from workloads.harness.engine.sampling import Rules
from workloads.harness.engine.timing import summarise
from workloads.harness.prepared import Prepared
from workloads.harness.probes.memory import total_bytes
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.text import duration, gigabytes
from workloads.harness.registry import all_workloads, find, workload
from workloads.harness.repeat.limits import (
    ELEMENT_BYTES,
    LEAST_STEPS,
    Limits,
    at_least,
    too_large,
    too_much_for,
)
from workloads.harness.repeat.local_limits import gpus_here, host_bytes, limits_here
from workloads.harness.repeat.series import measure_or_skip, shuffled

ROOT = Path(__file__).parents[4]
MATMUL = Case.of("matmul", {"n": 1000})  # 12 MB, 2 GFLOP a step
ALONE = [name for name, w in all_workloads().items() if not w.in_group and "cpu" in w.devices]
WITH_ELEMENTS = [name for name in ALONE if find(name).elements]
WITH_FLOPS = [name for name in ALONE if find(name).flops]
# Sizes of which torch's own memory is a small part.
FILLING = {
    "matmul": {"n": 6000},
    "image_pipeline": {"pixels": 2000, "batch": 4},
    "gaussian_blur": {"pixels": 4000},
    "edge_detection": {"pixels": 4000},
    "ddpm": {"batch": 1},
}


def quick_ones(names):
    return [pytest.param(n, marks=pytest.mark.server) if takes_seconds(n) else n for n in names]


def sizes_of(name):
    tiny = find(name).tiny
    if takes_seconds(name):
        return [tiny, {k: v + 1 for k, v in tiny.items()}]
    return [tiny, {k: 2 * v + 2 for k, v in tiny.items()}, {k: 3 * v + 1 for k, v in tiny.items()}]


class Live:
    """The most bytes of tensors that were alive at once, as every operation's results come and go."""

    def __init__(self):
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils._pytree import tree_leaves

        watcher, self.peak, self.alive = self, 0, {}

        class Watch(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                out = func(*args, **(kwargs or {}))
                for tensor in tree_leaves(out):
                    if isinstance(tensor, torch.Tensor):
                        watcher.saw(tensor)
                return out

        self.mode = Watch

    def saw(self, tensor):
        storage = tensor.untyped_storage()
        key = id(tensor)
        self.alive[key] = (storage.data_ptr(), storage.nbytes())
        weakref.finalize(tensor, self.alive.pop, key, None)
        self.peak = max(self.peak, sum(dict(self.alive.values()).values()))


class TestFormulas:
    def test_the_image_family_has_them(self):
        family = {"matmul", "image_pipeline", "gaussian_blur", "edge_detection"}
        assert family <= set(WITH_ELEMENTS) & set(WITH_FLOPS)

    @pytest.mark.parametrize("name", quick_ones(WITH_FLOPS))
    def test_flops_are_those_of_the_step(self, name):
        for size in sizes_of(name):
            stated, built = find(name).flops(**size), build(name, **size).flops
            assert 0 < stated <= built
            assert stated >= 0.5 * built  # a bound so loose would skip nothing

    @pytest.mark.parametrize("precision", ["fp32", "bf16"])
    @pytest.mark.parametrize("name", quick_ones(WITH_ELEMENTS))
    def test_elements_are_alive_at_once(self, name, precision):
        """Never more than a build and a step hold at their worst, and no fewer than inputs and result."""
        for size in sizes_of(name):
            live = Live()
            with live.mode():
                prepared = build(name, precision, **size)
                result = prepared.step()
            stated = find(name).elements(**size) * ELEMENT_BYTES[precision]
            kept = sum(t.numel() * t.element_size() for t in (*prepared.inputs, result))
            assert kept <= stated <= live.peak

    @pytest.mark.chaos
    @pytest.mark.parametrize(("name", "size"), FILLING.items(), ids=FILLING)
    def test_a_process_that_holds_less_can_not_step(self, name, size, box_lock):
        """A trial in a process that may have no more than the bound runs out of memory."""
        bound = find(name).elements(**size) * 4
        assert bound > 400e6
        text = ",".join(f"{k}={v}" for k, v in size.items())
        died = {Verdict.OUT_OF_MEMORY, Verdict.CRASHED}  # a library may abort where torch would say it
        for share, verdicts in ((0.9, died), (8, {Verdict.OK})):
            assert trial(name, text, share * bound).verdict in verdicts


def trial(name, size, more_bytes):
    """A trial in a process of its own that may have so many bytes more than torch has once it is imported."""
    script = (
        "import re, sys, torch, workloads.harness.repeat.runs as runs\n"
        "used = int(re.search(r'VmData:\\s*(\\d+) kB', open('/proc/self/status').read())[1]) * 1024\n"
        f"runs.available_bytes = lambda: (used + {more_bytes}) / runs.SHARE_OF_MEMORY\n"
        "from workloads.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "run", name, f"--size={size}", "--trial", "--threads=1"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    return Record.from_json(found.stdout.splitlines()[-1])


class TestSteps:
    def test_no_measurement_takes_fewer(self, engine, monkeypatch):
        """The real engine, as impatient as it can be: it can't do with less than the bound supposes."""
        import torch

        taken = []

        def counts(env, n):
            a = env.randn(n, n)

            def step():
                taken.append(1)
                return a * 2

            return Prepared(
                step=step,
                inputs=(a,),
                reference=lambda: a.double() * 2,
                view=lambda out: out,
                units=1,
                unit="steps",
                flops=n * n,
                bytes=8 * n * n,
                matmul_flops=0,
            )

        monkeypatch.setattr(registry, "_found", dict(registry.all_workloads()))
        workload(tiny={"n": 8}, n=(8,))(counts)
        rules = replace(
            Rules(), long_step_s=0.0, sample_cap_s=0.0, warm_min_s=0.0, block_min_s=0.0, block_over_timer=0.0
        )
        record = engine("counts", rules=rules)
        assert record.wall, record.reasons
        assert record.wall.block == 1
        assert len(taken) == LEAST_STEPS
        assert torch is not None


class TestTooLarge:
    @pytest.mark.parametrize(
        ("limits", "reason"),
        [
            (Limits("a-box"), None),
            (Limits("a-box", memory_bytes=12e6), None),
            (Limits("a-box", memory_bytes=12e6 - 1), "needs at least 12 MB; a-box has 12 MB"),
            (Limits("a-box", memory_bytes=8e6), "needs at least 12 MB; a-box has 8 MB"),
            (Limits("a-box", peak_flops={"fp32": LEAST_STEPS * 2e9 / 60}), None),
            (
                Limits("a-box", peak_flops={"fp32": LEAST_STEPS * 2e9 / 61}),
                "takes at least 61 s at the peak of a-box; the timeout is 60 s",
            ),
            (Limits("a-box", peak_flops={"bf16": 1.0}), None),
            (
                Limits("a-box", peak_flops={"fp32": 1e6}),
                "takes at least 5 h at the peak of a-box; the timeout is 60 s",
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
        reason = "4 processes measure together; a-box has room for 2"
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


def measured(seconds, case=MATMUL, verdict=Verdict.OK, **changes):
    timing = summarise((seconds, 1.5 * seconds, 1.2 * seconds), 1, True, True)
    return Record("r", "a-box", case, 1, verdict, wall=timing, **changes)


class TestTooMuch:
    LARGER = Case.of("matmul", {"n": 2000})  # 8 times the work

    def test_a_smaller_size_that_took_too_long_leaves_no_hope(self):
        record = measured(1.0)  # so this takes 8 s a step, 72 s at least
        reason = "takes about 72 s at the rate of matmul/n=1000/fp32; the timeout is 35 s"
        assert too_much_for(self.LARGER, [record], 35) == reason
        assert too_much_for(self.LARGER, [record], 36) is None  # not twice as long: it may do better

    @pytest.mark.parametrize(
        "record",
        [
            measured(0.09),  # a short step says nothing of a long one
            measured(1.0, verdict=Verdict.NOISY),
            measured(1.0, verdict=Verdict.TIMEOUT),
            replace(measured(1.0), wall=None),
            measured(1.0, Case.of("matmul", {"n": 1000}, "bf16")),
            measured(1.0, Case.of("gaussian_blur", {"pixels": 1000})),
            measured(1.0, Case.of("matmul", {"n": 3000})),
        ],
    )
    def test_but_only_a_sound_one_of_the_same_case(self, record):
        assert too_much_for(self.LARGER, [record], 0.001) is None

    def test_out_of_memory_is_for_all_that_is_no_smaller(self):
        record = measured(1.0, verdict=Verdict.OUT_OF_MEMORY)
        reason = "matmul/n=1000/fp32 ran out of memory, and this is no smaller"
        assert too_much_for(self.LARGER, [record], 60) == reason
        assert too_much_for(MATMUL, [record], 60) == reason
        assert too_much_for(Case.of("matmul", {"n": 999}), [record], 60) is None

    def test_more_processes_are_not_more_of_the_same(self):
        one, two = (Case.of("several", {"batch": 8, "processes": n}) for n in (1, 2))
        assert at_least(two, two)
        assert not at_least(two, one)
        assert too_much_for(two, [measured(1.0, one, Verdict.OUT_OF_MEMORY)], 60) is None


class TestHere:
    def test_this_machine(self):
        limits = limits_here("a-box", "cpu", 1)
        assert limits.memory_bytes == host_bytes() <= total_bytes()
        assert 1e9 < limits.peak_flops["fp32"] < 1e15
        assert limits_here("a-box", "cpu", 2).peak_flops["fp32"] == 2 * limits.peak_flops["fp32"]
        assert limits.processes >= limits_here("a-box", "cpu", 2).processes >= 1

    def test_it_can_measure_what_it_measures(self):
        """No rate that this machine has reached is above what is taken for its peak."""
        import torch

        torch.set_num_threads(1)
        from workloads.harness.engine.clock import HostClock

        a = torch.randn(1000, 1000)
        rate = 2e9 / min(HostClock().time(lambda: a @ a, 1).wall_s for _ in range(5))
        assert rate < limits_here("a-box", "cpu", 1).peak_flops["fp32"]

    def test_a_process_of_a_limit_of_its_own(self):
        script = (
            "import resource; from workloads.harness.repeat.local_limits import host_bytes\n"
            f"resource.setrlimit(resource.RLIMIT_DATA, ({10**9}, resource.RLIM_INFINITY)); print(host_bytes())"
        )
        assert int(subprocess.check_output([sys.executable, "-c", script], cwd=ROOT)) == 10**9
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] in (resource.RLIM_INFINITY, host_bytes())

    def test_a_cgroup_and_a_machine(self, tmp_path):
        (tmp_path / "proc").mkdir()
        assert total_bytes(tmp_path) is None
        assert host_bytes(tmp_path) is None
        (tmp_path / "proc/meminfo").write_text("MemTotal:       16000000 kB\n")
        assert total_bytes(tmp_path) == 16_000_000 * 1024
        (tmp_path / "proc/self").mkdir()
        (tmp_path / "proc/self/cgroup").write_text("0::/box\n")
        box = tmp_path / "sys/fs/cgroup/box"
        box.mkdir(parents=True)
        (box / "memory.current").write_text("3000000000\n")
        for limit, total in (("max", 16_000_000 * 1024), ("8000000000", 8_000_000_000)):
            (box / "memory.max").write_text(f"{limit}\n")
            assert total_bytes(tmp_path) == total  # what is in use now may be free later

    @pytest.mark.parametrize(
        ("sizes", "visible", "found"),
        [
            ([24], None, (24, 1)),
            ([24, 80], None, (80, 2)),
            ([24, 80], "1", (80, 1)),
            ([24, 80], "0,1,2", (80, 2)),
            ([24], "", (24, None)),
            ([], None, (None, None)),
        ],
    )
    def test_gpus(self, sizes, visible, found):
        nvml = SimpleNamespace(
            nvmlInit=lambda: None,
            nvmlShutdown=lambda: None,
            nvmlDeviceGetCount=lambda: len(sizes),
            nvmlDeviceGetHandleByIndex=lambda place: place,
            nvmlDeviceGetMemoryInfo=lambda place: SimpleNamespace(total=sizes[place]),
        )
        assert gpus_here(nvml, {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}) == found

    def test_a_driver_that_breaks_off_says_nothing(self):
        def fail(*arguments):
            raise OSError("Driver/library version mismatch")

        assert gpus_here(SimpleNamespace(nvmlInit=fail), {}) == (None, None)
        nvml = SimpleNamespace(nvmlInit=lambda: None, nvmlDeviceGetCount=fail)
        assert gpus_here(nvml, {}) == (None, None)


class TestSkipping:
    def test_no_process_is_started(self, box_lock):
        huge = Repeat("r", "a-box", Case.of("matmul", {"n": 10**7}), timeout_s=60)
        record = measure_or_skip(huge, [], print, ("/no/such/program",))
        assert record.verdict is Verdict.SKIPPED
        assert record.reasons[0].startswith("needs at least 1.2 PB; a-box has ")
        assert not box_lock.exists()
        late = Repeat("r", "a-box", Case.of("matmul", {"n": 10_000}), timeout_s=1e-3)
        assert "at the peak of a-box; the timeout is 0.001 s" in measure_or_skip(late, [], print).reasons[0]

    def test_what_may_fit_is_tried(self, box_lock):
        with pytest.raises(FileNotFoundError):
            measure_or_skip(Repeat("r", "a-box", MATMUL), [], print, ("/no/such/program",))

    def test_a_profile_of_the_first_repeat(self):
        cases = [MATMUL, Case.of("matmul", {"n": 1})]
        asked = shuffled(cases, Repeat("r", "a-box", MATMUL), 3, profile=True)
        assert {(r.repeat, r.profile) for r in asked} == {(1, True), (2, False), (3, False)}
        assert not any(r.profile for r in shuffled(cases, Repeat("r", "a-box", MATMUL), 3))
        everywhere = shuffled(cases, Repeat("r", "a-box", MATMUL, profile=True), 3)
        assert all(r.profile for r in everywhere)


@pytest.mark.parametrize(
    ("value", "text"),
    [(17.7e9, "17.7 GB"), (9.9e12, "9.9 TB"), (2.5e6, "2.5 MB"), (4096, "4.1 kB"), (999.4e9, "999 GB")],
)
def test_bytes_in_words(value, text):
    assert gigabytes(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.5, "0.5 s"),
        (60, "60 s"),
        (119.4, "119 s"),
        (900, "15 min"),
        (1400, "23.3 min"),
        (9000, "2.5 h"),
        (math.pi * 1e5, "87.3 h"),
    ],
)
def test_durations_in_words(seconds, text):
    assert duration(seconds) == text
