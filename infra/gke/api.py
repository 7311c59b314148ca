"""The project and zone of a command."""

import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

import google.auth
import grpc
from google.api_core.client_options import ClientOptions
from google.cloud.container_v1 import ClusterManagerClient
from google.cloud.container_v1.services.cluster_manager.transports import ClusterManagerGrpcTransport

from infra.gke.errors import GkeError, in_words

ENDPOINT_VARIABLE = "GRIDBENCH_GKE_ENDPOINT"  # HOST:PORT of the API, instead of Google's own
PROJECT_VARIABLE = "GOOGLE_CLOUD_PROJECT"  # as Google's own libraries read it
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
LOCAL = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = "-"  # the API's name for all locations
PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")


@dataclass(frozen=True, slots=True)
class GkeLocation:
    """A project and a zone in it, or `-` for all locations, which only lists accept."""

    client: ClusterManagerClient
    project: str
    zone: str

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    def path(self, cluster: str) -> str:
        return f"{self.parent}/clusters/{cluster}"


def connect(project: str | None, zone: str = EVERYWHERE) -> GkeLocation:
    """Connect with the default credentials; to a local endpoint unencrypted and without them."""
    endpoint = _endpoint()
    if endpoint and urlsplit(f"//{endpoint}").hostname in LOCAL:
        channel = grpc.insecure_channel(endpoint)
        client = ClusterManagerClient(transport=ClusterManagerGrpcTransport(channel=channel))
        return GkeLocation(client, _project(project or os.environ.get(PROJECT_VARIABLE)), zone)
    with in_words("signing in"):
        credentials, default_project = google.auth.default(scopes=[SCOPE])
    options = ClientOptions(api_endpoint=endpoint) if endpoint else None
    named = _project(project or default_project)
    return GkeLocation(ClusterManagerClient(credentials=credentials, client_options=options), named, zone)


def _endpoint() -> str | None:
    value = os.environ.get(ENDPOINT_VARIABLE, "").strip()
    try:
        parts = urlsplit(f"//{value}")
        well = not value or (parts.hostname and parts.port and parts.netloc == value)
    except ValueError:
        well = False
    if not well:
        raise GkeError(f"{ENDPOINT_VARIABLE} is {value!r}: it looks like container.googleapis.com:443")
    return value or None


def _project(name: str | None) -> str:
    if not name:
        raise GkeError(f"no project: name one with --project, or set {PROJECT_VARIABLE}")
    if not PROJECT.fullmatch(name):
        raise GkeError(
            f"project {name!r} must be a project's id: 6 to 30 small letters, digits and dashes, "
            "such as my-project-1"
        )
    return name
