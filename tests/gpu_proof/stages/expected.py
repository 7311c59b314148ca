"""Expectations of a GPU's record."""

from collections.abc import Iterator
from typing import Any

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.cards import ABOVE, BUS_GB_PER_S, COPY_REACH, LAUNCH_S, Peaks, peaks_of
from tests.gpu_proof.table import SHOWN, Row, holds, within

# Shares of the dense peak that steps have reached on some card, low if a power limit or eager mode limits it.
# FlashAttention-2 350-450 of 989 TFLOP/s and FlashAttention-3 over 600 (Dao, 2023; Shah et al., 2024, figure 5); nanoGPT's
# 124M some 178,000 tokens/s on an A100 (README, 8 of them by DDP), which is 0.45; a read reaches the rate of a copy. Of FSDP
# 0.5 to 0.6 count as excellent and less than 0.3 as usual (apxml.com, "Throughput Optimization Techniques"); on 2 H100s
# GPT-2 Large lost 2 % to shares of gradients alone (daddyofadoggy.github.io, "ddp_fsdp"). Here weights are gathered in fp32.
# ResNet-50 in training: A100 2470 and V100 1200 pictures/s in mixed precision, A100 938 in tf32, which is 0.19, 0.24 and 0.15;
# inferring with fp16 V100 3382 and T4 1198, 0.22 and 0.15 (NVIDIA/DeepLearningExamples, resnet50v1.5); of faster cards less.
# Stable Diffusion 1.5 on an A100 22 to 61 steps/s of two latents each, whole pictures counted, which is 0.1 to 0.27 and
# more of the U-Net alone (fal.ai, stable-diffusion-benchmarks).
SHARES = {
    "gemm": (0.3, ABOVE),
    "attention": (0.2, 0.8),
    "attention_train": (0.15, 0.75),
    "llm_prefill": (0.25, 0.9),
    "gpt2_train": (0.1, 0.65),
    "gpt2_ddp": (0.1, 0.65),
    "gpt2_fsdp": (0.05, 0.65),
    "lora_step": (0.1, 0.8),
    "resnet50_train": (0.03, 0.4),
    "resnet50_infer": (0.06, 0.5),
    "unet": (0.06, 0.6),
}
# Bytes of weights and cache over the bandwidth. Eager steps wait for their host, so they are shown. A graph of eager kernels
# reached 0.41 with 1236 million weights and 0.68 with 8030 on an H100; compiled and in a graph, Llama-7B in bf16 reached 0.7
# of an A100 (meta-pytorch/gpt-fast, README).
DECODED = {"graph": (0.35, 1.05), "compiled-graph": (0.5, 1.05)}
ATTENDING = (
    "attention",
    "attention_train",
    "gpt2_train",
    "llm_decode",
    "llm_prefill",
    "lora_step",
)  # try kernels
HOPPER = (9, 0)
MARGIN = 0.6  # of a check's bound: above it a correct result on the next card might be called wrong
LONG_S = 1e-3
PROOF_N = "n=8192"
SQUARE_FLOPS = 2 * 8192**3  # of the product that the stage of clocks times
SQUARE = 0.95  # of its rate, which is among the shapes that the search for the roof can choose
FP8_REACH = 0.5  # of twice fp16's peak: torch's scaled products reach less of it than others
TOGETHER = (0.9, 1.0)  # huggingface/gpu-fryer calls a card bad that is 10 % behind the best of its box
COMPANY = (0.85, 1.1)
GIB = 1_048_576  # in KiB


