import json
from dataclasses import replace

import pytest

from tests.workloads.loadtest.load_runs import (
    RESULT_KEYS,
    SUMMARY_KEYS,
    SYSTEM_KEYS,
    failed_record,
    record_of,
    run_of,
)
from workloads.harness.records.record import Memory, Record, Verdict
from workloads.harness.repeat.suite import load_suite
from workloads.loadtest.report import LoadTest, averages, document, in_window, summary

STATS_KEYS = {"min", "max", "avg", "sample_count"}


def the_load_tests(suite="loadtest"):
    return [LoadTest.of(case) for case in load_suite(suite).cases if case.workload.endswith("_job")]


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


class TestDocument:
    def one(self, **changes):
        test = the_load_tests()[0]
        alone = record_of(test.alone, 0.004, 16, device_busy_s=0.003)
        records = [record_of(test.job, 4.0, 9600, **monitored()), alone]
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

    def test_the_computation_alone_counts_its_slow_steps_as_the_job_does(self):
        test = the_load_tests()[0]
        alone = record_of(test.alone, 0.004, 16)
        slowed = replace(alone, wall=replace(alone.wall, mean_s=0.005))
        found = document(run_of([test], [record_of(test.job, 4.0, 9600), slowed], 0.5))["results"][0]
        assert found["compute_only"]["throughput_samples_per_second"] == pytest.approx(16 / 0.005)
        assert found["compute_only"]["avg_iteration_time_ms"] == pytest.approx(5.0)

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

    def test_the_sample_rate_thins_shown_samples_and_not_statistics(self):
        shown = self.one()["results"][0]["samples"]
        assert shown["t_s"] == [2.25, 2.75]
        assert shown["gpu_utilisation_share"] == [0.1, 0.95]

    def test_a_test_without_a_sample_gives_the_reason(self):
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
        assert run.failed
        assert "crashed" in summary(run)

    def test_a_wrong_answer_has_no_time_and_a_noisy_box_is_no_failure(self):
        assert self.one(verdict=Verdict.WRONG)["results"][0]["throughput_samples_per_second"] is None
        noisy = self.one(verdict=Verdict.NOISY, reasons=("others",))["results"][0]
        assert (noisy["success"], noisy["verdict"], noisy["reasons"]) == (True, "noisy", ["others"])

    def test_tests_not_run_yet_are_counted(self):
        tests = the_load_tests()
        run = run_of(tests, [record_of(tests[0].job, 4.0, 9600)])
        found = document(run)["test_summary"]
        assert (found["total_tests"], found["successful_tests"], found["failed_tests"]) == (12, 1, 0)
        assert found["tests_not_run"] == 11
        assert found["actual_duration_seconds"] == pytest.approx(9, abs=2)
        assert run.failed


class TestParts:
    """An iteration of the job takes 4 s / 600 = 6.67 ms, and 4 ms of its computation alone."""

    def document(self, device="cuda", **of_alone):
        test = the_load_tests()[0]
        alone = record_of(test.alone, 0.004, 16, **of_alone)
        records = [replace(record, device=device) for record in (record_of(test.job, 4.0, 9600), alone)]
        return document(run_of([test], records)), run_of([test], records)

    def test_an_iteration_is_split_into_the_devices_time_and_its_waiting(self):
        found, run = self.document(device_busy_s=0.003)
        parts = found["results"][0]["iteration_parts_ms"]
        assert parts == {
            "device": pytest.approx(3.0),
            "host": pytest.approx(1.0),
            "loader": pytest.approx(4000 / 600 - 4),
            "exchange": 0.0,
        }
        assert sum(parts.values()) == pytest.approx(found["results"][0]["avg_iteration_time_ms"])
        assert found["averages"]["training"]["iteration_parts_share"]["device"] == pytest.approx(0.45)
        assert found["definitions"].keys() >= {"iteration_parts_ms", "iteration_parts_share"}
        assert "computes for 45% of an iteration, waits for its host for 15%, for data for 40%" in summary(
            run
        )

    def test_a_cpu_waits_only_for_its_loader(self):
        found, _ = self.document("cpu")
        parts = found["results"][0]["iteration_parts_ms"]
        assert (parts["device"], parts["host"]) == (pytest.approx(4.0), 0.0)
        assert parts["loader"] == pytest.approx(4000 / 600 - 4)

    def test_without_the_devices_own_time_the_reason_is_there(self):
        (result,) = self.document(missing={"device_busy_s": "no profile could be made"})[0]["results"]
        assert result["iteration_parts_ms"] is None
        assert result["missing"]["iteration_parts_ms"] == "no profile could be made"

    def test_a_job_that_is_faster_than_its_computation_alone_waits_for_no_data(self):
        test = the_load_tests()[0]
        records = [record_of(test.job, 1.2, 9600), record_of(test.alone, 0.004, 16, device_busy_s=0.003)]
        parts = document(run_of([test], records))["results"][0]["iteration_parts_ms"]
        assert (parts["device"], parts["host"], parts["loader"]) == (
            pytest.approx(1.5),
            pytest.approx(0.5),
            0,
        )


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
            "iteration_parts_share": None,
        }

    def test_models_are_never_mixed_and_only_valid_results_enter_a_ratio(self):
        cnn, resnet = the_load_tests()[0], the_load_tests()[3]
        records = [
            *(record_of(cnn.job, 6.0, 9600, verdict=Verdict.SHARED), record_of(cnn.alone, 0.005, 16)),
            *(record_of(resnet.job, 6.0, 4800), record_of(resnet.alone, 0.005, 8)),
        ]
        found = averages(run_of([cnn, resnet], records), "training")
        assert found["models"].keys() == {"simple_cnn", "resnet"}  # a shared GPU does not fail a test
        assert found["tests_in_share"] == 1
