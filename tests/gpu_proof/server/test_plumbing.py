import json
import os
import signal
import subprocess
import sys

import pytest

from tests.gpu_proof.bench import ROOT
from tests.gpu_proof.leave import LEFT, harness_id
from workloads.harness.records.record import Record

COMMAND = (sys.executable, "-m", "tests.gpu_proof", "--device", "cpu")


def test_a_proof_on_a_cpu_leaves_its_files_and_its_table_last(tmp_path, box_lock):
    out = tmp_path / "proof"
    only = ("precise", "proof_killed", "cases gcn ")
    done = subprocess.run(
        [*COMMAND, "--out", str(out), "--only", *only],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    proof = json.loads((out / "proof.json").read_text())
    states = {row["name"]: (row["state"], row["text"]) for row in proof["rows"]}
    assert states["fp32 matmul: error"][0] == states["fp32 conv: error"][0] == "ok", states
    assert states["failures proof_killed"][0] == "ok", states
    assert states["cases gcn hidden=4 fp32 --brief"][0] == "ok", states
    failed = [name for name, (state, _) in states.items() if state in ("FAIL", "not run")]
    assert done.returncode == (1 if failed else 0), done.stdout + done.stderr
    assert " hold, " in done.stdout.splitlines()[-1] and not done.stderr
    assert {path.name for path in out.iterdir()} == {*LEFT} - {"dmon.txt"}, "that is nvidia-smi's"
    assert (proof["device"], proof["content_id"]) == ("cpu", harness_id())
    assert (out / "console.txt").read_text() == done.stdout
    records = [Record.from_json(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert [record.case.workload for record in records] == ["proof_killed", "gcn"]


def test_a_proof_that_is_told_to_end_still_prints_its_table(tmp_path, box_lock):
    process = subprocess.Popen(
        [*COMMAND, "--out", str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline().startswith("ok      card")
    process.send_signal(signal.SIGTERM)
    told = process.stdout.read()
    assert process.wait(60) == 1
    rows = json.loads((tmp_path / "proof.json").read_text())["rows"]
    assert {row["state"] for row in rows[-10:]} == {"not run"} and "stopped by SIGTERM" in rows[-1]["text"]
    assert "were not run" in told.splitlines()[-1]


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="this machine has a GPU: make gpu-proof asks it")
def test_without_a_gpu_everything_is_a_row(tmp_path):
    command = [sys.executable, "-m", "tests.gpu_proof", "--out", str(tmp_path), "--minutes", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and not done.stderr
    assert done.stdout.startswith("FAIL    card") and "the card was not seen" in done.stdout
