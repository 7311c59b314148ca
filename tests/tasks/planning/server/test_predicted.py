import subprocess

import pytest
from typer.testing import CliRunner

from gridbench.main import app
from tasks.planning import memory
from tasks.planning.hardware import load_hardware
from tasks.planning.plan import PlannedCase
from workloads.harness.checks.fits import Fit
from workloads.harness.records.case import Case
from workloads.harness.records.script import Script

SUITE = """
[[cases]]
workload = "transformer_train"
size = { width = 1024, length = 2048, batch = [1, 64] }
device = "cuda"
[[cases]]
workload = "gcn"
size = { hidden = 16 }
[[scripts]]
run = "train.py"
folder = "{folder}"
"""
TRAIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset

model = torch.nn.Sequential(torch.nn.Linear(4096, 8192), torch.nn.ReLU(), torch.nn.Linear(8192, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = TensorDataset(torch.randn(64, 4096), torch.randint(0, 10, (64,)))
for images, labels in DataLoader(data, batch_size=16, shuffle=True, num_workers=2):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
WEIGHTS = 4 * (4096 * 8192 + 8192 + 8192 * 10 + 10)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.chaos  # a search by fake tensors takes a minute
def test_fits_names_fitting_cases_and_fitting_sizes_of_a_suite(home):
    (home / "train.py").write_text(TRAIN)
    (home / "suite.toml").write_text(SUITE.replace("{folder}", str(home)))
    words = ["fits", str(home / "suite.toml"), "--on", "aws-g4dn.xlarge"]
    shown = CliRunner().invoke(app, words, env={"COLUMNS": "160"})
    rows = {row.split()[1]: row for row in shown.stdout.splitlines() if row.startswith("aws-g4dn")}
    assert shown.exit_code == 1, shown.output
    assert "fits" in rows["transformer_train/width=1024,length=2048,batch=1/fp32"]
    large = rows["transformer_train/width=1024,length=2048,batch=64/fp32"]
    assert "does not fit" in large and "batch=" in large.split("does not fit")[1]
    assert "unknown" in rows["gcn/hidden=16/fp32"] and "fits" in rows["train/own"]
    assert "gcn/hidden=16/fp32: DynamicOutputShapeException" in shown.stdout


def test_a_script_needs_weights_gradients_and_the_state_of_its_optimizer(home):
    (home / "train.py").write_text(TRAIN)
    script = Script(("train.py",), folder=str(home))
    case = PlannedCase.of(Case.of("train", {}, "own"), None, None, script)
    (found,) = memory.predict([(load_hardware("aws-g4dn.xlarge"), case)])
    # besides those four, two pieces as large as a weight while the optimizer steps
    assert 4 * WEIGHTS < found.needs.tensors_bytes < 6.1 * WEIGHTS and found.fit is Fit.FITS
    (home / "train.py").write_text("raise SystemExit('no data here')")
    (found,) = memory.predict([(load_hardware("aws-g4dn.xlarge"), case)])
    assert found.fit is Fit.UNKNOWN and found.needs.reason == "SystemExit: no data here"


def test_predicted_memory_is_cached(home, monkeypatch):
    case = PlannedCase.of(Case.of("matmul", {"n": 1000}), None)
    first = memory.predict([(load_hardware("aws-g4dn.xlarge"), case)])
    monkeypatch.setattr(subprocess, "run", None)
    assert memory.predict([(load_hardware("aws-g4dn.xlarge"), case)]) == first
    assert 12e6 <= first[0].needs.tensors_bytes < 20e6
