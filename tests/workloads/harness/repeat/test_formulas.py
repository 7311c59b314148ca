import sys
import weakref
from dataclasses import replace

import pytest

from tests.workloads.building import build, takes_seconds
from workloads.harness import registry
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.prepared import Prepared
from workloads.harness.records.case import Case
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import all_workloads, find, workload
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.limits import ELEMENT_BYTES, LEAST_STEPS
from workloads.harness.repeat.runs import run_repeat

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
    """Return these workloads, without slow loaders, jobs or groups of another."""
    marks = {n: pytest.mark.chaos if find(n).of else pytest.mark.server for n in names if takes_seconds(n)}
    return [pytest.param(n, marks=marks.get(n, ())) for n in names]


def in_both_precisions(names):
    """Return these workloads with each precision; slow ones in `make test` in fp32 alone, for torch's bf16 on a CPU."""
    halves = [
        pytest.param(*param.values, "bf16", marks=pytest.mark.chaos if param.marks else ())
        for param in quick_ones(names)
    ]
    return [pytest.param(*param.values, "fp32", marks=param.marks) for param in quick_ones(names)] + halves


def sizes_of(name):
    tiny, kept = find(name).tiny, {*find(name).published, *find(name).optional}

    def grown(factor, more):
        return {k: v if k in kept else factor * v + more for k, v in tiny.items()}

    if takes_seconds(name):
        return [tiny, grown(1, 1)]
    return [tiny, grown(2, 2), grown(3, 1)]


class Live:
    """The most bytes of tensors alive at once, over all operations."""

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

    @pytest.mark.parametrize(("name", "precision"), in_both_precisions(WITH_ELEMENTS))
    def test_elements_are_alive_at_once(self, name, precision):
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
        bound = find(name).elements(**size) * 4
        assert bound > 400e6
        died = {Verdict.OUT_OF_MEMORY, Verdict.CRASHED}  # a library can abort before torch reports it
        for share, verdicts in ((0.9, died), (8, {Verdict.OK})):
            record = trial(Case.of(name, size), share * bound)
            assert record.verdict in verdicts, record.reasons


def trial(case, more_bytes):
    """Run a trial in a process with this many bytes above imported torch."""
    script = (
        "import re, sys, torch, workloads.harness.repeat.runs as runs\n"
        "used = int(re.search(r'VmData:\\s*(\\d+) kB', open('/proc/self/status').read())[1]) * 1024\n"
        f"runs.available_bytes = lambda: (used + {more_bytes}) / runs.SHARE_OF_MEMORY\n"
        "from workloads.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    repeat = Repeat("a-run", "a-box", case, trial=True, threads=1, timeout_s=120)
    with whole_box() as lock:
        return run_repeat(repeat, lock, print, (sys.executable, "-c", script))


class TestSteps:
    def test_no_measurement_takes_fewer(self, engine, monkeypatch):
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
            Rules(), long_step_s=0.0, long_cap_s=0.0, warm_min_s=0.0, block_min_s=0.0, block_over_timer=0.0
        )
        record = engine("counts", rules=rules)
        assert record.wall, record.reasons
        assert record.wall.block == 1
        assert len(taken) == LEAST_STEPS
        assert torch is not None
