import asyncio
import contextlib
import datetime as dt
import logging
import uuid

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from kubernetes_asyncio.client.exceptions import ApiException
from kubernetes_asyncio.config import incluster_config
from prefect.client.schemas.objects import FlowRun
from prefect_kubernetes.credentials import KubernetesClusterConfig

from infra.workers.kubernetes.api import OF_RUNS, NamespaceApi
from infra.workers.kubernetes.configuration import KubernetesJobsConfiguration, default_template
from infra.workers.kubernetes.errors import LoginFailed, sentence
from infra.workers.kubernetes.follow import KubernetesFollow
from infra.workers.kubernetes.login import RenewingClient, client_of
from infra.workers.kubernetes.settings import KubernetesSettings
from infra.workers.kubernetes.view import View
from tests.emulators.kube.job_examples import job
from tests.emulators.kube.server import kube

SPACE, ACCOUNT = "bench", "worker"
PATIENCE_S = 30
ROLE = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: worker, namespace: {SPACE}}}
rules:
- {{apiGroups: [batch], resources: [jobs], verbs: [create, delete, get, list, watch]}}
- {{apiGroups: [""], resources: [pods], verbs: [list, watch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: worker, namespace: {SPACE}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: worker}}
subjects: [{{kind: ServiceAccount, name: {ACCOUNT}, namespace: {SPACE}}}]
"""


@pytest.fixture
def cluster():
    with kube() as made:
        made.apply(ROLE)
        yield made


@pytest.fixture
def login(cluster, tmp_path, monkeypatch):
    login = cluster.login(tmp_path / "login", ACCOUNT)
    place = "kubernetes_asyncio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"
    monkeypatch.setattr(place, str(login.kubeconfig))
    return login


@contextlib.asynccontextmanager
async def namespace(patience_s=5, block=None):
    async with client_of(block) as client:
        yield NamespaceApi(client, SPACE, patience_s)


@contextlib.asynccontextmanager
async def watched(**rates):
    settings, warnings = KubernetesSettings(poll_s=0.1, **rates), []
    async with client_of(None) as client:
        view = View(client, SPACE, settings, warnings.append)
        running = asyncio.create_task(view.run())
        try:
            await view.ready(PATIENCE_S)
            yield view, NamespaceApi(client, SPACE, 5), warnings
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def until(true):
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await asyncio.sleep(0.05)


def refused(cluster):
    return [request.path for request in cluster.control.requests if request.status == 401]


async def test_a_token_is_renewed_before_it_expires(cluster, login):
    login.tokens_live(3)
    async with namespace() as api, asyncio.timeout(PATIENCE_S):
        while login.runs < 3:
            assert await api.find("none") is None
            await asyncio.sleep(0.2)
    assert not refused(cluster)


async def test_a_token_that_is_good_is_kept(login):
    async with namespace() as api:
        for _ in range(5):
            await api.find("none")
    assert login.runs == 1


async def test_an_unannounced_401_renews_once_and_repeats_the_call(cluster, login):
    login.tokens_live(3600, tells=False)
    async with namespace() as api:
        await api.find("none")
        login.forget()
        made = await api.create(job("true", name="one"))
    assert made["metadata"]["name"] == "one"
    assert login.runs == 2 and len(refused(cluster)) == 1


async def test_calls_that_are_refused_together_share_one_renewal(login):
    async with namespace() as api:
        await api.find("none")
        login.forget()
        await asyncio.gather(*(api.find(f"none-{number}") for number in range(8)))
    assert login.runs == 2


async def test_a_block_s_kubeconfig_is_renewed_too(login):
    block = KubernetesClusterConfig.from_file(login.kubeconfig)
    async with namespace(block=block) as api:
        login.forget()
        assert await api.find("none") is None
    assert login.runs == 2


async def test_a_login_that_stays_refused_is_reported_after_one_renewal(cluster, login):
    login.tokens_live(-1, tells=False)
    async with namespace() as api:
        with pytest.raises(ApiException) as error:
            await api.create(job("true", name="one"))
    said = sentence(error.value, "create jobs")
    assert said == "The Kubernetes API does not accept the worker's credentials (Unauthorized)."
    assert login.runs == 2 and len(refused(cluster)) == 2


async def test_a_plugin_that_fails_costs_nothing_while_its_token_is_good(login, monkeypatch):
    monkeypatch.setattr("infra.workers.kubernetes.login.EARLY", 0.05)
    login.tokens_live(4)
    async with namespace(patience_s=0) as api:
        login.refuse("ERROR: please run\n  gcloud auth login")
        await asyncio.sleep(0.5)  # the time to renew is past, the token is not
        assert await api.find("none") is None
        await asyncio.sleep(3.7)
        with pytest.raises(LoginFailed) as error:
            await api.find("none")
        login.allow()
        assert await api.find("none") is None
    said = sentence(error.value, "find jobs")
    assert said.startswith("The worker can't log in to its Kubernetes cluster: exec: process returned 1.")
    assert said.endswith("please run gcloud auth login.") and "\n" not in said


async def test_a_plugin_that_is_missing_is_named(login):
    (login.folder / "plugin").unlink()
    with pytest.raises(LoginFailed, match="plugin does not exist"):
        async with namespace():
            pass


async def test_a_kubeconfig_that_was_written_anew_is_read_anew(cluster, login, tmp_path):
    cluster.kubeconfig(login.kubeconfig, cluster.token(SPACE, ACCOUNT))
    async with namespace() as api:
        await api.find("none")
        cluster.control.cluster.tokens.users.clear()
        cluster.kubeconfig(login.kubeconfig, cluster.token(SPACE, ACCOUNT))
        assert await api.find("none") is None


async def test_the_workers_own_pod_s_token_is_read_anew(tmp_path, monkeypatch):
    token, certificates = tmp_path / "token", certificate(tmp_path / "ca.crt")
    token.write_text("first")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(certificates))
    async with client_of(None) as client:
        assert client.configuration.api_key["BearerToken"] == "Bearer first"
        token.write_text("second")
        await client._renew(client._logins)
        assert await client.configuration.get_api_key_with_prefix("BearerToken") == "Bearer second"


async def test_a_new_certificate_gets_new_connections_and_calls_under_way_keep_theirs(tmp_path):
    made = []

    async def load(configuration):
        made.append(certificate(tmp_path / f"{len(made)}.pem"))
        configuration.cert_file = str(made[-1])

    client = await RenewingClient.open(load)
    first = client.rest_client
    await client._renew(client._logins)
    assert client.rest_client is not first and not first.pool_manager.closed
    await client.close()
    assert first.pool_manager.closed and client.rest_client.pool_manager.closed


def certificate(path):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "worker")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + dt.timedelta(days=1))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(private + builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    return path


async def test_watches_go_on_with_new_tokens(cluster, login):
    login.tokens_live(1.5)
    async with watched(watch_s=1) as (view, api, warnings):
        await until(lambda: login.runs >= 3)
        made = job("sleep 60", name="late")
        made["metadata"]["labels"][OF_RUNS] = "r"
        await api.create(made)
        await until(lambda: "late" in view.jobs)
        assert view.trouble is None and not warnings


async def test_watches_that_stay_refused_say_so_once_and_come_back(cluster, login):
    async with watched(watch_s=1) as (view, _, warnings):
        login.refuse("logged out")
        login.forget()
        await until(lambda: len(warnings) == 2)  # of jobs and of pods
        await asyncio.sleep(1)
        assert len(warnings) == 2 and all("logged out" in text for text in warnings)
        login.allow()
        await until(lambda: view.trouble is None)


async def test_a_watch_that_is_refused_while_lists_are_not_is_reported_once_and_asked_for_ever_more_rarely(
    cluster, login, monkeypatch
):
    """By the requested pauses, because a busy machine makes real ones longer."""
    cluster.apply(ROLE.replace("resources: [pods], verbs: [list, watch]", "resources: [pods], verbs: [list]"))
    pauses, sleep = [], anyio.sleep

    async def noting(seconds):
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr("infra.workers.kubernetes.view.anyio.sleep", noting)
    async with watched(watch_s=1) as (_, _, warnings):
        await until(lambda: len(pauses) >= 5)
        lists = [r for r in cluster.control.asked("GET", "*/pods") if "watch" not in r.query]
    assert len(warnings) == 1 and "list and watch pods" in warnings[0]
    assert pauses[:5] == [0.1 * 2**failures for failures in range(5)] and len(lists) >= 5


async def follow_of(api, view, created):
    run = FlowRun(id=uuid.uuid4(), flow_id=uuid.uuid4(), name="one")
    made = {"metadata": {"name": "one", "creationTimestamp": created.isoformat()}, "status": {}}
    view.take(made)
    return KubernetesFollow(
        run=run,
        job_id=f"{SPACE}:one",
        log=logging.LoggerAdapter(logging.getLogger("of-the-run"), {}),
        set_labels=None,
        name="one",
        configuration=await KubernetesJobsConfiguration.from_template_and_values(
            default_template(), {"image": "i", "namespace": SPACE}, client=object()
        ),
        api=api,
        view=view,
        settings=KubernetesSettings(poll_s=0.1),
        send=None,
    )


async def test_a_job_that_can_not_be_seen_any_more_ends_with_its_deadline(login, caplog):
    async with watched(watch_s=1) as (view, api, _):
        login.refuse("logged out")
        login.forget()
        await until(lambda: view.trouble)
        now = dt.datetime.now(dt.UTC)
        young = asyncio.create_task((await follow_of(api, view, now)).to_the_end())
        await asyncio.sleep(1)
        assert not young.done()
        young.cancel()
        view.jobs.clear()
        old = await follow_of(api, view, now - dt.timedelta(hours=9))
        async with asyncio.timeout(PATIENCE_S):
            outcome = await old.to_the_end()
    assert outcome.name == "Lost" and "logged out" in outcome.message
    assert "bench:one is past its deadline" in outcome.message
    told = [record.message for record in caplog.records if "cannot observe" in record.message]
    assert len(told) == 2 and "logged out" in told[0]  # once a run
