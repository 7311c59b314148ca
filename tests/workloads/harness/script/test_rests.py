"""Watches on loaders and backward calls rest in most steps of 1 ms: the notes are the same as without rests."""

import time
from itertools import pairwise

import pytest
import torch
from torch.utils.data import DataLoader

from workloads.harness.engine.phases import Phases
from workloads.harness.engine.readings import Readings
from workloads.harness.engine.sampling.rules import Rules
from workloads.harness.script.measurement import Measurement
from workloads.harness.script.outcome import Ending
from workloads.harness.script.rests import RESTED, WATCHED
from workloads.harness.script.sampling import SamplingPlan

BATCHES = 260
WAIT_S = 1e-3  # for a batch of the slow loader


class Slow(torch.utils.data.Dataset):
    """Samples each of which takes `WAIT_S`."""

    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        time.sleep(WAIT_S)
        return torch.ones(3)


class Training:
    """A model of one parameter, its optimizer, and steps of any number of backward calls."""

    def __init__(self):
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.optimizer = torch.optim.SGD([self.weight])

    def step(self, batch, backwards=1):
        for _ in range(backwards):
            (self.weight * batch).sum().backward()
        self.optimizer.step()


def three_epochs(training):
    batches = [torch.ones(3)] * BATCHES
    for _ in range(3):
        for batch in DataLoader(batches):
            training.step(batch)
        for _ in DataLoader(batches[:50]):  # an evaluation
            pass


def an_iterator_that_lives_on(training):
    batches = iter(DataLoader([torch.ones(3)] * 3 * BATCHES))
    validation = iter(DataLoader([torch.zeros(3)] * 40))
    for step in range(3 * BATCHES):
        training.step(next(batches))
        if step % 20 == 0:
            next(validation)


def accumulation(training):
    for batch in DataLoader([torch.ones(3)] * 3 * BATCHES):
        training.step(batch, backwards=2)


def a_later_optimizer(training):
    other = Training()
    for place, batch in enumerate(DataLoader([torch.ones(3)] * 3 * BATCHES)):
        training.step(batch)
        if place >= BATCHES:
            other.step(batch)


def a_compilation(training):
    for place, batch in enumerate(DataLoader([torch.ones(3)] * 2 * BATCHES)):
        training.step(batch)
        if place == BATCHES:
            torch.compile(torch.nn.Linear(1, 1))


@pytest.fixture
def measured(monkeypatch):
    """Return the measurement of a training, and how many rests it had; no rests if steps are always watched."""

    def measured(script, watched_step_s=1.0):
        monkeypatch.setattr("workloads.harness.script.rests.WATCHED_STEP_S", watched_step_s)
        phases, rests = Phases(), []
        plan = SamplingPlan(Rules().brief(), cap_s=1e9)
        measurement = Measurement(plan, phases, Readings("cpu", 1, phases.origin_s), whole=True)
        measurement.finish = lambda ending: 0
        rest = measurement.hooks.rest
        measurement.hooks.rest = lambda stepped: (rests.append(stepped), rest(stepped))
        measurement.hooks.install(torch)
        try:
            script(Training())
        finally:
            measurement.hooks.remove()
        measurement.end(Ending("finished"))
        assert measurement.trouble is None
        return measurement, len(rests)

    return measured


def notes(measurement):
    """Return the counts of the steps, without times."""
    observed = measurement.observed
    uses = [(use.batches, use.shape, use.batches_of_step, use.epochs_at) for use in observed.loaders.uses]
    counts = len(observed.ends_s), list(observed.backwards_at), observed.backwards, observed.epochs_at, uses
    return counts, measurement.step_model(), observed.amounts_of_step(None), len(observed.losses)


@pytest.mark.parametrize(
    "script", [three_epochs, an_iterator_that_lives_on, accumulation, a_later_optimizer, a_compilation]
)
def test_steps_of_a_rest_are_noted_as_watched_ones(measured, script):
    rested, rests = measured(script)
    watched, none = measured(script, watched_step_s=0.0)
    assert notes(rested) == notes(watched)
    assert rests
    assert not none


def test_other_backward_calls_in_a_rest_are_seen_when_it_ends(measured):
    def more_accumulation(training):
        for place, batch in enumerate(DataLoader([torch.ones(3)] * 3 * BATCHES)):
            training.step(batch, backwards=1 if place < BATCHES else 3)

    measurement, rests = measured(more_accumulation)
    calls = [after - before for before, after in pairwise(measurement.observed.backwards_at)]
    assert rests
    assert calls[: BATCHES - 1] == [1] * (BATCHES - 1)
    assert set(calls[BATCHES + RESTED :]) == {3}


def test_the_wait_for_batches_of_a_rest_is_that_of_the_steps_before(measured):
    def slow_loader(training):
        for batch in DataLoader(Slow()):
            training.step(batch)

    measurement, rests = measured(slow_loader)
    observed = measurement.observed
    assert rests
    assert observed.waited_s() > BATCHES * WAIT_S
    assert observed.waited_s() < observed.ends_s[-1] - observed.ends_s[0] + 20 * WAIT_S


def test_a_rest_lasts_until_a_pass_over_a_loader_begins(measured):
    seen = []

    def two_loaders(training):
        hooks = training_hooks()
        for _ in range(2):
            for batch in DataLoader([torch.ones(3)] * (100 + 3 * WATCHED)):
                training.step(batch)
                seen.append(hooks())

    def training_hooks():
        kind = torch.utils.data.dataloader._BaseDataLoaderIter
        return lambda: "_profile_name" in vars(kind)

    measured(two_loaders)
    assert not seen[100 + 3 * WATCHED - 1]
    assert all(seen[100 + 3 * WATCHED :][: 2 * WATCHED])
