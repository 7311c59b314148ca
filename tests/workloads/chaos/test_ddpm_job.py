import pytest

from tests.workloads.harness.group.small_groups import MEASURED
from workloads.harness.records.record import Record
from workloads.harness.records.repeat import Repeat
from workloads.harness.registry import find
from workloads.harness.repeat.exclusive import whole_box
from workloads.harness.repeat.runs import run_repeat

pytestmark = pytest.mark.usefixtures("one_thread")


def test_two_processes_do_the_whole_job(box_lock):
    case = find("ddpm_job").case({"images": 4, "batch": 1, "processes": 2})
    with whole_box() as lock:
        record = run_repeat(Repeat("a-run", "a-box", case, quick=True, timeout_s=280), lock, print)
    assert record.verdict in MEASURED, record.reasons
    assert len(record.group.ranks) == 2
    assert record.work.parameters == 35_746_307 and record.work.units == 4
    assert Record.from_json(record.to_json()) == record
    assert len(record.training.losses) == len(record.training.step_s) == 2
    assert [(m.step, m.rank) for m in record.training.memory] == [(2, 0), (2, 1)]
