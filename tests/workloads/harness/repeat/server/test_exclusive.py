"""Two runs of the command take turns on a box."""

import json
import subprocess
import sys
from datetime import datetime

import psutil

from tests.workloads.harness.repeat.box_holders import ROOT


def test_two_runs_of_the_command_never_measure_at_once(box_lock):
    command = [sys.executable, "-m", "workloads", "run", "matmul", "--size", "n=64", "--threads=1", "--quick"]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        for _ in "ab"
    ]
    starts = [psutil.Process(run.pid).create_time() for run in runs]
    outputs = [run.communicate(timeout=240) for run in runs]
    records = [json.loads(out) for out, _ in outputs]
    spans = []
    for start, record in zip(starts, records, strict=True):
        phases = record["phases_s"]
        before_s = phases["process_start"] + phases["waiting"] + record["unattributed_s"]  # at most
        spans.append((start + before_s, start + record["wall_s"]))
    (_, first_ended), (second_began, _) = sorted(spans)
    assert second_began >= first_ended - 0.3
    assert sum(record["phases_s"]["waiting"] > 0.5 for record in records) == 1
    assert sum("another measurement runs on this machine" in err for _, err in outputs) == 1
    began = sorted(datetime.fromisoformat(record["started_at"]) for record in records)
    assert (began[1] - began[0]).total_seconds() >= 1
