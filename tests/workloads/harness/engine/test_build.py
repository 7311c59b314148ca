import random
import weakref
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn.attention import SDPBackend

from tests.workloads.harness.fake_cuda import FakeCuda
from workloads.harness.engine import build as build_module
from workloads.harness.engine.build import build
from workloads.harness.engine.device import Device, ask_first
from workloads.harness.engine.phases import Phases
from workloads.harness.prepared import Job, Prepared
from workloads.harness.records.case import Case
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import LAYOUTS

REPEAT = Repeat("a-run", "a-box", Case.of("any", {"n": 1}), device="cuda")
RISES_S = 0.2  # from a clock of 345 MHz to one of 1980
BUILD_S = 1.0  # in which inputs are drawn


class Layouts:
    """A workload with seconds by layout, on an idle card; `built` lists the built layouts."""

    layouts, attention = LAYOUTS, False

    def __init__(self, monkeypatch, seconds, noise=0.0, seed=0, drift=0.0):
        """`drift`: share of its first time by which a step slows each second."""
        self.cuda, self.seconds, self.built, self.searched_s = FakeCuda(), seconds, [], []
        monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)  # as an opened device has it
        self.device = Device("cuda", torch.device("cpu"), self.cuda.install(monkeypatch))
        self.began_s, self.noise, self.random = self.cuda.now_s, noise, random.Random(seed)
        self.drift = drift

    def build(self, env, n):
        self.cuda.now_s += BUILD_S if self.drift else 0.0
        self.built.append(env.layout)
        nothing = SimpleNamespace()
        return Prepared(lambda: self.step(env.layout), (), None, None, 1, "steps", 0, 0, 0, watched=nothing)

    def step(self, layout):
        self.searched_s += [self.cuda.now_s - self.began_s] * torch.backends.cudnn.benchmark
        risen = min((self.cuda.now_s - self.began_s) / RISES_S, 1.0)
        slowed = (1980 / 345) ** (1 - risen) * (1 + self.noise * abs(self.random.gauss(0, 1)))
        self.cuda.launch(self.seconds[layout] * slowed * (1 + self.drift * (self.cuda.now_s - self.began_s)))

    def chosen(self, **changes):
        return build(self, replace(REPEAT, **changes), self.device, Phases())


@pytest.mark.parametrize("seconds", [30e-6, 300e-6, 3e-3])
def test_a_card_that_wakes_up_favours_no_layout(monkeypatch, seconds):
    made = Layouts(monkeypatch, dict.fromkeys(LAYOUTS, seconds)).chosen()
    assert made.layout == "contiguous"
    assert made.trials_s["channels_last"] == pytest.approx(made.trials_s["contiguous"], rel=0.02)


@pytest.mark.parametrize("seconds", [30e-6, 3e-3])
@pytest.mark.parametrize("drift", [-0.05, 0.05])
def test_a_clock_that_drifts_from_trial_to_trial_favours_no_layout(monkeypatch, seconds, drift):
    """Trials go there and back, so all have the same mean time."""
    workload = Layouts(monkeypatch, dict.fromkeys(LAYOUTS, seconds), drift=drift)
    made = workload.chosen()
    assert made.layout == "contiguous"
    assert made.trials_s["channels_last"] == pytest.approx(made.trials_s["contiguous"], rel=0.01)
    assert workload.built == ["contiguous", "channels_last", "contiguous"]


def test_one_layout_is_in_memory_at_a_time(monkeypatch):
    workload, alive = Layouts(monkeypatch, {"contiguous": 1e-3, "channels_last": 5e-4}), []
    build_one = workload.build

    def build_alone(env, n):
        assert [one for one in alive if one()] == []
        made = build_one(env, n)
        alive.append(weakref.ref(made.step))
        return made

    workload.build = build_alone
    assert workload.chosen().layout == "channels_last"
    assert len(alive) == 4


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_single_steps_decides_nothing(monkeypatch, seed):
    made = Layouts(monkeypatch, dict.fromkeys(LAYOUTS, 30e-6), noise=0.2, seed=seed).chosen()
    assert made.layout == "contiguous"
    assert made.trials_s["channels_last"] == pytest.approx(made.trials_s["contiguous"], rel=0.03)


@pytest.mark.parametrize("seconds", [30e-6, 3e-3, 0.3])
def test_the_faster_one_is_taken(monkeypatch, seconds):
    made = Layouts(monkeypatch, {"contiguous": seconds, "channels_last": 0.8 * seconds}).chosen()
    assert made.layout == "channels_last"


@pytest.mark.parametrize("layout", [None, "contiguous"])
def test_algorithms_are_searched_for_when_the_card_is_awake(monkeypatch, layout):
    """CuDNN times each algorithm once, in the first step that can search."""
    workload = Layouts(monkeypatch, dict.fromkeys(LAYOUTS, 1e-3))
    workload.chosen(layout=layout)
    assert torch.backends.cudnn.benchmark
    assert workload.searched_s[0] > RISES_S


