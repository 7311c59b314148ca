import json

import pytest

from tests.flows.bench_runs import artifacts

pytestmark = pytest.mark.flaky(
    reruns=2, reason="a real Prefect server and its workers answer late where the machine is busy"
)


async def test_each_session_is_a_lane_job_and_the_report_has_their_spread(bench):
    run_id = await bench.start(suite="race", hardware=["sloping", "flat"], sessions=2)
    assert (await bench.end(run_id)).is_completed()
    store = await bench.store(run_id)
    records, odd = store.records()
    assert not odd and len(records) == 12
    assert {(record.repeat, record.session) for record in records} == {(1, 1), (2, 2), (3, 1)}
    jobs = json.loads((store.folder / "jobs.json").read_text())
    assert [job["repeats"] for job in jobs] == [8, 4]
    ends = [
        max(r.started_at for r in records if r.session == 1),
        min(r.started_at for r in records if r.session == 2),
    ]
    assert ends == sorted(ends), "the second session begins after the first"
    published = json.loads((store.folder / "benchmark_results.json").read_text())
    spread = {each["hardware"]: each for each in published["session_spread"]}
    assert spread.keys() == {"sloping", "flat"} and spread["flat"]["processes"] == pytest.approx(
        2e-3 / 2**0.5, rel=0.1
    )
    assert not spread["flat"]["are_apart"]
    assert "bench-plan" in await artifacts(bench, run_id)
    assert "turns of one box in a row" in (store.folder / "report.html").read_text()
