"""The load test's options, its JSON key by key, and what becomes of tests that fail."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.workloads.harness.records.test_record import timing
from workloads.__main__ import main
from workloads.harness.records.record import Memory, Record, Verdict, Work
from workloads.harness.repeat.suite import load_suite
from workloads.loadtest import command
from workloads.loadtest.report import averages, document, in_window, summary
from workloads.loadtest.run import LoadTest, Run, System, failed

ROOT = Path(__file__).parents[3]
NAMES = [f"{kind}_{model}" for kind in ("train", "inference") for model in ("simple_cnn_bs", "resnet_bs")]
TWELVE = [f"{name}{batch}" for name in NAMES for batch in ((16, 32, 64) if "simple" in name else (8, 16, 32))]
SYSTEM_KEYS = {
    *("hostname", "cpu_count", "memory_total_gb", "gpu_count", "gpu_names", "cuda_version"),
    *("pytorch_version", "timestamp"),
}
SUMMARY_KEYS = {
    *("requested_duration_minutes", "actual_duration_seconds", "total_tests", "successful_tests"),
    *("failed_tests", "timestamp", "num_epochs", "num_batches", "num_workers", "monitoring_sample_rate"),
    "total_samples_collected",
}
RESULT_KEYS = {
    *("test_name", "test_type", "description", "model_name", "batch_size", "duration_seconds", "iterations"),
    *("throughput_samples_per_second", "avg_iteration_time_ms", "peak_gpu_memory_mb"),
    *("peak_gpu_utilization_percent", "success", "error_message", "cpu_usage_stats", "memory_usage_stats"),
    *("gpu_utilization_stats", "gpu_memory_stats"),
}
STATS_KEYS = {"min", "max", "avg", "sample_count"}
SYSTEM = System("a-box", 8, 2**34, ("A GPU",), "12.8", "2.13.0")


def the_load_tests(suite="loadtest"):
    return [LoadTest.of(case) for case in load_suite(suite).cases if case.workload.endswith("_job")]


def run_of(tests, records=(), rate_s=5.0):
    return Run(tests, SYSTEM, 3, 200, 0, rate_s, 1, time.time() - 9, list(records))


def record_of(case, seconds, units, **changes):
    """A record of a step or job that took `seconds` for `units` images on a GPU."""
    found = Record("r", "here", case, 1, Verdict.OK, device="cuda", wall=timing(median_s=seconds))
    return replace(found, work=Work(units, "images", 1.0, 1.0), **changes)


def monitored():
    times = (1.0, 2.25, 2.5, 2.75, 3.0, 3.05, 4.0)
    return {
        "probes": {"window_start_s": 2.0, "window_end_s": 3.0},
        "memory": Memory(2**29, 2**28, 2**29, 0),
        "monitor": {
            "t_s": times,
            "cpu_percent": (500.0, 100.0, 110.0, 120.0, 130.0, 140.0, 900.0),
            "host_cpu_percent": (99.0, 10.0, 20.0, 30.0, 40.0, 50.0, 99.0),
            "rss_bytes": (2.0**40, *(2.0**28,) * 5, 2.0**40),
            "host_memory_used_bytes": (2.0**40, *(2.0**32,) * 5, 2.0**40),
            "gpu_utilisation_share": (1.0, 0.1, 0.2, 0.95, 0.4, 0.5, 1.0),
            "gpu_memory_used_bytes": (2.0**40, *(2.0**31,) * 5, 2.0**40),
            "gpu_temperature_c": (99.0, 50.0, 60.0, 61.0, 62.0, 63.0, 99.0),
        },
    }


def options(*arguments):
    """What the command `suite` makes of its arguments, and the suite, without measuring anything."""
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    command.add_options(parser)
    return parser.parse_args([*map(str, arguments)])


class TestPlan:
    def test_the_twelve_tests_in_their_order_with_their_descriptions(self):
        tests = command.planned(options(), load_suite("loadtest"))
        assert [test.name for test in tests] == TWELVE
        shown = [
            r["description"]
            for r in document(run_of(tests, [t.job and failed_record(t) for t in tests]))["results"]
        ]
        assert len(set(shown)) == 12
        for test, text in zip(tests, shown, strict=True):
            size = (
                {16: "Small", 32: "Medium", 64: "Large"}
                if test.model == "simple_cnn"
                else {8: "Small", 16: "Medium", 32: "Large"}
            )
            kind = "CNN" if test.model == "simple_cnn" else "ResNet"
            assert text.startswith(f"{size[test.batch]} batch {kind} {test.kind} - ")

    def test_beside_each_is_its_computation_alone_and_the_plain_suite_has_both(self):
        suite = load_suite("loadtest")
        tests = command.planned(options(), suite)
        assert {case for test in tests for case in (test.job, test.alone)} == set(suite.cases)
        assert tests[0].alone.id == "simple_cnn_train/batch=16/fp32"
        assert tests[0].iterations == 600
        assert tests[-1].iterations == 200

    def test_the_numbers_change_the_sizes(self):
        given = options("--num-epochs=5", "--num-batches=500", "--num-workers=4")
        tests = command.planned(given, load_suite("loadtest"))
        assert tests[0].job.params == {"batch": 16, "epochs": 5, "batches": 500, "workers": 4}
        assert tests[-1].job.params == {"batch": 32, "batches": 500, "workers": 4}  # inference loads alike

    def test_quick_is_the_published_one(self):
        tests = command.planned(options("--quick", "--num-workers=1"), load_suite("loadtest"))
        assert [test.job.id for test in tests] == [
            "simple_cnn_train_job/batch=16,epochs=1,batches=10,workers=1/fp32",
            "simple_cnn_infer_job/batch=32,batches=50,workers=1/fp32",
        ]

    def test_longer_tests_get_more_time(self):
        from workloads.harness.records.repeat import Repeat

        suite = load_suite("loadtest")
        tests = command.planned(options("--num-batches=2000"), suite)
        base = Repeat("r", "here", tests[0].job)
        given = {repeat.case: repeat.timeout_s for repeat in command.repeats(base, suite, tests, 1)}
        assert len(given) == 24
        assert given[tests[0].job] == 10 * suite.timeout_s
        assert given[tests[0].alone] == suite.timeout_s


def failed_record(test, verdict=Verdict.CRASHED):
    return Record("r", "here", test.job, 1, verdict, ("the measuring process was killed by SIGSEGV",))


class TestDocument:
    def one(self, **changes):
        test = the_load_tests()[0]
        records = [record_of(test.job, 4.0, 9600, **monitored()), record_of(test.alone, 0.004, 16)]
        return document(run_of([test], [replace(records[0], **changes), records[1]], 0.5))

    def test_every_key_is_there(self):
        found = self.one()
        assert found["system_info"].keys() == SYSTEM_KEYS
        assert found["test_summary"].keys() >= SUMMARY_KEYS
        assert all(result.keys() >= RESULT_KEYS for result in found["results"])
        for key in ("cpu_usage_stats", "memory_usage_stats", "gpu_utilization_stats", "gpu_memory_stats"):
            assert found["results"][0][key].keys() == STATS_KEYS
        json.dumps(found, allow_nan=False)

    def test_the_numbers_fit_each_other(self):
        (found,) = self.one()["results"]
        assert found["throughput_samples_per_second"] * found["duration_seconds"] == pytest.approx(16 * 600)
        assert found["avg_iteration_time_ms"] * found["iterations"] / 1e3 == found["duration_seconds"] == 4.0
        assert found["compute_only"]["throughput_samples_per_second"] == 4000
        assert (found["success"], found["error_message"], found["missing"]) == (True, None, {})

    def test_statistics_are_of_the_job_alone_and_each_of_one_thing(self):
        found = self.one()
        result = found["results"][0]
        assert result["cpu_usage_stats"] == {"min": 10, "max": 50, "avg": 30, "sample_count": 5}
        assert result["process_cpu_stats"]["max"] == 140
        assert result["process_memory_stats"]["max"] == 256
        assert result["memory_usage_stats"]["max"] == 4096
        assert result["gpu_memory_stats"]["max"] == 2048  # the whole device
        assert result["peak_gpu_memory_mb"] == 256  # this process
        assert (
            result["peak_gpu_utilization_percent"]
            == result["gpu_utilization_stats"]["max"]
            == pytest.approx(95)
        )
        assert result["gpu_temperature_stats"]["min"] == 50
        assert found["test_summary"]["total_samples_collected"] == 5

    def test_the_sample_rate_thins_what_is_shown_and_no_statistics(self):
        shown = self.one()["results"][0]["samples"]
        assert shown["t_s"] == [2.25, 2.75]
        assert shown["gpu_utilisation_share"] == [0.1, 0.95]

    def test_a_test_without_a_sample_says_so(self):
        (found,) = self.one(monitor={}, missing={"monitor": "too short"})["results"]
        assert found["cpu_usage_stats"] is None
        assert found["missing"]["cpu_usage_stats"] == "too short"
        assert in_window(Record("r", "here", the_load_tests()[0].job, 1, Verdict.OK)) == {}

    def test_on_a_cpu_the_gpu_is_null_with_a_reason(self):
        (found,) = self.one(device="cpu", memory=Memory(2**29), monitor={})["results"]
        for key in (
            "peak_gpu_memory_mb",
            "gpu_utilization_stats",
            "gpu_memory_stats",
            "gpu_temperature_stats",
        ):
            assert found[key] is None
            assert found["missing"][key] == "measured on the CPU"

    def test_a_failed_test_has_no_numbers_and_its_error(self):
        test = the_load_tests()[0]
        run = run_of([test], [failed_record(test)])
        (found,) = document(run)["results"]
        assert found["success"] is False
        assert found["error_message"] == "crashed: the measuring process was killed by SIGSEGV"
        assert (
            found["duration_seconds"] is found["throughput_samples_per_second"] is found["iterations"] is None
        )
        assert found.keys() >= RESULT_KEYS
        assert document(run)["test_summary"]["failed_tests"] == 1
        assert failed(run)
        assert "crashed" in summary(run)

    def test_a_wrong_answer_has_no_time_and_a_noisy_box_is_no_failure(self):
        assert self.one(verdict=Verdict.WRONG)["results"][0]["throughput_samples_per_second"] is None
        noisy = self.one(verdict=Verdict.NOISY, reasons=("others",))["results"][0]
        assert (noisy["success"], noisy["verdict"], noisy["reasons"]) == (True, "noisy", ["others"])

    def test_what_is_not_there_yet_is_counted(self):
        tests = the_load_tests()
        found = document(run_of(tests, [record_of(tests[0].job, 4.0, 9600)]))["test_summary"]
        assert (found["total_tests"], found["successful_tests"], found["failed_tests"]) == (12, 1, 0)
        assert found["tests_not_run"] == 11
        assert found["actual_duration_seconds"] == pytest.approx(9, abs=2)
        assert failed(run_of(tests, [record_of(tests[0].job, 4.0, 9600)]))


class TestAverages:
    def test_work_over_time_by_model_and_a_geometric_mean_of_ratios(self):
        small, large = the_load_tests()[0], the_load_tests()[2]
        records = [
            *(record_of(small.job, 6.0, 9600), record_of(small.alone, 16 / 3200, 16)),  # a half of it
            *(record_of(large.job, 12.0, 38400), record_of(large.alone, 64 / 25600, 64)),  # an eighth
        ]
        found = averages(run_of([small, large], records), "training")
        assert found["models"] == {
            "simple_cnn": {"samples": 48000, "seconds": 18.0, "samples_per_second": pytest.approx(48000 / 18)}
        }
        assert found["share_of_compute_only"] == pytest.approx((1 / 2 * 1 / 8) ** 0.5)
        assert averages(run_of([small], records), "inference") == {
            "models": {},
            "share_of_compute_only": None,
            "tests_in_share": 0,
        }

    def test_models_are_never_mixed_and_only_ok_enters_a_ratio(self):
        cnn, resnet = the_load_tests()[0], the_load_tests()[3]
        records = [
            *(record_of(cnn.job, 6.0, 9600, verdict=Verdict.NOISY), record_of(cnn.alone, 0.005, 16)),
            *(record_of(resnet.job, 6.0, 4800), record_of(resnet.alone, 0.005, 8)),
        ]
        found = averages(run_of([cnn, resnet], records), "training")
        assert found["models"].keys() == {"simple_cnn", "resnet"}
        assert found["tests_in_share"] == 1


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["quick", "--num-epochs=2"], "--num-epochs is of the suite loadtest alone; quick has its sizes"),
            (["quick", "-o", "x.json"], "--output is of the suite loadtest alone"),
            (["quick", "--log-file=x"], "--log-file is of the suite loadtest alone"),
            (["quick", "--metrics-sample-rate=1"], "--metrics-sample-rate is of the suite loadtest alone"),
            (["loadtest", "--quick", "--num-batches=3"], "--quick has epochs and batches of its own"),
            (["loadtest", "--output=/proc/self/status/r.json"], "/proc/self/status can't be written"),
            (["loadtest", "--output=/"], "--output / is a folder; name a file in it"),
            (
                ["loadtest", "--log-file=/proc/self/status/l"],
                "--log-file /proc/self/status/l can't be written",
            ),
        ],
        ids=str,
    )
    def test_one_sentence_before_anything_is_measured(self, monkeypatch, tmp_path, capsys, arguments, words):
        monkeypatch.chdir(tmp_path)
        for place in ("loadtest.command", "harness.repeat.series"):
            monkeypatch.setattr(f"workloads.{place}.measure_or_skip", lambda *_: pytest.fail("it went on"))
        assert main(["suite", *arguments]) == 2
        err = capsys.readouterr().err
        assert re.fullmatch(r"error: [^\n]+\n", err)
        assert words in err
        assert [*tmp_path.iterdir()] == []

    @pytest.mark.parametrize(
        "flag",
        [
            *(
                "--num-epochs=0",
                "--num-epochs=-1",
                "--num-epochs=x",
                "--num-epochs=1.5",
                "--num-epochs=9999999999",
            ),
            *("--num-batches=0", "--num-batches=", "--num-workers=-1", "--num-workers=²"),
            *("--metrics-sample-rate=0", "--metrics-sample-rate=nan", "--metrics-sample-rate=-5"),
            *("--metrics-sample-rate=inf", "--metrics-sample-rate=0.1", "--device=tpu"),
        ],
    )
    def test_nonsense_is_named(self, capsys, flag):
        with pytest.raises(SystemExit) as ended:
            main(["suite", "loadtest", flag])
        assert ended.value.code == 2
        assert f"argument {flag.partition('=')[0]}" in capsys.readouterr().err.splitlines()[-1]


@pytest.fixture
def on_paper(monkeypatch):
    """The load test with records made up for speed: everything but the measuring itself is real."""
    monkeypatch.setattr(command, "system_info", lambda: replace(SYSTEM, gpu_names=()))

    def measure(repeat, ended, say):
        say("a detail of the measuring process")
        seconds, units = (4.0, 9600) if repeat.case.workload.endswith("_job") else (0.004, 16)
        return replace(record_of(repeat.case, seconds, units), device=repeat.device, order=repeat.order)

    monkeypatch.setattr(command, "measure_or_skip", measure)
    return measure


class TestRun:
    def test_all_twelve_and_the_log(self, on_paper, tmp_path, capsys):
        output, log = tmp_path / "new" / "r.json", tmp_path / "log.txt"
        code = main(
            [
                "suite",
                "loadtest",
                "--output",
                str(output),
                "--log-file",
                str(log),
                "--out",
                str(tmp_path / "records"),
            ]
        )
        assert code == 0
        found = json.loads(output.read_text())
        assert [result["test_name"] for result in found["results"]] == TWELVE
        assert {result["device"] for result in found["results"]} == {"cpu"}  # no GPU was seen
        assert len([*(tmp_path / "records").rglob("*.json")]) == 24
        lines = log.read_text().splitlines()
        assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (INFO|DEBUG) ", line) for line in lines)
        assert sum("a detail of the measuring process" in line for line in lines) == 24
        out, err = capsys.readouterr()
        assert "a detail" not in err
        assert "[24/24]" in err
        assert "inference_resnet_bs8" in out
        assert "geometric mean of 6 tests" in out

    def test_the_default_name_has_the_time(self, on_paper, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert main(["suite", "loadtest", "--quick"]) == 0
        (path,) = tmp_path.iterdir()
        assert re.fullmatch(r"loadtest_results_\d{8}_\d{6}\.json", path.name)
        assert json.loads(path.read_text())["test_summary"]["total_tests"] == 2

    def test_one_failure_is_its_own(self, on_paper, tmp_path, monkeypatch):
        def measure(repeat, ended, say):
            if repeat.case.id == "simple_cnn_infer_job/batch=32,batches=50,workers=0/fp32":
                return repeat.failed(Verdict.CRASHED, "it fell over")
            return on_paper(repeat, ended, say)

        monkeypatch.setattr(command, "measure_or_skip", measure)
        assert main(["suite", "loadtest", "--quick", "--output", str(tmp_path / "r.json")]) == 1
        well, ill = json.loads((tmp_path / "r.json").read_text())["results"]
        assert (well["success"], ill["success"], ill["error_message"]) == (
            True,
            False,
            "crashed: it fell over",
        )

    def test_an_interrupt_keeps_what_was_measured(self, on_paper, tmp_path, monkeypatch):
        def measure(repeat, ended, say):
            if len(ended) == 7:
                raise KeyboardInterrupt
            return on_paper(repeat, ended, say)

        monkeypatch.setattr(command, "measure_or_skip", measure)
        assert main(["suite", "loadtest", "--output", str(tmp_path / "r.json")]) == 130
        found = json.loads((tmp_path / "r.json").read_text())
        assert found["test_summary"]["tests_not_run"] == 12 - len(found["results"]) > 0
        assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


DIES = '''"""Ends its process in the midst, without a word."""

import os

from workloads.harness.prepared import Job
from workloads.harness.registry import find, workload


@workload(batch=(4,), batches=(3,), tiny={"batch": 4, "batches": 3})
def broken_infer_job(env, batch, batches):
    return Job(lambda: os._exit(3), lambda: None, batch * batches, "images", 1.0, 1.0, 1.0)


@workload(batch=(4,), tiny={"batch": 4})
def broken_infer(env, batch):
    return find("simple_cnn_infer").build(env, batch)
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


@pytest.mark.server
class TestForReal:
    def call(self, *arguments):
        program = [sys.executable, "-m", "workloads", "suite", *map(str, arguments)]
        return subprocess.run(program, capture_output=True, text=True, cwd=ROOT, timeout=600)

    def test_quick(self, box_lock, tmp_path):
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

    def test_interrupting_it_leaves_results_and_no_process(self, box_lock, tmp_path):
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
