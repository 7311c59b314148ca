"""What is expected of a record that was measured on a GPU."""

from collections.abc import Iterator
from typing import Any

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.cards import ABOVE, COPY_REACH, LAUNCH_S, peaks_of
from tests.gpu_proof.table import SHOWN, Row, within

# Shares of the dense peak that steps have reached on some card, low where a power limit or eager mode holds it back.
# FlashAttention-2 350-450 of 989 TFLOP/s and FlashAttention-3 over 600 (Dao, 2023; Shah et al., 2024, figure 5); nanoGPT's
# 124M some 178,000 tokens/s on an A100 (README, 8 of them), which is 0.45; a read reaches what a copy does.
SHARES = {
    "gemm": (0.3, ABOVE),
    "attention": (0.2, 0.8),
    "attention_train": (0.15, 0.75),
    "llm_prefill": (0.25, 0.9),
    "gpt2_train": (0.1, 0.65),
    "lora_step": (0.1, 0.8),
}
DECODED = (0.5, 1.05)  # bytes of weights and cache over the bandwidth, in a graph; eager waits for its host
MARGIN = 0.6  # of a check's bound: above it a correct result on the next card may be called wrong
LONG_S = 1e-3
PROOF_N = "n=8192"


def rows_of(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    """Yield the rows that follow from a record's case."""
    timing = record["device_time"] or record["wall"]
    if check := record["check"]:
        yield within(step, f"{step}: error over its bound", check["error"] / check["bound"], 0, MARGIN)
    if timing["median_s"] > LONG_S and not timing["whole"]:
        ratio = record["wall"]["median_s"] / timing["median_s"]
        yield within(step, f"{step}: wall over device", ratio, 0.999, 1.05)
    yield from OF_WORKLOAD.get(record["case"]["workload"], _nothing)(step, record, bench)
    if (profile := record["profile"]) and profile["busy_s"]:
        launches = max(record["work"]["launches"] or 1, 1)
        ratio = profile["kernels"] / profile["steps"] / launches
        yield within(step, f"{step}: the profile's kernels over launches", ratio, 0.5, 3)


def _nothing(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    yield from ()


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
    peaks = peaks_of(bench.card.name) if bench.card else None
    if peaks is None or precision not in peaks.tflops:
        return Row(step, f"{step}: {unit}", SHOWN, f"{rate:.4g}")
    peak = peaks.tflops[precision]
    return within(step, f"{step}: {unit}", rate, peaks.reach * peak, ABOVE * peak)


def _copy(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    rate = record["work"]["bytes"] / _seconds(record) / 1e9
    peaks = peaks_of(bench.card.name) if bench.card else None
    if peaks is None:
        yield Row(step, f"{step}: GB/s", SHOWN, f"{rate:.4g}")
    else:
        yield within(step, f"{step}: GB/s", rate, COPY_REACH * peaks.gb_per_s, ABOVE * peaks.gb_per_s)


def _share(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    peaks, rate = (
        peaks_of(bench.card.name) if bench.card else None,
        record["work"]["flops"] / _seconds(record),
    )
    precision, workload = record["case"]["precision"], record["case"]["workload"]
    peak = (peaks.tflops | {"fp8": 2 * peaks.tflops.get("fp16", 0)}).get(precision) if peaks else None
    skinny = dict(record["case"]["size"]).get("m") == 1
    if peak is None or skinny:
        yield Row(step, f"{step}: TFLOP/s", SHOWN, f"{rate / 1e12:.4g}")
    else:
        low, high = SHARES[workload]
        yield within(step, f"{step}: share of the peak", rate / 1e12 / peak, low, high)


def _decode(step: str, record: dict[str, Any], bench: Bench) -> Iterator[Row]:
    rate = record["work"]["bytes"] / _seconds(record) / 1e9
    peaks = peaks_of(bench.card.name) if bench.card else None
    if peaks and record["case"].get("mode") == "graph":
        yield within(step, f"{step}: share of the bandwidth", rate / peaks.gb_per_s, *DECODED)
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
    **dict.fromkeys(SHARES, _share),
    "kernel_launch": _launch,
    "transfer_bandwidth": _transfer,
}
