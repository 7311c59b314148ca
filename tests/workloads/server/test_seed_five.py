import os
import signal
import time
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
import torch

from tests.workloads import building
from tests.workloads.harness.repeat.dying import gone
from tests.workloads.harness.training.environments import environment
from workloads.harness.engine.correctness import WrongError, check, check_loss, first_step, recheck
from workloads.harness.engine.device import UnsupportedError
from workloads.harness.prepared import Job
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import find
from workloads.harness.training import loading
from workloads.harness.training.layers import parameter_count
from workloads.harness.training.loading import Loader
from workloads.nets import classifier

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a neighbour's load changes what is measured, and when processes end"
)

MODELS = {"simple_cnn": 1_147_466, "resnet": 11_181_642}
STEPS = [f"{m}_{k}" for m in MODELS for k in ("train", "infer", "train_loader", "infer_loader")]


def build(name, **size):
    return building.build(name, **(find(name).tiny | size))


@pytest.mark.parametrize(("model", "count"), MODELS.items())
def test_the_networks_have_the_published_parameters(model, count):
    module = __import__(f"workloads.{model}", fromlist=["net"])
    assert parameter_count(module.net()) == count
    assert build(f"{model}_infer").parameters == build(f"{model}_train_job").parameters == count


@pytest.mark.parametrize("model", MODELS)
def test_the_sizes_are_the_load_tests(model):
    batches = {"simple_cnn": (16, 32, 64), "resnet": (8, 16, 32)}[model]
    for kind in ("train", "infer", "train_loader", "infer_loader", "train_job", "infer_job"):
        assert find(f"{model}_{kind}").sizes["batch"] == batches


@pytest.mark.parametrize("name", [name for name in STEPS if "train" in name])
def test_a_training_workload_learns(name):
    prepared = build(name)
    first = float(first_step(prepared))
    check_loss(first, [float(prepared.step()) for _ in range(11)][-1], 11)
    assert prepared.is_training


@pytest.mark.parametrize("name", ["simple_cnn_train_loader", "simple_cnn_infer_loader"])
def test_a_loader_step_moves_its_own_data_and_a_reset_is_no_training(name):
    prepared = build(name)
    assert prepared.moves_inputs
    assert prepared.reset is not None
    assert prepared.is_training == ("train" in name)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_training_job_reaches_its_target_in_ten_steps(model, workers):
    job = build(f"{model}_train_job", batch=16, epochs=1, batches=10, workers=workers)
    assert isinstance(job, Job)
    job.warm_up()
    found = job.run()
    assert found.met, found.value
    assert (len(found.losses), len(found.step_s), job.units) == (10, 10, 160)
    assert found.losses[0] == pytest.approx(job.run().losses[0], rel=0.2)


@pytest.mark.parametrize("model", MODELS)
def test_an_inference_job_is_compared_with_float64(model):
    job = build(f"{model}_infer_job", batch=8, batches=12)
    job.warm_up()
    for _ in range(2):
        found = job.run()
        assert found.met
        assert 0 < found.value < found.target
        assert (found.losses, len(found.step_s)) == ((), 12)


def test_a_job_can_be_longer_than_its_data_set(monkeypatch):
    monkeypatch.setattr(classifier, "EPOCH", 3)
    for name, steps in (("simple_cnn_infer_job", 10), ("simple_cnn_train_job", 20)):
        job = build(name, batches=10, **({"epochs": 2} if "train" in name else {}))
        found = job.run()
        assert found.met, found.value
        assert len(found.step_s) == steps


def test_a_batch_of_one_can_not_be_normalised():
    with pytest.raises(WorkloadsError, match="size batch=1 must be at least 2: the network normalises over"):
        build("resnet_train", batch=1)
    build("resnet_infer", batch=1).step()


