import copy
import gc
import io
import pickle
import threading
import traceback
import warnings
from pathlib import Path

import pytest
import torch
from torch.nn.modules.module import _has_any_global_hook
from torch.utils.data import DataLoader, Dataset

from tests.workloads.harness.script.listener import Listener
from workloads.harness.script import hooks, module_calls, watching
from workloads.harness.script.hooks import has_optimizer
from workloads.harness.script.module_calls import FIRST_CALLS

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
def watched(monkeypatch):
    monkeypatch.setattr(module_calls, "FIRST_S", 0.0)
    watched = Listener().install()
    yield watched
    watched.remove()


def nothing(*_): ...


def saved(thing):
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def trained():
    """Return the saved state of a model, its optimizer and loader, at every place of a training."""
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
    kinds = (
        torch.Tensor,
        torch.amp.GradScaler,
        torch.utils.data.dataloader._BaseDataLoaderIter,
        torch.autograd.Variable,
    )
    modules = torch.nn.modules.module

    def state():
        names = [name for name in vars(modules) if name.startswith("_global_")]
        found = [vars(modules)[name] for name in names]
        return [dict(vars(kind)) for kind in kinds], torch.compile, [(id(kind), repr(kind)) for kind in found]

    before = state()
    watched = Listener().install()
    assert torch.Tensor.backward is before[0][0]["backward"]  # as torch itself compares it
    trained()
    with torch.no_grad():
        for _ in range(FIRST_CALLS + 2):
            Net()(torch.ones(1, 4))
    watched.hooks.remove()
    assert state() == before


def test_no_hook_on_modules_is_left_once_something_trains(watched):
    trained()
    trained()  # more steps than are looked at
    assert not _has_any_global_hook()


@pytest.mark.parametrize("comes_back", [True, False])
def test_calls_of_a_model_are_counted_however_many_modules_it_has(comes_back, watched, monkeypatch):
    if not comes_back:
        monkeypatch.setattr(module_calls._Visit, "__del__", lambda visit: None)
    model, calls = Net(), FIRST_CALLS + 10
    model.register_forward_hook(nothing)  # torch takes another way through a call then
    seen, visits = [], module_calls._Visit.__call__
    monkeypatch.setattr(module_calls._Visit, "__call__", lambda *call: seen.append(call[1]) or visits(*call))
    for _ in range(calls):
        model(torch.ones(3, 4))
    assert (watched.observed.forwards, watched.forwards) == (calls, calls - 1)
    assert watched.observed.amounts_of_step(None).samples == 3
    assert seen == [model] * (11 if comes_back else 1)  # no module within; after a trial that fails, none


