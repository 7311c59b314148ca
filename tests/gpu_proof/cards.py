"""Expectations of a card: dense peaks, and the reached share of them.

The peaks are those of deployments/gpus.yaml, which a box with torch alone cannot read; a test compares them.
`reach` is the least share of matrix products of 8192: 2/3 was seen on cards of 400 W and more; cards of 70 to
150 W lose up to half to their power limit within a second.
"""

import re
from typing import NamedTuple


class Peaks(NamedTuple):
    """FLOP/s by precision, bytes/s, and the least share of FLOP/s."""

    key: str  # in deployments/gpus.yaml
    tflops: dict[str, float]
    gb_per_s: float
    reach: float = 0.66


ABOVE = 1.05  # a peak is at the nominal clock; the gate of plausibility allows as much
COPY_REACH = 0.8
# What NCCL's all_reduce of 1 GiB reaches among GPUs that NVLink joins, by card: GB/s of the bus, from a ring of two that has
# not warmed up to the best that was reported. H100 370 by rings and 480 by NVLink SHARP (NVIDIA/nccl-tests #212), H200
# 475 (#272), A100 208 (#178). Where PCIe joins them it is 20 to 25 (#178), so of other cards it is shown.
BUS_GB_PER_S = {
    **dict.fromkeys(("h100-sxm", "h200-sxm"), (250, 500)),
    **dict.fromkeys(("a100-40-sxm", "a100-80-sxm"), (150, 260)),
}
LAUNCH_S = (1.5e-6, 1.2e-5)  # of one small kernel from Python
# By a part of the name that the driver gives; the longest that fits.
CARDS = {
    "H200": Peaks("h200-sxm", {"fp32": 67, "tf32": 494.5, "fp16": 989, "bf16": 989}, 4800),
    "GH200": Peaks("gh200", {"fp32": 67, "tf32": 494.5, "fp16": 989, "bf16": 989}, 4000),
    "H100 PCIe": Peaks("h100-pcie", {"fp32": 51, "tf32": 378, "fp16": 756, "bf16": 756}, 2000, 0.5),
    "H100": Peaks("h100-sxm", {"fp32": 67, "tf32": 494.5, "fp16": 989, "bf16": 989}, 3350),
    "H20": Peaks("h20", {"fp32": 44, "tf32": 74, "fp16": 148, "bf16": 148}, 4000),
    "GB200": Peaks("gb200", {"fp32": 80, "tf32": 1250, "fp16": 2500, "bf16": 2500}, 8000),
    "B200": Peaks("b200-sxm", {"fp32": 80, "tf32": 1125, "fp16": 2250, "bf16": 2250}, 8000),
    "A100-SXM4-80": Peaks("a100-80-sxm", {"fp32": 19.5, "tf32": 156, "fp16": 312, "bf16": 312}, 2039),
    "A100-SXM4-40": Peaks("a100-40-sxm", {"fp32": 19.5, "tf32": 156, "fp16": 312, "bf16": 312}, 1555),
    "A10G": Peaks("a10g", {"fp32": 35, "tf32": 35, "fp16": 70, "bf16": 70}, 600, 0.4),
    "A10": Peaks("a10", {"fp32": 31.2, "tf32": 62.5, "fp16": 125, "bf16": 125}, 600, 0.4),
    "L40S": Peaks("l40s", {"fp32": 91.6, "tf32": 183, "fp16": 362, "bf16": 362}, 864, 0.4),
    "L4": Peaks("l4", {"fp32": 30.3, "tf32": 60, "fp16": 121, "bf16": 121}, 300, 0.3),
    "T4": Peaks("t4", {"fp32": 8.1, "fp16": 65}, 320, 0.3),
    "V100": Peaks("v100-sxm2", {"fp32": 15.7, "fp16": 125}, 900, 0.5),
}
SINCE = {
    "tf32": (8, 0),
    "bf16": (8, 0),
    "fp16": (5, 3),
    "fp8": (8, 9),
}  # capability from which a precision can be measured


def peaks_of(name: str) -> Peaks | None:
    """Return a card's peaks, or None if it is not in the table, such as an NVL card."""
    fits = [part for part in CARDS if re.search(rf"(?<![A-Z0-9]){part}(?![0-9]| NVL)", name, re.IGNORECASE)]
    return CARDS[max(fits, key=len)] if fits else None


def can(capability: tuple[int, int], precision: str) -> bool:
    return tuple(capability) >= SINCE.get(precision, (0, 0))
