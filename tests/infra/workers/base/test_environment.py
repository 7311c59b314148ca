import json
import uuid

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.settings import Settings
from prefect.settings.context import temporary_settings
from prefect.settings.legacy import _get_settings_fields

from infra.workers.base.environment import CREDENTIALS, PASSED_ON, SECRETS, is_loopback, reach_fault
from infra.workers.base.job_configuration import JobRefused
from infra.workers.batch.request import job_definition, submission
from infra.workers.batch.worker import AwsBatchJobConfiguration, AwsBatchWorker
from infra.workers.kubernetes.configuration import KubernetesJobsConfiguration, default_template
from infra.workers.ssh.command_line import env_file, run_command, secret_profile
from infra.workers.ssh.configuration import SshJobConfiguration
from infra.workers.ssh.worker import SshWorker

API = "https://prefect.example/api"
HUSH = "hush-9f2c"  # in every secret value
ROLE = "arn:aws:iam::123456789012:role/x"
HEADERS = json.dumps({"Authorization": f"Bearer {HUSH}", "CF-Access-Client-Secret": HUSH})
SECRET_VALUES = {
    "PREFECT_API_KEY": f"pnu_{HUSH}",
    "PREFECT_API_AUTH_STRING": f"admin:{HUSH}",
    "PREFECT_CLIENT_CUSTOM_HEADERS": HEADERS,
}
OF_THE_WORKER = {
    "PREFECT_SERVER_API_AUTH_STRING": f"admin:{HUSH}",
    "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"postgresql+asyncpg://me:{HUSH}@db/prefect",
    "PREFECT_SERVER_DATABASE_PASSWORD": HUSH,
    "PREFECT_SERVER_DOCKET_URL": f"redis://:{HUSH}@queue",
    "PREFECT_HOME": f"/home/{HUSH}",
    "PREFECT_DEPLOYMENTS_DEFAULT_DOCKER_BUILD_NAMESPACE": HUSH,
    "PREFECT_TESTING_TEST_SETTING": HUSH,
    "PREFECT_WORKER_QUERY_SECONDS": "7",
}
WANTED = {"PREFECT_API_URL": API, "PREFECT_LOGGING_LEVEL": "DEBUG", "PREFECT_CLIENT_MAX_RETRIES": "3"}
RUN = FlowRun(id=uuid.UUID(int=7), flow_id=uuid.UUID(int=8), name="quick-otter")


def settings(*secret, **more):
    values = OF_THE_WORKER | WANTED | {name: SECRET_VALUES[name] for name in secret} | more
    fields = _get_settings_fields(Settings)
    return temporary_settings({fields[name]: value for name, value in values.items()})


async def batch(**values):
    template = AwsBatchWorker.get_default_base_job_template()
    asked = await AwsBatchJobConfiguration.from_template_and_values(
        template, {"image": "i", "job_queue": "q", "execution_role_arn": ROLE, **values}, client=object()
    )
    asked.prepare_for_flow_run(RUN, worker_name="w")
    request = submission(asked, "n", "d", asked.secrets)
    env = {entry["name"]: entry["value"] for entry in request["containerOverrides"]["environment"]}
    return json.dumps([job_definition(asked), request]), env


async def kubernetes(**values):
    asked = await KubernetesJobsConfiguration.from_template_and_values(
        default_template(), {"image": "i", **values}, client=object()
    )
    asked.prepare_for_flow_run(RUN, worker_name="w")
    job = asked.job("n")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return json.dumps(job), {entry["name"]: entry.get("value") for entry in container["env"]}


async def ssh(**values):
    """Return the part of a job that other users of a box can see; the variables' file is private."""
    asked = await SshJobConfiguration.from_template_and_values(
        SshWorker.get_default_base_job_template(),
        {"image": "i", "hosts": [{"address": "box"}], **values},
        client=object(),
    )
    asked.prepare_for_flow_run(RUN, worker_name="w")
    lines = env_file(asked, "n", None)
    env = dict(line.split("=", 1) for line in lines.splitlines())
    return json.dumps([run_command(asked, "n", None), lines]), env