@pytest.mark.parametrize("early", [0, FIRST_CALLS + 5])
def test_calls_from_several_threads_are_counted(early, watched, monkeypatch):
    model, each, threads = Net(), 500, 4
    for _ in range(early):
        model(torch.ones(3, 4))
    monkeypatch.setattr(module_calls, "FIRST_S", 0.05)
    gate = threading.Barrier(threads)

    def calls():
        gate.wait()
        for _ in range(each):
            model(torch.ones(3, 4))

    workers = [threading.Thread(target=calls) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert watched.observed.forwards == early + threads * each


def test_calls_are_counted_after_one_whose_error_is_kept(watched):
    model, kept = Net(), []
    for place in range(3 * FIRST_CALLS):
        try:
            model(torch.full((3, 4), torch.nan if place % 10 == 9 else 1.0))
        except ValueError as error:
            kept.append(error)
    assert watched.observed.forwards == 3 * FIRST_CALLS and len(kept) == 15


def test_hooks_of_the_scripts_own_on_all_modules_work_as_without_us(watched):
    modules, model, seen = torch.nn.modules.module, Net(), []
    handles = [modules.register_module_forward_pre_hook(lambda *_: seen.append("before"))]
    for _ in range(FIRST_CALLS + 5):
        model(torch.ones(3, 4))
    handles.append(modules.register_module_forward_hook(lambda *_: seen.append("after")))
    model(torch.ones(3, 4)).sum().backward()
    model(torch.ones(3, 4))
    for handle in handles:
        handle.remove()
    model(torch.ones(3, 4))
    assert watched.observed.forwards == FIRST_CALLS + 6
    assert (seen.count("before"), seen.count("after")) == (7 * (FIRST_CALLS + 7), 7 * 2)


@pytest.mark.parametrize("is_trained", [False, True])
def test_a_strict_export_sees_no_hook(is_trained, watched):
    parts = Net().parts
    for _ in range(FIRST_CALLS + 5):
        parts(torch.ones(3, 4))
    if is_trained:  # the calls of the next steps are looked at
        parts(torch.ones(3, 4)).sum().backward()
    exported = torch.export.export(parts, (torch.ones(3, 4),), strict=True)
    assert torch.equal(exported.module()(torch.ones(3, 4)), parts(torch.ones(3, 4)))
    assert watched.hooks.active


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


def test_the_length_of_the_users_sampler_is_asked_for_once_in_a_pass(watched):
    class Batches:
        asked = 0

        def __iter__(self):
            return iter([[0, 1]] * 20)

        def __len__(self):
            self.asked += 1
            return 20

    batches, model = Batches(), Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        for batch in DataLoader(Data(), batch_sampler=batches):
            model(batch).sum().backward()
            optimizer.step()
    assert watched.observed.epochs_at == [20, 40] and batches.asked <= 2


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


def test_backward_calls_of_every_kind_are_counted_and_look_ups_are_not(watched):
    parameter = torch.nn.Parameter(torch.tensor(3.0))
    torch.autograd.backward(parameter * 2)
    watched.observed.stepped()
    torch.autograd.backward([parameter * 2, parameter * 3])
    watched.observed.stepped()
    torch.autograd.backward(torch.autograd.graph.get_gradient_edge(parameter * 5), torch.tensor(1.0))
    watched.observed.stepped()
    (parameter * 7).backward()
    loss = parameter * 2
    assert hasattr(loss, "backward") and torch.autograd.grad(loss, parameter)[0] == 2
    with pytest.raises(RuntimeError, match="scalar outputs"):
        torch.stack([parameter, parameter]).backward()
    assert (watched.observed.backwards, parameter.grad) == (4, 2 + 5 + 5 + 7)
    assert [float(loss) for loss in watched.observed.losses] == [6, 21]


def test_an_error_in_place_of_a_batch_is_not_the_end_of_an_epoch(watched):
    parameter, errors = torch.nn.Parameter(torch.ones(4)), 0
    optimizer = torch.optim.SGD([parameter], lr=0.01)
    for _ in range(3):
        batches = iter(DataLoader(Data(20, bad=9), batch_size=4))
        assert hasattr(batches, "__next__")
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                break
            except KeyError:
                errors += 1
                continue
            (batch * parameter).sum().backward()
            optimizer.step()
    optimizer.step()
    assert (errors, watched.observed.epochs_at, watched.observed.epoch_steps) == (3, [4, 8, 12], 4)


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
    watched.optimizer_stepped = watched.hooks.own(lambda *_: [][0])
    watched.install()
    try:
        trained()
    finally:
        watched.hooks.remove()
    assert [type(error) for error in watched.errors] == [IndexError] and not watched.hooks.active


def test_looking_for_an_optimizer_asks_no_object():
    """`torch.distributed.reduce_op` warns when its class is read."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = has_optimizer()
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
        assert has_optimizer()
    del optimizer, before


def test_loaders_that_are_made_and_not_used_are_named(watched):
    assert watched.hooks.unused_loaders() == ()
    used, unused = DataLoader(Data(), batch_size=4), DataLoader(Data(20), batch_size=4)
    next(iter(used))
    assert watched.hooks.unused_loaders() == ("passes over a loader of 5 batches",)
    next(iter(unused))
    assert watched.hooks.unused_loaders() == ()


def test_data_sets_that_take_each_others_places_in_memory_are_one_loader(watched, monkeypatch):
    """Python can reuse two addresses in turn."""
    parameter, data = torch.nn.Parameter(torch.ones(4)), None
    optimizer = torch.optim.SGD([parameter], lr=0.01)
    monkeypatch.setattr(hooks, "id", lambda value: getattr(value, "address", id(value)), raising=False)
    for epoch in range(6):
        before, data = data, Data(12)
        data.address = epoch % 2
        del before
        gc.collect()
        for batch in DataLoader(data, batch_size=4):
            (batch * parameter).sum().backward()
            optimizer.step()
    optimizer.step()
    assert (watched.observed.epochs_at, watched.observed.epoch_steps) == ([3, 6, 9, 12, 15, 18], 3)
