from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
import torch.compiler.config as settings

from workloads.harness.engine import build as build_module
from workloads.harness.engine.build import WARM_UP, captured, check_mode, stance
from workloads.harness.engine.clock import HostClock
from workloads.harness.engine.device import KERNELS, Device
from workloads.harness.engine.failures import findings_of_failures
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
        ("gemm", "fast", "workload gemm has no mode 'fast'; it has eager, compiled, graph, compiled-graph"),
        ("mnist", "compiled", "workload mnist has no mode 'compiled'; it has eager"),
        (
            "roof",
            "compiled-graph",
            "workload roof has no mode 'compiled-graph'; it has eager, compiled, graph",
        ),
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


@pytest.mark.parametrize("mode", ["graph", "compiled-graph"])
def test_graph_modes_on_a_cpu_are_unsupported_with_the_reason(mode):
    record = measure(Repeat("r", "here", case(mode)), 1, Phases(), lambda text: None)
    assert record.verdict == "unsupported"
    assert f"mode {mode}" in record.reasons[0] and "on a CPU measure eager or compiled" in record.reasons[0]


@pytest.mark.parametrize(("mode", "name"), [("compiled", "cpu"), ("compiled-graph", "cuda")])
def test_a_repeat_finds_nothing_that_another_has_compiled(mode, name):
    before = settings.force_disable_caches
    try:
        settings.force_disable_caches = False
        check_mode(Device(name, torch.device("cpu"), HostClock()), mode)
        assert settings.force_disable_caches
    finally:
        settings.force_disable_caches = before


def test_a_compiled_step_can_also_run_eagerly():
    ran = []

    def backend(graph, inputs):
        ran.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: x + 1, backend=backend, dynamic=False)
    with stance("force_eager"):
        assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert ran == []
    compiled(torch.ones(2))
    assert len(ran) == 1


class FakeGraphs:
    """CUDA graphs without a device: captures are noted, and a replay runs no Python."""

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
            try:
                yield
            finally:
                fake.where = before

        monkeypatch.setattr(torch.cuda, "Stream", Stream)
        monkeypatch.setattr(torch.cuda, "current_stream", Stream)
        monkeypatch.setattr(torch.cuda, "stream", lambda stream: inside("aside"))
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
        monkeypatch.setattr(torch.cuda, "graph", lambda graph: inside("captured"))


def built(make, mode, precision="fp32", **traits):
    workload = SimpleNamespace(build=make, **{"layouts": ("contiguous",), "attention": False} | traits)
    repeat = Repeat("r", "here", Case.of("any", {"n": 4}, precision, mode), device="cuda", brief=True)
    phases = Phases()
    return build_module.build(
        workload, repeat, Device("cuda", torch.device("cpu"), HostClock()), phases
    ), phases


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


def test_a_graph_captures_the_kernels_that_the_search_found_and_counts_its_operations(monkeypatch):
    graphs, searched = FakeGraphs(monkeypatch), []
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    monkeypatch.setattr(build_module, "SPIN_S", 0.0)

    def make(env, n):
        values = torch.ones(n, n)

        def step():
            searched.append((graphs.where, torch.backends.cudnn.benchmark))
            return values @ values

        return Prepared(step, (values,), None, None, 1, "steps", 0, 0, 0)

    made, phases = built(make, "graph")
    assert ("captured", True) in searched and ("captured", False) not in searched
    assert (made.counts.flops, made.counts.launches) == (2 * 4**3, 1)
    assert phases.seconds["capture"] > 0 and "compile" not in phases.seconds


def test_no_layout_is_searched_for_before_the_card_is_awake(monkeypatch):
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

    built(make, "graph", layouts=LAYOUTS)
    assert begins == dict.fromkeys(LAYOUTS, False)
    assert torch.backends.cudnn.benchmark


class Compiler:
    """A backend of torch.compile that notes the streams on which it compiles and runs."""

    def __init__(self, graphs):
        self.graphs, self.compiled, self.ran = graphs, [], []

    def __call__(self, graph, inputs):
        self.compiled.append(self.graphs.where)

        def run(*values):
            self.ran.append(self.graphs.where)
            return graph.forward(*values)

        return run

    def make(self, env, n):
        values = torch.ones(n, n)
        called = torch.compile(lambda a, b: a @ b, backend=self, dynamic=False)
        return Prepared(lambda: called(values, values), (values,), None, None, 1, "steps", 0, 0, 0)


