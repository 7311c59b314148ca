import pytest

from gridbench.run.reach import check_reach
from gridbench.run.remote import api_for, ready_clouds
from gridbench.setup import note as notes
from gridbench.setup.note import CloudNote
from gridbench.setup.prefect_api import reachable_api
from tasks.errors import GridbenchError
from tasks.planning.hardware import load_hardware

CLOUD = "https://api.prefect.cloud/api/accounts/0f9e/workspaces/ab12"
KEY = "pnu_0123456789abcdef"


@pytest.fixture
def log_in(monkeypatch, tmp_path):
    """Leave the profile of `prefect cloud login` and `prefect config set`, without variables."""
    path = tmp_path / "profiles.toml"
    monkeypatch.setenv("PREFECT_PROFILES_PATH", str(path))
    monkeypatch.setattr(notes, "STATE", tmp_path / "state")

    def write(**settings):
        lines = "\n".join(f'{name} = "{value}"' for name, value in settings.items())
        path.write_text(f'active = "mine"\n[profiles.mine]\n{lines}\n')

    write()
    return write


@pytest.fixture
def aws():
    return [load_hardware("local-cpu"), load_hardware("aws-c5.2xlarge")]


def test_a_login_in_prefects_profile_is_enough_for_a_cloud(log_in, aws):
    log_in(PREFECT_API_URL=CLOUD, PREFECT_API_KEY=KEY)
    check_reach(aws)
    api = api_for(aws)
    assert (api.url, api.key) == (CLOUD, KEY)
    assert api.environment == {"PREFECT_API_URL": CLOUD, "PREFECT_API_KEY": KEY}
    assert KEY not in repr(api)
    assert api_for(aws[:1]) is None, "this machine is measured without the login"


def test_a_variable_counts_for_every_run(log_in, aws, monkeypatch):
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")
    assert api_for(aws[:1]).url == "http://127.0.0.1:4200/api"
    check_reach(aws)  # the worker knows how its machines reach the API


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({}, "machines of work pool aws-batch, such as aws-c5.2xlarge, need a Prefect API that they reach"),
        ({"PREFECT_API_URL": "http://127.0.0.1:4200/api"}, "other machines cannot reach"),
        ({"PREFECT_API_URL": "http://localhost:4200/api"}, "other machines cannot reach"),
        ({"PREFECT_API_URL": "http://[::1]:4200/api"}, "other machines cannot reach"),
        ({"PREFECT_API_URL": "https://me:secret@prefect.example/api"}, "a user or a password"),
        ({"PREFECT_API_URL": "https://prefect.example/api"}, "lets everybody run code on your workers"),
    ],
)
def test_an_api_that_clouds_cannot_reach_or_that_has_no_login_is_refused(log_in, aws, settings, refusal):
    log_in(**settings)
    with pytest.raises(GridbenchError, match=refusal):
        check_reach(aws)


def test_the_refusal_names_every_way(log_in, aws):
    with pytest.raises(GridbenchError) as refused:
        check_reach(aws)
    assert "`prefect cloud login`" in str(refused.value) and "a Prefect server of your own" in str(
        refused.value
    )


def test_an_auth_string_is_read_from_the_profile(log_in):
    log_in(PREFECT_API_URL="https://prefect.example/api/", PREFECT_API_AUTH_STRING="me:secret")
    api = reachable_api("AWS")
    assert (api.url, api.auth_string) == ("https://prefect.example/api", "me:secret")
    assert "secret" not in repr(api)


def a_note(api_url, **more):
    fields = {"project": "gridbench", "api_url": api_url, "pool": "aws-batch", "kind": "aws-batch"}
    return CloudNote(cloud="aws", **fields, **more).write()


def test_workers_are_kept_for_a_cloud_that_was_made_ready_at_this_api(log_in, aws):
    log_in(PREFECT_API_URL=CLOUD, PREFECT_API_KEY=KEY)
    assert ready_clouds(aws, api_for(aws)) == []
    made = a_note(CLOUD)
    assert ready_clouds(aws, api_for(aws)) == [made]
    assert ready_clouds(aws[:1], api_for(aws)) == []


def test_a_cloud_that_was_made_ready_elsewhere_is_refused(log_in, aws):
    log_in(PREFECT_API_URL=CLOUD, PREFECT_API_KEY=KEY)
    a_note("https://prefect.example/api")
    with pytest.raises(GridbenchError, match=r"aws-batch is on https://prefect\.example/api"):
        check_reach(aws)


def test_a_damaged_note_is_one_sentence(log_in, aws):
    log_in(PREFECT_API_URL=CLOUD, PREFECT_API_KEY=KEY)
    a_note(CLOUD)
    notes.path_of("aws").write_text("{")
    with pytest.raises(GridbenchError, match=r"can't be read .* `gridbench up aws` writes it anew"):
        check_reach(aws)


def test_a_machine_that_the_account_may_not_run_is_refused_before_the_run(log_in, aws, monkeypatch):
    log_in(PREFECT_API_URL=CLOUD, PREFECT_API_KEY=KEY)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    a_note(CLOUD, environment={"AWS_DEFAULT_REGION": "us-east-1"})
    asked = []

    def value(client, code):
        asked.append(code)
        return 0.0

    monkeypatch.setattr("infra.aws.quotas._value", value)
    with pytest.raises(GridbenchError, match=r"aws-c5\.2xlarge.*0 vCPUs"):
        check_reach(aws)
    assert asked == ["L-1216C47A"]
