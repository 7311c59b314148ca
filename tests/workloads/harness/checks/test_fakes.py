import pytest
import torch
from torch import nn

from workloads.harness.checks.fakes import META_BYTES, ONEDNN_BYTES, faked, workspace_bytes
from workloads.harness.checks.needs import OTHER

MIB = 2**20


def test_live_bytes_and_their_peak_are_counted_without_views():
    with faked() as fakes:
        a = torch.empty(MIB)
        b = a + 1
        view = b.view(1024, -1)[:, ::2]
        assert fakes.live["cpu"] == 8 * MIB
        del a
        assert fakes.live["cpu"] == 4 * MIB and view.shape == (1024, 512)
        del b, view
        assert fakes.live["cpu"] == 0 and fakes.tensors["cpu"] == 8 * MIB


def test_more_is_computed_with_than_any_machine_has():
    with faked() as fakes:
        torch.empty(2**40).add_(1)
    assert fakes.tensors["cpu"] == 2**42


def test_temporaries_of_layers_are_seen_in_inference_mode():
    with faked() as fakes:
        layer = nn.Linear(1024, 1024, bias=False)
        with torch.inference_mode():
            layer(torch.empty(1024, 1024))
    assert fakes.tensors["cpu"] == 12 * MIB


def test_activations_live_until_backward_and_gradients_after_it():
    with faked() as fakes:
        model = nn.Sequential(nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 1024))
        weights = fakes.live["cpu"]
        loss = model(torch.empty(1024, 1024)).sum()
        kept = fakes.live["cpu"] - weights
        loss.backward()
        del loss
        assert fakes.live["cpu"] == pytest.approx(2 * weights, rel=0.01)
    assert kept >= 8 * MIB  # the input and what tanh gave; sum needs no values


def test_a_fake_device_is_distinguished_from_the_host():
    with faked() as fakes:
        a = torch.empty(MIB).to(OTHER)
        a.cpu().double()
        assert fakes.live[str(OTHER)] == 4 * MIB and fakes.tensors["cpu"] == 12 * MIB
        layer = nn.Linear(8, 8).to(OTHER)
        with torch.autocast(OTHER.type, torch.bfloat16):
            out = layer(torch.empty(8, 8, device=OTHER))
        out.sum().backward()
        assert (out.dtype, out.device, layer.weight.grad.device) == (torch.bfloat16, OTHER, OTHER)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_model_is_moved_and_trained_with_each_optimizer(kind):
    with faked() as fakes:
        for optimizer in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adadelta):
            model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(72, 2)).to(
                kind
            )
            steps = optimizer(model.parameters())
            for _ in range(2):
                steps.zero_grad()
                model(torch.empty(2, 3, 5, 5, dtype=kind)).sum().backward()
                steps.step()
    assert fakes.tensors["cpu"] > 0


def test_a_loss_scale_lets_the_optimizer_step():
    with faked():
        weight = nn.Parameter(torch.empty(8))
        steps, scaler = torch.optim.Adam([weight]), torch.amp.GradScaler("cpu")
        scaler.scale(weight.sum()).backward()
        scaler.step(steps)
        scaler.update()
        assert steps.state[weight]


def test_values_that_are_asked_for_are_answered():
    with faked():
        numbers = torch.randperm(6, generator=torch.Generator())
        assert sorted(numbers.tolist()) == [0] * 6 and torch.empty(2, 3).tolist() == [[0.0] * 3] * 2
        assert int(numbers[0]) == 0 and float(torch.empty(1)) == 1.0 and not bool((numbers > 2).any())
        assert torch.equal(numbers, numbers + 1) is False


def test_host_memory_includes_the_heap_and_the_libraries():
    with faked() as fakes:
        torch.empty(64 * MIB)
        heap = fakes.peak_bytes(torch.device("cpu"))
        torch.empty(8, device="meta")
        kept = fakes.peak_bytes(torch.device("cpu"))
        torch.nn.functional.conv2d(torch.empty(1, 1, 8, 8), torch.empty(1, 1, 3, 3))
        assert kept - heap == META_BYTES and fakes.peak_bytes(torch.device("cpu")) - kept == ONEDNN_BYTES
        assert 256 * MIB < heap < 1.06 * 256 * MIB and fakes.peak_bytes(OTHER) == 0


def test_torch_is_as_before_afterwards():
    before = (nn.Module._apply, torch.distributed.all_reduce, torch.nn.parallel.DistributedDataParallel)
    with faked():
        pass
    after = (nn.Module._apply, torch.distributed.all_reduce, torch.nn.parallel.DistributedDataParallel)
    assert before == after and torch.ones(2).sum() == 2


def test_a_convolution_takes_copies_of_its_tensors_or_columns_in_float64():
    images, weight, out = torch.empty(2, 3, 8, 8), torch.empty(4, 3, 3, 3), torch.empty(2, 4, 6, 6)
    bytes_of = sum(t.nbytes for t in (images, weight, out))
    assert workspace_bytes("convolution", (images, weight), [out]) == bytes_of
    exact = [t.double() for t in (images, weight, out)]
    assert workspace_bytes("convolution", exact[:2], [exact[2]]) == 2 * 27 * 36 * 8
    assert workspace_bytes("mm", (images, weight), [out]) == 0


def test_parts_of_an_operation_are_not_counted_whether_torch_has_met_it_before_or_not():
    def peak():
        with faked() as fakes:
            rows = torch.empty(1237, 64, requires_grad=True)  # of no other test
            torch.nn.functional.gelu(rows).sum().backward()
            return fakes.tensors["cpu"]

    first, again = peak(), peak()
    assert first == again
