"""Every kind of workload by the real command: its verdict, its margin, and known rates of the card."""

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.measured import Measured, measure_forked
from tests.gpu_proof.stages.expected import rows_of
from tests.gpu_proof.stages.verdicts import MEASURED
from tests.gpu_proof.steps import Step
from tests.gpu_proof.table import Row, holds

ALL = ("fp32", "tf32", "fp16", "bf16")
FP32 = ("fp32",)
GRAPH, COMPILED, BOTH = "--mode graph", "--mode compiled", "--mode compiled-graph"
# Of one run: usually 12, 35 with the roof's search, and 60 to 90 with torch's compiler.
NEEDS_S, SEARCH_S, COMPILED_S = 20, 45, 120


class Case(NamedTuple):
    workload: str
    size: str
    precisions: tuple[str, ...] = FP32
    options: str = ""


# One of each mechanism: without them a proof says too little.
ESSENTIAL = (
    Case("gemm", "m=8192,n=8192,k=8192", ("fp8",)),
    Case("gemm", "m=1,n=8192,k=8192", ("bf16",), GRAPH),
    Case(
        "llm_decode", "millions=1236,batch=1,context=2048", ("bf16",), BOTH
    ),  # kernels of attention are tried
    Case("gpt2_train", "millions=124,batch=16,length=1024", ("bf16",), COMPILED),
    Case("ddpm_weak", "batch=32,processes=1"),  # NCCL and DDP
    Case("gpt2_fsdp", "millions=124,batch=16,length=1024,processes=1", ("bf16",)),  # shares, gathered
    Case("roof", "side=16384", ("bf16",)),  # a search over shapes
    Case("resnet_train_loader", "batch=16,workers=2"),  # forks after CUDA was opened
    Case("matmul", "n=8192", ("bf16", "fp32", "tf32", "fp16")),
    Case("memory_bandwidth", "mib=1024"),
    Case("kernel_launch", "kernels=1000"),
    Case("transfer_bandwidth", "mib=256"),
    Case("resnet_train", "batch=32", ("fp16",)),  # layouts and cuDNN's search
    Case("lora_step", "millions=1236,batch=1,length=2048,rank=16", ("bf16",)),  # grouped queries, learnt
    Case("resnet50_train", "batch=64,pixels=224", ("fp16",)),  # a reference that computes on the device
    Case("mnist", "batch=64", ("fp16",), "--profile"),
)
# The most telling first: time can be up before the last.
CASES = (
    Case("gpt2_train", "millions=124,batch=16,length=1024", ("bf16",), BOTH),  # an optimizer in a graph
    Case("llm_decode", "millions=1236,batch=1,context=2048", ("bf16",), GRAPH),
    Case("lora_step", "millions=1236,batch=1,length=2048,rank=16", ("bf16",), BOTH),
    Case("resnet_train", "batch=32", ("fp32", "tf32", "bf16")),
    Case("gcn_job", "hidden=16,epochs=200"),
    Case("ddpm_job", "images=1024,batch=32,processes=1"),
    Case("resnet_infer_job", "batch=32,batches=50,workers=2"),
    Case("matmul", "n=1000", ("fp32", "bf16"), "--cold-cache"),
    Case("kernel_launch", "kernels=10", FP32, "--cold-cache"),
    Case("attention", "batch=1,heads=32,length=8192,width=128", ("bf16",)),
    Case("attention_train", "batch=1,heads=32,length=8192,width=128", ("bf16",)),
    Case("llm_prefill", "millions=1236,batch=1,prompt=2048", ("bf16",)),
    Case("llm_decode", "millions=1236,batch=1,context=2048", ("bf16",)),
    Case("llm_decode", "millions=8030,batch=1,context=2048", ("bf16",), GRAPH),
    Case("llm_decode", "millions=8030,batch=1,context=2048", ("bf16",), BOTH),
    Case("gpt2_train", "millions=124,batch=16,length=1024", ("fp16",), GRAPH),  # a loss scale in a graph
    Case("gpt2_train", "millions=124,batch=16,length=1024", ("bf16",)),
    Case("gpt2_ddp", "millions=124,batch=16,length=1024,processes=1", ("bf16",)),
    Case("roof", "side=16384", ("fp8", "tf32")),
    Case("resnet50_train", "batch=64,pixels=224", ("tf32",)),
    Case("resnet50_infer", "batch=256,pixels=224", ("fp16",), GRAPH),
    Case("unet", "millions=860,latents=64,batch=2", ("bf16",), GRAPH),
    Case("memory_read", "mib=1024"),
    Case("gemm", "m=8192,n=8192,k=8192", ("bf16",)),
    Case("resnet_train", "batch=8", ("fp32", "tf32")),
    Case("mnist", "batch=64", ("fp32", "tf32", "bf16"), "--profile"),
    Case("transformer_train", "width=1024,length=512,batch=8", ALL, "--profile"),
    Case("transformer_infer", "width=1024,length=512,batch=8", ("fp32", "fp16", "bf16")),
    Case("ddpm", "batch=32", ALL),
    Case("image_pipeline", "pixels=4096,batch=2", ("fp32", "tf32", "fp16")),
    Case("gaussian_blur", "pixels=4096"),
    Case("edge_detection", "pixels=4096"),
    Case("cifar10", "batch=32", ("fp32", "tf32")),
    Case("gcn", "hidden=16", ("fp32", "bf16")),
    Case("matmul", "n=15000", ("bf16",)),
    # The same mechanisms in other networks.
    Case("ddpm_loader", "batch=32,workers=4"),
    Case("resnet_infer", "batch=32", ("fp32", "fp16")),
    Case("resnet_infer_loader", "batch=32,workers=2"),
    Case("resnet_train_job", "batch=16,epochs=1,batches=50,workers=2"),
    Case("simple_cnn_train", "batch=64"),
    Case("simple_cnn_infer", "batch=64"),
    Case("simple_cnn_train_loader", "batch=64,workers=2"),
    Case("simple_cnn_infer_loader", "batch=64,workers=2"),
    Case("simple_cnn_train_job", "batch=64,epochs=1,batches=50,workers=2"),
    Case("simple_cnn_infer_job", "batch=64,batches=50,workers=2"),
    Case("mnist_job", "epochs=1,samples=6000,batch=64"),
    Case("cifar10_job", "epochs=1,samples=5000,batch=32"),
)


