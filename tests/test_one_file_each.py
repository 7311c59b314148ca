"""A workload, a machine and a finding are added in one file each, shown in a copy of the project."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("workloads", "tasks", "flows", "infra", "gridbench", "deployments")
WORKLOAD = '''"""Sum of a vector."""

from workloads.harness.prepared import Env, Prepared
from workloads.harness.registry import workload


@workload(n=(1000,), tiny={"n": 64})
def vector_sum(env: Env, n: int) -> Prepared:
    """s = 1 x for a vector of standard normal values."""
    x = env.randn(n, 1)
    return Prepared(
        step=lambda: x.sum(0),
        inputs=(x,),
        reference=lambda: x.cpu().double().sum(0),
        view=lambda s: s,
        units=n,
        unit="values",
        flops=n,
        bytes=n * x.element_size(),
        matmul_flops=0,
    )
'''
MACHINE = """title: A box of ours
pool: local
device: cpu
price: {usd_per_hour: 0.5, purchase: assumption, source: a guess, date: 2026-11-21}
"""


@pytest.fixture
def copy(tmp_path):
    for name in PRODUCT:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def run(copy, *arguments, codes=(0,)):
    result = subprocess.run(
        [sys.executable, *arguments], cwd=copy, capture_output=True, text=True, check=False
    )
    assert result.returncode in codes, result.stderr
    return result.stdout


def test_a_workload_is_one_file(copy):
    (copy / "workloads" / "vector_sum.py").write_text(WORKLOAD)
    assert "vector_sum" in run(copy, "-m", "workloads", "list")
    words = ("run", "vector_sum", "--size", "n=1000", "--brief")
    record = json.loads(run(copy, "-m", "workloads", *words, codes=(0, 1)))  # 1: measured, on a busy machine
    assert record["case"]["workload"] == "vector_sum" and record["check"]["error"] < 1e-4


def test_a_machine_is_one_file(copy):
    (copy / "deployments" / "hardware" / "our-box.yaml").write_text(MACHINE)
    command = "from gridbench.main import main; main()"
    plan = run(copy, "-c", command, "run", "quick", "--on", "our-box", "--dry-run")
    assert "our-box" in plan and "A box of" in plan
