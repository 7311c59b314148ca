import os
import subprocess
import sys

import pytest

from tests.workloads.harness.script.scripts import ROOT, SCRIPTS, measured, start, under_torchrun
from workloads.harness.records.files import read_records

WHOLE = """
import atexit, os, sys, threading
import torch
torch.manual_seed(int(sys.argv[1]))
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
atexit.register(print, "bye")
for i in range(20):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).pow(2).sum()
    loss.backward()
    optimizer.step()
    print(i, loss.item())
print(sys.argv, sys.orig_argv, __file__, sys.stdin.read(), sys.path[0], __name__, __spec__, file=sys.stderr)
torch.save(model.state_dict(), "weights.pt")
print(sorted(name for name in os.environ if "GRIDBENCH" in name), threading.active_count())
{end}
"""
ENDS = {
    "raises": "raise ValueError('at the end')",
    "exits": "sys.exit(3)",
    "says": "sys.exit('no more')",
    "ends": "",
}
OWN = """
import sys
import statistics
import tests
import torch
import workloads.net
try:
    from workloads.mark import step
except ImportError:
    def step(): ...
from torch.utils.data import DataLoader, Dataset

assert (tests.batches, statistics.gold) == (3, 7)
assert workloads.__file__.startswith(sys.path[0])


class Data(Dataset):
    def __len__(self):
        return 200

    def __getitem__(self, index):
        assert workloads.net.Net is torch.nn.Linear
        return torch.randn(8)


if __name__ == "__main__":
    model = workloads.net.Net(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    while True:
        for x in DataLoader(Data(), batch_size=10, num_workers=1, multiprocessing_context=sys.argv[1]):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            step()
"""


@pytest.mark.parametrize(
    "how", ["ends", *(pytest.param(how, marks=pytest.mark.chaos) for how in ("raises", "exits", "says"))]
)
def test_a_whole_run_is_byte_for_byte_the_same(how, tmp_path, box_lock):
    (tmp_path / "train.py").write_text(WHOLE.format(end=ENDS[how]))
    options = {"capture_output": True, "input": b"hello", "cwd": tmp_path, "timeout": 120}
    options["env"] = {**os.environ, "PYTHONPATH": str(ROOT)}
    plain = subprocess.run([sys.executable, "train.py", "5"], **options)
    weights = (tmp_path / "weights.pt").read_bytes()
    (tmp_path / "weights.pt").unlink()
    ours = [
        sys.executable,
        "-m",
        "workloads",
        "script",
        "--brief",
        "--whole",
        "--out=records",
        "--",
        "train.py",
        "5",
    ]
    done = subprocess.run(ours, **options)
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert (tmp_path / "weights.pt").read_bytes() == weights
    (record,) = read_records(tmp_path / "records")
    assert (record.script.steps, record.script.ended, record.script.exit_code) == (
        20,
        "finished",
        plain.returncode,
    )
    assert (record.script.job is not None and record.script.job.measured) == (plain.returncode == 0)


@pytest.mark.parametrize("workers", ["fork", pytest.param("spawn", marks=pytest.mark.chaos)])
def test_a_project_has_its_own_modules_of_our_names(workers, tmp_path, box_lock):
    for path, text in {
        "workloads/__init__.py": "",
        "workloads/net.py": "import torch\nNet = torch.nn.Linear\n",
        "tests/__init__.py": "batches = 3\n",
        "statistics.py": "gold = 7\n",
        "train.py": OWN,
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    record = measured("--", "train.py", workers, folder=tmp_path)
    assert (record.script.counted, record.script.ended) == ("mark", "stopped"), record.reasons


def test_ranks_stop_after_the_same_step(tmp_path, box_lock):
    options = ("--processes=2", "--threads=1", "--", "ddp.py")
    record = measured(*options, environ={"STEPS": str(tmp_path / "steps")})
    assert record.script.ended == "stopped" and record.wall is not None, record.reasons
    assert record.script.samples == 16
    counts = {len((tmp_path / f"steps-{rank}").read_text()) for rank in range(2)}
    assert counts == {record.script.steps - 1}  # the last one is stopped before it is written down


@pytest.mark.chaos
def test_ranks_run_to_the_end_and_leave_one_record_of_the_whole_job(tmp_path, box_lock):
    words = ("--brief", "--whole", "--processes=2", "--threads=1", f"--out={tmp_path / 'records'}")
    environ = {"LAST": "40", "STEPS": str(tmp_path / "steps")}
    code, _, err = start(*words, "--", "ddp.py", environ=environ)
    assert code == 0, err
    (record,) = read_records(tmp_path / "records")
    assert (record.script.ended, record.script.exit_code, record.script.samples) == ("finished", 0, 16)
    assert record.script.job.measured and record.script.job.steps == record.script.steps == 40
    assert [len((tmp_path / f"steps-{rank}").read_text()) for rank in range(2)] == [40, 40]


def test_ranks_under_torchrun_leave_one_record(tmp_path, box_lock):
    environ = {"STEPS": str(tmp_path / "steps")}
    record = under_torchrun("--", str(SCRIPTS / "ddp.py"), environ=environ)
    assert record.script.ended == "stopped" and record.script.samples == 16, record.reasons
