import sys
from pathlib import Path

import pytest

from infra.images.context import revision
from tasks.gather import judged
from tests.flows.batch.lanes import MEASURED

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]
HERE = Path(__file__).parents[1]
AWAY = ("ssh-box", "cloud-c5", "node-l4")
RATE = """
title = "A command in an image of its own"
repeats = 1
quick = true
timeout_s = 120
[[commands]]
name = "rate"
run = "python3 rate.py {{ms}}"
folder = {folder!r}
size = {{ ms = [200] }}
metrics = ["widgets/s: rate ([0-9.]+)"]
estimate_s = 5
image = {image!r}
"""


async def ended(bench, suite, hardware):
    asked = {"suite": str(suite), "hardware": hardware, "results": str(bench.results)}
    run_id = await bench.start(request=asked)
    state = await bench.end(run_id, within_s=1400)
    assert state.is_completed(), state.message
    store = await bench.store(run_id)
    records, odd = store.records()
    assert not odd and len(records) == len(store.plan.cells) * store.plan.repeats
    failed = [(r.cell.id, r.verdict, r.reasons) for r in records if r.verdict not in MEASURED]
    assert not failed
    return store, records


async def test_one_suite_of_every_kind_is_answered_on_every_kind_of_machine(bench, cloud, cluster, box):
    machines = ["local-cpu-1", *AWAY]
    store, records = await ended(bench, HERE / "every_kind.toml", machines)
    found = judged(records, store)
    assert {summary.cell for summary in found.summaries} == set(store.plan.cells)
    assert all(summary.ok_repeats or summary.why for summary in found.summaries)  # as on a busy machine
    assert {record.case.workload for record in records} == {"nap", "plain", "rate", "answers"}
    assert {record.hardware for record in records} == set(machines)
    served = [record for record in records if record.case.workload == "answers"]
    assert all(record.script.program.serving.ready_s > 0 for record in served)
    told = " ".join((*found.answer, *found.details))
    answered = {summary.cell.case.workload for summary in found.summaries if summary.ok_repeats}
    for name, words in (("rate", "widgets/s of rate"), ("answers", "requests/s of answers")):
        assert name not in answered or words in told, told
    page = (store.folder / "report.html").read_text()
    assert all(name in page for name in ("nap", "plain", "rate", "answers", *machines))


async def test_a_command_runs_in_an_image_without_our_code(bench, cloud, cluster, box, foreign, tmp_path):
    suite = tmp_path / "rate.toml"
    suite.write_text(RATE.format(folder=str(HERE / "programs"), image=foreign))
    _, records = await ended(bench, suite, [*AWAY])
    assert {record.hardware for record in records} == set(AWAY)
    for record in records:
        assert record.script.image == foreign and record.environment["commit"] == revision()
        (metric,) = record.metrics
        assert metric.thing == "widgets" and metric.value > 1000
        (python, *_) = record.script.program.output
        assert python != f"python {sys.executable}"
