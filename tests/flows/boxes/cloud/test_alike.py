"""A lane in a container and one without, on the same box in the same run: equal records, states and messages."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tasks.planning.hardware import DEPLOYMENTS
from tests.emulators.boxes import boxes, has_all_packages
from tests.emulators.newcomer import Shell, copy_of_checkout
from tests.emulators.prefect_api import with_tables
from workloads.harness.probes import machine

pytestmark = pytest.mark.timeout(1200)
SUITE = Path(__file__).parent / "scripts/endings.toml"
CONTAINED = """
title: The same box, in containers
pool: ssh
device: cpu
price: {{usd_per_hour: 1.0, purchase: assumption, source: a test, date: 2026-11-25}}
job_variables:
  hosts: [{host}]
  image: {image}
  shared_memory_mib: 256
"""


@pytest.fixture(scope="module")
def box():
    with boxes() as (made,):
        has_all_packages(made)
        yield made


@pytest.fixture(scope="module")
def shell(box, bench_image, tmp_path_factory):
    """A user who has measured the box in both ways, in one run."""
    folder = tmp_path_factory.mktemp("user")
    deployments = folder / "deployments"
    shutil.copytree(DEPLOYMENTS, deployments)
    text = CONTAINED.format(host=json.dumps(box.host), image=bench_image)
    (deployments / "hardware/contained.yaml").write_text(text)
    with_tables(folder / "state")
    shell = Shell(folder, {"GRIDBENCH_DEPLOYMENTS": str(deployments)}, copy_of_checkout(folder / "checkout"))
    (shell.home / ".ssh").mkdir(mode=0o700)
    shutil.copy(box.key, shell.home / ".ssh/id_ed25519")
    address = f"ssh://root@{box.address}?usd=1&python={sys.executable}"
    code, told = shell(
        f"ssh-keyscan {box.address} 2>/dev/null >$HOME/.ssh/known_hosts; "
        f"gridbench run {SUITE} --on '{address}' --on contained"
    )
    assert code == 1 and "report: " in told, told  # not every cell has a number
    return shell


# What says which lane it was: its name, its machine's description, the Python that it found there, and how no
# GPU is shown to it.
WHICH = {"hardware", "environment.container", "environment.python", "environment.os", "environment_id"} | {
    "environment.variables.CUDA_VISIBLE_DEVICES"
}
# Fields that are measured or drawn each time: compared by their form.
MEASURED = re.compile(
    r"(order|seed|started_at|wall_s|unattributed_s|(phases_s|wall|memory|probes|monitor|latency|control)\..*"
    r"|script\.(steps|losses|memory_left_bytes|first_step_s|(shares|mean).*))"
)
OF_THE_MACHINE = {"ok", "noisy", "unsteady", "imprecise"}  # verdicts that tell what else it did meanwhile
READ = re.compile(r"(probes|missing)\.")  # in a window that was too short for a counter on one of the two
NUMBER = re.compile(r"\d[\d.,]*")
CODE = re.compile(r"/tmp/[\w/-]*gridbench-code-\w+/")  # a folder of the job's own, whose name is drawn by lot


def leaves(value, path=""):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}".lstrip("."))
    else:
        yield path, value


def form(path, value, measured):
    """Return a comparable value: measured ones by type, sentences without numbers."""
    if path in ("verdict", "reasons", "wall.needed_s") and measured:
        return "of the machine"
    if MEASURED.fullmatch(path):
        return "number" if isinstance(value, int | float) else type(value).__name__
    if path == "reasons" or path.startswith("missing."):
        return NUMBER.sub("#", CODE.sub("CODE/", json.dumps(value)))
    return value


def records_of(shell):
    found = {}
    for path in Path(shell.environment["GRIDBENCH_RESULTS"]).glob("*/records/**/*.json"):
        record = json.loads(path.read_text())
        found.setdefault(record["case"]["workload"], {})[record["hardware"]] = record
    return found


def test_no_field_of_a_record_differs_but_those_that_say_which_it_was(shell):
    found = records_of(shell)
    assert found.keys() == {"matmul", "trains", "fails", "hangs", "lacks"}
    differ = {}
    for case, records in found.items():
        contained, bare = records.pop("contained"), records.popitem()[1]
        assert contained["environment"]["container"] == "podman"
        assert bare["environment"]["container"] == machine.container(Path("/"), {})  # the box has our files
        measured = {contained["verdict"], bare["verdict"]} <= OF_THE_MACHINE
        one, other = (
            {path: form(path, value, measured) for path, value in leaves(each)} for each in (contained, bare)
        )
        if any("too short" in str(value) for each in (one, other) for value in each.values()):
            one, other = ({p: v for p, v in each.items() if not READ.match(p)} for each in (one, other))
        for path in (one.keys() | other.keys()) - WHICH:
            if (pair := (one.get(path, "absent"), other.get(path, "absent")))[0] != pair[1]:
                differ[case, path] = pair
    assert not differ, "\n".join(f"{place}: {pair}" for place, pair in differ.items())
