"""Seed 3's three models: the networks, how they learn, and that a training that goes wrong is seen."""

import re
from dataclasses import replace
from itertools import chain

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from workloads import cifar10, gcn, mnist
from workloads.command.model_table import model_table
from workloads.harness.engine.clock import HostClock
from workloads.harness.engine.correctness import WrongError, check, first_step
from workloads.harness.engine.device import Device, dtype_of
from workloads.harness.engine.profiling import profiled
from workloads.harness.prepared import Env
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import find
from workloads.harness.training import data, fitting
from workloads.harness.training.data import CIFAR10, MNIST, load_images
from workloads.harness.training.fitting import Recipe, classifier_job
from workloads.harness.training.layers import parameter_count
from workloads.nets.graph import GraphNet, normalised_links

JOBS = {
    "cifar10_job": {"epochs": 1, "samples": 5000, "batch": 32},
    "gcn_job": {"hidden": 16, "epochs": 200},
}


@pytest.fixture(autouse=True)
def _one_thread():
    """Threads that wait for each other on a busy machine would make seconds into minutes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def env(seed=0, precision="fp32"):
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    return Env(torch.device("cpu"), dtype_of(precision), "contiguous", generator, lambda t: t, precision)


class TestNetworks:
    @pytest.mark.parametrize(("recipe", "count"), [(mnist.recipe, 1_199_882), (cifar10.recipe, 62_006)])
    def test_they_have_the_examples_parameters(self, recipe, count):
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

    def test_they_learn_as_the_examples_do(self):
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
        how = gcn.gcn_recipe(gcn.gcn_task(env()), 16)
        net = how.build()
        optimizer = how.optimizer(net.parameters())
        assert parameter_count(net) == 1433 * 16 + 16 * 7
        assert net.dropout.p == 0.5
        assert (type(optimizer), optimizer.defaults["lr"], optimizer.defaults["weight_decay"]) == (
            torch.optim.Adam,
            0.01,
            5e-4,
        )


def small_graph():
    """Five papers, four links, three words, with the dense matrices that belong to them."""
    links = torch.tensor([[0, 0, 1, 3], [1, 2, 2, 4]])
    dense = torch.eye(5, dtype=torch.float64)
    dense[links[0], links[1]] = dense[links[1], links[0]] = 1
    scale = dense.sum(1).rsqrt().diag()
    entries = torch.tensor([[0, 0, 1, 2, 3, 4, 4], [0, 2, 1, 0, 1, 0, 2]])
    return links, scale @ dense @ scale, entries


class TestGraphNet:
    def test_links_are_normalised_by_both_degrees(self):
        links, dense, _ = small_graph()
        torch.testing.assert_close(normalised_links(links, 5).to_dense().double(), dense)

    def test_scores_and_gradients_are_those_of_dense_matrices(self):
        links, dense, entries = small_graph()
        net = GraphNet(normalised_links(links, 5).double(), entries, 3, 4, 2).double().eval()
        weights = torch.rand(7, dtype=torch.float64)
        papers = torch.zeros(5, 3, dtype=torch.float64).index_put((entries[0], entries[1]), weights)
        mine = net(weights)
        theirs = F.log_softmax(dense @ F.relu(dense @ papers @ net.first) @ net.second, 1)
        torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)  # the links are made in float32
        wanted = torch.autograd.grad(theirs[:, 0].sum(), [net.first, net.second])
        found = torch.autograd.grad(mine[:, 0].sum(), [net.first, net.second])
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)

    def test_its_flops_are_counted_entry_by_entry(self):
        task = gcn.gcn_task(env())
        nonzeros = int((task.links.to_dense() != 0).sum())
        assert nonzeros == 2 * 5429 + 2708
        words, links, dense = len(task.weights) * 16, nonzeros * (16 + 7), 2708 * 16 * 7
        forward, training, counted = gcn.flops(task, 16)
        assert forward == 2 * (words + links + dense)
        assert training == 2 * (2 * words + 2 * links + 3 * dense)
        assert counted == 2 * 3 * dense

    def test_papers_are_split_as_in_the_example(self):
        one, same, other = (gcn.gcn_task(env(seed)) for seed in (1, 1, 2))
        assert [len(part) for part in (one.test, one.validation, one.train)] == [1000, 500, 1208]
        assert sorted(torch.cat([one.test, one.validation, one.train]).tolist()) == list(range(2708))
        assert torch.equal(one.test, same.test)
        assert not torch.equal(one.test, other.test)

    def test_a_papers_words_weigh_one_together(self):
        task = gcn.gcn_task(env())
        sums = torch.zeros(2708).index_add(0, task.entries[0], task.weights)
        torch.testing.assert_close(sums, torch.ones(2708))


class Watching(nn.Module):
    """Notes what it is called with: training or not, and how many images."""

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

    def test_it_begins_anew_each_time_whatever_ran_before(self):
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


@pytest.mark.server
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


@pytest.mark.server
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


@pytest.mark.server
@pytest.mark.parametrize(
    ("name", "module", "part", "broken"),
    [
        ("cifar10_job", cifar10, "recipe", without_a_rate),
        ("cifar10_job", cifar10, "load_images", with_other_labels),
        ("gcn_job", gcn, "gcn_recipe", without_a_rate),
        ("gcn_job", gcn, "load_graph", with_other_labels),
    ],
)
def test_a_job_that_learns_nothing_misses_its_target(monkeypatch, name, module, part, broken):
    monkeypatch.setattr(module, part, broken(getattr(module, part)))
    outcome = find(name).build(env(1), **JOBS[name]).run()
    assert outcome.value < 0.5
    assert not outcome.met


class ForgetsToScale(nn.Dropout):
    """Drops, but leaves what it keeps as small as it was."""

    def forward(self, x):
        return x * (torch.rand_like(x) > self.p) if self.training else x


class DropsOtherwiseInBackward(nn.Dropout):
    """Draws one mask forward and another one backward."""

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


class TestTable:
    def test_it_shows_the_layers_as_they_are_called(self):
        text = model_table(find("mnist").case({"batch": 3}), 1)
        assert re.search(r"^2 +Conv2d +3 x 64 x 24 x 24 +18,496$", text, re.MULTILINE)
        assert re.search(r"^7 +Linear +3 x 128 +1,179,776$", text, re.MULTILINE)
        assert re.search(r"^\(whole\) +Sequential +3 x 10$", text, re.MULTILINE)
        assert text.endswith(
            "mnist/batch=3/fp32: 1,199,882 trainable parameters, 2.14696e+08 FLOPs in a step"
        )

    def test_it_shows_a_jobs_model_and_parts_without_a_layer_of_their_own(self):
        text = model_table(find("gcn_job").case({"hidden": 4, "epochs": 2}), 1)
        assert re.search(r"^\(whole\) +GraphNet +2708 x 7 +5,760$", text, re.MULTILINE)
        assert "5,760 trainable parameters" in text
        assert text.endswith("FLOPs in the whole job")

    def test_what_has_no_model_is_said(self):
        with pytest.raises(WorkloadsError, match="matmul has no model"):
            model_table(find("matmul").case({"n": 8}), 1)
        with pytest.raises(WorkloadsError, match="does not run in one process on a CPU"):
            model_table(find("transfer_bandwidth").case({"mib": 1}), 1)


@pytest.mark.parametrize(
    ("name", "size", "wanted"),
    [("mnist", {"batch": 8}, "convolution"), ("gcn", {"hidden": 16}, "addmm")],
)
def test_the_profile_names_what_took_most_with_shapes_and_memory(name, size, wanted):
    prepared = find(name).build(env(), **size)
    found = profiled(prepared.step, Device("cpu", torch.device("cpu"), HostClock()))
    assert len(found.operators) == 10
    assert found.sorted_by == "self_cpu_time_total"
    times = [row.self_cpu_s for row in found.operators]
    assert times == sorted(times, reverse=True)
    assert any(wanted in row.name for row in found.operators)
    assert any("[" in row.shapes and row.shapes != "[]" for row in found.operators)
    assert any(row.self_memory_bytes for row in found.operators)


def test_steps_say_which_files_they_read(tmp_path):
    (tmp_path / "cora.content").write_text("".join(f"p{i}\t1\t{i % 2}\tc{i % 3}\n" for i in range(1600)))
    (tmp_path / "cora.cites").write_text("".join(f"p{i}\tp{i + 1}\n" for i in range(1599)))
    prepared = find("gcn").build(replace(env(), data=tmp_path), hidden=4)
    assert prepared.data.startswith("cora.content, cora.cites (sha256 ")
    assert check(prepared, first_step(prepared), "fp32").error < 1e-5


@pytest.mark.parametrize(
    ("name", "size"), [("mnist", {"batch": 2}), ("cifar10_job", JOBS["cifar10_job"]), ("gcn", {"hidden": 4})]
)
def test_missing_files_are_named_before_anything_is_trained(tmp_path, name, size):
    with pytest.raises(WorkloadsError, match=f"the data folder {tmp_path} lacks "):
        find(name).build(replace(env(), data=tmp_path), **size)


def test_the_examples_sets_are_the_published_ones():
    assert (MNIST.images, MNIST.held_out, CIFAR10.images, CIFAR10.held_out) == (
        60_000,
        10_000,
        50_000,
        10_000,
    )
    assert sum(data.CORA_CLASSES) == 2708
