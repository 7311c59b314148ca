from itertools import chain

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.workloads.nets import env
from workloads import cifar10, gcn, mnist
from workloads.harness.engine.correctness import WrongError, check, first_step
from workloads.harness.registry import find
from workloads.harness.training import fitting
from workloads.harness.training.data import MNIST, load_images
from workloads.harness.training.fitting import Recipe, classifier_job
from workloads.harness.training.layers import parameter_count
from workloads.nets import citations

pytestmark = pytest.mark.usefixtures("one_thread")


class TestNetworks:
    @pytest.mark.parametrize(("recipe", "count"), [(mnist.recipe, 1_199_882), (cifar10.recipe, 62_006)])
    def test_networks_have_the_examples_parameters(self, recipe, count):
        assert parameter_count(recipe().build()) == count

    def test_mnists_network_is_the_examples(self):
        net = mnist.recipe().build().eval()
        assert [m.p for m in net.modules() if isinstance(m, nn.Dropout)] == [0.25, 0.5]
        c1w, c1b, c2w, c2b, f1w, f1b, f2w, f2b = net.parameters()
        x = torch.randn(3, 1, 28, 28)
        h = F.max_pool2d(F.relu(F.conv2d(F.relu(F.conv2d(x, c1w, c1b)), c2w, c2b)), 2)
        h = F.linear(F.relu(F.linear(torch.flatten(h, 1), f1w, f1b)), f2w, f2b)
        torch.testing.assert_close(net(x), h - h.logsumexp(1, keepdim=True))

    def test_cifars_network_is_two_convolutions_and_three_layers(self):
        net = cifar10.recipe().build()
        c1w, c1b, c2w, c2b, *lines = net.parameters()
        x = torch.randn(3, 3, 32, 32)
        h = F.max_pool2d(F.relu(F.conv2d(x, c1w, c1b)), 2)
        h = torch.flatten(F.max_pool2d(F.relu(F.conv2d(h, c2w, c2b)), 2), 1)
        h = F.relu(F.linear(F.relu(F.linear(h, *lines[0:2])), *lines[2:4]))
        torch.testing.assert_close(net(x), F.linear(h, *lines[4:6]))

    def test_networks_learn_like_the_examples(self):
        found = {}
        for name, how in (("mnist", mnist.recipe()), ("cifar10", cifar10.recipe())):
            optimizer = how.optimizer(how.build().parameters())
            schedule, rates = how.schedule(optimizer), []
            for _ in range(6):
                rates.append(optimizer.param_groups[0]["lr"])
                optimizer.step()
                schedule.step()
            found[name] = (type(optimizer).__name__, optimizer.defaults["weight_decay"], rates)
        assert found["mnist"] == ("Adadelta", 0, pytest.approx([0.7**epoch for epoch in range(6)]))
        assert found["cifar10"] == ("Adam", 1e-4, pytest.approx([1e-3] * 5 + [1e-4]))

    def test_gcn_learns_as_the_example_does(self):
        how = citations.gcn_recipe(citations.gcn_task(env()), 16)
        net = how.build()
        optimizer = how.optimizer(net.parameters())
        assert parameter_count(net) == 1433 * 16 + 16 * 7
        assert net.dropout.p == 0.5
        assert (type(optimizer), optimizer.defaults["lr"], optimizer.defaults["weight_decay"]) == (
            torch.optim.Adam,
            0.01,
            5e-4,
        )


class Watching(nn.Module):
    """Note each call: training or not, and how many images."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, x):
        self.calls.append((self.training, len(x)))
        return x


class TestJob:
    def watched_job(self, epochs=2, samples=100, batch=32):
        calls, seen = [], []

        def loss(model, images, labels):
            seen.append(images[:, 0, 0].sum(1).tolist())
            return F.cross_entropy(model(images), labels)

        how = Recipe(
            lambda: nn.Sequential(Watching(calls), nn.Flatten(), nn.Dropout(0.5), nn.Linear(784, 10)),
            loss,
            lambda parameters: torch.optim.SGD(parameters, lr=0.1),
            lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5),
        )
        images = load_images(env(), MNIST, samples, held_out=True)
        job = classifier_job(env(), how, images, epochs, batch, None)
        calls.clear()
        return job, calls, seen

    def test_the_last_smaller_batch_is_trained_on_and_each_epoch_is_tested(self):
        job, calls, _ = self.watched_job()
        outcome = job.run()
        epoch = [(True, 32), (True, 32), (True, 32), (True, 4), (False, 17)]
        assert calls == 2 * epoch
        assert len(outcome.losses) == 8
        assert (job.units, job.unit) == (200, "images")
        assert job.flops == 2 * (100 * 2 * 2 * 784 * 10 + 17 * 2 * 784 * 10)

    def test_every_image_comes_once_an_epoch_in_a_new_order(self):
        job, _, seen = self.watched_job()
        job.run()
        first, second = ([*chain(*seen[part])] for part in (slice(0, 4), slice(4, 8)))
        assert sorted(first) == sorted(second)
        assert first != second
        assert len(set(first)) > 90

    def test_each_run_of_a_job_begins_anew(self):
        job, _, _ = self.watched_job()
        job.warm_up()
        one = job.run()
        job.warm_up()
        assert job.run() == one

    def test_a_large_held_out_set_is_tested_in_parts(self, monkeypatch):
        monkeypatch.setattr(fitting, "TEST_BATCH", 7)
        job, calls, _ = self.watched_job(epochs=1)
        parted = job.run().value
        assert [count for training, count in calls if not training] == [7, 7, 3]
        monkeypatch.undo()
        assert self.watched_job(epochs=1)[0].run().value == parted

    def test_targets_are_stated_where_a_training_is_long_enough(self):
        assert mnist._target(True, 1, 6000, 64) == 0.8
        assert mnist._target(True, 14, 600, 64) is mnist._target(True, 1, 6000, 256) is None
        assert mnist._target(False, 14, 60_000, 64) == 0.98
        assert mnist._target(False, 1, 60_000, 64) is None
        assert cifar10._target(True, 1, 5000, 32) == 0.8
        assert cifar10._target(False, 1, 50_000, 32) is None
        assert gcn._target(16, 200) == 0.75
        assert gcn._target(16, 20) is gcn._target(4, 200) is None


class ForgetsToScale(nn.Dropout):
    """Drop, but do not scale the rest."""

    def forward(self, x):
        return x * (torch.rand_like(x) > self.p) if self.training else x


class DropsOtherwiseInBackward(nn.Dropout):
    """Draw one mask forward and another one backward."""

    def forward(self, x):
        kept = super().forward(x)
        return kept.detach() + super().forward(x) - super().forward(x).detach()


@pytest.mark.parametrize("dropout", [ForgetsToScale, DropsOtherwiseInBackward])
def test_a_wrong_dropout_is_off(monkeypatch, dropout):
    monkeypatch.setattr(torch.nn, "Dropout", dropout)
    prepared = find("mnist").build(env(), batch=4)
    with pytest.raises(WrongError, match="the result is off by"):
        check(prepared, first_step(prepared), "fp32")


def test_a_convolution_that_is_hardly_off_is_seen(monkeypatch):
    right = nn.Conv2d.forward
    prepared = find("mnist").build(env(), batch=4)
    assert check(prepared, first_step(prepared), "fp32").error < 1e-5
    monkeypatch.setattr(
        nn.Conv2d, "forward", lambda layer, x: right(layer, x * (1.02 if x.dtype == torch.float32 else 1))
    )
    with pytest.raises(WrongError, match="the result is off by"):
        check(prepared, first_step(prepared), "fp32")
