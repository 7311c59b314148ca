import google.auth
import pytest
from google.auth.exceptions import DefaultCredentialsError, RefreshError
from google.cloud import container_v1 as gke
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from infra.gke import api
from infra.gke.clusters import find
from infra.gke.errors import (
    AccountRefused,
    ApiDisabled,
    ClusterBusy,
    Exists,
    Failed,
    GkeError,
    GkeQuotaExceeded,
    GkeUnreachable,
    Invalid,
    NoCredentials,
    NoNetwork,
    NotInZone,
    PermissionMissing,
    Stockout,
    failure,
    in_words,
    refusal,
)
from tests.emulators.gke import reasons
from tests.emulators.gke.account import Fault
from tests.emulators.gke.quick import place, quick_gke, up, wishes

POOL = "Google Compute Engine: Not all instances running in IGM after 35m. Expected 1, running 0. Current errors: "
CASES = [
    (
        StatusCode.RESOURCE_EXHAUSTED,
        "Insufficient regional quota: NVIDIA_L4_GPUS.",
        GkeQuotaExceeded,
        "used up",
    ),
    (StatusCode.FAILED_PRECONDITION, "Quota 'CPUS' exceeded. Limit: 8.0", GkeQuotaExceeded, "used up"),
    (StatusCode.ALREADY_EXISTS, "Already exists: x.", Exists, "it exists already"),
    (
        StatusCode.PERMISSION_DENIED,
        'Required "container.clusters.create" permission(s)',
        PermissionMissing,
        "docs/gke.md",
    ),
    (StatusCode.UNAUTHENTICATED, "Request had invalid credentials.", NoCredentials, "gcloud auth"),
    (
        StatusCode.UNAVAILABLE,
        "Getting metadata from plugin failed with error: invalid_grant",
        NoCredentials,
        "again",
    ),
    (
        StatusCode.FAILED_PRECONDITION,
        "Cluster is running incompatible operation operation-1.",
        ClusterBusy,
        "wait until",
    ),
    (StatusCode.INVALID_ARGUMENT, "Bad request: nope.", Invalid, "rejects the request"),
    (
        StatusCode.INVALID_ARGUMENT,
        'Accelerator type "nvidia-tesla-p4" does not exist in zone us-central1-b.',
        NotInZone,
        "gcloud compute accelerator-types list",
    ),
    (
        StatusCode.INVALID_ARGUMENT,
        "The resource 'projects/p/zones/z/acceleratorTypes/nvidia-l4' was not found",
        NotInZone,
        "another --zone",
    ),
    (
        StatusCode.INVALID_ARGUMENT,
        reasons.NO_NETWORK.format(project="my-project", network="default"),
        NoNetwork,
        "gcloud compute networks create gridbench",
    ),
    (
        StatusCode.INVALID_ARGUMENT,
        reasons.NO_ACCOUNT.format(account="default"),
        AccountRefused,
        "--node-account names another",
    ),
    (
        StatusCode.RESOURCE_EXHAUSTED,
        "Google Compute Engine does not have enough resources available to fulfill request: us-central1.",
        Stockout,
        "another --zone",
    ),
    (
        StatusCode.NOT_FOUND,
        "Machine type with name 'a3-highgpu-8g' does not exist in zone 'z'.",
        NotInZone,
        "zone",
    ),
    (StatusCode.UNAVAILABLE, "failed to connect", GkeUnreachable, "does not answer"),
    (
        StatusCode.PERMISSION_DENIED,
        "Kubernetes Engine API has not been used in project 1",
        ApiDisabled,
        "enable",
    ),
]


@pytest.mark.parametrize(("code", "text", "kind", "hint"), CASES)
def test_a_refused_call_is_told_apart(code, text, kind, hint):
    error = refusal("making it", code, text)
    assert type(error) is kind and hint in str(error)
    assert text.rstrip(".") in str(error) and "making it" in str(error)


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (8, f"{POOL}[ZONE_RESOURCE_POOL_EXHAUSTED]: Instance creation failed", Stockout),
        (13, f"{POOL}[GCE_STOCKOUT]: the zone does not have enough resources available", Stockout),
        (
            13,
            f"{POOL}[GCE_QUOTA_EXCEEDED]: Quota 'GPUS_ALL_REGIONS' exceeded. Limit: 0.0 globally",
            GkeQuotaExceeded,
        ),
        (3, "Accelerator type 'nvidia-l4' is not available in zone", NotInZone),
        (7, "The service account lacks permission", PermissionMissing),
        (13, "An internal error", Failed),
        (9, "All cluster resources were brought up, but: only 0 nodes out of 1 have registered", Failed),
        (0, "it just did not", Failed),
    ],
)
def test_a_failed_operation_is_told_apart(code, text, kind):
    operation = gke.Operation(error=Status(code=code, message=text))
    error = failure(operation, "making node pool nvidia-l4")
    assert type(error) is kind and "making node pool nvidia-l4" in str(error)


