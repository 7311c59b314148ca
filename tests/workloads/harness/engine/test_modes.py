"""Modes are a part of the case: their names, what has none, and what a CPU lacks."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from workloads.harness.engine import build as build_module
from workloads.harness.engine.build import WARM_UP, as_written, captured, check_mode
from workloads.harness.engine.clock import HostClock
from workloads.harness.engine.device import Device, open_device
from workloads.harness.engine.measure import measure
from workloads.harness.engine.phases import Phases
from workloads.harness.prepared import Prepared
from workloads.harness.records.case import Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import LAYOUTS, find
from workloads.harness.repeat.limits import at_least

GEMM = {"m": 16, "n": 64, "k": 32}


def case(mode, precision="bf16"):
    return find("gemm").case(GEMM, precision, mode)


def test_the_name_of_a_case_has_its_mode_but_for_eager():
    assert [case(mode).id for mode in ("eager", "graph")] == ["gemm/m=16,n=64,k=32/bf16", "gemm/m=16,n=64,k=32/bf16/graph"]  # fmt: skip
    assert [case(mode).terms for mode in ("eager", "compiled")] == ["bf16", "bf16 compiled"]


def test_cases_of_two_modes_are_two_cases():
    assert case("eager") != case("compiled")
    assert not at_least(case("compiled"), case("eager"))
    assert at_least(case("graph"), case("graph"))


def test_a_case_without_a_mode_is_eager():
    assert Case.of("gemm", GEMM, "bf16") == case("eager")


@pytest.mark.parametrize(
    ("name", "mode", "sentence"),
    [
        ("gemm", "fast", "workload gemm has no mode 'fast'; it has eager, compiled, graph"),
        ("mnist", "compiled", "workload mnist has no mode 'compiled'; it has eager"),
        ("gpt2_train", "graph", "workload gpt2_train has no mode 'graph'; it has eager, compiled"),
    ],
)
def test_a_mode_that_a_workload_lacks(name, mode, sentence):
    workload = find(name)
    with pytest.raises(WorkloadsError, match=sentence):
        workload.case(workload.tiny, "fp32", mode)


def test_a_repeat_is_spelt_with_its_mode_where_older_versions_would_not_do():
    spelt = {mode: Repeat("r", "here", case(mode)).options() for mode in ("eager", "compiled")}
    assert "--mode=compiled" in spelt["compiled"]
    assert not any("mode" in word for word in spelt["eager"])
    assert Repeat.from_json(Repeat("r", "here", case("graph")).to_json()).case == case("graph")


def test_a_cpu_has_no_graphs_and_says_so():
    record = measure(Repeat("r", "here", case("graph")), 1, Phases(), lambda text: None)
    assert record.verdict == "unsupported"
    assert "on a CPU measure eager or compiled" in record.reasons[0]


def test_a_repeat_finds_nothing_that_another_has_compiled():
    import torch.compiler.config as settings

    before = settings.force_disable_caches
    try:
        settings.force_disable_caches = False
        check_mode(open_device("cpu", "fp32", 1), "compiled")
        assert settings.force_disable_caches
    finally:
        settings.force_disable_caches = before


def test_what_is_compiled_can_be_run_as_it_is_written():
    ran = []

    def backend(graph, inputs):
        ran.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: x + 1, backend=backend, dynamic=False)
    with as_written():
        assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert ran == []
    compiled(torch.ones(2))
    assert len(ran) == 1


class FakeGraphs:
    """CUDA graphs without a device: what is captured is noted, and a replay runs no Python."""

    def __init__(self, monkeypatch):
        self.replays, self.where = 0, "main"
        fake = self

        class Stream:
            def __init__(self, device=None):
                pass

            def wait_stream(self, other):
                pass

        class Graph:
            def replay(self):
                fake.replays += 1

        @contextmanager
        def inside(name):
            before, fake.where = fake.where, name
            yield
            fake.where = before

        monkeypatch.setattr(torch.cuda, "Stream", Stream)
        monkeypatch.setattr(torch.cuda, "current_stream", Stream)
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: inside("aside"))
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
        monkeypatch.setattr(torch.cuda, "graph", lambda graph: inside("captured"))


def test_a_graph_is_captured_once_after_steps_aside_and_then_replayed(monkeypatch):
    graphs, taken = FakeGraphs(monkeypatch), []

    def step():
        taken.append(graphs.where)
        return torch.ones(2)

    prepared = Prepared(step, (), None, None, 1, "steps", 0, 0, 0)
    made = captured(prepared, Device("cuda", torch.device("cpu"), HostClock()))
    assert taken == ["aside"] * WARM_UP + ["captured"]
    results = [made.step() for _ in range(3)]
    assert len(taken) == WARM_UP + 1 and graphs.replays == 3
    assert all(result is results[0] for result in results)


def test_what_is_captured_is_what_the_search_has_found_and_its_operations_are_counted(monkeypatch):
    graphs, searched = FakeGraphs(monkeypatch), []
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    monkeypatch.setattr(build_module, "SPIN_S", 0.0)

    def make(env, n):
        values = torch.ones(n, n)

        def step():
            searched.append((graphs.where, torch.backends.cudnn.benchmark))
            return values @ values

        return Prepared(step, (values,), None, None, 1, "steps", 0, 0, 0)

    workload = SimpleNamespace(build=make, layouts=("contiguous",))
    repeat = Repeat("r", "here", Case.of("any", {"n": 4}, "fp32", "graph"), device="cuda", brief=True)
    phases = Phases()
    made = build_module.build(workload, repeat, Device("cuda", torch.device("cpu"), HostClock()), phases)
    assert ("captured", True) in searched and ("captured", False) not in searched
    assert (made.counts.flops, made.counts.launches) == (2 * 4**3, 1)
    assert phases.seconds["capture"] > 0 and "compile" not in phases.seconds


def test_no_layout_is_searched_for_before_the_card_is_awake(monkeypatch):
    """A graph's operations are counted first, in a step for which the card has not been woken yet."""
    FakeGraphs(monkeypatch)
    begins = {}
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    monkeypatch.setattr(build_module, "SPIN_S", 0.0)

    def make(env, n):
        values = torch.ones(n, n)

        def step():
            begins.setdefault(env.layout, torch.backends.cudnn.benchmark)
            return values @ values

        return Prepared(step, (values,), None, None, 1, "steps", 0, 0, 0)

    workload = SimpleNamespace(build=make, layouts=LAYOUTS)
    repeat = Repeat("r", "here", Case.of("any", {"n": 4}, "fp32", "graph"), device="cuda", brief=True)
    build_module.build(workload, repeat, Device("cuda", torch.device("cpu"), HostClock()), Phases())
    assert begins == dict.fromkeys(LAYOUTS, False)
    assert torch.backends.cudnn.benchmark
