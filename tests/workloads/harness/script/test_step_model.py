from itertools import pairwise

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.script.instances import DeclaredStep
from workloads.harness.script.loaders import first_tensor
from workloads.harness.script.measurement import Measurement
from workloads.harness.script.sampling import SamplingPlan

torch.set_num_threads(1)


def seen(loop, step_of=None, samples=None):
    """Run a loop under the hooks; return the measurement, its step model and the samples."""
    phases = Phases()
    plan = SamplingPlan(Rules(), cap_s=1e9)
    readings = Readings("cpu", 1, phases.origin_s)
    measurement = Measurement(plan, phases, readings, whole=True, declared=DeclaredStep.of(step_of))
    measurement.hooks.install(torch)
    try:
        loop()
    finally:
        measurement.hooks.remove()
    assert measurement.trouble is None
    return measurement, measurement.step_model(), measurement.observed.amounts_of_step(samples)


def net(*widths):
    return torch.nn.Sequential(*[torch.nn.Linear(a, b) for a, b in pairwise(widths)])


def sgd(model, kind=torch.optim.SGD):
    return kind(model.parameters(), lr=1e-3)


def batches(count, size, width=4):
    return DataLoader(TensorDataset(torch.randn(count * size, width)), size)


def in_backward():
    """The tutorial's optimizer for each parameter, which steps within backward."""
    model = net(4, 4, 4, 4)
    optimizers = {p: torch.optim.SGD([p], lr=1e-3) for p in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(20):
        model(torch.randn(32, 4)).square().mean().backward()


def wasserstein(long=20, count=12):
    """A critic that steps more often in the generator's first iterations."""
    generator, critic = net(8, 4), net(4, 1)
    of_generator, of_critic = (sgd(m, torch.optim.RMSprop) for m in (generator, critic))
    for iteration in range(count):
        for _ in range(long if iteration < 3 else 5):
            of_critic.zero_grad()
            critic(generator(torch.randn(64, 8)).detach()).mean().backward()
            of_critic.step()
        of_generator.zero_grad()
        (-critic(generator(torch.randn(64, 8))).mean()).backward()
        of_generator.step()


def acts_and_trains():
    """Like DQN: act on one observation, with gradients, and train on 128."""
    model, target = net(4, 2), net(4, 2)
    optimizer = sgd(model, torch.optim.Adam)
    for _ in range(20):
        model(torch.randn(1, 4)).argmax()
        wanted = target(torch.randn(128, 4)).max(1)[0].detach()
        optimizer.zero_grad()
        (model(torch.randn(128, 4)).max(1)[0] - wanted).square().mean().backward()
        optimizer.step()


def policy(size=32):
    """Like PPO: rollouts without gradients, and minibatches of them for two networks."""
    actor, critic = net(4, 2), net(4, 1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()])
    for _ in range(4):
        with torch.no_grad():
            rollout = torch.stack([actor(torch.randn(8, 4)).new_ones(4) for _ in range(128)])
        for part in rollout.split(size):
            optimizer.zero_grad()
            (actor(part).mean() + critic(part).square().mean()).backward()
            optimizer.step()


def two_losses():
    model = net(4, 4)
    optimizer = sgd(model)
    for _ in range(20):
        made = model(torch.randn(32, 4))
        optimizer.zero_grad()
        made.square().mean().backward(retain_graph=True)
        made.abs().mean().backward()
        optimizer.step()


def accumulated():
    model, loss_of = (
        torch.nn.Sequential(torch.nn.Embedding(50, 8), torch.nn.Linear(8, 50)),
        torch.nn.CrossEntropyLoss(),
    )
    optimizer = sgd(model, torch.optim.AdamW)
    for _ in range(10):
        for _ in range(4):
            ids = torch.randint(0, 50, (12, 16))
            (loss_of(model(ids).flatten(0, 1), ids.flatten()) / 4).backward()
        optimizer.step()
        optimizer.zero_grad()


def called_with_keywords():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Embedding(50, 8)

        def forward(self, labels=None, input_ids=None):
            return {"loss": self.inner(input_ids).square().mean()}

    model = Model()
    optimizer = sgd(model, torch.optim.AdamW)
    for _ in range(10):
        model(input_ids=torch.randint(0, 50, (6, 16)))["loss"].backward()
        optimizer.step()


def optimizers_in_turn():
    """One for matrices and one for the rest, like Muon with AdamW."""
    model = net(4, 4)
    optimizers = [torch.optim.SGD([model[0].weight], lr=1e-3), torch.optim.AdamW([model[0].bias])]
    for _ in range(20):
        model(torch.randn(16, 4)).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()