def test_an_operation_that_went_well_has_no_error():
    assert failure(gke.Operation(status=gke.Operation.Status.DONE), "making it") is None


@pytest.fixture
def account(monkeypatch):
    with quick_gke(monkeypatch) as account:
        yield account


def test_a_disabled_api_is_known_by_googles_own_word(account):
    account.faults = [Fault("GetCluster", StatusCode.PERMISSION_DENIED, "No.", reason="SERVICE_DISABLED")]
    with pytest.raises(ApiDisabled, match=r"gcloud services enable container\.googleapis\.com"):
        find(place(), "gridbench")


def test_a_moments_silence_is_not_noticed(account):
    account.faults = [Fault("GetCluster", StatusCode.UNAVAILABLE)]
    assert find(place(), "gridbench") is None
    assert len(account.called("GetCluster")) == 2


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (StatusCode.RESOURCE_EXHAUSTED, "Insufficient regional quota", GkeQuotaExceeded),
        (StatusCode.PERMISSION_DENIED, "Required permission", PermissionMissing),
        (StatusCode.INVALID_ARGUMENT, "Master version is unsupported", Invalid),
    ],
)
def test_a_cluster_that_is_refused_leaves_nothing(account, code, text, kind):
    account.faults = [Fault("CreateCluster", code, text)]
    with pytest.raises(kind, match=text):
        up(wishes())
    assert not account.clusters and account.changes == ["CreateCluster"]


@pytest.fixture
def googles(monkeypatch):
    monkeypatch.delenv(api.ENDPOINT_VARIABLE, raising=False)
    monkeypatch.delenv(api.PROJECT_VARIABLE, raising=False)


def test_no_credentials_is_one_sentence(googles, monkeypatch):
    def none(**_):
        raise DefaultCredentialsError("Your default credentials were not found.")

    monkeypatch.setattr(google.auth, "default", none)
    with pytest.raises(NoCredentials, match="run `gcloud auth application-default login`, or set"):
        api.connect("my-project")


def test_credentials_that_have_ended_are_one_sentence():
    with pytest.raises(NoCredentials, match=r"can't be used .*invalid_grant.*sign in again"), in_words("x"):
        raise RefreshError("invalid_grant: Bad Request")


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:5", "localhost", "127.0.0.1:", "a:b:c", ":80", "h:1/x", "127.0.0.1:99999"]
)
def test_an_invalid_endpoint_is_refused(monkeypatch, endpoint):
    monkeypatch.setenv(api.ENDPOINT_VARIABLE, endpoint)
    with pytest.raises(GkeError, match="GRIDBENCH_GKE_ENDPOINT is"):
        api.connect("my-project")


@pytest.mark.parametrize("host", ["127.0.0.1.example.com:443", "container.example.com:443"])
def test_only_this_machine_is_spoken_to_in_the_clear(monkeypatch, googles, host):
    asked = []

    def default(**options):
        asked.append(options)
        raise DefaultCredentialsError("none here")

    monkeypatch.setenv(api.ENDPOINT_VARIABLE, host)
    monkeypatch.setattr(google.auth, "default", default)
    with pytest.raises(NoCredentials):
        api.connect("my-project")
    assert asked == [{"scopes": [api.SCOPE]}]


def test_a_project_has_to_be_named(monkeypatch, googles):
    monkeypatch.setenv(api.ENDPOINT_VARIABLE, "127.0.0.1:1")
    with pytest.raises(GkeError, match="no project: name one with --project"):
        api.connect(None)
    with pytest.raises(GkeError, match="project 'My Project' must be a project's id"):
        api.connect("My Project")
    monkeypatch.setenv(api.PROJECT_VARIABLE, "from-environment")
    assert api.connect(None).project == "from-environment"
