import json
import signal

import pytest

from infra.gke.errors import GkeError
from tests.emulators.gke import reasons, smoke, smoke_cases, smoke_run
from tests.emulators.gke.account import Account
from tests.emulators.gke.quick import PARENT, ZONE, quick_gke
from tests.emulators.gke.smoke_cases import Case, differences, fits

REFUSED = (
    "no_channel",
    "no_network",
    "no_account",
    "exists",
    "upgrade_off",
    "no_accelerator",
    "busy",
    "not_found",
)


@pytest.fixture
def account(monkeypatch):
    with quick_gke(monkeypatch) as account:
        account.accounts = {"default"}
        account.absent = {smoke_cases.GONE_ACCELERATOR}
        yield account


@pytest.fixture
def quick(account, monkeypatch, tmp_path):
    monkeypatch.setattr(smoke_run, "POLL_S", 0.0)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    out = tmp_path / "smoke.json"

    def go(*words):
        code = smoke.main(["--project", "my-project", "--zone", ZONE, "--out", str(out), *words])
        return code, json.loads(out.read_text()) if out.exists() else None

    yield go
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_the_gke_smoke_test_records_every_answer_and_finds_the_emulator_as_believed(
    account: Account, quick, capsys
):
    code, found = quick("--yes")
    assert code == 0, capsys.readouterr().out
    assert tuple(found["answers"]) == REFUSED
    assert found["answers"]["no_channel"] == {"status": "INVALID_ARGUMENT", "words": reasons.NO_CHANNEL}
    assert found["answers"]["busy"]["status"] == "FAILED_PRECONDITION"
    assert found["facts"]["the channel"] == "REGULAR"
    assert found["facts"]["a GPU pool of no nodes is RUNNING"] == "RUNNING"
    assert found["stopped"] is None and 0 < found["usd"] < 0.5
    assert not account.clusters


def test_the_gke_smoke_test_makes_nothing_without_yes(account, quick, capsys):
    code, found = quick()
    assert code == 2 and found is None and account.changes == []
    said = capsys.readouterr().err
    assert said == (
        f"error: this makes a cluster in {ZONE} of project my-project at about 0.2 USD an hour, for at most 45 minutes "
        "and 0.5 USD, and deletes it: say --yes to do it\n"
    )


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [
        (("--max-minutes", "0"), "0 minutes are over"),
        (("--max-usd", "0"), "0 USD are spent, by estimate"),
        (("--max-usd", "nan"), "nan USD are spent, by estimate"),
    ],
)
def test_the_gke_smoke_test_stops_at_its_limits_and_deletes_its_cluster(
    account, quick, capsys, limit, sentence
):
    account.looks = 5
    code, found = quick("--yes", *limit)
    assert code == 1 and found["stopped"] == sentence
    assert f"stopped early: {sentence}" in capsys.readouterr().out
    assert not account.clusters


def test_a_cluster_that_never_comes_is_given_up_and_deleted(account, quick, monkeypatch):
    check, looks = smoke_run.Meter.check, []

    def late(meter):
        looks.append(1)
        if len(looks) > 5:  # the three refusals, and some looks at the cluster
            meter.max_minutes = 0
        check(meter)

    account.looks = 50
    monkeypatch.setattr(smoke_run.Meter, "check", late)
    code, found = quick("--yes")
    assert code == 1 and found["stopped"] == "0 minutes are over" and "CreateCluster" in account.changes
    assert not account.clusters


def test_ctrl_c_in_the_gke_smoke_test_deletes_its_cluster(account, quick, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(smoke_run.Smoke, "make_pool", interrupted)
    code, found = quick("--yes")
    assert code == 130 and "upgrade_off" in found["answers"]
    assert not account.clusters and account.changes[-1] == "DeleteCluster"


def test_a_request_that_gke_accepts_unexpectedly_is_reported_and_deleted(account, quick, capsys):
    account.old_customer = True
    account.accounts = None
    code, found = quick("--yes")
    output = capsys.readouterr().out
    assert code == 1 and found["answers"]["no_account"]["status"] == "ACCEPTED"
    assert "no_channel: ACCEPTED (), expected INVALID_ARGUMENT" in output
    assert not account.clusters and account.changes.count("DeleteCluster") == 3


def test_a_cluster_that_fails_is_reported_and_deleted(account, quick, capsys):
    account.failing["gridbench-smoke"] = (8, "[ZONE_RESOURCE_POOL_EXHAUSTED]: none")
    code, found = quick("--yes")
    assert code == 1 and "the zone has no capacity now" in found["stopped"]
    assert "upgrade_off: never asked, expected INVALID_ARGUMENT" in capsys.readouterr().out
    assert not account.clusters


def test_a_failed_deletion_is_an_error_that_names_the_command(account, quick, monkeypatch, capsys):
    def refused(*_):
        raise GkeError("Firewall rule in use")

    monkeypatch.setattr(smoke_run, "take_down", refused)
    code, found = quick("--yes")
    assert code == 2 and found["answers"]
    said = capsys.readouterr().err
    assert "Firewall rule in use; `gridbench down gke --cluster gridbench-smoke` deletes" in said


def test_a_cluster_from_before_is_not_touched(account, quick, capsys):
    quick("--yes")
    account.requests.clear()
    account.clusters[f"{PARENT}/clusters/gridbench-smoke"] = smoke_cases.cluster_message(
        smoke_cases.ClusterOptions("gridbench-smoke", ZONE, ()), "my-project"
    )
    code, _ = quick("--yes")
    assert code == 2 and account.changes == []
    assert "there is a cluster gridbench-smoke already" in capsys.readouterr().err


def a_case(believed="EXISTS"):
    return Case("exists", "create_cluster", {}, "x", "ALREADY_EXISTS", believed)


@pytest.mark.parametrize(
    ("answer", "sentences"),
    [
        ({"status": "ALREADY_EXISTS", "words": "Already exists: projects/p/x."}, []),
        (
            {"status": "ACCEPTED", "words": ""},
            ["exists: ACCEPTED (), expected ALREADY_EXISTS"],
        ),
        (
            {"status": "ALREADY_EXISTS", "words": "It is there"},
            ["exists: GKE says 'It is there', the emulator 'Already exists: {name}.'"],
        ),
        (None, ["exists: never asked, expected ALREADY_EXISTS"]),
    ],
)
def test_an_answer_of_gke_that_differs_is_reported(answer, sentences):
    assert differences([a_case()], {"exists": answer} if answer else {}) == sentences


def test_gaps_in_a_belief_fit_anything_but_nothing():
    assert fits(reasons.BUSY, "Cluster is running incompatible operation operation-1-2.")
    assert not fits(reasons.BUSY, "Cluster is running incompatible operation ")
    assert not fits("a.c", "abc")
