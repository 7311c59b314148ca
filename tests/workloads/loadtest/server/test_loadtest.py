"""The load test's command measures for real, and survives the death of a test."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workloads.loadtest.load_runs import RESULT_KEYS, SUMMARY_KEYS, SYSTEM_KEYS

ROOT = Path(__file__).parents[4]


DIES = '''"""Ends its process in the midst, without a word."""

import os

from workloads.harness.prepared import Job
from workloads.harness.registry import Workload, add, find


def infer(env, batch):
    return find("simple_cnn_infer").build(env, batch)


def infer_job(env, batch, batches):
    return Job(lambda: os._exit(3), lambda: None, batch * batches, "images", 1.0, 1.0, 1.0)


net = {"model": "broken", "task": "inference"}
sizes = {"batch": (4,), "batches": (3,)}
add(Workload("broken_infer", __doc__, {"batch": (4,)}, {"batch": 4}, infer, **net))
add(
    Workload(
        *("broken_infer_job", __doc__, sizes, {"batch": 4, "batches": 3}, infer_job),
        kind="job",
        of="broken_infer",
        **net,
    )
)
'''


SUITE = """
quick = true
timeout_s = 120
repeats = 1
[[cases]]
workload = "broken_infer_job"
size = { batch = 4, batches = 3 }
[[cases]]
workload = "simple_cnn_train_job"
size = { batch = 8, epochs = 1, batches = 10, workers = 1 }
"""


class TestForReal:
    def call(self, *arguments):
        program = [sys.executable, "-m", "workloads", "suite", *map(str, arguments)]
        return subprocess.run(program, capture_output=True, text=True, cwd=ROOT, timeout=600)

    @pytest.mark.chaos
    def test_a_quick_load_test_writes_its_results(self, box_lock, tmp_path):
        found = self.call("loadtest", "--quick", "--output", tmp_path / "r.json")
        assert found.returncode == 0, found.stderr
        results = json.loads((tmp_path / "r.json").read_text())
        assert results["system_info"].keys() == SYSTEM_KEYS
        assert results["test_summary"].keys() >= SUMMARY_KEYS
        assert [r["test_name"] for r in results["results"]] == [
            "train_simple_cnn_bs16",
            "inference_simple_cnn_bs32",
        ]
        for result, images in zip(results["results"], (160, 1600), strict=True):
            assert result.keys() >= RESULT_KEYS
            assert result["throughput_samples_per_second"] * result["duration_seconds"] == pytest.approx(
                images
            )
            assert result["cpu_usage_stats"]["sample_count"] >= 1  # however short it was
            assert result["process_memory_stats"]["max"] > 50

    @pytest.mark.chaos
    def test_a_test_that_dies_leaves_the_others_alone(self, use_workloads, box_lock, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "dies.py").write_text(DIES)
        use_workloads(tmp_path / "mine")
        (tmp_path / "loadtest.toml").write_text(SUITE)
        found = self.call(tmp_path / "loadtest.toml", "-o", tmp_path / "r.json", "--num-workers=1")
        assert found.returncode == 1, found.stderr
        ill, well = json.loads((tmp_path / "r.json").read_text())["results"]
        assert ill["error_message"].startswith("crashed: the measuring process ended with code 3")
        assert (well["success"], well["num_workers"]) == (True, 1), well["error_message"]

    def test_an_interrupted_load_test_leaves_results_and_no_process(self, box_lock, tmp_path):
        output = tmp_path / "r.json"
        program = [sys.executable, "-m", "workloads", "suite", "loadtest"]
        process = subprocess.Popen(
            [*program, "--num-epochs=1", "--num-batches=10", "--output", output],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for text in process.stderr:
            if text.startswith("[1/24]"):
                break
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=240)
        assert process.returncode == 130
        assert json.loads(output.read_text())["test_summary"]["total_tests"] == 12
