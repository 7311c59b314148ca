import json
import stat
import sys

import boto3
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from moto import mock_aws
from typer.testing import CliRunner

from flows.bench import check_exist
from gridbench.machines import image
from infra.images import registries
from infra.images.errors import ImageError
from tasks.errors import GridbenchError
from tests.infra.images.token_server import tokens

REPOSITORY = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/gridbench/lane"
ON_GOOGLE = "europe-west4-docker.pkg.dev/my-project/gridbench/lane"
COMMIT = "a" * 40
# Repositories of a stack have immutable tags, and refuse even the same image a second time
# (aws/containers-roadmap #2179, moby/buildkit #3776) [thread].
FAKE = """#!{python}
import json, pathlib, sys
arguments, folder = sys.argv[1:], pathlib.Path({folder!r})
said = sys.stdin.read() if "--password-stdin" in arguments else ""
with open(folder / "calls", "a") as log:
    log.write(json.dumps([arguments, said]) + "\\n")
if arguments[:2] == ["image", "inspect"]:
    print(json.dumps([{{"Id": "sha256:" + (folder / "id").read_text(), "Size": 5}}]))
if arguments[0] == "push":
    there = folder / arguments[-1].rpartition("/")[2]
    if there.exists():
        sys.exit("tag invalid: The image tag already exists and cannot be overwritten because it is immutable")
    there.touch()
    pathlib.Path(arguments[arguments.index("--digestfile") + 1]).write_text("sha256:" + "d" * 64)
"""


def run(*arguments):
    return CliRunner().invoke(image.app, arguments)


def push(repository=REPOSITORY):
    return run("push", repository, "--engine", "podman")


