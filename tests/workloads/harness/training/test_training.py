import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from tests.workloads.harness.training.environments import environment
from workloads.harness.checks.fakes import faked
from workloads.harness.checks.needs import OTHER
from workloads.harness.engine.correctness import WrongError, check, check_loss, first_step, recheck
from workloads.harness.engine.count import counted
from workloads.harness.engine.measure import RESTART_AFTER, Restarts
from workloads.harness.prepared import JobResult
from workloads.harness.records.record import Record, Verdict
from workloads.harness.registry import find
from workloads.harness.training.layers import copy_on, layer_flops, parameter_count
from workloads.harness.training.training import SCALE, Learner, inference_step, training_step

WRONG = {
    "never_updates": "^the first step changed no weight: ",
    "learns_away_from_it": "^the loss did not fall|^after .* steps the loss is",
    "skips_backward": "^the first step changed no weight: ",
    "skips_a_layer_in_backward": "^the result is off by ",
    "trains_on_a_copy": "with changed inputs, the result is off by .*: the result does not depend on the inputs",
    "blows_up": "^after .* steps the loss is (nan|inf)",
    "infers_without_a_layer": "^the result is off by ",
    "misses_its_target_job": "^accuracy reached 0.11; the target is at least 0.9",
    "loses_its_way_job": "^the job's [0-9]+ losses must be finite",
    "does_nothing_job": "^the job's 0 losses must",
}


@pytest.mark.parametrize(("name", "reason"), WRONG.items(), ids=WRONG)
def test_a_wrong_training_has_no_good_time(engine, name, reason):
    record = engine(name)
    assert record.verdict is Verdict.WRONG, record.reasons
    assert re.search(reason, record.reasons[0]), record.reasons
    assert Record.from_json(record.to_json()) == record


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_an_honest_training_passes(engine, precision):
    record = engine("trains", precision)
    assert record.verdict in (Verdict.OK, Verdict.NOISY, Verdict.UNSTEADY, Verdict.IMPRECISE), record.reasons
    assert record.training.last_loss < record.training.first_loss
    assert record.work.counted_flops == record.work.matmul_flops == 2 * 8 * 32 * (2 * 16 + 3 * 4)
    assert record.work.launches > 20
    assert record.work.parameters == 16 * 32 + 32 + 32 * 4 + 4


def test_a_job_is_timed_once_and_reports_its_metric(engine):
    record = engine("reaches_its_target_job")
    assert record.verdict in (Verdict.OK, Verdict.NOISY), record.reasons
    assert (record.wall.whole, len(record.wall.samples_s), record.wall.ci_low_s) == (True, 1, None)
    assert (record.training.metric, record.training.value, record.training.target) == ("loss", 0.4, 0.5)
    assert record.training.losses == (2.3, 0.4)
    assert record.end_to_end_s == record.wall.median_s
    assert Record.from_json(record.to_json()) == record


@pytest.mark.parametrize(
    ("value", "target", "higher", "met"),
    [(0.9, 0.9, True, True), (0.89, 0.9, True, False), (0.4, 0.5, False, True), (0.6, 0.5, False, False)],
)
def test_a_target_is_reached_or_not(value, target, higher, met):
    assert JobResult((1.0,), "m", value, target, higher).met is met
    assert JobResult((1.0,), "m", value, None).met


def test_a_loss_must_fall_once_there_are_steps_enough():
    check_loss(1.0, 2.0, 9)
    with pytest.raises(WrongError, match="did not fall: it was 1 and is 1 after 10 steps"):
        check_loss(1.0, 1.0, 10)
    with pytest.raises(WrongError, match="after 1 steps the loss is nan"):
        check_loss(1.0, float("nan"), 1)


def convolutions():
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Dropout2d(0.25),
        nn.Conv2d(8, 8, 3, stride=2),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.LazyLinear(10),
    )