def test_each_layout_is_searched_for_when_the_card_is_awake(monkeypatch):
    workload, first_s = Layouts(monkeypatch, dict.fromkeys(LAYOUTS, 1e-3)), {}
    build_one, step = workload.build, workload.step

    def build_at_rest(env, n):
        made = build_one(env, n)
        workload.began_s = workload.cuda.now_s
        return made

    def noting(layout):
        if torch.backends.cudnn.benchmark:
            first_s.setdefault(layout, workload.cuda.now_s - workload.began_s)
        step(layout)

    workload.build, workload.step = build_at_rest, noting
    workload.chosen()
    assert first_s.keys() == {*LAYOUTS}
    assert min(first_s.values()) > RISES_S


def test_a_job_searches_when_the_card_is_awake(monkeypatch):
    card, warmed = Layouts(monkeypatch, {"contiguous": 1e-3}), []

    def warm_up():
        warmed.append((torch.backends.cudnn.benchmark, card.cuda.now_s - card.began_s))
        card.step("contiguous")

    card.build = lambda env, n: Job(lambda: None, warm_up, 1, "jobs", 0, 0, 0)
    made = card.chosen()
    made.thing.warm_up()
    assert {searched for searched, _ in warmed[:-1]} == {False}
    assert warmed[-1][0] and warmed[-1][1] > RISES_S


def test_a_trial_searches_too_and_waits_for_nothing(monkeypatch):
    workload = Layouts(monkeypatch, dict.fromkeys(LAYOUTS, 1e-3))
    workload.chosen(trial=True)
    assert len(workload.searched_s) == 1
    assert workload.cuda.now_s - workload.began_s < 0.1


def test_a_layout_that_was_found_is_not_tried_again(monkeypatch):
    workload = Layouts(monkeypatch, {"contiguous": 1e-3, "channels_last": 2e-3})
    made = workload.chosen(layout="channels_last")
    assert (made.layout, made.trials_s, workload.built) == ("channels_last", {}, ["channels_last"])


def test_a_brief_look_takes_a_few_steps(monkeypatch):
    workload = Layouts(monkeypatch, dict.fromkeys(LAYOUTS, 1.0))
    workload.chosen(brief=True)
    assert workload.cuda.now_s - workload.began_s < 12


class Kernels(Layouts):
    """Attention that takes the seconds of the kernel that torch prefers, by torch's own switch."""

    layouts, attention = LAYOUTS[:1], True

    def __init__(self, monkeypatch, seconds):
        super().__init__(monkeypatch, seconds)
        monkeypatch.setattr(build_module, "has_kernels", lambda device, precision: precision == "bf16")

    def step(self, layout):
        assert layout == "contiguous"
        super().step(asked())


def asked():
    first = SDPBackend(torch._C._get_sdp_priority_order()[0])
    return {SDPBackend.CUDNN_ATTENTION: "cudnn", SDPBackend.FLASH_ATTENTION: "flash"}[first]


@pytest.fixture
def kernels():
    yield
    ask_first("")


HALF = {"case": Case.of("any", {"n": 1}, "bf16")}


@pytest.mark.parametrize("faster", ["cudnn", "flash"])
def test_the_faster_kernel_of_attention_is_taken_of_inputs_that_are_drawn_once(monkeypatch, kernels, faster):
    seconds = {"cudnn": 1e-3, "flash": 1e-3} | {faster: 5e-4}
    workload = Kernels(monkeypatch, seconds)
    made = workload.chosen(**HALF)
    assert made.layout == f"contiguous+{faster}" and asked() == faster
    assert made.trials_s["contiguous+cudnn"] / made.trials_s["contiguous+flash"] == pytest.approx(
        seconds["cudnn"] / seconds["flash"], rel=0.02
    )
    assert workload.built == ["contiguous"]


def test_a_kernel_that_an_earlier_repeat_has_found_is_not_tried_again(monkeypatch, kernels):
    workload = Kernels(monkeypatch, {"cudnn": 1e-3, "flash": 2e-3})
    made = workload.chosen(layout="contiguous+flash", **HALF)
    assert (made.layout, made.trials_s, asked()) == ("contiguous+flash", {}, "flash")


def test_torch_chooses_where_there_are_no_two_kernels_and_where_several_measure_together(monkeypatch):
    workload = Kernels(monkeypatch, {"cudnn": 1e-3, "flash": 1e-3})
    assert build_module.layouts_of(workload, REPEAT, workload.device, 1) == ["contiguous"]
    half = replace(REPEAT, **HALF)
    assert build_module.layouts_of(workload, half, workload.device, 2) == ["contiguous"]
    assert len(build_module.layouts_of(workload, half, workload.device, 1)) == 2
