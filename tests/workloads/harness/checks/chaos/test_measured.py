import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from workloads.harness.checks.fits import Fit, Room, fit
from workloads.harness.checks.needs import needs_of
from workloads.harness.records.case import parse_size
from workloads.harness.registry import find

ROOT = Path(__file__).parents[5]
WITHIN = 0.1


def peak_bytes(name, size):
    command = [sys.executable, "-m", "workloads", "run", name, "--size", size, "--brief", "--threads", "1"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    return json.loads(done.stdout)["memory"]["peak_rss_bytes"]


def usual_peak_bytes(name, size, first):
    """Return the median of three processes: heap holes make peaks differ by up to 20 %."""
    return statistics.median([first, peak_bytes(name, size), peak_bytes(name, size)])


@pytest.fixture(scope="module")
def imported_bytes():
    return peak_bytes("matmul", "n=64")


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("mnist", "batch=256"),
        ("cifar10", "batch=256"),
        ("simple_cnn_train", "batch=256"),
        ("resnet_train", "batch=64"),
        ("transformer_train", "width=256,length=256,batch=4"),
        ("ddpm", "batch=2"),
        ("gpt2_train", "millions=124,batch=1,length=128"),
        ("gpt2_ddp", "millions=124,batch=1,length=128,processes=2"),
        ("gpt2_fsdp", "millions=124,batch=1,length=128,processes=2"),
        ("resnet_infer", "batch=256"),
        ("matmul", "n=3000"),
    ],
)
def test_predicted_memory_is_close_to_the_measured_peak_and_never_fits_falsely(name, size, imported_bytes):
    peak, needs = peak_bytes(name, size), needs_of(find(name).case(parse_size(size)), "cpu")
    if needs.peak_bytes != pytest.approx(peak - imported_bytes, rel=WITHIN):
        peak = usual_peak_bytes(name, size, peak)
    assert needs.peak_bytes == pytest.approx(peak - imported_bytes, rel=WITHIN)
    assert needs.most_bytes >= peak and fit(needs, Room("a-host", peak - 1)) is not Fit.FITS
    assert needs.tensors_bytes <= peak


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("lora_step", "millions=135,batch=1,length=128,rank=16"),
        ("resnet50_infer", "batch=8,pixels=224"),
        ("transformer_infer", "width=256,length=256,batch=64"),
        ("simple_cnn_infer", "batch=256"),
        ("llm_decode", "millions=135,batch=1,context=512"),
    ],
)
def test_some_are_predicted_less_well_and_never_fit_falsely(name, size):
    """A transformer's peak was up to 1.74 times the prediction, a small network's 1.14, Llama's 0.9 times.

    A step with adapters: 1.09 to 1.16 times, ResNet-50 inferring: 1.18 to 1.28 times. Torch's tensors are as
    predicted (201 MB of the first); the heap keeps up to 170 MB in unusable holes.
    """
    peak, needs = peak_bytes(name, size), needs_of(find(name).case(parse_size(size)), "cpu")
    assert needs.most_bytes >= peak
