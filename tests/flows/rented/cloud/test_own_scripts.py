import pytest

from tests.exit_codes import assert_measured
from tests.flows.own_scripts import SUITE, check_records
from tests.flows.rented.lanes import run_of

pytestmark = [
    pytest.mark.flaky(
        reruns=2, reason="containers, sshd and a Prefect server answer late where the machine is busy"
    ),
    pytest.mark.timeout(1800),
]


def test_every_kind_is_measured_as_it_is(gridbench, cloud):
    code, text = gridbench("run", str(SUITE), "--on", "lambda-cpu", "--budget-usd", "1")
    assert_measured(code, text)
    check_records(run_of(gridbench)[1], is_copy=True)