class TestLoader:
    def of(self, workers=0):
        x = torch.arange(12, dtype=torch.float32)
        return Loader(environment(), (x, x * 10), 3, workers)

    @pytest.mark.parametrize("workers", [0, 2])
    def test_the_order_of_every_epoch_is_known_and_has_every_row_once(self, workers):
        loader = self.of(workers=workers)
        epochs = []
        for epoch in range(3):
            taken = []
            for place in range(4):
                x, y = loader.take()
                assert torch.equal(x, loader.latest()[0])
                assert torch.equal(x, loader.at(epoch, place)[0])
                assert torch.equal(y, 10 * x)
                taken += x.tolist()
            assert sorted(taken) == list(range(12))
            epochs.append(taken)
        assert len(set(map(tuple, epochs))) == 3
        loader.stop()

    def test_a_restart_goes_to_the_next_epoch_or_to_the_one_named(self):
        loader = self.of()
        loader.restart(epoch=0)
        first = loader.take()[0].tolist()
        loader.restart()
        assert loader.take()[0].tolist() == loader.at(1, 0)[0].tolist() != first
        loader.restart(epoch=0)
        assert loader.take()[0].tolist() == first

    @pytest.mark.parametrize("workers", [0, 2])
    def test_changed_data_is_seen_after_a_restart(self, workers):
        loader = self.of(workers=workers)
        loader.take()
        loader.tensors[0].neg_()
        loader.restart()
        assert max(loader.take()[0].tolist()) <= 0
        loader.stop()

    def test_processes_of_a_loader_end_with_the_epoch(self):
        others = set(psutil.Process().children())
        loader = self.of(workers=2)
        loader.take()
        mine = set(psutil.Process().children()) - others
        assert len(mine) == 2
        loader.stop()
        _, alive = psutil.wait_procs(mine, timeout=5)
        assert alive == []

    def test_processes_of_a_loader_end_with_a_killed_parent(self):
        read, write = os.pipe()
        child = os.fork()
        if not child:  # it dies without a word to its own children
            loader = self.of(workers=2)
            loader.take()
            pids = [c.pid for c in psutil.Process().children()]
            os.write(write, (" ".join(map(str, pids)) + "\n").encode())
            os.kill(os.getpid(), signal.SIGKILL)
        pids = [int(pid) for pid in os.read(read, 1000).split()]
        os.waitpid(child, 0)
        end_s = time.monotonic() + 3  # torch's own watchdog looks every 5 s
        alive = pids
        while alive and time.monotonic() < end_s:
            alive = [pid for pid in alive if not gone(pid)]
            time.sleep(0.02)
        assert len(pids) >= 2
        assert alive == []

    def test_too_little_shared_memory_is_reported_in_one_sentence(self, monkeypatch):
        room = SimpleNamespace(f_bavail=4, f_frsize=8)
        monkeypatch.setattr(loading.os, "statvfs", lambda path: room)
        with pytest.raises(
            UnsupportedError, match=r"workers=2 needs .* MiB of shared memory, but /dev/shm has"
        ):
            self.of(workers=2)
        self.of(workers=0)

    def test_workers_beyond_reason_are_refused(self):
        with pytest.raises(WorkloadsError, match="workers=100000 must be from 0 to 256"):
            self.of(workers=100_000)


class TestCheats:
    """Each is called wrong by the functions that the engine calls."""

    def judged(self, prepared):
        check(prepared, first_step(prepared), "fp32")
        for _ in range(3):
            result = prepared.step()
        recheck(prepared, result, "fp32")

    def cheat_loader(self, monkeypatch):
        honest, kept = Loader.take, {}

        def take(loader):
            batch = honest(loader)
            return kept.setdefault("batch", batch)

        monkeypatch.setattr(Loader, "take", take)

    @pytest.mark.parametrize("name", ["simple_cnn_train_loader", "resnet_infer_loader"])
    def test_a_loader_that_hands_out_one_batch_for_ever(self, monkeypatch, name):
        self.cheat_loader(monkeypatch)
        with pytest.raises(WrongError, match="off by"):
            self.judged(build(name))

    def test_a_job_through_such_a_loader(self, monkeypatch):
        self.cheat_loader(monkeypatch)
        job = build("simple_cnn_infer_job")
        job.warm_up()
        assert not job.run().met

    @pytest.mark.parametrize("name", ["simple_cnn_infer", "simple_cnn_infer_loader"])
    def test_an_inference_that_returns_a_kept_result(self, name):
        prepared, kept = build(name), []

        def step():
            kept.append(prepared.step() if len(kept) < 2 else kept[1])
            return kept[-1]

        with pytest.raises(WrongError, match=r"off by|NaN"):
            self.judged(replace(prepared, step=step))

    def test_a_job_that_returns_a_kept_result(self, monkeypatch):
        job = build("simple_cnn_infer_job")
        honest, kept = torch.nn.Sequential.forward, []

        def forward(self, x):
            kept.append(kept[0] if kept else honest(self, x))
            return kept[-1]

        monkeypatch.setattr(torch.nn.Sequential, "forward", forward)
        assert not job.run().met

    @pytest.mark.parametrize("name", [name for name in STEPS if "train" in name])
    def test_a_training_without_an_optimizer_step(self, monkeypatch, name):
        monkeypatch.setattr(torch.optim.Adam, "step", lambda self, closure=None: None)
        with pytest.raises(WrongError, match="changed no weight"):
            self.judged(build(name))

    def test_a_job_without_an_optimizer_step(self, monkeypatch):
        monkeypatch.setattr(torch.optim.Adam, "step", lambda self, closure=None: None)
        assert not build("simple_cnn_train_job").run().met
