import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from infra.lambda_cloud import shared_rate
from tests.emulators.own_server import AUTH, PrefectServer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = PrefectServer(tmp_path_factory.mktemp("server"))
    try:
        with temporary_settings({PREFECT_API_URL: made.wait().url, PREFECT_API_AUTH_STRING: AUTH}):
            yield made
    finally:
        made.stop()


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(shared_rate, "_off_until", {})
    monkeypatch.setattr(shared_rate, "LONGEST_S", {"call": 200.0, "launch": 200.0})


async def limited(what, decay):
    limit = GlobalConcurrencyLimitCreate(name=shared_rate.LIMITS[what], limit=1, slot_decay_per_second=decay)
    async with get_client() as client:
        await client.create_global_concurrency_limit(limit)


async def taken(what):
    async with get_client() as client:
        return (await client.read_global_concurrency_limit_by_name(shared_rate.LIMITS[what])).active_slots


async def test_a_shared_rate_limit_is_kept_and_waits_are_bounded(server, monkeypatch):
    await limited("launch", decay=0.0001)
    await shared_rate.shared_rate("launch")
    assert await taken("launch") == 1 and not shared_rate._off_until
    monkeypatch.setitem(shared_rate.LONGEST_S, "launch", 0.5)
    await shared_rate.shared_rate("launch")  # in vain, and then without
    assert await taken("launch") == 1 and list(shared_rate._off_until) == ["launch"]


async def test_a_turn_comes_when_the_slot_has_decayed(server):
    await limited("call", decay=4.0)
    for _ in range(3):
        await shared_rate.shared_rate("call")
    assert not shared_rate._off_until, "every turn was had"


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:1/api"], ids=["no limit", "no server"])
async def test_without_a_limit_or_a_server_it_is_asked_for_once(server, monkeypatch, url):
    monkeypatch.setitem(shared_rate.LIMITS, "launch", f"never-made-{url is None}".lower())
    monkeypatch.setitem(shared_rate.LONGEST_S, "launch", 0.5)
    asked = []
    real = shared_rate.rate_limit

    async def rate_limit(name, **options):
        asked.append(name)
        await real(name, **options)

    monkeypatch.setattr(shared_rate, "rate_limit", rate_limit)
    with temporary_settings({PREFECT_API_URL: url or server.url}):
        await shared_rate.shared_rate("launch")
        await shared_rate.shared_rate("launch")
    assert asked == [shared_rate.LIMITS["launch"]]
