import datetime as dt
import uuid
from typing import get_args

import httpx
import pytest
from prefect import states
from prefect.client.schemas.objects import FlowRun, Worker
from prefect.context import serialize_context
from prefect.settings import PREFECT_API_KEY, temporary_settings

from infra.workers.base.ad_hoc import refusal_of, unbundled_settings
from infra.workers.base.job_configuration import JobRefused
from infra.workers.base.outcome import CAUSES, Cause, JobOutcome, StateName, is_state_name
from infra.workers.base.pool_runs import NOBODY, OWNER, UNCLAIMED_S, PoolRuns, alive, heir, tries, verdict
from infra.workers.base.retry import call_until_answered

GONE = JobOutcome("Reclaimed", "Host EC2 terminated.")
CRASHED = JobOutcome("Crashed", "exit code 3", 3)
FINE = JobOutcome("Exited", "The container ended with exit code 0.", 0)
CANCELLED = JobOutcome("Cancelled", "Cancelled from Prefect.")


def run(state, job_id="job", **labels):
    return FlowRun(flow_id=uuid.UUID(int=1), state=state, infrastructure_pid=job_id, labels=labels)


@pytest.mark.parametrize(
    ("state", "ending", "named"),
    [
        (states.Pending(), GONE, "Reclaimed"),
        (states.Running(), GONE, "Reclaimed"),
        (states.Running(), CRASHED, "Crashed"),
        (states.Running(), FINE, "Crashed"),  # the engine has said nothing
        (states.Pending(), FINE, "Crashed"),  # the engine has not even begun
        (states.Completed(), CRASHED, None),
        (states.Failed(), GONE, None),
        (states.Completed(), FINE, None),
        (states.Crashed(), GONE, "Reclaimed"),  # the engine's message on SIGTERM
        (states.Crashed(), CRASHED, None),
        (states.Crashed(name="TimedOut"), GONE, None),
        (states.AwaitingRetry(), CRASHED, None),
        (states.Paused(), FINE, None),
        (states.Cancelling(), CRASHED, "Cancelled"),
        (states.Crashed(), CANCELLED, "Cancelled"),
        (states.Completed(), CANCELLED, None),
        (states.Cancelled(), CANCELLED, None),
    ],
)
def test_the_state_that_an_end_gives(state, ending, named):
    found = verdict(run(state), "job", ending, own_command=False)
    assert (found.name if found else None) == named


@pytest.mark.parametrize(("ending", "named"), [(CRASHED, "Crashed"), (FINE, "Crashed"), (GONE, "Reclaimed")])
def test_a_try_that_only_the_ended_job_would_start_is_a_crash(ending, named):
    """A server makes this state of Failed, for a flow with its own retries."""
    waiting = run(states.AwaitingRetry())
    waiting.empirical_policy.retry_type = "in_process"
    assert verdict(waiting, "job", ending, own_command=False).name == named
    waiting.infrastructure_pid = "the next one"
    assert verdict(waiting, "job", ending, own_command=False) is None


def test_a_command_that_is_no_flow_is_judged_by_its_exit_code():
    assert verdict(run(states.Pending()), "job", FINE, own_command=True).name == "Completed"
    assert verdict(run(states.Running()), "job", FINE, own_command=True).name == "Crashed"
    assert verdict(run(states.Pending()), "job", CRASHED, own_command=True).name == "Crashed"


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (["Scheduled", "Pending", "Submitting", "Running"], 1),
        (["Scheduled", "Pending", "Running", "AwaitingRetry", "Running"], 2),
        (["Pending", "Running"], 1),  # an ad-hoc run is never scheduled
        (["Pending", "Submitting", "Running", "Completed"], 1),
        (["Pending", "Running", "Crashed", "Pending", "Running"], 2),
    ],
)
def test_a_try_begins_when_a_run_is_scheduled_or_given_to_a_worker(names, count):
    assert tries([getattr(states, name)() for name in names]) == count


def test_an_earlier_trys_job_says_nothing_about_the_next_try():
    assert verdict(run(states.Running(), job_id="next"), "job", GONE, own_command=False) is None


def test_workers_without_heartbeats_are_gone_by_the_servers_clock():
    now = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)  # far from this machine's

    def worker(name, ago_s, every_s=10):
        seen = now - dt.timedelta(seconds=ago_s)
        pool = uuid.UUID(int=2)
        return Worker(
            name=name, work_pool_id=pool, last_heartbeat_time=seen, heartbeat_interval_seconds=every_s
        )

    assert alive([worker("new", 0), worker("late", 30), worker("dead", 31), worker("slow", 80, 30)]) == {
        "new",
        "late",
        "slow",
    }
    assert alive([]) == set()


