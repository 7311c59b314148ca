from dataclasses import replace

import pytest
import torch

from tests.workloads.nets import JOBS, env
from workloads import cifar10, gcn
from workloads.harness.registry import find
from workloads.nets import citations

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("cifar10_job", "fp32"),
        ("cifar10_job", "bf16"),
        ("gcn_job", "fp32"),
        ("gcn_job", "bf16"),
    ],
)
def test_a_sound_job_reaches_its_target(name, precision):
    outcome = find(name).build(env(1, precision), **JOBS[name]).run()
    assert outcome.target is not None
    assert outcome.met
    assert outcome.losses[-1] < outcome.losses[0] / 2


def test_mnist_learns_from_few_images():
    outcome = find("mnist_job").build(env(), epochs=2, samples=1500, batch=32).run()
    assert outcome.value > 0.7  # chance is 0.1
    assert outcome.losses[-1] < outcome.losses[0] / 2


def without_a_rate(recipe):
    def broken(*given):
        return replace(recipe(*given), optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.0))

    return broken


def with_other_labels(load):
    def broken(*given, **named):
        found = load(*given, **named)
        return replace(found, labels=found.labels[torch.randperm(len(found.labels))])

    return broken


@pytest.mark.parametrize(
    ("name", "module", "part", "broken"),
    [
        ("cifar10_job", cifar10, "recipe", without_a_rate),
        ("cifar10_job", cifar10, "load_images", with_other_labels),
        ("gcn_job", gcn, "gcn_recipe", without_a_rate),
        ("gcn_job", citations, "load_graph", with_other_labels),
    ],
)
def test_a_job_that_learns_nothing_misses_its_target(monkeypatch, name, module, part, broken):
    monkeypatch.setattr(module, part, broken(getattr(module, part)))
    outcome = find(name).build(env(1), **JOBS[name]).run()
    assert outcome.value < 0.5
    assert not outcome.met
