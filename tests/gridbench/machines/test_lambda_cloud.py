import asyncio
import dataclasses
import json

import pytest

from gridbench import main
from gridbench.run import session
from infra.lambda_cloud import janitor
from infra.lambda_cloud.lease import new_lease
from tasks.errors import GridbenchError
from tests.emulators.lambda_cloud.quick import PACE, PUBLIC_KEY, client, request, soon
from tests.emulators.lambda_cloud.server import lambda_cloud

HOUR_S = 3600  # from the test's start, which can be long after its file was read


@pytest.fixture
def cloud(monkeypatch):
    with lambda_cloud() as cloud:
        cloud.control.capacity = dict.fromkeys(cloud.control.capacity, 9)
        monkeypatch.setenv("LAMBDA_API_KEY", cloud.control.key)
        monkeypatch.setenv("LAMBDA_API_URL", cloud.url)
        monkeypatch.setattr(janitor, "HASTE", PACE)
        yield cloud


@pytest.fixture
def run(monkeypatch, capsys):
    def apart(*words):
        monkeypatch.setattr("sys.argv", ["gridbench", *words])
        with pytest.raises(SystemExit) as left:
            main.main()
        printed = capsys.readouterr()
        return left.value.code or 0, printed.out, printed.err

    def run(*words):
        code, out, err = apart(*words)
        return code, out + err

    run.apart = apart
    return run


def launch(cloud, until):
    async def launched():
        lease = dataclasses.replace(new_lease("a-run", "lambda-1x-a10", until, 1.29), since=soon(-HOUR_S))
        async with client(cloud) as api:
            await api.add_ssh_key(lease.name, PUBLIC_KEY)
            return await api.launch(request(lease.name, lease.name, tags=lease.tags))

    return asyncio.run(launched())


def test_an_empty_account_has_nothing_rented_and_nothing_overdue(cloud, run):
    assert run("lambda", "rented") == (0, "no machine of Gridbench runs at Lambda Cloud\n")
    assert run("lambda", "janitor") == (0, "no machine of Gridbench is overdue at Lambda Cloud\n")
    assert run("lambda", "rented", "--json") == (0, "[]\n")


def test_overdue_machines_are_returned_before_running_ones_are_listed(cloud, run):
    late, fresh = launch(cloud, soon(-HOUR_S / 2)), launch(cloud, soon(HOUR_S))
    code, out, err = run.apart("lambda", "rented", "--json")
    (row,) = json.loads(out)
    assert (code, row["id"], row["overdue"]) == (0, fresh, False)
    assert row["cost_usd"] >= 1.29 and row["run"] == "a-run"
    assert late in err and "is given back" in err
    assert {instance.id for instance in cloud.account.running()} == {fresh}
    assert run("lambda", "janitor") == (0, "no machine of Gridbench is overdue at Lambda Cloud\n")


def test_a_machine_that_can_not_be_returned_is_listed_as_overdue(cloud, run, monkeypatch):
    monkeypatch.setattr(janitor, "HASTE", dataclasses.replace(PACE, return_s=0.05))
    late = launch(cloud, soon(-HOUR_S / 2))
    cloud.control.deaf = 10**9
    code, text = run("lambda", "rented")
    assert code == 1 and "overdue" in text and late in text


@pytest.mark.parametrize(
    "words",
    [
        ("run", "loadtest", "--on", "lambda-1x-a10", "--budget-usd", "50"),
        ("lambda", "give-back", "nobody"),
        ("lambda", "janitor"),
    ],
)
def test_every_lambda_command_returns_overdue_machines_first(cloud, run, monkeypatch, words):
    def nothing_more(*_, **__):
        raise GridbenchError("only what comes before is of interest")

    monkeypatch.setattr(session, "session", nothing_more)
    launch(cloud, soon(-HOUR_S / 2))
    run(*words)
    assert cloud.account.running() == []


def test_the_worst_case_in_usd_is_reported_before_anything_is_rented(cloud, run):
    words = ("run", "loadtest", "--on", "lambda-1x-a10", "--dry-run", "--budget-usd")
    code, text = run(*words, "50")
    assert code == 0 and "lambda-1x-a10" in text and "at most 8.0 h at 1.55 USD an hour, 12.38 USD" in text
    assert "13.67 USD by its deadline in 8.8 h" in text
    assert "at most 6.5 h at 1.55 USD an hour, 10.01 USD" in run(*words, "10")[1]


def test_lambda_return_gives_back_a_named_box_or_all_boxes(cloud, run):
    first, second, third = (launch(cloud, soon(HOUR_S)) for _ in range(3))
    code, text = run("lambda", "give-back", second)
    assert code == 0 and second in text and first not in text
    assert {instance.id for instance in cloud.account.running()} == {first, third}
    assert (
        run("lambda", "give-back", "nobody's")[0]
        == 2
        == run("lambda", "give-back")[0]
        == run("lambda", "give-back", first, "--all")[0]
    )
    assert len(cloud.account.running()) == 2, "a mistake gives nothing back"
    code, text = run("lambda", "give-back", "--all")
    assert code == 0 and text.endswith("no machine of Gridbench runs at Lambda Cloud any more\n")
    assert cloud.account.running() == []


def test_a_key_that_is_missing_or_wrong_is_one_sentence(cloud, run, monkeypatch):
    monkeypatch.setenv("LAMBDA_API_KEY", "secret_wrong")
    for command in ("rented", "janitor"):
        code, text = run("lambda", command)
        assert code == 2 and text.startswith("error: Lambda refuses the key") and "secret_wrong" not in text
    monkeypatch.delenv("LAMBDA_API_KEY")
    code, text = run("lambda", "rented")
    assert code == 2 and text.startswith("error: Lambda's API needs a key: set LAMBDA_API_KEY")