@pytest.fixture
def graphs(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    monkeypatch.setattr(build_module, "SPIN_S", 0.0)
    torch.compiler.reset()
    before = settings.force_disable_caches
    yield FakeGraphs(monkeypatch)
    settings.force_disable_caches = before


def test_a_step_is_compiled_before_it_is_captured_and_counted_as_written(graphs):
    compiler = Compiler(graphs)
    made, phases = built(compiler.make, "compiled-graph")
    assert compiler.compiled == ["main"]
    assert compiler.ran.count("aside") == WARM_UP and compiler.ran.count("captured") == 1
    assert (made.counts.flops, made.counts.launches) == (2 * 4**3, 1)
    assert phases.seconds["compile"] > 0 and phases.seconds["capture"] > 0
    ran = len(compiler.ran)
    replays = graphs.replays
    made.thing.step()
    assert (graphs.replays, len(compiler.ran)) == (replays + 1, ran)


def failing(graphs, error):
    def make(env, n):
        values = torch.ones(n, n)

        def step():
            if graphs.where == "captured":
                raise error
            return values @ values

        return Prepared(step, (values,), None, None, 1, "steps", 0, 0, 0)

    return make


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (RuntimeError("CUDA error: operation not permitted when stream is capturing"), "unsupported"),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), "out_of_memory"),
    ],
)
def test_a_step_that_cannot_be_captured_has_no_time(graphs, error, verdict):
    with findings_of_failures(case("graph")) as findings:
        built(failing(graphs, error), "graph")
    ((found, reason),) = findings
    assert found == verdict
    assert ("not permitted when stream is capturing" in reason) == (verdict == "unsupported")


def test_nothing_is_compiled_in_a_capture(graphs):
    """The compiler would recompile a new shape, and spoil the capture."""
    sizes = iter(range(5, 100))

    def make(env, n):
        called = torch.compile(lambda a: a + 1, backend=Compiler(graphs), dynamic=False)
        return Prepared(lambda: called(torch.ones(next(sizes))), (), None, None, 1, "steps", 0, 0, 0)

    with findings_of_failures(case("compiled-graph")) as findings:
        built(make, "compiled-graph")
    ((found, reason),) = findings
    assert found == "unsupported" and "recompile" in reason


def test_a_kernel_of_attention_is_chosen_before_the_only_compile(graphs, monkeypatch):
    monkeypatch.setattr(build_module, "has_kernels", lambda device, precision: precision == "bf16")
    compiler, asked = Compiler(graphs), []
    monkeypatch.setattr(build_module, "ask_first", asked.append)

    def make(env, n):
        assert env.layout == "contiguous"
        return compiler.make(env, n) if env.mode == "compiled-graph" else taking[env.mode](n)

    def as_written(n):
        values = torch.ones(n, n)
        return Prepared(lambda: values @ values, (values,), None, None, 1, "steps", 0, 0, 0)

    taking = {"graph": as_written}
    made, phases = built(make, "compiled-graph", "bf16", attention=True)
    assert compiler.compiled == ["main"]
    assert list(made.trials_s) == ["contiguous+cudnn", "contiguous+flash"]
    assert asked[:2] == list(KERNELS) and f"contiguous+{asked[-1]}" == made.layout
    assert phases.seconds["layout"] > 0
    assert built(make, "compiled-graph", attention=True)[0].layout == "contiguous"


def test_a_step_that_can_be_captured_only_once_it_is_compiled_has_its_kernel_chosen_without_a_capture(
    graphs, monkeypatch
):
    """Such as a step that copies a number to the host unless the compiler removed that."""
    monkeypatch.setattr(build_module, "has_kernels", lambda device, precision: precision == "bf16")
    monkeypatch.setattr(build_module, "ask_first", lambda kernel: None)
    compiler, tried = Compiler(graphs), []
    error = RuntimeError("CUDA error: operation not permitted when stream is capturing")
    as_written = failing(graphs, error)

    def make(env, n):
        tried.append(env.mode)
        return compiler.make(env, n) if env.mode == "compiled-graph" else as_written(env, n)

    made, _ = built(make, "compiled-graph", "bf16", attention=True)
    assert list(made.trials_s) == ["contiguous+cudnn", "contiguous+flash"] and made.layout in made.trials_s
    assert compiler.ran.count("captured") == 1 and tried == ["graph", "eager", "compiled-graph"]
