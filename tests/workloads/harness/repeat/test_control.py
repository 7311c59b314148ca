import sys

import pytest

from tests.workloads.harness.repeat.controls import CASE, frozen, printing, repeat_of
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Record, Verdict
from workloads.harness.repeat.control import NOT_FROZEN
from workloads.harness.repeat.runs import run_repeat
from workloads.harness.repeat.series import measure_or_skip

NOBODY = ("/no/such/reference/bin/python", "-P", "-m", "workloads")


class TestWithoutTorch:
    def measured(self, reference, number=1, command=None, **more):
        self.said = []
        command = command or printing(number)
        record = measure_or_skip(repeat_of(number, **more), [], self.said.append, command, reference)
        assert Record.from_json(record.to_json()) == record
        return record

    def test_is_attached_to_the_record(self, box_lock):
        record = self.measured(frozen(started_at="2026-01-01T00:00:00+00:00", reasons=["as it was"]))
        assert (record.verdict, record.compute_s, record.environment_id) == (Verdict.OK, 2.0, "here")
        assert record.control == Control(
            "abc", "ok", ("as it was",), 2.0, "there", "2026-01-01T00:00:00+00:00"
        )

    def test_without_a_reference_there_is_no_control(self, box_lock):
        assert self.measured(()).control is None

    @pytest.mark.parametrize(("number", "first"), [(1, False), (2, True), (3, False), (4, True)])
    def test_repeats_and_controls_take_turns(self, box_lock, number, first):
        self.measured(frozen(number), number)
        words = [text.split()[0] for text in self.said]
        assert words == ([f"{repeat_of(number).id}:", "-c", "-c"] if first else ["-c", words[1], "-c"])
        assert words[1 - first].startswith("a-box/matmul")

    def test_makes_no_profile(self, box_lock):
        self.measured(frozen(), profile=True)
        watched, _, control = self.said
        assert "--profile" in watched and "--profile" not in control
        assert watched.replace(" --profile", "") == control

    @pytest.mark.parametrize(
        ("script", "timeout_s", "verdict", "words"),
        [
            ("raise SystemExit('no more')", 60.0, "crashed", "ended with code 1 (no more)"),
            ("import os; os.abort()", 60.0, "crashed", "killed by SIGABRT"),
            ("print('{')", 60.0, "crashed", "ended with code 0"),
            ("import time; time.sleep(600)", 5.0, "timeout", "no result within 5 s"),
        ],
    )
    def test_a_control_that_dies_gives_the_reason_and_the_record_stands(
        self, box_lock, script, timeout_s, verdict, words
    ):
        record = self.measured((sys.executable, "-c", script), timeout_s=timeout_s)
        assert (record.verdict, record.compute_s) == (Verdict.OK, 2.0)
        assert (record.control.verdict, record.control.compute_s) == (verdict, None)
        assert words in record.control.reasons[0]

    @pytest.mark.parametrize("number", [1, 2])
    def test_a_missing_reference_command_is_reported(self, box_lock, number):
        record = self.measured(NOBODY, number)
        assert record.verdict is Verdict.OK
        assert (record.control.verdict, record.control.reference) == ("unsupported", "")
        (reason,) = record.control.reasons
        assert reason.startswith(f"the reference command {NOBODY[0]} can't be started (No such file")
        assert "`reference` in the hardware file" in reason

    def test_a_control_that_is_not_ok_keeps_its_verdict(self, box_lock):
        record = self.measured(frozen(verdict="noisy", reasons=["a neighbour"]))
        assert record.verdict is Verdict.OK
        assert (record.control.verdict, record.control.reasons) == ("noisy", ("a neighbour",))

    def test_code_that_is_not_frozen_is_no_control(self, box_lock):
        control = self.measured(printing()).control
        assert (control.verdict, control.reasons, control.compute_s) == ("unsupported", (NOT_FROZEN,), None)

    def test_a_repeat_without_a_time_needs_none_after_it(self, box_lock):
        record = self.measured(frozen(), command=(sys.executable, "-c", "1 / 0"))
        assert (record.verdict, record.control) == (Verdict.CRASHED, None)

    def partner(self, number, other):
        repeat = repeat_of(number, seed=number)
        own = measure_or_skip(repeat, [], self.said.append, printing(number), (), None, other)
        assert Record.from_json(own.to_json()) == own
        return own

    def test_another_version_is_measured_before_or_after_it_as_is_drawn(self, box_lock):
        orders = []
        for number in range(1, 9):
            self.said = []

            def other(lock, number=number):
                self.said.append("the other")
                command = printing(number, environment_id="there")
                return run_repeat(repeat_of(number), lock, self.said.append, command)

            control = self.partner(number, other).control
            assert (control.verdict, control.compute_s, control.environment_id) == ("ok", 2.0, "there")
            orders.append(self.said.index("the other"))
        assert {*orders} == {0, 1}

    def test_a_version_that_does_not_start_leaves_the_record(self, box_lock):
        self.said = []

        def other(lock):
            raise FileNotFoundError(2, "No such file or directory")

        record = self.partner(1, other)
        assert (record.verdict, record.control.verdict) == (Verdict.OK, "unsupported")
        assert record.control.reasons == (
            "the command of the version can't be started (No such file or directory)",
        )

    def test_a_skipped_repeat_needs_no_control(self, box_lock):
        ended = [Record("a-run", "a-box", CASE, 1, Verdict.OUT_OF_MEMORY)]
        record = measure_or_skip(repeat_of(2), ended, pytest.fail, NOBODY, NOBODY)
        assert (record.verdict, record.control) == (Verdict.SKIPPED, None)
