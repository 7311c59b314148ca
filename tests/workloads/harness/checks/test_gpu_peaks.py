"""Predicted memory of a GPU against measured peaks.

`gpu_peaks.json` has them from one H100 and one H200 (torch 2.11, driver 580.159.04, 2026-11-26, no other
process on the card): `reserved_bytes` by torch's allocator, `total_bytes` of the whole card by NVML.
"""

import json
from pathlib import Path

import pytest

from workloads.harness.checks.fits import Fit, Room, fit
from workloads.harness.checks.needs import needs_of
from workloads.harness.registry import find

PEAKS = json.loads(Path(__file__).with_name("gpu_peaks.json").read_text())
SLOW = ("gpt2_train", "gpt2_fsdp")  # 8 to 15 s each
CLOSE = 0.15  # of the allocator's segments, in cases of more than 1 GB without convolutions
SCRATCH = (
    "roof",
    "ddpm_weak",
)  # a search for the fastest product, or convolution, takes memory beyond the tensors


def name_of(peak):
    return f"{peak['workload']} {','.join(f'{n}={v}' for n, v in peak['size'].items())} {peak['precision']}"


@pytest.mark.parametrize(
    "peak",
    [
        pytest.param(p, id=name_of(p), marks=[pytest.mark.chaos] if p["workload"] in SLOW else [])
        for p in PEAKS
    ],
)
def test_predicted_memory_agrees_with_the_peak_on_a_card(peak):
    case = find(peak["workload"]).case(peak["size"], peak["precision"], peak["mode"])
    needs = needs_of(case, "cuda")
    assert needs.tensors_bytes <= peak["total_bytes"] <= needs.most_bytes
    assert fit(needs, Room("a-card", peak["total_bytes"])) is not Fit.FITS
    if peak["reserved_bytes"] > 1e9 and peak["workload"] not in SCRATCH:
        group_bytes = 0.8e9 if "processes" in peak["size"] else 0
        assert needs.peak_bytes - group_bytes == pytest.approx(peak["reserved_bytes"], rel=CLOSE)