REFERENCES = {
    "batch": {name: {f"{name.lower()}_secret_arn": f"arn:aws:secretsmanager:{name}"} for name in SECRETS},
    "kubernetes": {name: {f"{name.lower()}_secret": f"prefect/{name}"} for name in SECRETS},
}
WORKERS = {"batch": batch, "kubernetes": kubernetes, "ssh": ssh}
each_worker = pytest.mark.parametrize("kind", WORKERS)


@each_worker
async def test_a_job_gets_only_listed_variables_of_its_worker(kind):
    with settings():
        payload, env = await WORKERS[kind](env={"MINE": "x", "PREFECT_RUNNER_POLL_FREQUENCY": "9"})
    ours = {"MINE", "PREFECT_RUNNER_POLL_FREQUENCY", "HOME", "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"}
    assert HUSH not in payload
    assert WANTED.items() <= env.items() and env["MINE"] == "x"
    assert env.keys() - ours <= PASSED_ON and env["PREFECT__FLOW_RUN_ID"] == str(RUN.id)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("kind", REFERENCES)
async def test_a_secret_goes_by_a_reference_or_not_at_all(kind, secret):
    with settings(secret):
        (field, reference), *_ = REFERENCES[kind][secret].items()
        with pytest.raises(
            JobRefused, match=f"^{field} is not set: {secret} is never sent in plain"
        ) as error:
            await WORKERS[kind]()
        payload, env = await WORKERS[kind](**{field: reference})
    assert HUSH not in str(error.value)
    assert HUSH not in payload and not env.get(secret)
    assert all(part in payload for part in reference.split("/"))


async def test_a_box_gets_the_secrets_in_a_file_and_nowhere_else():
    with settings(*SECRETS):
        payload, _ = await ssh()
        asked = SshJobConfiguration(hosts=[{"address": "box"}], image="i")
        asked.prepare_for_flow_run(RUN, worker_name="w")
    assert HUSH not in payload and "/dev/shm/n/prefect-secrets:/run/prefect-secrets:ro" in payload
    assert all(name in secret_profile(asked.env, None) for name in SECRETS)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("kind", REFERENCES)
async def test_a_secret_that_the_job_variables_set_is_refused_too(kind, secret):
    with settings(), pytest.raises(JobRefused, match="never sent in plain") as error:
        await WORKERS[kind](env={secret: SECRET_VALUES[secret]})
    assert HUSH not in str(error.value)


@pytest.mark.parametrize("name", CREDENTIALS)
@pytest.mark.parametrize("kind", ["batch", "kubernetes"])
async def test_no_job_environment_carries_credentials(kind, name):
    with settings(), pytest.raises(JobRefused, match=f"^env sets {name}: .*describe") as error:
        await WORKERS[kind](env={name: HUSH})
    assert HUSH not in str(error.value)


@pytest.mark.parametrize("name", ["HF_TOKEN", "DB_PASSWORD", "WANDB_API_KEY", "PGPASSWORD", "MY_SECRET"])
@pytest.mark.parametrize("kind", ["batch", "kubernetes"])
async def test_no_job_carries_a_value_that_is_a_credential_by_its_name(kind, name):
    with settings(), pytest.raises(JobRefused, match=f"^env sets {name}: .*describe") as error:
        await WORKERS[kind](env={name: HUSH})
    assert HUSH not in str(error.value)


@each_worker
async def test_names_that_only_contain_such_a_word_are_passed_on(kind):
    mine = {"TOKENIZERS_PARALLELISM": "false", "MAX_TOKENS": "7", "KEY_FILE": "/x"}
    with settings():
        _, env = await WORKERS[kind](env=mine)
    assert mine.items() <= env.items()


