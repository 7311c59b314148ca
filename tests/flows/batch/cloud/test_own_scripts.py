import pytest

from tests.flows.own_scripts import asked, check_records

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]


async def test_every_kind_is_measured_as_it_is(bench, cloud):
    run_id = await bench.start(**asked(bench, "cloud-c5"))
    state = await bench.end(run_id, within_s=1500)
    assert state.is_completed(), state.message
    records, odd = (await bench.store(run_id)).records()
    assert not odd
    check_records(records, is_copy=True)
