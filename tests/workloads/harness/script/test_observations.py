import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from tests.workloads.harness.script.listener import Listener


class Doubled(torch.nn.Module):
    """A transform that is a module, like torchvision's."""

    def forward(self, x):
        return 2 * x


class Data(Dataset):
    def __init__(self, count):
        self.count, self.transform = count, Doubled()

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.transform(torch.ones(3, 2)).flatten()


@pytest.fixture
def observed():
    """Yield the notes of a script in this process, under temporary hooks."""
    listener = Listener().install()
    yield listener.observed
    listener.remove()


class Loop:
    def __init__(self, batches=6, size=8):
        self.model = torch.nn.Linear(6, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.loader = DataLoader(Data(batches * size), batch_size=size)

    def backward(self, x):
        self.model(x).sum().backward()


def batch_of_step(observed):
    """Return the samples of a step."""
    return observed.amounts_of_step(None).samples


@pytest.mark.parametrize(("backwards", "accumulated"), [(1, 1), (2, 1), (1, 3), (2, 3)])
def test_several_backward_calls_on_a_batch_count_it_once(observed, backwards, accumulated):
    loop = Loop()
    for place, x in enumerate(loop.loader, 1):
        for _ in range(backwards):
            loop.backward(x)
        if place % accumulated == 0:
            loop.optimizer.step()
        if len(observed.ends_s) == 1 and place == accumulated + 1:
            assert observed.epoch_steps == 6 / accumulated
    assert batch_of_step(observed) == 8 * accumulated
    assert (observed.epochs_at, observed.epoch_steps) == ([6 // accumulated], 6 // accumulated)


def test_a_batch_in_pieces_is_all_of_its_pieces(observed):
    loop = Loop()
    for x in loop.loader:
        for piece in x.split(2):
            loop.backward(piece)
        loop.optimizer.step()
    assert batch_of_step(observed) == 8


def test_a_script_that_reads_a_batch_ahead_trains_on_one_each(observed):
    loop = Loop()
    batches = iter(loop.loader)
    ahead = next(batches)
    for following in batches:
        loop.backward(ahead)
        loop.optimizer.step()
        ahead = following
    assert batch_of_step(observed) == 8


def test_an_evaluation_after_the_first_step_does_not_say_the_batch(observed):
    loop = Loop()
    for x in loop.loader:
        loop.backward(x)
        loop.optimizer.step()
        with torch.no_grad():
            loop.model(torch.ones(100, 6))
    assert batch_of_step(observed) == 8


def test_transforms_of_the_loader_are_not_the_model(observed):
    loop = Loop()
    with torch.no_grad():
        for x in loop.loader:
            loop.model(x)
    assert (batch_of_step(observed), observed.forwards) == (8, 6)


def test_a_loop_that_is_left_early_ends_its_epoch_there(observed):
    loop = Loop()
    for _ in range(3):
        for place, x in enumerate(loop.loader):
            if place == 4:
                break
            loop.backward(x)
            loop.optimizer.step()
            for _ in loop.loader:  # an evaluation, left early as well
                break
    assert (observed.epochs_at, observed.epoch_steps) == ([4, 8, 12], 4)
