"""The hooks leave nothing in a script's objects, and nothing in its tracebacks."""

import copy
import io
import pickle
import traceback
import warnings
from pathlib import Path

import pytest
import torch
from torch.nn.modules.module import _has_any_global_hook
from torch.utils.data import DataLoader, Dataset

from tests.workloads.harness.script.listener import Listener
from workloads.harness.script import watching
from workloads.harness.script.hooks import FIRST_CALLS, has_optimizer

OURS = str(Path(watching.__file__).parent)


class Net(torch.nn.Module):
    """A model that can fail, and that is pickled while it is called."""

    def __init__(self, width=4):
        super().__init__()
        self.parts = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(5)])
        self.within = []

    def forward(self, x):
        if x.isnan().any():
            raise ValueError("no number")
        self.within = []
        self.within = [saved(self)]
        return self.parts(x)


class Data(Dataset):
    def __init__(self, count=8, bad=None):
        self.count, self.bad = count, bad

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.bad:
            raise KeyError("bad picture")
        return torch.full((4,), float(index))


@pytest.fixture
def watched():
    watched = Listener().install()
    yield watched
    watched.remove()


def nothing(*_):
    """A hook of the script's own."""


def saved(thing):
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def trained():
    """Return all that can be saved of a model, its optimizer and loader, at every place of a training."""
    torch.manual_seed(0)
    model, found = Net(), []
    model(torch.ones(2, 4))  # a dry call
    copied = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def note():
        things = model, copied, copy.deepcopy(model), model.state_dict(), optimizer.state_dict(), optimizer
        found.extend(saved(thing) for thing in things)
        found.append(len(pickle.dumps(model)))  # which holds a random name
        found.append(sorted(model.__dict__) + sorted(optimizer.__dict__))

    note()
    with pytest.raises(ValueError, match="no number"):
        model(torch.full((2, 4), torch.nan))
    note()
    for _ in range(2):
        for batch in (batches := iter(DataLoader(Data(), batch_size=4))):
            found.append(sorted(vars(batches)))
            optimizer.zero_grad()
            model(batch).sum().backward()
            note()
            optimizer.step()
            note()
    found.extend(model.within)
    return found


def test_all_that_a_script_can_save_is_as_without_us(watched):
    ours = trained()
    assert (len(watched.observed.ends_s), watched.observed.epochs_at) == (4, [2, 4])
    watched.hooks.remove()
    assert ours == trained()


def test_torch_is_as_it_was_after_the_hooks_have_gone():
    kinds = torch.Tensor, torch.amp.GradScaler, torch.utils.data.dataloader._BaseDataLoaderIter
    before = [dict(vars(kind)) for kind in kinds], torch.compile, torch.autograd.backward
    watched = Listener().install()
    assert torch.Tensor.backward is before[0][0]["backward"]  # as torch itself compares it
    assert torch.autograd.backward is before[2]
    watched.hooks.remove()
    assert ([dict(vars(kind)) for kind in kinds], torch.compile, torch.autograd.backward) == before
    assert not _has_any_global_hook()


def test_no_hook_on_modules_is_left_once_something_trains(watched):
    trained()
    trained()  # more steps than are looked at
    assert not _has_any_global_hook()


@pytest.mark.parametrize("comes_back", [True, False])
def test_calls_of_a_model_are_counted_however_many_modules_it_has(comes_back, watched, monkeypatch):
    """Also with a torch that keeps the hook for longer than the call."""
    if not comes_back:
        monkeypatch.setattr(watching._Visit, "__del__", lambda visit: None)
    seen, real = [], watched.hooks._model_called
    watched.hooks._model_called = lambda *call: seen.append(call[0]) or real(*call)
    watched.hooks._calls._called = watched.hooks._model_called
    model, calls = Net(), FIRST_CALLS + 10
    model.register_forward_hook(nothing)  # torch takes another way through a call then
    for _ in range(calls):
        model(torch.ones(3, 4))
    assert (watched.observed.forwards, watched.forwards) == (calls, calls - 1)
    assert watched.observed.amounts_of_step(None).samples == 3
    assert seen.count(model) == calls + 1  # both kinds of watch see the call between them
    assert len(seen) == calls + 1 + (0 if comes_back else 10 * 6)


def test_a_call_that_fails_does_not_end_the_counting(watched):
    model = Net()
    for place in range(10):
        try:
            model(torch.full((3, 4), torch.nan if place % 2 else 1.0))
        except ValueError:
            continue
    assert watched.observed.forwards == 10


def test_tracebacks_are_the_scripts_own(watched):
    texts, model = [], Net()
    loss = model(torch.ones(2, 4)).sum()
    loss.backward()

    def fails(function):
        try:
            function()
        except Exception:
            texts.append(traceback.format_exc())

    fails(loss.backward)  # its graph is gone
    fails(lambda: model(torch.full((2, 4), torch.nan)))
    fails(lambda: list(DataLoader(Data(bad=5), batch_size=4)))
    fails(lambda: torch.amp.GradScaler("cpu").scale(3))
    assert len(texts) == 4 and not [text for text in texts if OURS in text]


def test_a_loader_whose_workers_stay_ends_its_epochs(watched):
    loader = DataLoader(Data(), batch_size=4, num_workers=1, persistent_workers=True)
    parameter = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([parameter], lr=0.01)
    for _ in range(3):
        for batch in loader:
            (batch * parameter).sum().backward()
            optimizer.step()
    assert watched.observed.epochs_at == [2, 4]  # the third ends when the loader begins again


def test_an_iterator_that_stays_ends_its_epoch_before_the_next_step(watched):
    parameter, kept = torch.nn.Parameter(torch.ones(4)), []
    optimizer = torch.optim.SGD([parameter], lr=0.01)
    for _ in range(2):
        kept.append(iter(DataLoader(Data(), batch_size=4)))
        for batch in kept[-1]:
            (batch * parameter).sum().backward()
            optimizer.step()
    optimizer.step()
    assert watched.observed.epochs_at == [2, 4]


def test_a_backward_call_within_another_is_not_counted(watched):
    """Checkpointing of activations calls `torch.autograd.backward` itself."""
    model = Net()
    x = torch.ones(2, 4, requires_grad=True)
    torch.utils.checkpoint.checkpoint(model.parts, x, use_reentrant=True).sum().backward()
    assert watched.observed.backwards == 1


def test_losses_are_those_before_a_scaler(watched):
    scaler, parameter = torch.amp.GradScaler("cpu"), torch.nn.Parameter(torch.tensor(3.0))
    (parameter * 2).backward()
    watched.observed.stepped()
    scaler.scale(parameter * 5).backward()
    watched.observed.stepped()
    torch.stack([parameter, parameter]).backward(torch.ones(2))
    assert [float(loss) for loss in watched.observed.losses] == [6, 15]
    assert watched.observed.backwards == 3 and parameter.grad == 2 + 5 * 65536 + 2


def test_an_error_of_ours_switches_the_hooks_off_and_stays_with_us():
    watched = Listener()
    watched.optimizer_stepped = lambda *_: [][0]
    watched.install()
    try:
        trained()
    finally:
        watched.hooks.remove()
    assert [type(error) for error in watched.errors] == [IndexError] and not watched.hooks.active


def test_looking_for_an_optimizer_asks_no_object():
    """`torch.distributed.reduce_op` warns when it is asked for its class."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = has_optimizer()
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
        assert has_optimizer()
    del optimizer, before
