import json
import tomllib
import uuid

import httpx
import pytest
from pydantic import ValidationError

from infra.workers.base.job_configuration import JobRefused, one_sentence
from infra.workers.base.log_lines import CALL_BYTES, LONGEST_BYTES, Lines
from infra.workers.brand import BRAND
from infra.workers.ssh.box import Look
from infra.workers.ssh.check import unmet_requirements
from infra.workers.ssh.command_line import env_file, gpu_options, run_command, secret_profile
from infra.workers.ssh.configuration import Host, SshJobConfiguration, host_and_name, identifier, job_name
from infra.workers.ssh.outcome import outcome_of
from infra.workers.ssh.sending import run_words

BOX = {"address": "box.example", "host_key": "ssh-ed25519 AAAA"}
URL = "http://127.0.0.1:4200/api"


BARE = {"image": None, "container_command": "none"}


def asked(**changes):
    return SshJobConfiguration(
        **{"hosts": [BOX], "image": "an-image", "env": {"PREFECT_API_URL": URL}} | changes
    )


def test_the_words_of_a_run():
    job = asked(
        shared_memory_mib=512,
        memory_mib=2048,
        mounts=["/data:/data:ro"],
        env={"PREFECT_API_URL": URL, "PREFECT_API_KEY": "secret", "A": "it's; a `value`", "B": None},
        command="sh -c 'echo \"a b\"'",
    )
    words = run_command(job, "a-name", 40123)
    assert words[:2] == ("run", "--detach")
    assert words[-4:] == ("an-image", "sh", "-c", 'echo "a b"')
    env = env_file(job, "a-name", 40123).splitlines()
    assert "A=it's; a `value`" in env and not any(line.startswith("B=") for line in env)
    assert "PREFECT_API_URL=http://127.0.0.1:40123/api" in env
    assert "PREFECT_PROFILES_PATH=/run/prefect-secrets/profiles.toml" in env
    assert words[words.index("--env-file") + 1] == "/dev/shm/a-name/env" and "--env" not in words
    assert not any("it's" in word or word == "secret" or "40123" in word for word in words)
    assert not any("API_KEY" in line for line in env)
    assert "/dev/shm/a-name/prefect-secrets:/run/prefect-secrets:ro" in words and "/data:/data:ro" in words
    for pair in (("--shm-size", "512m"), ("--memory", "2048m"), ("--network", "host"), ("--name", "a-name")):
        assert words[words.index(pair[0]) + 1] == pair[1]


def test_a_box_keeps_nothing_unless_it_is_asked_to_and_each_users_apart():
    assert "-kept" not in " ".join(run_command(asked(), "a-name", None, "/home/me"))
    mine, theirs = (run_command(asked(keep=True), "a-name", None, f"/home/{who}") for who in ("me", "them"))
    volume = mine[mine.index("--volume") + 1]
    assert volume.startswith(f"{BRAND.name}-kept-") and volume.endswith(f":{BRAND.cache_path}")
    assert volume not in theirs and mine == run_command(asked(keep=True), "a-name", None, "/home/me")


def test_without_secrets_or_a_tunnel_nothing_of_them_is_reported():
    words = " ".join(run_command(asked(), "a-name", None))
    assert "prefect-secrets" not in words and "--add-host" not in words
    assert f"PREFECT_API_URL={URL}" in env_file(asked(), "n", None).splitlines()


@pytest.mark.parametrize(
    "url", ["http://10.0.0.7:4200/api", "https://api.prefect.cloud/api/accounts/a/workspaces/b"]
)
def test_behind_a_tunnel_is_the_workers_proxy_and_no_credential_of_the_workers(url):
    names = ("PREFECT_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT_CLIENT_CUSTOM_HEADERS")
    job = asked(env={"PREFECT_API_URL": url} | dict.fromkeys(names, "k3y"))
    words, env = " ".join(run_command(job, "n", 5)), env_file(job, "n", 5)
    assert "PREFECT_API_URL=http://127.0.0.1:5/api" in env.splitlines()
    assert not any(hidden in words + env for hidden in (url, "k3y", "--add-host"))
    assert "/dev/shm/n/prefect-secrets:/run/prefect-secrets:ro" in words
    assert secret_profile(job.env, "box:t0ken").splitlines()[2:] == ['PREFECT_API_AUTH_STRING = "box:t0ken"']


