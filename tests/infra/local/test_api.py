import httpx
import pytest

from infra.local import api
from infra.local.errors import LocalStackError

BUSY = httpx.Response(503, json={"exception_message": "Service Unavailable"})  # as Prefect 3.8.8 says it


def server(answers):
    asked = []

    def answer(request):
        asked.append((request.method, request.url.path))
        return answers.pop(0) if len(answers) > 1 else answers[0]

    return httpx.Client(transport=httpx.MockTransport(answer), base_url="http://api"), asked


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(api, "AGAIN_S", 0.0)


def test_a_pool_is_asked_for_again_while_the_database_is_locked():
    client, asked = server([BUSY, BUSY, httpx.Response(409), BUSY, httpx.Response(204)])
    api.create_pool(client, "local")
    assert asked == [("POST", "/work_pools/")] * 3 + [("PATCH", "/work_pools/local")] * 2


def test_a_database_that_stays_locked_is_reported(monkeypatch):
    monkeypatch.setattr(api, "BUSY_S", 0.01)
    client, asked = server([BUSY])
    with pytest.raises(LocalStackError, match=r"pool local could not be created.+Service Unavailable"):
        api.create_pool(client, "local")
    assert len(asked) > 1