def prepared(precision="fp32", layout="contiguous", seed=0):
    env = environment(precision, layout, seed)

    def build():
        model = convolutions()
        model(torch.zeros(2, 3, 9, 9))  # the lazy layer learns its size
        return model

    x = env.place_exact(torch.randn(4, 3, 9, 9, generator=env.generator))
    y = torch.randint(10, (4,), generator=env.generator)
    return training_step(
        env,
        env.model(build),
        lambda model, x, y: torch.nn.functional.cross_entropy(model(x), y),
        (x, y),
        lambda parameters: torch.optim.Adam(parameters, 1e-3),
        unit="images",
        units=4,
    )


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("seed", range(3))
def test_dropouts_masks_are_replayed_in_float64(layout, seed):
    torch.manual_seed(seed)
    made = prepared(layout=layout, seed=seed)
    assert check(made, first_step(made), "fp32").error < 1e-5
    for _ in range(3):
        made.step()
    assert recheck(made, made.step(), "fp32").error < 1e-5


def test_a_reset_brings_back_weights_statistics_and_optimizer():
    made = prepared()
    losses = []
    for _ in range(2):
        made.reset()
        torch.manual_seed(7)
        losses.append([float(made.step()) for _ in range(4)])
    assert losses[0] == losses[1]
    assert len(set(losses[0])) == 4


def test_a_reset_brings_back_the_first_loss_scale():
    """It doubles with good steps; a late one would overflow a first step."""
    made = prepared("fp16")
    learner = made.reset.__self__
    made.step()
    learner._scaler.update(2.0**20)
    made.reset()
    made.step()
    assert learner._scaler.get_scale() == SCALE
    learner.check_changed()


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda weights: torch.optim.AdamW(weights, 1e-2, fused=True),
        lambda weights: torch.optim.SGD(weights, 1e-2, momentum=0.9),
    ],
)
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_training_in_a_graph_begins_anew_in_the_tensors_that_it_was_captured_with(optimizer, precision):
    env = replace(environment(precision), mode="graph")
    inputs, net = torch.randn(4, 8), torch.nn.Linear(8, 3)
    learner = Learner(env, net, optimizer)

    def step():
        return float(learner.learn(lambda: learner.called(inputs).float().square().mean()))

    def tensors():
        """Return weights and the optimizer's state; eager steps make gradients anew."""
        return [*net.parameters(), *(t for kept in learner.optimizer.state.values() for t in kept.values())]

    first, began = [step() for _ in range(4)], [id(tensor) for tensor in tensors()]
    learner.reset()
    assert [step() for _ in range(4)] == first
    assert [id(tensor) for tensor in tensors()] == began
    assert len(began) > 2 and len(set(first)) == 4


def test_the_gradients_that_replays_fill_outlive_a_reference_on_the_device():
    for mode, kept in (("eager", False), ("graph", True)):
        env, inputs = replace(environment(), mode=mode), torch.randn(4, 8)
        made = training_step(
            env, torch.nn.Sequential(torch.nn.Linear(8, 3)), lambda model, x: model(x).square().mean(), (inputs,),
            lambda weights: torch.optim.SGD(weights, 1e-2), unit="rows", units=4, blocks="",
        )  # fmt: skip
        result = first_step(made)
        assert check(made, result, "fp32").error < 1e-5
        weights = made.reset.__self__.model.parameters()
        assert all((weight.grad is not None) == kept for weight in weights)


def test_an_optimizer_keeps_its_state_where_a_graph_can_change_it():
    for mode, told in (("eager", False), ("compiled-graph", True)):
        learner = Learner(
            replace(environment(), mode=mode),
            torch.nn.Linear(8, 3),
            lambda w: torch.optim.AdamW(w, fused=True),
        )
        assert learner.optimizer.param_groups[0]["capturable"] == told


