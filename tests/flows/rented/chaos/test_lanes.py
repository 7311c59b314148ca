import asyncio
import json
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from infra.lambda_cloud.janitor import sweep
from tests.emulators.lambda_cloud.quick import client, nothing_left
from tests.exit_codes import assert_measured
from tests.flows.rented.lanes import MEASURED, paid, run_of

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]


def test_a_box_that_lambda_takes_back_is_replaced_and_nothing_is_measured_twice(gridbench, cloud):
    running = gridbench.start("run", "rented", "--on", "lambda-cpu")
    gridbench.records(at_least=2)
    cloud.account.preempt(cloud.account.launched[0])
    assert_measured(running.wait(1200), gridbench.words())
    store, records, bills = run_of(gridbench)
    assert len(records) == 4 and {r.verdict for r in records} <= MEASURED
    boxes = paid(store, "lambda-cpu")
    assert len(boxes) == len(cloud.account.launched) == 2
    assert bills["lambda-cpu"].usd == pytest.approx(sum(boxes)), "both boxes were paid for"
    asked = [note["repeats"] for note in json.loads((store.folder / "jobs.json").read_text())]
    assert max(asked) == 4 and sorted(asked)[-2] < 4, "what had come is not asked for again"


def test_ctrl_c_stops_the_container_and_gives_the_box_back(gridbench, cloud):
    running = gridbench.start("run", "rented", "--on", "lambda-cpu")
    gridbench.records()
    running.send_signal(signal.SIGINT)
    assert running.wait(600) == 130, gridbench.words()
    deadline = time.monotonic() + 120
    while not nothing_left(cloud):
        assert time.monotonic() < deadline, gridbench.words()
        time.sleep(0.2)
    assert run_of(gridbench)[1], "what had come is kept"


def test_after_a_power_cut_the_box_is_shown_until_the_janitor_gives_it_back_at_its_deadline(gridbench, cloud):
    gridbench.start("run", "rented", "--on", "lambda-cpu")
    gridbench.records()
    gridbench.cut_the_power()
    (box,) = cloud.account.running()
    code, text = gridbench("lambda", "rented", "--json")
    (row,) = json.loads(text)
    assert (code, row["id"], row["hardware"], row["overdue"]) == (0, box.id, "lambda-cpu", False)
    assert row["cost_usd"] > 0
    assert gridbench("lambda", "janitor") == (0, "no machine of Gridbench is overdue at Lambda Cloud\n")
    due = datetime.fromisoformat(row["until"]) + timedelta(minutes=1)
    assert due - datetime.now(UTC) < timedelta(hours=2)

    async def later(now):
        async with client(cloud) as api:
            return await sweep(api, now, print)

    assert asyncio.run(later(due)).returned == (box.id,)
    assert asyncio.run(later(due + timedelta(hours=2))).removed_keys