def rows_of(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    timing = record["device_time"] or record["wall"]
    if check := record["check"]:
        yield within(step, f"{step}: error over its bound", check["error"] / check["bound"], 0, MARGIN)
    if timing["median_s"] > LONG_S and not timing["whole"]:
        ratio = record["wall"]["median_s"] / timing["median_s"]
        yield within(step, f"{step}: wall over device", ratio, 0.999, 1.05)
    if record["case"]["workload"] in ATTENDING:
        yield from _attention(step, record, bench)
    yield from OF_WORKLOAD.get(record["case"]["workload"], _nothing)(step, record, bench)
    if (profile := record["profile"]) and profile["busy_s"]:
        launches = max(record["work"]["launches"] or 1, 1)
        ratio = profile["kernels"] / profile["steps"] / launches
        yield within(step, f"{step}: the profile's kernels over launches", ratio, 0.5, 3)


def _nothing(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    yield from ()


def _attention(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    """Check that the kernel is named and, if there are two fast ones, that both were tried; show their ratio.

    On an H100 cuDNN's was 1.7 to 2.3 times as fast as FlashAttention-2's in training
    (huggingface/transformers PR 48163).
    """
    names, trials_s = record["work"]["attention"], record["layout_trials_s"]
    yield holds(step, f"{step}: attention's kernel is named", bool(names), ", ".join(names))
    if (
        bench.card is None
        or bench.card.capability < HOPPER
        or record["case"]["precision"] not in ("fp16", "bf16")
    ):
        return
    by_kernel = {layout.partition("+")[2]: seconds for layout, seconds in trials_s.items()}
    told = f"{record['layout']} of {trials_s}"
    yield holds(step, f"{step}: attention's kernels are tried", by_kernel.keys() == {"cudnn", "flash"}, told)
    if by_kernel.keys() == {"cudnn", "flash"}:
        ratio = by_kernel["flash"] / by_kernel["cudnn"]
        yield Row(step, f"{step}: cuDNN's speed over FlashAttention's", SHOWN, f"{ratio:.3g}")


def _matmul(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    if f"matmul {PROOF_N}" not in step:
        return
    precision, rate = record["case"]["precision"], record["work"]["flops"] / _seconds(record)
    yield _rate(step, "TFLOP/s", rate / 1e12, precision, bench)
    others = bench.clocks.get("matmul8192", {})
    if precision == "bf16" and "do_bench" in others:
        ratio = others["do_bench"] / _seconds(record)
        yield within(step, f"{step}: rate over do_bench's in one process", ratio, 0.95, 1.05)


def _rate(step: str, unit: str, rate: float, precision: str, bench: Bench) -> Row:
    peaks = _peaks(bench)
    if peaks is None or precision not in peaks.tflops:
        return Row(step, f"{step}: {unit}", SHOWN, f"{rate:.4g}")
    peak = peaks.tflops[precision]
    return within(step, f"{step}: {unit}", rate, peaks.reach * peak, ABOVE * peak)


def _copy(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    rate = record["work"]["bytes"] / _seconds(record) / 1e9
    peaks = _peaks(bench)
    if peaks is None:
        yield Row(step, f"{step}: GB/s", SHOWN, f"{rate:.4g}")
    else:
        yield within(step, f"{step}: GB/s", rate, COPY_REACH * peaks.gb_per_s, ABOVE * peaks.gb_per_s)


def _share(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    precision, workload = record["case"]["precision"], record["case"]["workload"]
    size = dict(record["case"]["size"])
    rate = record["work"]["flops"] / _seconds(record) / size.get("processes", 1) / 1e12
    peak = _peak(bench, precision)
    if peak is None or size.get("m") == 1:
        yield Row(step, f"{step}: TFLOP/s", SHOWN, f"{rate:.4g}")
    else:
        yield within(step, f"{step}: share of the peak", rate / peak, *SHARES[workload])


def _peak(bench: Bench, precision: str) -> float | None:
    """Return a card's TFLOP/s, in fp8 twice those of fp16, or None."""
    peaks = _peaks(bench)
    return (peaks.tflops | {"fp8": 2 * peaks.tflops.get("fp16", 0)}).get(precision) if peaks else None


def _peaks(bench: Bench) -> Peaks | None:
    return peaks_of(bench.card.name) if bench.card else None


def _roof(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    """Compare the best product with the reach of such cards, and with a plain square one."""
    precision, rate = record["case"]["precision"], record["work"]["flops"] / _seconds(record)
    peaks, peak = _peaks(bench), _peak(bench, precision)
    if peaks is None or peak is None:
        yield Row(step, f"{step}: TFLOP/s", SHOWN, f"{rate / 1e12:.4g}")
    else:
        low = min(FP8_REACH, peaks.reach) if precision == "fp8" else peaks.reach
        yield within(step, f"{step}: share of the peak", rate / 1e12 / peak, low, ABOVE)
    square_s = bench.clocks.get("matmul8192", {}).get("do_bench")
    if precision == "bf16" and square_s:
        ratio = rate / (SQUARE_FLOPS / square_s)
        yield within(step, f"{step}: rate over a square product's", ratio, SQUARE, 1.5)


def _all_reduce(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    rate, peaks = record["work"]["units"] / _seconds(record) / 1e9, _peaks(bench)
    known = BUS_GB_PER_S.get(peaks.key) if peaks else None
    if known is None or dict(record["case"]["size"])["kib"] < GIB:
        yield Row(step, f"{step}: bus GB/s", SHOWN, f"{rate:.4g}")
    else:
        yield within(step, f"{step}: bus GB/s", rate, *known)


def _at_once(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    """Compare a box's cards at the same work with each other and with themselves alone."""
    ranks = record["group"]["ranks"]
    ratio = min(rank["mean_s"] for rank in ranks) / max(rank["mean_s"] for rank in ranks)
    yield within(step, f"{step}: slowest card over the fastest", ratio, *TOGETHER)
    company = min((rank["alone_s"] or 0.0) / rank["mean_s"] for rank in ranks)
    yield within(step, f"{step}: a card's rate in company over its own alone", company, *COMPANY)
    text = "; ".join(
        f"{rank['device']} {rank['probes'].get('gpu_power_w', 0):.0f} W {rank['probes'].get('gpu_temperature_c', 0):.0f} C"
        for rank in ranks
    )
    yield Row(step, f"{step}: power and heat", SHOWN, text)


def _decode(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    rate = record["work"]["bytes"] / _seconds(record) / 1e9
    peaks = _peaks(bench)
    if peaks and (bounds := DECODED.get(record["case"].get("mode", ""))):
        yield within(step, f"{step}: share of the bandwidth", rate / peaks.gb_per_s, *bounds)
    else:
        yield Row(step, f"{step}: GB/s", SHOWN, f"{rate:.4g}")
    if latency := record.get("latency"):
        text = f"p50 {latency['p50_s'] * 1e3:.3g} ms, p95 {latency['p95_s'] * 1e3:.3g} ms"
        yield Row(step, f"{step}: a token", SHOWN, text)


def _launch(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    if kernels := dict(record["case"]["size"]).get("kernels", 0):
        each_s = record["wall"]["median_s"] / kernels
        if kernels >= 1000:
            yield within(step, f"{step}: seconds a launch", each_s, *LAUNCH_S)


def _transfer(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    transfer = record["transfer"]
    ratio = transfer["h2d_pageable_s"] / transfer["h2d_pinned_s"]
    yield within(step, f"{step}: pageable over pinned", ratio, 1.0, 50)


def _seconds(record: dict[str, Any]) -> float:
    return (record["device_time"] or record["wall"])["median_s"]


OF_WORKLOAD = {
    "matmul": _matmul,
    "memory_bandwidth": _copy,
    "memory_read": _copy,
    "llm_decode": _decode,
    "roof": _roof,
    "all_reduce": _all_reduce,
    "matmul_weak": _at_once,
    **dict.fromkeys(SHARES, _share),
    "kernel_launch": _launch,
    "transfer_bandwidth": _transfer,
}