def test_an_orphan_has_one_heir_and_orphans_are_spread():
    online = {f"w{n}" for n in range(4)}
    heirs = [heir(uuid.UUID(int=n), online) for n in range(400)]
    assert heirs == [heir(uuid.UUID(int=n), set(sorted(online, reverse=True))) for n in range(400)]
    assert all(60 < heirs.count(name) < 140 for name in online)


@pytest.mark.parametrize(
    ("labels", "age_s", "mine"),
    [
        ({OWNER: "me"}, 0, True),
        ({OWNER: "other"}, 9999, False),
        ({OWNER: "gone"}, 0, True),
        ({OWNER: NOBODY}, 0, True),
        ({}, UNCLAIMED_S + 5, True),
        ({}, 0, False),  # its worker is about to report it
    ],
)
def test_a_run_is_followed_by_its_worker_or_by_one_heir(labels, age_s, mine):
    runs = PoolRuns(None, "pool", "me")
    state = states.Pending(timestamp=dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age_s))
    followed = run(state, **labels)
    online = {"me", "other"}
    while heir(followed.id, online) != "me":
        followed.id = uuid.uuid4()
    assert runs.is_mine(followed, online) is mine
    while heir(followed.id, online) != "other":
        followed.id = uuid.uuid4()
    assert runs.is_mine(followed, online) is (labels.get(OWNER) == "me")


async def test_a_call_outlives_a_restart_of_the_server(monkeypatch):
    monkeypatch.setattr("tenacity.wait.wait_random_exponential.__call__", lambda self, state: 0)
    busy = httpx.HTTPStatusError("", request=None, response=httpx.Response(503))
    fails = [httpx.ConnectError("refused"), busy] * 10

    async def call(value):
        if fails:
            raise fails.pop()
        return value

    assert await call_until_answered(call, 7) == 7


async def test_the_times_of_a_start_come_to_their_run_though_the_server_is_busy(monkeypatch):
    """A lane's cost depends on them, and SQLite refuses concurrent labels."""
    monkeypatch.setattr("tenacity.wait.wait_random_exponential.__call__", lambda self, state: 0)
    kept = []

    class Client:
        busy = 3

        async def update_flow_run_labels(self, run_id, labels):
            self.busy -= 1
            if self.busy >= 0:
                raise httpx.HTTPStatusError("", request=None, response=httpx.Response(503))
            kept.append(labels)

    runs = PoolRuns(Client(), "pool", "me")
    await runs.label(uuid.UUID(int=1), {"gridbench.pull_s": 2.0})
    assert kept == [{"gridbench.pull_s": 2.0}]


@pytest.mark.parametrize("code", [403, 404, 422])
async def test_a_run_whose_labels_are_refused_is_followed_on_without_them(code):
    class Client:
        async def update_flow_run_labels(self, run_id, labels):
            raise httpx.HTTPStatusError("", request=None, response=httpx.Response(code))

    runs = PoolRuns(Client(), "pool", "me")
    await runs.label(uuid.UUID(int=1), {"gridbench.pull_s": 2.0})
    await runs.label_cause(uuid.UUID(int=1), Cause.EXITED)


async def test_a_refusal_is_not_repeated():
    calls = []

    async def call():
        calls.append(1)
        raise httpx.HTTPStatusError("", request=None, response=httpx.Response(404))

    with pytest.raises(httpx.HTTPStatusError):
        await call_until_answered(call)
    assert len(calls) == 1


def test_every_state_name_has_a_cause_and_unknown_names_are_no_state_names():
    names = get_args(StateName)
    assert {JobOutcome(name, "").cause for name in names} == set(Cause) and {*CAUSES} <= {*names}
    assert all(is_state_name(name) for name in names) and not is_state_name("Failed")


def test_a_failed_bundle_is_a_sentence_and_a_wrong_job_variable_its_own():
    wrong = JobRefused("image is not set", "Unfit")
    assert refusal_of(wrong) is wrong
    assert str(refusal_of(RuntimeError("no bucket"))) == (
        "The flow could not be submitted (RuntimeError: no bucket)."
    )


def test_a_bundle_leaves_the_workers_settings_at_home():
    with temporary_settings({PREFECT_API_KEY: "pnu_secret"}):
        assert "pnu_secret" in str(serialize_context()["settings_context"])
        with unbundled_settings():
            assert serialize_context()["settings_context"] == {}
            assert PREFECT_API_KEY.value() == "pnu_secret"
