import pytest

from tests.flows.gke.lanes import finished
from tests.flows.own_scripts import asked, check_records

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]


async def test_every_kind_is_measured_as_it_is(bench, cluster):
    _, records = await finished(bench, await bench.start(**asked(bench, "node-l4")))
    check_records(records, is_copy=True)
