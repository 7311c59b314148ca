import pytest

from tasks.findings.outlook import Outlook
from tasks.gather import judged
from tasks.store.store import Store
from tests.exit_codes import assert_measured
from tests.flows.own_scripts import SUITE
from tests.flows.rented.lanes import MEASURED

SCRIPTS = SUITE.parents[1] / "workloads" / "harness" / "script" / "server" / "scripts"
WORDS = (
    "--on",
    "local-cpu-1",
    "--on",
    "lambda-cpu",
    "--repeats",
    "2",
    "--folder",
    str(SCRIPTS),
    "--",
    "convnet.py",
)

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]


def runs(gridbench):
    folders = sorted((gridbench.folder / "results").glob("*/plan.json"))
    return [Store.open(path.parents[1], path.parent.name) for path in folders]


def measured(store):
    records, odd = store.records()
    assert not odd and {record.verdict for record in records} <= MEASURED
    return {record.hardware for record in records}


def test_a_box_is_rented_only_if_the_budget_has_enough_left_for_it(gridbench, cloud):
    code, text = gridbench("train", "--offers", "--budget-usd", "0.01", *WORDS)
    assert_measured(code, text)
    assert "local-cpu-1 is measured first; then, within the budget" in text
    (store,) = runs(gridbench)
    assert measured(store) == {"local-cpu-1"} and not cloud.account.launched
    code, text = gridbench("train", "--offers", "--budget-usd", "1", *WORDS)
    assert_measured(code, text)
    store = runs(gridbench)[-1]
    assert measured(store) == {"local-cpu-1", "lambda-cpu"}, (
        "nothing predicts the box: no roof of it is known"
    )
    assert len(cloud.account.launched) == 1
    found = judged(store.records()[0], store)
    assert found.finding(Outlook).rows == () and {s.cell.hardware for s in found.summaries} == measured(store)
