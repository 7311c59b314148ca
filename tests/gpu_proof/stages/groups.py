"""Several GPUs: groups of every size that fits, NCCL's own bandwidth, and a lost rank."""

from collections.abc import Iterator
from functools import partial

from tests.gpu_proof.bench import Bench
from tests.gpu_proof.measured import measure
from tests.gpu_proof.stages.expected import rows_of
from tests.gpu_proof.stages.failures import CHEATS
from tests.gpu_proof.stages.verdicts import MEASURED
from tests.gpu_proof.steps import Step
from tests.gpu_proof.table import SHOWN, Row, holds

SIZES = (2, 4, 8)
CASES = (
    ("ddpm_weak", "batch=32", "fp32"),
    ("ddpm_strong", "batch=64", "fp32"),
    ("gpt2_ddp", "millions=124,batch=16,length=1024", "bf16"),
    ("gpt2_fsdp", "millions=124,batch=16,length=1024", "bf16"),
    ("matmul_weak", "n=8192", "bf16"),
    ("all_reduce", "kib=1", "fp32"),
    ("all_reduce", "kib=1048576", "fp32"),
)


def scaling(workload: str, size: str, precision: str, processes: int, bench: Bench) -> Iterator[Row]:
    step = f"groups {workload} {size} of {processes}"
    measured = measure(bench, workload, f"{size},processes={processes}", precision)
    if bench.lacks(precision):
        yield holds(step, step, measured.verdict == "unsupported", measured.told)
        return
    record = measured.record or {}
    group = record.get("group") or {}
    told = f"{measured.told} exchange {group.get('communication_share')}, spread {group.get('spread')}"
    whole = len(group.get("ranks", ())) == processes and group.get("backend") == "nccl"
    yield holds(step, step, measured.verdict in MEASURED and whole, told)
    if record.get("wall"):
        yield from rows_of(step, record, bench)


def all_reduce(bench: Bench) -> Iterator[Row]:
    step, count = "groups all_reduce", ranks(bench)
    found = bench.child("all_reduce", bench.device, str(count), limit_s=200)
    yield holds(step, f"{step}: the sums", found["right"], f"of {count} ranks")
    yield Row(step, f"{step}: bus", SHOWN, f"{found['bus_gb_per_s']:.1f} GB/s")


def lost(bench: Bench) -> Iterator[Row]:
    step = "groups lost rank"
    measured = measure(bench, "proof_lost_rank", "n=1,processes=2", environ=CHEATS)
    right = measured.verdict == "crashed" and "rank 1 of 2" in measured.told
    yield holds(step, step, right, measured.told)


def ranks(bench: Bench) -> int:
    """Return the number of GPUs; two processes on a CPU, to test this code."""
    if not bench.on_gpu:
        return 2
    return bench.card.count if bench.card else 0


def steps(bench: Bench) -> list[Step]:
    count = ranks(bench)
    if count < 2:
        return []
    made = [Step("groups all_reduce", 30, all_reduce), Step("groups lost rank", 30, lost)]
    for processes in (size for size in SIZES if size <= count and bench.on_gpu):
        for workload, size, precision in CASES:
            run = partial(scaling, workload, size, precision, processes)
            made.append(Step(f"groups {workload} {size} of {processes}", 30, run, essential=False))
    return made