def stages():
    """A new optimizer for each stage of five steps."""
    model = net(4, 4)
    for _ in range(6):
        optimizer = sgd(model)
        for _ in range(5):
            model(torch.randn(16, 4)).square().mean().backward()
            optimizer.step()
        del optimizer


def compiled():
    model = torch.compile(net(4, 4), backend="eager")
    optimizer = sgd(model)
    for _ in range(10):
        model(torch.randn(24, 4)).square().mean().backward()
        optimizer.step()


LOOPS = [
    # loop; end of a step; steps; steps of optimizers in each; backward calls; samples; tokens
    (in_backward, "backward", 19, {"SGD": 6.0}, 1, 32, None),
    (wasserstein, "RMSprop:2", 12, {"RMSprop:1": 5.0, "RMSprop:2": 1.0}, 6, None, None),
    (lambda: wasserstein(100), "RMSprop:2", 12, {"RMSprop:1": 5.0, "RMSprop:2": 1.0}, 6, None, None),
    (acts_and_trains, "Adam", 20, {}, 1, 128, None),
    (policy, "Adam", 16, {}, 1, 32, None),
    (two_losses, "SGD", 20, {}, 2, 32, None),
    (accumulated, "AdamW", 10, {}, 4, 48, 768),
    (called_with_keywords, "AdamW", 10, {}, 1, 6, 96),
    (optimizers_in_turn, "AdamW", 20, {"SGD": 1.0, "AdamW": 1.0}, 1, 16, None),
    (stages, "SGD", 30, {}, 1, 16, None),
    (compiled, "SGD", 10, {}, 1, 24, None),
]


@pytest.mark.parametrize(("loop", "step_of", "steps", "optimizers", "backwards", "samples", "tokens"), LOOPS)
def test_a_step_is_known(loop, step_of, steps, optimizers, backwards, samples, tokens):
    measurement, model, amounts = seen(loop)
    assert (model.step_of, model.refusal, len(measurement.observed.ends_s)) == (step_of, "", steps)
    assert model.optimizer_steps == optimizers and model.backwards == backwards
    assert (amounts.samples, amounts.tokens) == (samples, tokens)
    assert bool(amounts.doubts) is (samples is None)


def alternating(draw):
    """Two optimizers by chance, or in rows of changing length."""
    generator = torch.Generator().manual_seed(draw)
    models = net(4, 4), net(4, 4)
    optimizers = [sgd(model) for model in models]
    for _ in range(60):
        which = int(torch.randint(0, 2, (1,), generator=generator))
        models[which](torch.randn(8, 4)).square().mean().backward()
        optimizers[which].step()


def twice_a_backward():
    model = net(4, 4)
    optimizer = sgd(model)
    for _ in range(20):
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        optimizer.step()


@pytest.mark.parametrize(
    ("loop", "names"),
    [
        (lambda: alternating(1), ("--step-of SGD:",)),
        (twice_a_backward, ("--step-of SGD", "--step-of backward")),
    ],
)
def test_contradicting_evidence_is_refused_with_the_option_that_settles_it(loop, names):
    _, model, _ = seen(loop)
    assert model.refusal and all(name in model.refusal for name in names)


@pytest.mark.parametrize(
    ("loop", "step_of", "steps", "optimizers"),
    [
        (lambda: alternating(1), "SGD:1", None, None),
        (twice_a_backward, "backward", 19, {}),
        (twice_a_backward, "SGD", 40, {}),
        (wasserstein, "RMSprop:1", 105, None),
        (in_backward, "SGD:3", 19, None),
        (acts_and_trains, "forward", 39, {}),
    ],
)
def test_a_declared_step_is_counted(loop, step_of, steps, optimizers):
    measurement, model, _ = seen(loop, step_of)
    assert (model.step_of, model.refusal) == (step_of, "")
    assert steps is None or len(measurement.observed.ends_s) == steps
    assert optimizers is None or model.optimizer_steps == optimizers


@pytest.mark.parametrize(
    ("step_of", "name"),
    [("RMSprop", "RMSprop:1"), ("AdamW", "RMSprop:2"), ("mark", "mark"), ("RMSprop:3", ":3")],
)
def test_a_declared_step_that_does_not_come_is_refused(step_of, name):
    _, model, _ = seen(wasserstein, step_of)
    assert name in model.refusal


def test_a_declared_number_of_samples_stands():
    _, _, amounts = seen(wasserstein, samples=64)
    assert (amounts.samples, amounts.source, amounts.doubts) == (64, "declared", ())


