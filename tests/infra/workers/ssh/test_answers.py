import contextlib
import json

import pytest

from infra.workers.base.job_configuration import JobRefused
from infra.workers.ssh.box import BoxBusy, SshBox
from infra.workers.ssh.check import unmet_requirements
from infra.workers.ssh.connection import BoxUnreachable
from infra.workers.ssh.slurm.box import SlurmBox
from infra.workers.ssh.slurm.states import from_sacct, from_scontrol
from tests.infra.workers.ssh.answering import connected
from tests.infra.workers.ssh.slurm.printed import PENDING
from tests.infra.workers.ssh.test_command_line import FIT, asked

ESCAPES = "\x1b[2J\x1b]0;owned\x07\u202e"
NINES = "9" * 5000  # more digits than `int` takes
CHECKED = "kernel=6.1\narchitecture=x86_64\nhome=/root\nruntime=ok\n"


@contextlib.asynccontextmanager
async def says(stdout, stderr="", code=0, kind=SshBox):
    async with connected(lambda words: (stdout, stderr, code)) as connection:
        box = kind(connection, ["docker"])
        box._home = "/root"  # as if its script lay there already
        yield box


def is_plain(text):
    return not set(text) & set("\x1b\x07\n\u202e")


@pytest.mark.parametrize("kind", [SshBox, SlurmBox])
@pytest.mark.parametrize(
    "fact",
    [
        *("seen=abc", f"seen={NINES}", "seen=-1", "port=x", "port=65536", f"port={NINES}", "seen=²"),
        *("state=", f"state={ESCAPES}", "state=paid"),
    ],
)
async def test_a_look_that_makes_no_sense_is_a_sentence(kind, fact):
    async with says(f"{fact}\nstate=running\n", kind=kind) as box:
        with pytest.raises(JobRefused, match="makes no sense") as caught:
            await box.look("job")
    assert caught.value.state == "Unfit" and is_plain(str(caught.value)) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("fact", "field", "value"),
    [
        (f"pulled={NINES}", "pulled_s", None),
        (f"code={NINES}", "code", None),
        ("code=-9", "code", -9),
        ("pulled=-3", "pulled_s", 0),
        (f"last=epoch 1 {ESCAPES}", "last", "epoch 1 \ufffd"),
        ("last=a\rstate=ended\x0bcode=0\u2028oom=true", "last", "a state=ended code=0 oom=true"),
    ],
)
async def test_other_facts_of_a_look_are_left_out_or_printable(fact, field, value):
    async with says(f"state=running\n{fact}\n") as box:
        look = await box.look("job")
    assert (look.state, getattr(look, field)) == ("running", value) and look.oom is False


async def test_an_invalid_answer_of_a_box_is_reported_in_one_line():
    async with says("", f"sh: {ESCAPES}\nnot found\n{'x' * 10_000}") as box:
        with pytest.raises(BoxUnreachable) as caught:
            await box.look("job")
    assert is_plain(str(caught.value)) and len(str(caught.value)) < 500


@pytest.mark.parametrize("lacking", ["kernel", "architecture", "home", "runtime"])
async def test_a_check_without_a_fact_names_it(lacking):
    text = "".join(line for line in CHECKED.splitlines(True) if not line.startswith(lacking))
    async with says(text, ESCAPES) as box:
        with pytest.raises(JobRefused, match="script" if lacking == "runtime" else lacking):
            await box.check("image")


async def test_the_facts_of_a_check_are_printable():
    async with says(f"{CHECKED}gpu=1, A{ESCAPES}100\ncpu={ESCAPES}\nmemory_kib=16\n") as box:
        facts = await box.check("image")
    assert facts["gpu"] == ["1, A\ufffd100"] and is_plain(str(facts))
    async with says(f"{CHECKED}memory_kib={NINES}\n") as box:
        with pytest.raises(JobRefused, match="memory_kib is '999"):
            await box.check("image")


@pytest.mark.parametrize("code", [73, 75])
async def test_the_holder_of_a_box_is_reported_in_one_line(code):
    async with says(f"job {ESCAPES}\n{'x' * 10_000}", f"{ESCAPES}{'y' * 10_000}", code) as box:
        with pytest.raises((JobRefused, BoxBusy)) as caught:
            await box.free("~/lock", 0)
    assert is_plain(str(caught.value)) and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "info",
    [
        "[" * 200_000,
        '{"host": []}',
        '{"host": {"security": 1}}',
        '{"Runtimes": 5}',
        '{"Runtimes": ["nvidia"], "DiscoveredDevices": {"ID": 1}}',
        '{"Runtimes": {"nvidia": {}}, "DiscoveredDevices": [{"ID": [[]]}]}',
        NINES,
    ],
)
def test_a_runtimes_own_words_can_be_anything(info):
    assert unmet_requirements(FIT | {"info": [info], "lingers": ["no"]}, asked()) == []
    assert unmet_requirements(FIT | {"info": [info], "gpu": ["535, A10"]}, asked(gpus=1)) in (
        [],
        unmet_requirements(FIT | {"gpu": ["535, A10"]}, asked(gpus=1)),
    )


@pytest.mark.parametrize(
    "facts",
    [
        {"runtime": ["failed"], "info": [f"what {ESCAPES}?"]},
        {"free_kib": [f"9 /{ESCAPES}", f"{NINES} /", "² /"]},
    ],
)
def test_missing_requirements_of_a_box_are_reported_without_control_sequences(facts):
    found = unmet_requirements(FIT | facts, asked())
    assert len(found) == 1 and is_plain(found[0])


def test_devices_of_cdi_still_count():
    info = {"Runtimes": {"runc": {}}, "DiscoveredDevices": [{"Source": "cdi", "ID": "nvidia.com/gpu=all"}]}
    assert unmet_requirements(FIT | {"info": [json.dumps(info)], "gpu": ["535, A10"]}, asked(gpus=1)) == []


def test_numbers_of_slurm_that_nothing_holds_are_left_out():
    long = PENDING.replace("Restarts=0", f"Restarts={NINES}").replace("00:11:00", f"{NINES}:00:00")
    job = from_scontrol(long)
    assert (job.state, job.restarts) == ("PENDING", 0)
    assert from_sacct(f"7|CANCELLED by {NINES}|{NINES}:0|node1|{NINES}:00:00").state == "CANCELLED"
