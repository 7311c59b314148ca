import json
import re
from dataclasses import replace

import pytest

from tests.workloads.loadtest.load_runs import SYSTEM, TWELVE, failed_record, record_of, run_of
from workloads.__main__ import main
from workloads.command.parser import parser
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.suite import load_suite
from workloads.loadtest import command
from workloads.loadtest.report import document


class TestMistakes:
    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["quick", "--num-epochs=2"], "--num-epochs is only for the suite loadtest; quick has its sizes"),
            (["quick", "-o", "x.json"], "--output is only for the suite loadtest"),
            (["quick", "--log-file=x"], "--log-file is only for the suite loadtest"),
            (["quick", "--metrics-sample-rate=1"], "--metrics-sample-rate is only for the suite loadtest"),
            (["loadtest", "--quick", "--num-batches=3"], "--quick sets its own epochs and batches"),
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
        monkeypatch.setattr(
            "workloads.harness.repeat.series.measure_or_skip", lambda *_, **__: pytest.fail("it went on")
        )
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
    """The load test with handmade records in place of measurements."""
    monkeypatch.setattr(command, "system_info", lambda: SYSTEM | {"gpu_names": []})

    def measure(repeat, ended, say, forks):
        say("a detail of the measuring process")
        seconds, units = (4.0, 9600) if repeat.case.workload.endswith("_job") else (0.004, 16)
        return replace(record_of(repeat.case, seconds, units), device=repeat.device, order=repeat.order)

    monkeypatch.setattr("workloads.harness.repeat.series.measure_or_skip", measure)
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

    def test_a_failed_test_does_not_affect_others(self, on_paper, tmp_path, monkeypatch):
        def measure(repeat, ended, say, forks):
            if repeat.case.id == "simple_cnn_infer_job/batch=32,batches=50,workers=0/fp32":
                return repeat.failed(Verdict.CRASHED, "it fell over")
            return on_paper(repeat, ended, say, forks)

        monkeypatch.setattr("workloads.harness.repeat.series.measure_or_skip", measure)
        assert main(["suite", "loadtest", "--quick", "--output", str(tmp_path / "r.json")]) == 1
        well, ill = json.loads((tmp_path / "r.json").read_text())["results"]
        assert (well["success"], ill["success"], ill["error_message"]) == (
            True,
            False,
            "crashed: it fell over",
        )

    def test_an_interrupt_keeps_measured_results(self, on_paper, tmp_path, monkeypatch):
        def measure(repeat, ended, say, forks):
            if len(ended) == 7:
                raise KeyboardInterrupt
            return on_paper(repeat, ended, say, forks)

        monkeypatch.setattr("workloads.harness.repeat.series.measure_or_skip", measure)
        assert main(["suite", "loadtest", "--output", str(tmp_path / "r.json")]) == 130
        found = json.loads((tmp_path / "r.json").read_text())
        assert found["test_summary"]["tests_not_run"] == 12 - len(found["results"]) > 0
        assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def options(*arguments):
    return parser("").parse_args(["suite", "loadtest", *arguments])


class TestPlan:
    def test_the_twelve_tests_in_their_order_with_their_descriptions(self):
        tests = command.planned(options(), load_suite("loadtest"))
        assert [test.name for test in tests] == TWELVE
        shown = [r["description"] for r in document(run_of(tests, [*map(failed_record, tests)]))["results"]]
        assert len(set(shown)) == 12
        for test, text in zip(tests, shown, strict=True):
            size = (
                {16: "Small", 32: "Medium", 64: "Large"}
                if test.model == "simple_cnn"
                else {8: "Small", 16: "Medium", 32: "Large"}
            )
            kind = "CNN" if test.model == "simple_cnn" else "ResNet"
            assert text.startswith(f"{size[test.batch]} batch {kind} {test.kind} - ")

    def test_each_test_has_its_computation_alone_and_the_plain_suite_has_both(self):
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

    def test_the_quick_plan_is_the_published_plan(self):
        tests = command.planned(options("--quick", "--num-workers=1"), load_suite("loadtest"))
        assert [test.job.id for test in tests] == [
            "simple_cnn_train_job/batch=16,epochs=1,batches=10,workers=1/fp32",
            "simple_cnn_infer_job/batch=32,batches=50,workers=1/fp32",
        ]

    def test_longer_tests_get_more_time(self):
        suite = load_suite("loadtest")
        tests = command.planned(options("--num-batches=2000"), suite)
        base = Repeat("r", "here", tests[0].job)
        given = {repeat.case: repeat.timeout_s for repeat in command.repeats(base, suite, tests, 1)}
        assert len(given) == 24
        assert given[tests[0].job] == 10 * suite.timeout_s
        assert given[tests[0].alone] == suite.timeout_s
