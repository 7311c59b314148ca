import pytest

from tests.flows.own_scripts import asked, check_records

pytestmark = [pytest.mark.cloud, pytest.mark.timeout(1800)]  # minutes: one of each kind


async def test_every_kind_is_measured_as_it_is(bench):
    run_id = await bench.start(**asked(bench, "local-cpu"))
    state = await bench.end(run_id, within_s=1500)
    assert state.is_completed(), state.message
    records, odd = (await bench.store(run_id)).records()
    assert not odd
    check_records(records, is_copy=False)
