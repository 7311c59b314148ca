"""The commands `gridbench lambda …` against the stand-in of Lambda's API."""

import asyncio
import dataclasses
import json
from datetime import UTC, datetime, timedelta

import pytest

from gridbench import main
from infra.lambda_cloud.lease import new_lease
from tests.emulators.lambda_cloud.quick import PUBLIC_KEY, client, request
from tests.emulators.lambda_cloud.server import lambda_cloud

NOW = datetime.now(UTC).replace(microsecond=0)
HOUR = timedelta(hours=1)


@pytest.fixture
def cloud(monkeypatch):
    with lambda_cloud() as cloud:
        cloud.control.capacity = dict.fromkeys(cloud.control.capacity, 9)
        monkeypatch.setenv("LAMBDA_API_KEY", cloud.control.key)
        monkeypatch.setenv("LAMBDA_API_URL", cloud.url)
        yield cloud


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs the command; returns its exit code and what it printed."""

    def run(*words):
        monkeypatch.setattr("sys.argv", ["gridbench", *words])
        with pytest.raises(SystemExit) as left:
            main.main()
        printed = capsys.readouterr()
        return left.value.code or 0, printed.out + printed.err

    return run


def launch(cloud, until):
    async def launched():
        lease = dataclasses.replace(new_lease("a-run", "lambda-1x-a10", until, 1.29), since=NOW - HOUR)
        async with client(cloud) as api:
            await api.add_ssh_key(lease.name, PUBLIC_KEY)
            return await api.launch(request(lease.name, lease.name, tags=lease.tags))

    return asyncio.run(launched())


def test_an_empty_account(cloud, run):
    assert run("rented") == (0, "nothing of ours runs at Lambda Cloud\n")
    assert run("janitor") == (0, "nothing of ours is overdue at Lambda Cloud\n")
    assert run("rented", "--json") == (0, "[]\n")


def test_what_runs_is_listed_until_the_janitor_has_returned_what_is_overdue(cloud, run):
    late, fresh = launch(cloud, NOW - HOUR / 2), launch(cloud, NOW + HOUR)
    code, text = run("rented", "--json")
    listed = json.loads(text)
    assert code == 1
    assert [(row["id"], row["overdue"]) for row in listed] == [(late, True), (fresh, False)]
    assert listed[0]["cost_usd"] >= 1.29 and listed[0]["run"] == "a-run"
    code, text = run("rented")
    assert code == 1 and "overdue" in text
    code, text = run("janitor")
    assert code == 0 and late in text and fresh not in text
    assert {instance.id for instance in cloud.account.running()} == {fresh}
    assert run("rented")[0] == 0


def test_one_box_is_given_back_or_all_of_them(cloud, run):
    first, second, third = (launch(cloud, NOW + HOUR) for _ in range(3))
    code, text = run("give-back", second)
    assert code == 0 and second in text and first not in text
    assert {instance.id for instance in cloud.account.running()} == {first, third}
    assert run("give-back", "nobody's")[0] == 2 == run("give-back")[0] == run("give-back", first, "--all")[0]
    assert len(cloud.account.running()) == 2, "a mistake gives nothing back"
    code, text = run("give-back", "--all")
    assert code == 0 and text.endswith("nothing of ours runs at Lambda Cloud any more\n")
    assert cloud.account.running() == []


def test_a_key_that_is_missing_or_wrong_is_one_sentence(cloud, run, monkeypatch):
    monkeypatch.setenv("LAMBDA_API_KEY", "secret_wrong")
    for command in ("rented", "janitor"):
        code, text = run(command)
        assert code == 2 and text.startswith("error: Lambda refuses the key") and "secret_wrong" not in text
    monkeypatch.delenv("LAMBDA_API_KEY")
    code, text = run("rented")
    assert code == 2 and text.startswith("error: Lambda's API needs a key: set LAMBDA_API_KEY")
