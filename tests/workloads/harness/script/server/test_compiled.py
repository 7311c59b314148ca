import warnings

import pytest
import torch
import torch._dynamo
from torch._dynamo.utils import counters
from torch.nn.modules.module import _has_any_global_hook

from tests.workloads.harness.script.listener import Listener

BACKEND = "eager"  # Dynamo alone makes graphs, breaks and guards


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))


def a_module():
    return torch.compile(net(), backend=BACKEND)


def in_place():
    model = net()
    model.compile(backend=BACKEND)
    return model


def after_a_dry_call():
    model = net()
    model(torch.ones(2, 4))
    return torch.compile(model, backend=BACKEND)


def a_function_of_a_module():
    model = net()

    @torch.compile(backend=BACKEND, fullgraph=True)
    def call(x):
        return model(x)

    call.parameters = model.parameters
    return call


def a_function_of_a_compiled_module():
    model = torch.compile(net(), backend=BACKEND)

    @torch.compile(backend=BACKEND)
    def call(x):
        return 2 * model(x)

    call.parameters = model.parameters
    return call


def with_a_break():
    model = net()

    def forward(x):
        y = model[0](x)
        torch._dynamo.graph_break()
        return model[2](y)

    call = torch.compile(forward, backend=BACKEND)
    call.parameters = model.parameters
    return call


def trained(make, steps=4):
    """Return Dynamo's counts in a training, the losses, and the warnings."""
    torch._dynamo.reset()
    counters.clear()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        losses = losses_of(make(), steps)
    counts = {name: dict(numbers) for name, numbers in counters.items()}
    return counts, losses, {str(warning.message) for warning in warned}


def losses_of(model, steps):
    losses = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for size in (3, *[5] * steps):  # the second size compiles anew
        loss = model(torch.ones(size, 4)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.fixture
def hooks():
    listener = Listener()
    yield listener.hooks, listener.observed
    listener.remove()


MAKERS = (
    a_module,
    in_place,
    after_a_dry_call,
    a_function_of_a_module,
    a_function_of_a_compiled_module,
    with_a_break,
)


@pytest.mark.parametrize("make", MAKERS)
def test_a_compiled_model_has_the_same_graphs(make, hooks):
    hooks, observed = hooks
    plain = trained(make)
    hooks.install(torch)
    assert trained(make) == plain
    assert not _has_any_global_hook()
    assert (len(observed.ends_s), observed.backwards) == (5, 5)
    if make in (a_module, after_a_dry_call):
        assert observed.amounts_of_step(None).samples == 5


@pytest.mark.parametrize("compiled", [True, False])
def test_calls_of_a_compiled_model_are_counted(compiled, hooks):
    hooks, observed = hooks
    hooks.install(torch)
    model = torch.compile(net(), backend=BACKEND) if compiled else net()
    with torch.inference_mode():
        for _ in range(5):
            model(torch.ones(3, 4))
    assert (observed.forwards, observed.amounts_of_step(None).samples) == (5, 3)
