"""The AWS blog's published table as records: one sample each, rounded to 10 ms."""

from tasks.results.model import Machine
from tests.tasks.examples.records import record
from workloads.harness.records.case import Case
from workloads.harness.records.record import Record, Timing

CPU = Machine("r5.4xlarge", 1.008, "on-demand, us-east-1, 2026-07-20")
GPU = Machine("g5.8xlarge", 2.448, "on-demand, us-east-1, 2026-07-20", devices=1)
ROWS = {
    Case.of("matmul", {"n": 1000}): (0.02, 0.88),
    Case.of("matmul", {"n": 5000}): (0.50, 0.01),
    Case.of("matmul", {"n": 8000}): (1.46, 0.04),
    Case.of("matmul", {"n": 10_000}): (2.45, 0.09),
    Case.of("image_pipeline", {"pixels": 2048, "batch": 1}): (0.29, 0.16),
    Case.of("image_pipeline", {"pixels": 2048, "batch": 2}): (0.54, 0.04),
    Case.of("image_pipeline", {"pixels": 4096, "batch": 1}): (0.29, 0.16),
    Case.of("image_pipeline", {"pixels": 4096, "batch": 2}): (2.14, 0.21),
    Case.of("gaussian_blur", {"pixels": 4096}): (0.09, 0.04),
}
JOB_S = (10.13, 3.03)


def records() -> list[Record]:
    return [
        record(seconds, case, hardware, device=device, wall=_one(seconds))
        for column, (hardware, device) in enumerate(((CPU.name, "cpu"), (GPU.name, "cuda")))
        for case, row in ROWS.items()
        for seconds in (row[column],)
    ]


def _one(seconds: float) -> Timing:
    return Timing((seconds,), 1, seconds, None, None, seconds, seconds, 0, 0, True, True)
