"""Controls: a repeat once more beside itself in a frozen environment; none of its troubles costs the record."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from workloads.harness.probes.frozen import CODE, MARK, content_id, versions
from workloads.harness.records.case import Case
from workloads.harness.records.parts import Control
from workloads.harness.records.record import Record, Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.control import NOT_FROZEN, run_control
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.series import measure_or_skip

ROOT = Path(__file__).parents[4]
CASE = Case.of("matmul", {"n": 64})
NOBODY = ("/no/such/reference/bin/python", "-P", "-m", "workloads")


def repeat_of(number=1, **more):
    return Repeat("a-run", "a-box", CASE, repeat=number, **{"threads": 1, "timeout_s": 300.0, **more})


def printing(number=1, **changes):
    """A command that prints a record, as a measuring process does."""
    wall = {
        "samples_s": [2.0],
        "block": 1,
        "median_s": 2.0,
        "ci_low_s": None,
        "ci_high_s": None,
        "p95_s": 2.0,
        "max_s": 2.0,
        "outliers_mild": 0,
        "outliers_severe": 0,
        "steady": True,
        "precision_reached": True,
    }
    raw = json.loads(Record("a-run", "a-box", CASE, number, Verdict.OK).to_json())
    raw |= {"wall": wall, "environment_id": "here", "environment": {"reference": None}, **changes}
    return (
        sys.executable,
        "-c",
        f"import sys; print({json.dumps(raw)!r}); print(*sys.argv, file=sys.stderr)",
    )


def frozen(number=1, **changes):
    return printing(number, environment={"reference": "abc"}, environment_id="there", **changes)


class TestWithoutTorch:
    """What the lane makes of a control, with processes that are over at once."""

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

    def test_there_is_none_where_none_is_asked_for(self, box_lock):
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
        ("script", "verdict", "words"),
        [
            ("raise SystemExit('no more')", "crashed", "ended with code 1 (no more)"),
            ("import os; os.abort()", "crashed", "killed by SIGABRT"),
            ("print('{')", "crashed", "ended with code 0"),
            ("import time; time.sleep(600)", "timeout", "no result within 5 s"),
        ],
    )
    def test_one_that_dies_says_why_and_the_record_stands(self, box_lock, script, verdict, words):
        record = self.measured((sys.executable, "-c", script), timeout_s=5.0)
        assert (record.verdict, record.compute_s) == (Verdict.OK, 2.0)
        assert (record.control.verdict, record.control.compute_s) == (verdict, None)
        assert words in record.control.reasons[0]

    @pytest.mark.parametrize("number", [1, 2])
    def test_a_reference_that_is_not_there_says_so(self, box_lock, number):
        record = self.measured(NOBODY, number)
        assert record.verdict is Verdict.OK
        assert (record.control.verdict, record.control.reference) == ("unsupported", "")
        (reason,) = record.control.reasons
        assert reason.startswith(f"the reference command {NOBODY[0]} can't be started (No such file")
        assert "`reference` in the hardware file" in reason

    def test_one_that_is_not_ok_keeps_its_verdict(self, box_lock):
        record = self.measured(frozen(verdict="noisy", reasons=["a neighbour"]))
        assert record.verdict is Verdict.OK
        assert (record.control.verdict, record.control.reasons) == ("noisy", ("a neighbour",))

    def test_code_that_is_not_frozen_is_none(self, box_lock):
        control = self.measured(printing()).control
        assert (control.verdict, control.reasons, control.compute_s) == ("unsupported", (NOT_FROZEN,), None)

    def test_a_repeat_without_a_time_needs_none_after_it(self, box_lock):
        record = self.measured(frozen(), command=(sys.executable, "-c", "1 / 0"))
        assert (record.verdict, record.control) == (Verdict.CRASHED, None)

    def test_a_skipped_repeat_needs_none(self, box_lock):
        ended = [Record("a-run", "a-box", CASE, 1, Verdict.OUT_OF_MEMORY)]
        record = measure_or_skip(repeat_of(2), ended, pytest.fail, NOBODY, NOBODY)
        assert (record.verdict, record.control) == (Verdict.SKIPPED, None)


@pytest.fixture
def reference(tmp_path, box_lock):
    """A frozen copy of the workloads that differs from the checkout, with this environment's packages."""
    code = tmp_path / "frozen" / "workloads"
    shutil.copytree(CODE, code, ignore=shutil.ignore_patterns("__pycache__"))
    (code / "matmul.py").write_text((code / "matmul.py").read_text() + "# as it was\n")
    (code / MARK).write_text("{}\n")
    path = f"PYTHONPATH={code.parent}"
    return code, ("/usr/bin/env", path, sys.executable, "-P", "-m", "workloads")


@pytest.mark.server
class TestForReal:
    """The same through `python -m workloads` and torch."""

    def test_both_are_measured_and_tell_their_code(self, reference):
        code, command = reference
        record = measure_or_skip(repeat_of(quick=True), [], lambda text: None, reference=command)
        assert record.compute_s > 0 and record.environment["reference"] is None
        assert record.control.compute_s > 0
        assert record.control.reference == content_id(code, versions()) != content_id(CODE, versions())
        assert record.control.environment_id == record.environment_id  # the same stack on the same machine
        assert record.control.started_at >= record.started_at

    def controlled(self, repeat, command):
        with whole_box() as lock:
            return run_control(repeat, lock, lambda text: None, command)

    def test_no_variable_leads_it_to_other_code(self, reference, monkeypatch, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "broken.py").write_text("1 / 0\n")
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.setenv("GRIDBENCH_WORKLOADS", str(tmp_path / "mine"))
        monkeypatch.chdir(ROOT)
        code, command = reference
        assert self.controlled(repeat_of(trial=True), command).reference == content_id(code, versions())

    @pytest.mark.chaos
    def test_nor_do_its_ranks_find_the_checkout_where_they_work(self, reference, monkeypatch):
        monkeypatch.chdir(ROOT)
        code, command = reference
        case = Case.of("ddpm_weak", {"batch": 1, "processes": 2})
        control = self.controlled(
            Repeat("a-run", "a-box", case, threads=1, trial=True, timeout_s=300), command
        )
        if control.verdict == "unsupported" and "2 CPUs" in control.reasons[0]:
            pytest.skip(control.reasons[0])
        assert control.reference == content_id(code, versions()), control

    def test_the_checkout_is_no_reference(self, box_lock):
        command = ("/usr/bin/env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "workloads")
        control = self.controlled(repeat_of(trial=True), command)
        assert (control.verdict, control.reasons) == ("unsupported", (NOT_FROZEN,))
        assert os.environ.get("PYTHONSAFEPATH") is None  # its own process had it, not this one
