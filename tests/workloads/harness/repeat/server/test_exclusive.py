import json
import subprocess
import sys
from datetime import datetime

from tests.workloads.harness.repeat.box_holders import ROOT


def test_two_runs_of_the_command_never_measure_at_once(box_lock):
    command = [sys.executable, "-m", "workloads", "run", "matmul", "--size", "n=64", "--threads=1", "--quick"]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        for _ in "ab"
    ]
    outputs = [run.communicate(timeout=240) for run in runs]
    records = [json.loads(out) for out, _ in outputs]
    spans = []
    for record in records:
        began_s = datetime.fromisoformat(record["started_at"]).timestamp()  # in whole seconds
        spans.append((began_s, began_s + record["wall_s"]))
    (_, first_ended), (second_began, _) = sorted(spans)
    assert second_began >= first_ended - 1.1
    assert sum("another measurement runs on this machine" in err for _, err in outputs) == 1
