"""The oldest supported torch measures every workload, in a cached environment."""

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from infra.images.flavours import flavour
from tests.workloads.building import is_ours
from workloads.harness.engine.device import OLDEST_TORCH
from workloads.harness.records.files import read_records
from workloads.harness.records.record import Verdict
from workloads.harness.registry import all_workloads, find

pytestmark = pytest.mark.timeout(3600)

ROOT = Path(__file__).parents[3]
VERSION = "{}.{}.0".format(*OLDEST_TORCH)
FOLDER = ROOT / ".gridbench" / "environments" / f"torch-{VERSION}-python-{platform.python_version()}"
NEEDS = (f"torch=={VERSION}", "numpy", "psutil", "nvidia-ml-py")  # all that a measuring process loads
# torch's own index has builds for CPUs, a tenth of the size; if it can't be reached, any index will do.
INDEXES = (
    ("--index-url", flavour("cpu").index, "--extra-index-url", "https://pypi.org/simple", "--retries", "0"),
    (),
)
FINE = {Verdict.OK, Verdict.UNSTEADY, Verdict.IMPRECISE, Verdict.NOISY, Verdict.SHARED, Verdict.THROTTLED}
FAILED = {Verdict.CRASHED, Verdict.WRONG, Verdict.UNSUPPORTED, Verdict.OUT_OF_MEMORY, Verdict.TIMEOUT}


def make(folder):
    """Make the environment; a file written last marks it complete."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
    for index in INDEXES:
        done = subprocess.run([*install, *index, *NEEDS], capture_output=True, text=True, timeout=1800)
        if done.returncode == 0:
            (folder / "made").touch()
            return
    pytest.fail(f"torch {VERSION} can't be installed: {done.stderr[-500:]}")


@pytest.fixture(scope="module")
def oldest():
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(FOLDER.with_suffix(".lock")):
        if not (FOLDER / "made").exists():
            make(FOLDER)
    return str(FOLDER / "bin" / "python")


def run(oldest, *arguments):
    return subprocess.run([oldest, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=3000)


def suite_of_everything(path):
    """Return every CPU workload at its tiny size; the transformer in bf16, too."""
    cases = [(name, "fp32") for name, w in all_workloads().items() if "cpu" in w.devices and is_ours(w)]
    entries = []
    for name, precision in [*cases, ("transformer_train", "bf16")]:
        size = ", ".join(f"{key} = {value}" for key, value in find(name).tiny.items())
        entries.append(
            f'[[cases]]\nworkload = "{name}"\nsize = {{ {size} }}\nprecision = ["{precision}"]\nthreads = 1\n'
        )
    path.write_text("repeats = 1\ntimeout_s = 600\n" + "\n".join(entries))
    return {*cases, ("transformer_train", "bf16")}


def test_every_workload_is_measured(oldest, tmp_path, box_lock):
    expected = suite_of_everything(tmp_path / "all.toml")
    out = tmp_path / "records"
    done = run(oldest, "-m", "workloads", "suite", str(tmp_path / "all.toml"), "--tiny", "--out", str(out))
    records = list(read_records(out))
    assert {(record.case.workload, record.case.precision) for record in records} == expected, done.stderr
    assert ("ddpm_weak", "fp32") in expected and find("ddpm_weak").tiny == {"batch": 1, "processes": 2}
    bad = {record.id: record.reasons for record in records if record.verdict in FAILED}
    assert not bad, done.stderr
    for record in records:
        assert record.environment["torch"].startswith(VERSION)
        assert record.wall and (record.check is None or record.check.error <= record.check.bound)


def test_a_profile_and_a_cold_cache(oldest, box_lock):
    options = ("--size", "n=256", "--brief", "--profile", "--cold-cache")
    done = run(oldest, "-m", "workloads", "run", "matmul", *options)
    record = json.loads(done.stdout)
    assert record["profile"]["operators"] and record["cache"]["state"] == "cold", done.stderr
    assert record["verdict"] not in FAILED


GROUPED = """
import torch
from workloads.harness.engine.count import counted
query, key = (torch.empty(1, heads, 64, 128, device="meta", dtype=torch.bfloat16) for heads in (32, 8))
with counted() as counts:
    torch.ops.aten._scaled_dot_product_flash_attention(query, key, key, 0.0, True)
print(counts.flops, counts.missing)
"""


def test_grouped_queries_are_counted(oldest):
    """Torch's own formula refuses 32 heads of queries with 8 of keys and values."""
    done = run(oldest, "-c", GROUPED)
    assert done.stdout.split() == [str(float(2 * 2 * 32 * 64 * 64 * 128))], done.stderr


def test_the_gpu_proof_runs_with_the_oldest_torch(oldest, tmp_path, box_lock):
    done = run(
        oldest,
        "-m",
        "tests.gpu_proof",
        "--device",
        "cpu",
        "--out",
        str(tmp_path),
        "--only",
        "precise",
        "clocks",
    )
    rows = json.loads((tmp_path / "proof.json").read_text())["rows"]
    assert done.returncode == 0 and {row["state"] for row in rows} == {"ok", "shown"}, done.stdout
    assert f"torch {VERSION}" in rows[0]["text"]
