import asyncio
import json
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from infra.workers.base.job_configuration import JobRefused
from infra.workers.ssh.box import SshBox
from infra.workers.ssh.check import unmet_requirements
from infra.workers.ssh.configuration import Host, SshJobConfiguration
from infra.workers.ssh.connection import BoxUnreachable
from infra.workers.ssh.outcome import outcome_of
from infra.workers.ssh.slurm.states import from_sacct, from_scontrol
from tests.infra.workers.ssh.slurm.printed import PENDING
from tests.mutations import NASTY, damaged_text, misleads

MANY = settings(max_examples=1000)
INFO = {"Runtimes": {"nvidia": {}}, "DiscoveredDevices": [{"ID": "nvidia.com/gpu=0"}]}
PODMAN = {"host": {"security": {"rootless": True}}}
CHECK = {
    "missing": "flock",
    "kernel": "6.1.0",
    "architecture": "x86_64",
    "home": "/root",
    "runtime": "ok",
    "image": "sha256:ab",
    "lingers": "no",
    "free_kib": "1000 /root",
    "memory_kib": "16000000",
    "gpu": "NVIDIA L4",
}
LOOK = {
    "state": "ended",
    "code": "137",
    "oom": "true",
    "late": "1",
    "pulled": "12",
    "last": "x",
    "seen": "7",
    "port": "1",
}
JOBS = [
    SshJobConfiguration.model_construct(image="lane:1", memory_mib=100, **changes)
    for changes in ({}, {"gpus": "all"}, {"scheduler": "slurm", "container_command": "none"})
]
VALUES = st.text(max_size=20) | NASTY.map(str) | st.integers().map(str)


@st.composite
def answers(draw, facts):
    """Draw the lines of an answer, changed, missing, doubled or reordered; or other bytes."""
    lines = [
        f"{name}={draw(st.just(value) | VALUES)}"
        for name, value in facts.items()
        if draw(st.integers(0, 9)) > 0
    ]
    if "runtime" in facts:
        info = draw(st.sampled_from([INFO, PODMAN]).flatmap(damaged_text)).decode(errors="replace")
        lines.append("info=" + " ".join(info.split("\n")))
    lines = draw(st.permutations(lines)) + draw(st.lists(st.sampled_from(lines or [""]) | VALUES, max_size=2))
    return "\n".join(lines).encode("utf-8", "surrogatepass") + draw(st.binary(max_size=4))


def can_be_shown(text):
    return not misleads(text) and len(text) < 3000


@MANY
@given(answers(CHECK), st.sampled_from(JOBS))
def test_facts_are_read_or_refused(output, job):
    try:
        facts = SshBox._facts(SimpleNamespace(stdout=output, stderr=output))
    except JobRefused as refused:
        assert can_be_shown(str(refused))
        return
    assert all(map(can_be_shown, unmet_requirements(facts, job)))


class Box(SshBox):
    async def folder(self, name):
        return f"/root/{name}"

    async def _engine(self, verb, *arguments, **how):
        return self.connection


@MANY
@given(answers(LOOK), st.sampled_from(JOBS))
def test_a_look_is_read_or_refused(output, job):
    box = Box(SimpleNamespace(stdout=output, stderr=output, exit_status=0), ["docker"])
    try:
        look = asyncio.run(box.look("lane"))
    except (JobRefused, BoxUnreachable) as refused:
        assert can_be_shown(str(refused))
        return
    json.dumps(look.port)
    if outcome := outcome_of(look, Host(address="10.0.0.1"), job):
        assert can_be_shown(outcome.message)


@MANY
@given(
    st.dictionaries(st.integers(0, len(PENDING.split()) - 1), VALUES, max_size=5),
    st.lists(VALUES, max_size=6),
)
def test_slurms_words_are_read_or_left(changed, columns):
    words = PENDING.split()
    for at, value in changed.items():
        name = words[at].partition("=")[0]
        if name not in ("JobId", "JobState"):  # a text without these names no job
            words[at] = f"{name}={value}"
    assert from_scontrol(" ".join(words)).number == "7"
    from_sacct("|".join(["7", *columns]))
