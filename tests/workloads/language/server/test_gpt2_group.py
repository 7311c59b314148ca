import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import distributed as dist
from torch import nn

from tests.workloads.building import build
from workloads.harness.engine.correctness import WrongError, check, check_loss, first_step, recheck
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import find
from workloads.harness.training.training import gradients_of
from workloads.harness.training.wider import apart, visited
from workloads.nets.gpt2 import Gpt, next_token_loss
from workloads.nets.shapes import GPT2

NAMES = ("gpt2_ddp", "gpt2_fsdp")
ONE = {"millions": 0, "batch": 2, "length": 16, "processes": 1}


@pytest.fixture
def alone(one_thread, monkeypatch):
    """This process as a group of one, with torch's own code for groups."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    monkeypatch.setattr("workloads.harness.group.distributed._control", dist.group.WORLD)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("name", NAMES)
def test_a_gpt2_group_has_the_losses_and_gradients_of_the_plain_model(alone, name, precision):
    made = build(name, precision, **ONE)
    found = check(made, first_step(made), precision)
    assert found.checked_elements > 1000
    assert recheck(made, first_step(made), precision).checked_elements == found.checked_elements


@pytest.mark.parametrize("name", NAMES)
def test_a_gpt2_group_counts_the_flops_that_torch_counts(alone, name):
    from torch.utils.flop_counter import FlopCounterMode

    made = build(name, **ONE)
    with FlopCounterMode(display=False) as counter:
        made.step()
    assert made.matmul_flops == counter.get_total_flops() < made.flops == find(name).flops(**ONE)
    assert (made.units, made.parameters) == (32, GPT2[0].parameters)


@pytest.mark.parametrize("name", NAMES)
def test_a_gpt2_group_learns_and_restarts(alone, name):
    made = build(name, **ONE)
    first = float(first_step(made))
    check_loss(first, [float(made.step()) for _ in range(20)][-1], 20)
    assert float(first_step(made)) == first


@pytest.mark.parametrize("name", NAMES)
def test_a_step_with_other_weights_is_wrong(alone, name):
    made = build(name, **ONE)
    made.step()
    with pytest.raises(WrongError):
        check(made, made.step(), "fp32")  # it has learnt already, and the reference begins anew


@pytest.mark.parametrize("name", NAMES)
def test_a_gradient_of_half_the_size_is_wrong(alone, name):
    made = build(name, **ONE)
    loss = first_step(made)
    seen = made.view(loss)
    with pytest.raises(WrongError):
        check(replace(made, view=lambda loss: (seen[0], seen[1] / 2)), loss, "fp32")


def test_a_gpt2_group_has_no_positions_beyond_its_longest_sequence(alone):
    with pytest.raises(WorkloadsError, match="length=65 must be at most 64"):
        build("gpt2_fsdp", **ONE | {"length": 65})


def test_blocks_moved_to_a_device_and_back_learn_the_same():
    torch.manual_seed(0)
    plain = Gpt(GPT2[0]).double()
    visitors = Gpt(GPT2[0]).double()
    visitors.load_state_dict(plain.state_dict())
    visitors = visited(visitors, "blocks", torch.device("cpu"), torch.float64)
    tokens = torch.randint(256, (3, 17))
    loss = next_token_loss(plain, tokens)
    loss.backward()
    torch.testing.assert_close(apart(visitors, next_token_loss, (tokens,), torch.float64), loss.detach())
    torch.testing.assert_close(gradients_of(visitors), gradients_of(plain))


def test_samples_that_a_batch_norm_joins_stay_together():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)).double()
    images = torch.randn(4, 1, 5, 5, dtype=torch.float64)
    whole = model(images).square().mean()
    found = apart(model, lambda model, images: model(images).square().mean(), (images,), torch.float64)
    torch.testing.assert_close(found, whole.detach())


def run(name, *options):
    size = "millions=0,batch=2,length=16,processes=2"
    command = [sys.executable, "-m", "workloads", "run", name, "--size", size, "--brief", "--threads", "1"]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=300)
    assert ended.stdout, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.mark.chaos
def test_two_processes_do_the_same_step_with_replicas_and_with_shares(box_lock):
    replicas, shares = map(run, NAMES)
    for record in (replicas, shares):
        assert record["verdict"] not in ("wrong", "crashed", "unsupported"), record["reasons"]
        assert record["check"]["error"] < record["check"]["bound"]
        assert record["work"]["counted_flops"] == record["work"]["matmul_flops"]
        assert (record["group"]["backend"], record["group"]["scaling"]) == ("gloo", "weak")
        assert all(rank["peak_rss_bytes"] > 5e7 for rank in record["group"]["ranks"])
    assert replicas["check"]["checked_elements"] == shares["check"]["checked_elements"]
    assert replicas["training"]["first_loss"] == pytest.approx(shares["training"]["first_loss"], rel=1e-6)
    assert replicas["group"]["communication_share"] is not None
    assert shares["group"]["communication_share"] is None
