import pytest
import torch

from tests.workloads.building import build
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import find
from workloads.harness.training.layers import layer_flops
from workloads.nets.resnet50 import resnet50
from workloads.nets.stable_diffusion import LATENTS, TextUNet, TextUNetShape, attention_flops
from workloads.vision.unet import PARAMETERS, SHAPES


def bare(build):
    with torch.device("meta"):
        return build()


def test_resnet_50_is_as_published():
    """25,557,032 parameters (torchvision's ResNet50_Weights), and 4.09 billion products for a picture."""
    net = bare(resnet50)
    assert sum(p.numel() for p in net.parameters()) == 25_557_032
    forward, training = layer_flops(net, torch.zeros(2, 3, 224, 224, device="meta"))
    assert forward / 2 == pytest.approx(2 * 4.09e9, rel=0.001)
    for name, counted in (("resnet50_infer", forward), ("resnet50_train", training)):
        assert 0.94 * counted < find(name).flops(batch=2, pixels=224) <= counted


def test_the_u_net_is_that_of_stable_diffusion():
    """859,520,964 parameters: stable-diffusion-v1-5, unet."""
    shape = TextUNetShape(*SHAPES[860])
    net = bare(lambda: TextUNet(shape))
    assert sum(p.numel() for p in net.parameters()) == PARAMETERS[860] == 859_520_964
    inputs = (torch.zeros(1, LATENTS, 64, 64), torch.zeros(1), torch.zeros(1, shape.words, shape.text))
    forward = layer_flops(net, *inputs)[0] + attention_flops(shape, 64)
    assert 0.8 * forward < find("unet").flops(millions=860, latents=64, batch=1) <= forward


def test_attention_of_the_u_net_is_counted_as_torch_counts_it():
    from torch.utils.flop_counter import FlopCounterMode

    made = build("unet", millions=0, latents=10, batch=2)
    plain = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with plain, FlopCounterMode(display=False) as counter:
        made.step()
    assert counter.get_total_flops() == made.flops


def test_one_picture_cannot_be_trained_on():
    with pytest.raises(WorkloadsError, match="batch=1 must be at least 2"):
        build("resnet50_train", batch=1, pixels=32)
