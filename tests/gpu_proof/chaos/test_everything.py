import json
import subprocess
import sys

import pytest

from tests.gpu_proof.bench import ROOT


@pytest.mark.timeout(1800)
def test_every_step_runs_on_a_cpu(tmp_path, box_lock):
    command = [
        sys.executable,
        "-m",
        "tests.gpu_proof",
        "--device",
        "cpu",
        "--out",
        str(tmp_path),
        "--minutes",
        "25",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1700)
    rows = json.loads((tmp_path / "proof.json").read_text())["rows"]
    assert not [row for row in rows if row["state"] not in ("ok", "shown")], done.stdout
    assert {row["step"].split()[0] for row in rows} == {
        "card",
        "precise",
        "cost",
        "clocks",
        "failures",
        "health",
        "groups",
        "cases",
    }
    assert done.returncode == 0


@pytest.mark.timeout(900)
def test_the_steps_of_a_second_call_run_on_a_cpu(tmp_path, box_lock):
    command = [
        sys.executable,
        "-m",
        "tests.gpu_proof",
        "--device",
        "cpu",
        "--out",
        str(tmp_path),
        "--minutes",
        "12",
    ]
    done = subprocess.run(
        [*command, "--only", "soak", "largest", "--soak", "3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=800,
    )
    rows = {row["name"]: row for row in json.loads((tmp_path / "proof.json").read_text())["rows"]}
    assert len(rows["soak: TFLOP/s by the second"]["text"].split()) >= 3, done.stdout
    assert rows["largest"]["state"] == "ok" and "batch=2 fits" in rows["largest"]["text"]