@pytest.mark.parametrize(
    ("command", "gpus", "words"),
    [
        ("docker", 0, []),
        ("docker", 2, ["--gpus", "2"]),
        ("docker", "all", ["--gpus", "all"]),
        ("docker", ["0", "1"], ["--gpus", '"device=0,1"']),
        ("podman", "all", ["--device", "nvidia.com/gpu=all"]),
        ("podman", 2, ["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1"]),
        ("podman", ["1"], ["--device", "nvidia.com/gpu=1"]),
    ],
)
def test_how_gpus_are_asked_for(command, gpus, words):
    assert gpu_options(asked(container_command=[command], gpus=gpus)) == words


@pytest.mark.parametrize(
    ("gpus", "visible"), [("all", None), (0, ""), (2, "0,1"), (["1", "GPU-5"], "1,GPU-5")]
)
def test_a_job_without_a_container_gets_the_same_variables_and_sees_the_same_gpus(gpus, visible):
    job = asked(**BARE, gpus=gpus, env={"PREFECT_API_KEY": "secret", "A": "b"})
    env = dict(line.split("=", 1) for line in env_file(job, "a-name", 40123).splitlines())
    assert env.pop("CUDA_VISIBLE_DEVICES", None) == visible
    in_container = dict(
        line.split("=", 1) for line in env_file(asked(env=job.env), "a-name", 40123).splitlines()
    )
    assert env.pop("PREFECT_PROFILES_PATH") == "/dev/shm/a-name/prefect-secrets/profiles.toml"
    assert in_container.pop("PREFECT_PROFILES_PATH") == "/run/prefect-secrets/profiles.toml"
    assert {in_container.pop(name) for name in ("NO_PROXY", "no_proxy")} == {"127.0.0.1,localhost"}
    assert env == in_container and "secret" not in str(env)


def test_the_words_of_a_process_tree():
    job = asked(**BARE, timeout_s=60, command="sh -c 'echo \"a b\"'")
    options = ("--code", "/root/.prefect-ssh/lane-1/code", "--bin", "/root/.prefect-ssh/lane-1/bin")
    assert run_words(job, "/root/.prefect-ssh/a-name", *options) == (
        *("run", "--env-file", "/dev/shm/a-name/env", "--limit-s", "60"),
        *options,
        *("/root/.prefect-ssh/a-name", "sh", "-c", 'echo "a b"'),
    )


def test_secrets_are_a_profile_of_prefect():
    tricky = 'a"b\\c\ud83d'.encode("utf-16", "surrogatepass").decode("utf-16", "replace") + "ü"
    profile = tomllib.loads(secret_profile({"PREFECT_API_KEY": tricky, "OTHER": "x"}, None))
    assert profile == {"active": "box", "profiles": {"box": {"PREFECT_API_KEY": tricky}}}
    assert secret_profile({"PREFECT_API_KEY": "", "OTHER": "x"}, None) == ""


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({"A": "one\ntwo"}, "env sets A to several lines"),
        ({"PREFECT_API_URL": "https://me:hush@api.example/api"}, "a user or a password"),
    ],
)
def test_values_that_an_env_file_cannot_hold_are_refused_and_not_repeated(env, words):
    with pytest.raises(JobRefused, match=words) as refusal:
        env_file(asked(env=env), "n", None)
    assert "two" not in str(refusal.value) and "hush" not in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hosts": []}, "hosts is not set"),
        ({"hosts": [BOX, BOX]}, "ubuntu@box.example:22 more than once"),
        ({"hosts": [{"address": "me@box"}]}, "address 'me@box' is neither a name nor an IP address"),
        ({"hosts": [{"address": "box", "user": "a b"}]}, "hosts.0.user is 'a b'"),
        (
            {"hosts": [{"address": "box", "host_key": "nonsense"}]},
            "hosts.0.host_key: string should match pattern",
        ),
        ({"image": None}, "image is not set"),
        ({"image": "--privileged"}, "image: '--privileged' is an option of the container runtime"),
        ({"gpus": -1}, "gpus is -1"),
        ({"mounts": ["data"]}, "mounts has 'data'"),
        ({"env": {"LAMBDA_API_KEY": "x"}}, "env sets LAMBDA_API_KEY: "),
        ({"env": {"A B": "x"}}, "env sets 'A B'"),
        ({"lock_file": "lock"}, "lock_file is 'lock'"),
        ({"container_command": []}, "container_command"),
        (
            {"container_command": "none"},
            "image is set, but applies only to containers",
        ),
        (BARE | {"memory_mib": 100}, "memory_mib is set, but"),
        (BARE | {"pull": "stream"}, "pull is stream, but"),
        (BARE | {"mounts": ["/a:/b"]}, "mounts is set, but"),
    ],
)
def test_a_mistake_is_a_sentence(changes, words):
    with pytest.raises(ValidationError) as caught:
        asked(**changes)
    assert words in one_sentence(caught.value)