def look(case: Case, precision: str, name: str, bench: Bench) -> Iterator[Row]:
    measured = measure_forked(bench, case.workload, case.size, precision, case.options)
    record = measured.record
    if bench.lacks(precision):
        yield holds(name, name, measured.verdict == "unsupported", measured.told)
        return
    yield holds(name, name, record and measured.verdict in MEASURED, f"{measured.told} {_figures(measured)}")
    if record and bench.on_gpu and record["wall"]:
        yield from rows_of(name, record, bench)


def _figures(measured: Measured) -> str:
    record = measured.record or {}
    if not (timing := record.get("device_time") or record.get("wall")):
        return f"{measured.seconds:.0f} s"
    clock = sorted(record["monitor"].get("gpu_sm_clock_mhz") or [0])
    parts = {
        "": f"{timing['median_s'] * 1e3:.4g} ms",
        "check": _share_of_bound(record["check"]),
        "layout": f"{record['layout']} {record['layout_trials_s'] or ''}",
        "MHz": f"{clock[len(clock) // 2]:.0f}",
        "power-capped": record["probes"].get("power_throttled_share"),
        "J": record["energy_j"],
        "missing": ",".join(sorted(record["missing"])),
    }
    told = [f"{name} {value}".strip() for name, value in parts.items() if value not in (None, "")]
    return ", ".join([*told, f"{measured.seconds:.0f} s"])


def _share_of_bound(check: dict[str, Any] | None) -> str:
    return f"{check['error'] / check['bound']:.0%} of its bound" if check else ""


def tiny() -> Iterator[Case]:
    """Return the cases at sizes that a CPU runs quickly, to test this code."""
    from workloads.harness.registry import find

    for workload in dict.fromkeys(case.workload for case in (*ESSENTIAL, *CASES)):
        declared = find(workload)
        size = {**declared.tiny, **({"processes": 1} if "processes" in declared.tiny else {})}
        if "cpu" in declared.devices:
            yield Case(workload, ",".join(f"{name}={value}" for name, value in size.items()), FP32, "--brief")


def steps(bench: Bench) -> list[Step]:
    if not bench.on_gpu:
        return [step for case in tiny() for step in _of_case(case, 8, True)]
    made = [step for case in ESSENTIAL for step in _of_case(case, _needs_s(case), True)]
    return made + [step for case in CASES for step in _of_case(case, _needs_s(case), False)]


def _needs_s(case: Case) -> float:
    if COMPILED in case.options:
        return COMPILED_S
    return SEARCH_S if case.workload == "roof" else NEEDS_S


def _of_case(case: Case, needs_s: float, essential: bool) -> Iterator[Step]:
    for precision in case.precisions:
        name = " ".join(filter(None, ("cases", case.workload, case.size, precision, case.options)))
        yield Step(name, needs_s, partial(look, case, precision, name), essential)
