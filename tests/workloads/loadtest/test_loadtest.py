"""The load test's options, its JSON key by key, and what becomes of tests that fail."""

from tests.workloads.loadtest.load_runs import TWELVE, failed_record, run_of
from workloads.command.parser import parser
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.suite import load_suite
from workloads.loadtest import command
from workloads.loadtest.report import document


def options(*arguments):
    """Return the parsed arguments of the command `suite`."""
    return parser("").parse_args(["suite", "loadtest", *arguments])


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
        suite = load_suite("loadtest")
        tests = command.planned(options("--num-batches=2000"), suite)
        base = Repeat("r", "here", tests[0].job)
        given = {repeat.case: repeat.timeout_s for repeat in command.repeats(base, suite, tests, 1)}
        assert len(given) == 24
        assert given[tests[0].job] == 10 * suite.timeout_s
        assert given[tests[0].alone] == suite.timeout_s