def test_a_job_is_found_again_by_its_identifier():
    hosts = [Host(address="a"), Host(address="fe80::1", port=2222, user="root")]
    for host in hosts:
        name = job_name(uuid.UUID(int=1), 2)
        assert host_and_name(identifier(host, name), hosts) == (host, name)
    assert host_and_name(identifier(Host(address="b"), "n"), hosts) is None


FIT = {"runtime": ["ok"], "info": [json.dumps({"Runtimes": {"runc": {}}})], "free_kib": ["2097152 /root"]}
NVIDIA = {"info": [json.dumps({"Runtimes": {"nvidia": {}}})]}


@pytest.mark.parametrize(
    ("facts", "changes", "words"),
    [
        ({"missing": ["flock"]}, {}, "flock is missing: install the package util-linux."),
        ({"runtime": ["failed"], "info": ["docker: not found"]}, {}, "docker is not installed"),
        (
            {"runtime": ["failed"], "info": ["dial unix: permission denied"]},
            {},
            "not allowed to use docker",
        ),
        ({"runtime": ["failed"], "info": ["sudo: a password is required"]}, {}, "asks for a password"),
        ({"runtime": ["failed"], "info": ["what?"]}, {}, "docker does not work: what?."),
        ({"free_kib": ["1024 /root"]}, {}, "/root has 1 MiB free, less than least_free_mib 1024"),
        ({}, {"pull": "never"}, "image an-image is not on the box"),
        ({}, {"gpus": 1}, "nvidia-smi finds no GPU"),
        ({"gpu": ["535, A10"]}, {"gpus": 1}, "docker can't give containers access to GPUs"),
        ({"gpu": ["535, A10"]} | NVIDIA, {"gpus": 2}, "gpus is 2, but the box has 1."),
    ],
)
def test_each_missing_requirement_of_a_box_is_a_sentence(facts, changes, words):
    found = unmet_requirements(FIT | facts, asked(**changes))
    assert len(found) == 1 and words in found[0]


def test_a_box_without_containers_needs_neither_them_nor_an_image():
    bare = {"runtime": ["failed"], "free_kib": ["2097152 /root"], "gpu": ["535, A10"]}
    assert unmet_requirements(bare, asked(**BARE, gpus="all")) == []
    assert unmet_requirements(bare | {"missing": ["flock"]}, asked(**BARE)) != []


def test_a_fit_box_lacks_nothing():
    assert unmet_requirements(FIT, asked()) == []
    assert unmet_requirements(FIT | NVIDIA | {"gpu": ["535, A10"]}, asked(gpus="all")) == []
    assert unmet_requirements(FIT | {"image": ["sha256:1"]}, asked(pull="never")) == []