class TestCopies:
    def model(self):
        model = torch.nn.Sequential(
            torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), tied := torch.nn.Linear(4, 4), tied
        )
        model[0].bias.requires_grad_(False)
        return model

    def test_a_copy_is_whole_and_apart(self):
        model = self.model()
        copied = copy_on("cpu", model)
        assert str(copied) == str(model)
        assert copied[2] is copied[3]
        for (name, own), (_, theirs) in zip(
            model.state_dict().items(), copied.state_dict().items(), strict=True
        ):
            assert torch.equal(own, theirs), name
            assert own.data_ptr() != theirs.data_ptr(), name
        assert [p.requires_grad for p in copied.parameters()] == [p.requires_grad for p in model.parameters()]

    def test_nothing_is_copied_on_the_models_own_device(self):
        """The device is `meta`, from which a copy could not be moved."""
        from torch.utils._python_dispatch import TorchDispatchMode

        class Watching(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                made = func(*args, **kwargs or {})
                if isinstance(made, torch.Tensor) and not func.is_view:
                    devices.add(made.device.type)
                return made

        devices, model = set(), self.model()
        with Watching():
            copy_on("meta", model)
            layer_flops(model[0], torch.empty(1, 4, device="meta"))
        assert devices == {"meta"}

    def test_the_beginning_of_a_training_is_kept_on_the_host(self):
        with faked() as fakes:
            env = replace(environment(), device=OTHER)
            model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64)).to(OTHER)
            held = fakes.live[str(OTHER)]
            learner = Learner(env, model, lambda weights: torch.optim.SGD(weights, lr=0.1))
            kept = learner._beginning[0]
            assert kept.keys() == model.state_dict().keys()
            assert {value.device for value in kept.values()} == {torch.device("cpu")}
            assert fakes.live[str(OTHER)] == held

    def test_the_beginning_of_a_training_is_apart_from_the_model(self):
        learner = prepared().reset.__self__
        assert all(
            value.data_ptr() != learner.model.state_dict()[name].data_ptr()
            for name, value in learner._beginning[0].items()
        )


def test_the_formula_of_layers_agrees_with_torchs_count():
    made = prepared()
    with counted() as counts:
        made.step()
    assert counts.flops == made.matmul_flops
    model = convolutions()
    model(x := torch.zeros(2, 3, 9, 9))
    with torch.no_grad(), counted() as counts:
        model(x)
    assert layer_flops(model, x)[0] == counts.flops
    linear = 2 * 2 * model[-1].weight.numel()
    assert counts.conv_flops == counts.flops - linear > 0
    assert parameter_count(model) == sum(p.numel() for p in model.parameters())


def test_inference_is_counted_alike():
    from torch.utils.flop_counter import FlopCounterMode

    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(196, 5)).eval()
    x = torch.zeros(2, 3, 9, 9)
    for context in (torch.inference_mode, torch.no_grad, torch.enable_grad):
        with context(), counted() as counts:
            model(x)
        with context(), FlopCounterMode(display=False) as theirs:
            model(x)
        assert counts.flops == theirs.get_total_flops() == layer_flops(model, x)[0]
        assert counts.launches in (2, 3)


def test_views_are_no_launches():
    x = torch.randn(4, 4)
    with counted() as counts:
        x.view(-1)[3:].unsqueeze(0).t()
    assert counts.launches == 0
    with counted() as counts:
        (x + x).relu()
    assert counts.launches == 2


def test_half_precision_inference_is_held_to_its_own_bound():
    env = environment("bf16")
    model = env.model(lambda: __import__("torch").nn.Linear(64, 8), env.dtype)
    made = inference_step(env, model, env.randn(6, 64), unit="rows")
    assert check(made, first_step(made), "bf16").checked_elements == 4 * 8
    assert recheck(made, made.step(), "bf16").error < 2e-2
    assert made.bytes == 2 * (6 * 64 + 64 * 8 + 8)


class TestRestarts:
    def test_a_training_starts_anew_before_it_has_gone_too_far(self):
        resets = []
        restarts = Restarts(lambda: resets.append(1))
        for number in range(7):
            restarts(RESTART_AFTER // 3, torch.tensor([float(number)]) if number else None)
        assert len(resets) == 2
        assert restarts.last_loss(torch.tensor([9.0])) == (6.0, RESTART_AFTER)

    def test_without_a_restart_the_last_loss_is_that_of_the_last_step(self):
        restarts = Restarts(lambda: None)
        restarts(5, None)
        restarts(5, torch.tensor([3.0]))
        assert restarts.last_loss(torch.tensor([1.0])) == (1.0, 10)

    def test_a_training_without_a_reset_never_restarts(self):
        restarts = Restarts(None)
        for _ in range(10):
            restarts(RESTART_AFTER, SimpleNamespace())


def test_a_workload_can_say_where_it_runs(engine, monkeypatch):
    monkeypatch.setattr(type(find("trains")), "devices", ("cuda",), raising=False)
    record = engine("trains")
    assert record.verdict is Verdict.UNSUPPORTED
    assert record.reasons == ("trains needs cuda; this is measured on cpu",)
