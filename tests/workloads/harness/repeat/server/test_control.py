import os
import sys
from pathlib import Path

import pytest

from tests.workloads.harness.repeat.controls import repeat_of
from workloads.harness.probes.frozen import CODE, content_id, versions
from workloads.harness.records.case import Case
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.control import NOT_FROZEN, run_control
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.series import measure_or_skip

ROOT = Path(__file__).parents[5]


class TestForReal:
    def test_repeat_and_control_are_measured_and_name_their_code(self, reference):
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