@pytest.fixture
def podman(tmp_path, monkeypatch):
    """A podman with one image of a clean commit, which logs calls and refuses a tag twice."""
    program = tmp_path / "podman"
    program.write_text(FAKE.format(python=sys.executable, folder=str(tmp_path)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(image, "revision", lambda: COMMIT)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "id").write_text("1" * 64)
    return lambda word: [
        call for call in map(json.loads, (tmp_path / "calls").read_text().splitlines()) if call[0][0] == word
    ]


@pytest.fixture
def registry(monkeypatch):
    """An account's repository in ECR; a test adds pushed images by hand."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws():
        client = boto3.client("ecr", region_name="eu-west-1")
        client.create_repository(repositoryName="gridbench/lane", imageTagMutability="IMMUTABLE")
        yield client


def put(registry, tag):
    """Put an image under a tag; return its digest."""
    manifest = {"schemaVersion": 2, "config": {"digest": "sha256:1", "size": 1}, "layers": []}
    image = registry.put_image(
        repositoryName="gridbench/lane",
        imageTag=tag,
        imageManifest=json.dumps(manifest),
        imageManifestMediaType="application/vnd.docker.distribution.manifest.v2+json",
    )
    return image["image"]["imageId"]["imageDigest"]


def test_an_image_is_looked_up_before_a_lane_starts_in_it(registry):
    said = []
    check_exist([f"{REPOSITORY}:mine@{put(registry, 'mine')}", f"{REPOSITORY}:mine"], said.append)
    assert not said
    check_exist(["vllm/vllm-openai:v0.11.0"], said.append)
    (why,) = said
    assert "vllm/vllm-openai:v0.11.0" in why and "only images of ECR" in why
    for missing in (f"{REPOSITORY}:other", f"{REPOSITORY}/other:mine", f"{REPOSITORY}@sha256:{'0' * 64}"):
        with pytest.raises(GridbenchError, match="does not exist: push it"):
            check_exist([missing], said.append)


def test_push_logs_in_by_standard_input_and_tells_the_digest(podman, registry):
    result = push()
    assert result.exit_code == 0, result.exception
    assert result.stdout.strip() == f"{REPOSITORY}@sha256:{'d' * 64}"
    ((login, said),) = podman("login")
    assert login == ["login", "--username", "AWS", "--password-stdin", REPOSITORY.partition("/")[0]]
    assert said == "123456789012-auth-token"
    ((pushed, _),) = podman("push")
    assert said not in pushed and pushed[-1] == f"{REPOSITORY}:cpu-{COMMIT[:12]}-{'1' * 12}"


def test_another_build_of_the_same_commit_has_a_tag_of_its_own(podman, registry, tmp_path):
    assert push().exit_code == 0
    (tmp_path / "id").write_text("2" * 64)  # with --reference, or another --base
    result = push()
    assert result.exit_code == 0, result.exception
    assert len({call[0][-1] for call in podman("push")}) == 2


def test_the_same_image_is_not_pushed_twice(podman, registry):
    assert push().exit_code == 0
    ((pushed, _),) = podman("push")
    tag = pushed[-1].rpartition(":")[2]
    digest = put(registry, tag)
    result = push()
    assert result.exit_code == 0, result.exception
    assert result.stdout.strip() == f"{REPOSITORY}@{digest}"
    assert len(podman("push")) == 1


def test_a_repository_that_is_not_there_is_one_sentence(podman, registry):
    error = push(REPOSITORY.replace("lane", "other")).exception
    assert (
        isinstance(error, ImageError) and "gridbench/other" in str(error) and "does not exist" in str(error)
    )


def test_without_credentials_nothing_is_pushed(podman, monkeypatch, tmp_path):
    from botocore.exceptions import NoCredentialsError

    def nobody(*_, **__):
        raise NoCredentialsError

    monkeypatch.setattr(registries.boto3, "client", nobody)
    error = push().exception
    assert isinstance(error, ImageError) and "Unable to locate credentials" in str(error)
    assert not podman("push")


def test_a_dirty_tree_is_not_pushed(monkeypatch):
    monkeypatch.setattr(image, "revision", lambda: f"{COMMIT}-dirty")
    error = push().exception
    assert isinstance(error, GridbenchError) and "--allow-dirty" in str(error)


class TestGoogle:
    @pytest.fixture
    def account(self, tmp_path, monkeypatch):
        key = rsa.generate_private_key(65537, 2048)
        shape = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        file = tmp_path / "account.json"
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        with tokens("ya29.very-secret") as address:
            words = {"type": "service_account", "client_email": "me@my-project.iam.gserviceaccount.com"}
            words |= {"private_key": key.private_bytes(*shape).decode(), "token_uri": address}
            file.write_text(json.dumps(words))
            yield

    def test_push_logs_in_with_the_default_credentials(self, podman, account):
        result = push(ON_GOOGLE)
        assert result.exit_code == 0, result.exception
        ((login, said),) = podman("login")
        host = ON_GOOGLE.partition("/")[0]
        assert login == ["login", "--username", "oauth2accesstoken", "--password-stdin", host]
        assert said == "ya29.very-secret"

    def test_a_push_without_credentials_names_the_login_command(self, podman, monkeypatch, tmp_path):
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
        error = push(ON_GOOGLE).exception
        assert isinstance(error, ImageError) and "gcloud auth application-default login" in str(error)
        assert not podman("push")

    def test_a_helper_that_docker_was_told_of_logs_in(self, podman, account, tmp_path):
        host = ON_GOOGLE.partition("/")[0]
        (tmp_path / "config.json").write_text(json.dumps({"credHelpers": {host: "gcloud"}}))
        assert push(ON_GOOGLE).exit_code == 0
        assert podman("push") and not podman("login")

    def test_hosts_of_the_registry_are_recognised(self):
        assert all(map(registries.GOOGLE_HOST.fullmatch, ["europe-west4-docker.pkg.dev", "eu.gcr.io"]))
        assert not registries.GOOGLE_HOST.fullmatch("docker.pkg.dev.evil.example")


def test_other_registries_are_the_users_own_login(podman):
    assert registries.ecr_region(REPOSITORY) == "eu-west-1"
    assert registries.ecr_region("ghcr.io/someone/gridbench") is None
    assert registries.ecr_region("evil.example/123456789012.dkr.ecr.eu-west-1.amazonaws.com") is None
    assert push("ghcr.io/someone/gridbench").exit_code == 0
    assert not podman("login")