def trains_from(train, validation, read_ahead=False):
    """Train one epoch, with a batch of a validation after each tenth step."""
    model = net(4, 4)
    optimizer, checks = sgd(model), iter(validation)
    for place, (x,) in enumerate(train):
        model(x).square().mean().backward()
        optimizer.step()
        if place % 10 == 9:
            with torch.no_grad():
                model(next(checks)[0])


@pytest.mark.parametrize("step_of", [None, "loader"])
def test_a_validation_that_lives_on_is_not_the_training(step_of):
    measurement, _, amounts = seen(lambda: trains_from(batches(60, 8), batches(7, 3)), step_of)
    observed = measurement.observed
    assert (amounts.samples, amounts.source, len(observed.ends_s)) == (8, "loader", 60)
    assert (list(observed.epochs_at), observed.epoch_steps) == ([60], 60)


def test_only_a_validation_has_a_loader():
    measurement, _, amounts = seen(lambda: trains_from([(torch.randn(8, 4),)] * 60, batches(7, 3)))
    assert (amounts.samples, amounts.source, measurement.observed.epoch_steps) == (8, "model", None)


def from_two_loaders():
    model = net(4, 4)
    optimizer = sgd(model)
    for (x,), (y,) in zip(batches(30, 8), batches(30, 56), strict=True):
        model(torch.cat([x, y])).square().mean().backward()
        optimizer.step()


def test_two_loaders_of_a_training_are_a_doubt():
    measurement, model, amounts = seen(from_two_loaders)
    assert model.refusal == "" and (amounts.samples, measurement.observed.epoch_steps) == (None, None)
    (doubt,) = amounts.doubts
    assert "8 and 56" in doubt and "--samples" in doubt


def new_data_for_each_epoch():
    model = net(4, 4)
    optimizer = sgd(model)
    for _ in range(3):
        for (x,) in batches(5, 8):
            model(x).square().mean().backward()
            optimizer.step()


def test_a_data_set_of_each_epoch_is_one_loader():
    measurement, _, amounts = seen(new_data_for_each_epoch)
    assert (list(measurement.observed.epochs_at), measurement.observed.epoch_steps) == ([5, 10, 15], 5)
    assert amounts.samples == 8


def of_changing_length():
    model = torch.nn.Embedding(50, 8)
    optimizer = sgd(model)
    for length in (3, 5, 4, 9) * 5:
        model(torch.randint(0, 50, (6, length))).square().mean().backward()
        optimizer.step()


def decodes():
    model = torch.nn.Embedding(50, 8)
    with torch.inference_mode():
        for _ in range(3):
            for length in (128, *[1] * 63):
                model(torch.randint(0, 50, (1, length)))


@pytest.mark.parametrize(
    ("loop", "samples", "lengths"), [(of_changing_length, 6, "3 to 9"), (decodes, 1, "1 to 128")]
)
def test_samples_of_different_lengths_have_no_tokens(loop, samples, lengths):
    _, _, amounts = seen(loop)
    assert (amounts.samples, amounts.tokens) == (samples, None)
    assert [doubt for doubt in amounts.doubts if lengths in doubt]


def unbatched():
    model = net(4, 2)
    optimizer = sgd(model)
    for _ in range(20):
        model(torch.randn(4)).square().mean().backward()
        optimizer.step()


def an_episode_for_each_step():
    model = net(4, 2)
    optimizer = sgd(model)
    for length in (5, 9, 7, 12, 3):
        torch.stack([model(torch.randn(1, 4)).square().mean() for _ in range(length)]).mean().backward()
        optimizer.step()


@pytest.mark.parametrize("loop", [unbatched, an_episode_for_each_step])
def test_samples_that_cannot_be_told_apart_are_not_counted(loop):
    _, model, amounts = seen(loop)
    assert model.refusal == "" and amounts.samples is None
    assert "--samples" in amounts.doubts[0]


def test_losses_are_those_of_the_first_backward_calls():
    measurement, _, _ = seen(accumulated)
    assert len(measurement.observed.losses) == 10
    measurement, _, _ = seen(lambda: wasserstein(20, 5))
    assert (
        len(measurement.observed.losses) == 5
    )  # one of each iteration, also of those that were counted anew


def test_a_model_that_is_traced_has_no_tensor_to_look_at():
    seen = []

    class Inner(torch.nn.Module):
        def forward(self, x):
            seen.append((type(x), first_tensor((x,))))
            return x + 1

    torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Sequential(Inner())))
    assert seen == [(torch.fx.Proxy, None)]
