import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_WORKER_QUERY_SECONDS, temporary_settings

from infra.workers.base.settings import QUERY_S, query_s

OWN, CLOUD = "http://prefect.example/api", "https://api.prefect.cloud/api/accounts/a/workspaces/b"


@pytest.mark.parametrize(
    ("settings", "expected_s"),
    [
        ({PREFECT_API_URL: OWN}, QUERY_S),
        ({PREFECT_API_URL: OWN, PREFECT_WORKER_QUERY_SECONDS: 7}, 7),
        ({PREFECT_API_URL: CLOUD}, 10),
        ({PREFECT_API_URL: CLOUD, PREFECT_WORKER_QUERY_SECONDS: 3}, 3),
    ],
)
def test_a_worker_looks_every_two_seconds_unless_it_is_told_otherwise_or_requests_are_limited(
    settings, expected_s
):
    with temporary_settings(settings):
        assert query_s() == expected_s