@pytest.mark.parametrize(
    ("look", "name"),
    [
        (Look("running"), None),
        (Look("prepared"), None),
        (Look("ended", code=0), "Exited"),
        (Look("ended", code=3), "Crashed"),
        (Look("ended", code=137), "Crashed"),
        (Look("ended", code=137, oom=True), "OutOfMemory"),
        (Look("ended", code=143, late=True), "TimedOut"),
        (Look("ended", unpulled=True), "ImagePullFailed"),
        (Look("ended"), "Crashed"),
        (Look("rebooted"), "Rebooted"),
        (Look("abandoned"), "Crashed"),
        (Look("absent"), "Crashed"),
    ],
)
def test_a_look_at_a_job_gives_its_outcome(look, name):
    found = outcome_of(look, Host(address="box"), asked())
    assert (found.name if found else None) == name
    assert found is None or found.name == "Exited" or found.status_code != 0


@pytest.mark.parametrize("changes", [{}, BARE])
def test_a_failed_image_pull_is_reported_with_the_last_line_of_the_log(changes):
    found = outcome_of(Look("ended", unpulled=True, last="no route."), Host(address="box"), asked(**changes))
    what = "The job's environment could not be created" if changes else "Image an-image could not be pulled"
    assert (found.name, found.message) == ("ImagePullFailed", f"{what} on box ubuntu@box:22: no route.")


async def test_lines_come_whole_once_and_in_pieces_where_they_are_long():
    sent = []

    async def send(lines):
        sent.extend(line.message for line in lines)

    lines = Lines(uuid.uuid4(), send, 0, "box")
    lines.take(b"one\ntw")
    await lines.flush()
    assert (sent, lines.seen) == (["one"], 4)
    lines.rewind()  # the connection was lost: the box is asked from byte 4 on
    more = b"two\n\n12:00:00.000 | INFO    | Flow run 'x' - said\n" + b"x" * (LONGEST_BYTES + 1)
    lines.take(more)
    await lines.flush(last=True)
    assert sent == ["one", "two", "x" * LONGEST_BYTES, "x"]
    assert lines.seen == 4 + len(more)


async def test_lines_that_the_api_refuses_for_good_are_reported_and_the_others_go():
    sent = []

    async def send(lines):
        if any("big" in line.message for line in lines):
            answer = httpx.Response(413, request=httpx.Request("POST", URL))
            raise httpx.HTTPStatusError("too large", request=answer.request, response=answer)
        sent.append([line.message for line in lines])

    lines = Lines(uuid.uuid4(), send, 0, "box")
    lines.take(b"big\n")
    await lines.flush()
    lines.take(b"small\0\n")
    await lines.flush()
    assert sent == [["1 log lines were refused by the Prefect API (413)."], ["small\ufffd"]]
    assert lines.seen == 11


async def test_lines_that_were_not_sent_come_once_more_after_a_lost_connection():
    sent = []

    async def send(lines):
        sent.extend(line.message for line in lines)

    lines = Lines(uuid.uuid4(), send, 100, "box")
    lines.take(b"a\nb\n")
    lines.rewind()
    assert lines.seen == 100
    lines.take(b"a\nb\nc\n")
    await lines.flush()
    assert (sent, lines.seen) == (["a", "b", "c"], 106)


async def test_a_call_carries_no_more_than_it_may():
    sizes = []

    async def send(lines):
        sizes.append(sum(len(line.message) for line in lines))

    lines = Lines(uuid.uuid4(), send, 0, "box")
    lines.take(b"".join(b"x" * 10_000 + b"\n" for _ in range(120)))
    await lines.flush()
    assert sum(sizes) == 1_200_000 and max(sizes) <= CALL_BYTES


@pytest.mark.parametrize("field", ["key", "host_key", "password"])
def test_a_key_that_is_pasted_by_mistake_is_not_repeated(field):
    with pytest.raises(ValidationError) as caught:
        asked(hosts=[BOX | {field: "-----BEGIN OPENSSH PRIVATE KEY-----\nsecret"}])
    assert f"hosts.0.{field}" in one_sentence(caught.value) and "secret" not in one_sentence(caught.value)
