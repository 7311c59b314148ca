"""A case and machines of known limits."""

from pathlib import Path

from workloads.harness.records.case import Case

ROOT = Path(__file__).parents[4]


MATMUL = Case.of("matmul", {"n": 1000})  # 12 MB, 2 GFLOP a step