@each_worker
async def test_a_command_with_an_open_quote_is_refused_in_a_sentence(kind):
    with settings(), pytest.raises(JobRefused, match=r"^command can't be split into words") as error:
        await WORKERS[kind](command=f"python -c 'print({HUSH})")
    assert "no closing quotation" in str(error.value) and "\n" not in str(error.value)


async def test_empty_headers_need_no_secret():
    with settings(PREFECT_CLIENT_CUSTOM_HEADERS="{}"):
        for kind in WORKERS:
            _, env = await WORKERS[kind]()
            assert "PREFECT_CLIENT_CUSTOM_HEADERS" not in env


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("batch", {"prefect_api_key_secret_arn": f"pnu_{HUSH}"}),
        ("batch", {"prefect_client_custom_headers_secret_arn": HEADERS}),
        ("kubernetes", {"prefect_api_key_secret": f"pnu_{HUSH}"}),
        ("kubernetes", {"prefect_api_auth_string_secret": f"admin:{HUSH}"}),
        ("kubernetes", {"image_pull_secrets": f"pnu_{HUSH}"}),
        ("kubernetes", {"cluster_config": {"config": f"token: {HUSH}", "context_name": [HUSH]}}),
        ("ssh", {"hosts": [{"address": "box", "host_key": HUSH}]}),
        ("ssh", {"hosts": [{"address": "box", "password": HUSH}]}),
    ],
)
async def test_a_secret_pasted_into_a_field_of_names_is_not_repeated(kind, values):
    with settings(), pytest.raises(JobRefused) as error:
        await WORKERS[kind](**values)
    field = next(iter(values))
    assert str(error.value).startswith(field) and HUSH not in str(error.value)


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST", "localhost.", "prefect.localhost", "127.0.0.1", "127.9.8.7", "127.1"),
        *("0.0.0.0", "0", "::1", "::", "::ffff:127.0.0.1", "0x7f.1"),
    ],
)
def test_a_host_that_is_this_machine(host):
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["10.0.0.7", "api.prefect.cloud", "localhost.example", "2001:db8::1", "128.0.0.1", "node-127", ""]
)
def test_a_host_that_is_another(host):
    assert not is_loopback(host)


@pytest.mark.parametrize("kind", REFERENCES)
@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:4200/api", "http://localhost:4200/api", "http://[::1]:4200/api", "http://0.0.0.0/api"],
)
async def test_a_job_elsewhere_is_not_sent_to_this_machine(kind, url, monkeypatch):
    monkeypatch.delenv("GRIDBENCH_LOOPBACK_API", raising=False)
    with settings(PREFECT_API_URL=url):
        with pytest.raises(JobRefused) as error:
            await WORKERS[kind]()
        monkeypatch.setenv("GRIDBENCH_LOOPBACK_API", "true")  # where the jobs have this machine's network
        _, env = await WORKERS[kind]()
    assert str(error.value).startswith(f"PREFECT_API_URL is {url}: ")
    assert env["PREFECT_API_URL"] == url


@each_worker
async def test_a_password_in_the_address_of_the_api_is_refused(kind):
    url = f"https://me:{HUSH}@prefect.example/api"
    with settings(PREFECT_API_URL=url), pytest.raises(JobRefused, match="a user or a password") as error:
        await WORKERS[kind]()
    assert HUSH not in str(error.value) and HUSH not in str(reach_fault(f"http://{HUSH}@localhost"))


@pytest.mark.parametrize(
    "url", ["localhost:4200/api", "prefect.example/api", "http://[::1/api", "ftp://x/api", "https://"]
)
def test_an_invalid_api_address_is_refused_before_a_machine_boots(url):
    assert str(reach_fault(url)).startswith("PREFECT_API_URL is not the address")
    assert HUSH not in str(reach_fault(f"{HUSH}@{url}"))


def test_the_list_names_settings_that_prefect_has():
    known = {*_get_settings_fields(Settings)}
    ours = {name for name in PASSED_ON if not name.startswith("PREFECT__")}
    assert ours - known == {"PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"}
    assert not {*SECRETS, *CREDENTIALS} & PASSED_ON
