"""`gridbench run` on rented boxes: an emulated Lambda whose instances are real SSH servers with containers."""

import json

import pytest

from tasks.dispatch.job_notes import BOOT, REST
from tests.exit_codes import assert_measured
from tests.flows.rented.lanes import MEASURED, paid, run_of
from workloads.harness.records.record import Verdict

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]


def test_boxes_are_rented_measured_on_billed_compared_and_returned(gridbench, cloud):
    code, text = gridbench("run", "rented", "--on", "lambda-cpu", "--boxes", "2", "--budget-usd", "1")
    assert_measured(code, text)
    store, records, bills = run_of(gridbench)
    assert len(records) == 8 and {r.verdict for r in records} <= MEASURED
    assert [*bills] == ["lambda-cpu.1", "lambda-cpu.2"] and len(cloud.account.launched) == 2
    for name, bill in bills.items():
        (usd,) = paid(store, name)
        assert bill.usd == pytest.approx(usd) == pytest.approx(bill.billed_s / 3600 * 1.29)
        assert {BOOT, REST, "idle"} <= dict(bill.parts_s).keys() and round(bill.billed_s, 6) % 60 == 0
    results = json.loads((store.folder / "benchmark_results.json").read_text())
    fine = [{r.case for r in records if r.hardware == name and r.verdict is Verdict.OK} for name in bills]
    told = [found["shape"] for found in results["siblings"]]
    assert told == (["lambda-cpu"] if set.intersection(*fine) else []), "compared where both were undisturbed"
    assert BOOT in (store.folder / "report.html").read_text()
