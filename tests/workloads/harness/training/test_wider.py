from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.workloads.harness.training.environments import environment
from workloads.harness.checks.fakes import faked
from workloads.harness.checks.needs import OTHER, _step
from workloads.harness.engine.correctness import first_step
from workloads.harness.prepared import Prepared
from workloads.harness.training import wider
from workloads.harness.training.training import Learner, training_step

MIB = 2**20


class Rows(nn.Module):
    """A row of blocks within a model, with dropout, a norm over the batch and a frozen weight."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave = nn.Linear(8, 16), nn.Linear(16, 4)
        self.inner = nn.Module()
        self.inner.row = nn.ModuleList(
            nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.5)) for _ in range(3)
        )
        self.inner.row[1][0].weight.requires_grad_(False)

    def forward(self, x):
        x = self.enter(x)
        for block in self.inner.row:
            x = x + block(x)
        return self.leave(x)


def pictures():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 4)
    )


def loss(model, x, labels):
    return F.cross_entropy(model(x), labels)


def sgd(weights):
    return torch.optim.SGD([weight for weight in weights if weight.requires_grad], lr=0.1)


@pytest.mark.parametrize("free_bytes", [0, 2**40])
@pytest.mark.parametrize(
    ("build", "blocks", "shape"), [(Rows, "inner.row", (1, 8)), (pictures, "", (6, 3, 8, 8))]
)
def test_the_wider_reference_has_the_values_of_the_whole_model(monkeypatch, build, blocks, shape, free_bytes):
    monkeypatch.setattr(wider, "free_bytes", lambda device: free_bytes)
    torch.manual_seed(0)
    learner = Learner(environment(), build(), sgd)
    inputs = (torch.randn(shape), torch.randint(4, shape[:1]))
    with learner.watched():
        learner.learn(lambda: loss(learner.model, *inputs))
    learner.learn(lambda: loss(learner.model, *inputs))  # it begins anew all the same
    before = {name: value.clone() for name, value in learner.model.state_dict().items()}
    apart, whole = learner.wider(loss, inputs, blocks), learner.reference(loss, inputs)
    torch.testing.assert_close(apart, whole, rtol=1e-9, atol=1e-12)
    assert apart[1].count_nonzero() > 50
    after = learner.model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def stepped_with(reference, on_device):
    """Return the most bytes of the other device in the engine's stages."""
    with faked() as fakes:
        x = torch.empty(MIB, device=OTHER)
        made = Prepared(
            step=lambda: x + 1,
            inputs=(x,),
            reference=lambda: reference(x),
            view=lambda result: result,
            units=1,
            unit="steps",
            flops=0,
            bytes=0,
            matmul_flops=0,
            reference_on_device=on_device,
        )
        _step(made, fakes, "cuda")
        return fakes.tensors[str(OTHER)]


def test_a_reference_on_the_device_counts_in_the_memory_of_a_case():
    inputs_and_result = 2 * 4 * MIB
    alone = stepped_with(lambda x: pytest.fail("it is computed on the host"), False)
    assert alone < inputs_and_result + 2 * 8 * MIB
    assert stepped_with(lambda x: (x.double() + 1).float(), True) == inputs_and_result + 2 * 8 * MIB


def peaks(build, blocks, shape):
    """Return the most bytes of the other device in a step, and with its reference."""
    with faked() as fakes:
        env = replace(environment(), device=OTHER)
        inputs = (torch.empty(shape, device=OTHER), torch.zeros(shape[:1], dtype=torch.int64, device=OTHER))
        model = build().to(OTHER)
        made = training_step(env, model, loss, inputs, sgd, unit="rows", units=1, blocks=blocks)
        made.step()
        first_step(made)
        stepped = fakes.tensors[str(OTHER)]
        made.reference()
        return stepped, fakes.tensors[str(OTHER)]


def long_row():
    row = [nn.Sequential(nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 256)) for _ in range(16)]
    return nn.Sequential(*row, nn.Linear(256, 4))


class TestRoom:
    """The place of a long row's reference weights in float64, with gradients on the device."""

    def test_without_room_it_takes_little_of_the_device_beside_its_step(self):
        weights = sum(p.nbytes for p in long_row().parameters())
        stepped, checked = peaks(long_row, "", (4, 256))
        assert stepped > 2 * weights
        assert checked - stepped < weights / 4

    @pytest.mark.parametrize(("times", "is_there"), [(0.99, False), (1.0, True)])
    def test_wider_weights_lie_on_a_device_with_room_for_all_of_the_work(self, monkeypatch, times, is_there):
        weights = sum(p.nbytes for p in long_row().parameters())
        monkeypatch.setattr(wider, "free_bytes", lambda device: int(times * wider.ROOM * 2 * weights))
        _, checked = peaks(long_row, "", (4, 256))
        # its gradients are let go before the reference: weights, then twice as wide ones and their gradients
        assert (checked >= (1 + 2 + 2) * weights) == is_there
        assert checked <= (1 + wider.ROOM * 2) * weights

    def test_a_host_has_no_device_room(self):
        assert wider.free_bytes(torch.device("cpu")) == 0
        assert wider.place_of(torch.device("cpu"), 1) == torch.device("cpu")
