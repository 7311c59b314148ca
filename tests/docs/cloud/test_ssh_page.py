import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.docs.shown import DOCS, block_of
from tests.emulators.boxes import boxes, has_all_packages
from tests.emulators.own_server import AUTH, PrefectServer
from tests.exit_codes import assert_measured

pytestmark = pytest.mark.timeout(1200)
PAGE = DOCS / "ssh.md"


@pytest.fixture
def box():
    with boxes() as (made,):
        yield made


@pytest.fixture
def owner(shell, box, deployments, bench_image):
    """A shell whose home has the key of the box, and the page's hardware file for it."""
    folder = shell.home / ".ssh"
    folder.mkdir(mode=0o700)
    shutil.copy(box.key, folder / "id_ed25519")
    text = block_of(PAGE, "title: The box under my desk")
    (deployments / "hardware" / "my-box.yaml").write_text(at_box("\n".join(text), box, bench_image))
    return shell


def at_box(text, box, image):
    """Return the page's text for this box and image; it has no GPU."""
    host_key = " ".join(box.host_key.split()[:2])
    pairs = (
        ("user: ubuntu", "user: root"),
        ("ubuntu@box.example", f"root@{box.address}"),
        ("box.example", box.address),
        ("ssh-ed25519 AAAA…", host_key),
        ("registry.example/gridbench/lane:cuda12", image),
        ("device: cuda", "device: cpu"),
        ("gpus: 1\n", ""),
        ("  gpus: all\n", ""),
        (" --gpus 1", ""),
        ("8192", "256"),
    )
    for shown, own in pairs:
        text = text.replace(shown, own)
    return text


def test_a_box_is_checked_and_measured(owner, box, bench_image):
    known = f"ssh-keyscan {box.address} 2>/dev/null >> $HOME/.ssh/known_hosts"
    code, told = owner(known)
    check, run = (
        at_box(line, box, bench_image)
        for line in block_of(
            PAGE, "gridbench ssh check ubuntu@box.example --key ~/.ssh/id_ed25519 --gpus 1 --image"
        )
    )
    code, told = owner(check)
    assert code == 0, told
    code, told = owner(run, timeout=900)
    assert_measured(code, told)
    assert "report: " in told, told
    assert not owner.processes()


def test_a_box_with_torch_is_measured_by_its_address(owner, box):
    """The lane's code goes there, and our own Python has its packages.

    Records of the box in containers, in the same run, have the same form.
    """
    has_all_packages(box)
    (box.folder / "home" / "venv").symlink_to(Path(sys.executable).parents[1])
    owner(f"ssh-keyscan {box.address} 2>/dev/null >> $HOME/.ssh/known_hosts")
    (command,) = block_of(PAGE, "gridbench run loadtest --on 'ssh://")
    code, told = owner(f"{at_box(command, box, '')} --on my-box", timeout=900)
    assert_measured(code, told)
    assert f"at {box.address}" in told and "report: " in told, told
    assert box.jobs() == [] and not owner.processes()
    records = Path(owner.environment["GRIDBENCH_RESULTS"]).glob("*/records/**/*.json")
    found = {record["hardware"]: record for record in map(json.loads, map(Path.read_text, records))}
    bare, contained = found[box.address], found["my-box"]
    assert contained["environment"]["container"] and forms(bare) == forms(contained)
    assert bare["environment"]["commit"] == contained["environment"]["commit"]
    assert {bare["verdict"], contained["verdict"]} <= {"ok", "noisy"}


def forms(record):
    """Return the names of all parts of a record; measured values differ."""
    return {
        name: sorted(value) if isinstance(value, dict) else type(value).__name__
        for name, value in record.items()
    }


def test_a_box_is_measured_by_workers_of_a_server_elsewhere(owner, box, tmp_path, bench_image):
    server = PrefectServer(tmp_path / "server")
    try:
        server.wait()
        lines = [
            line.replace("https://prefect.example/api", server.url)
            for line in block_of(PAGE, "export PREFECT_API_URL")
        ]
        started = [
            f"{line} >>{tmp_path}/workers.log 2>&1 &" if "worker start" in line else line for line in lines
        ]
        owner.environment["PREFECT_API_AUTH_STRING"] = AUTH
        # Job control, because a script's background jobs ignore SIGINT otherwise, which ends Prefect's workers.
        script = "\n".join(["set -em", "trap 'kill $(jobs -p); wait' EXIT", *started])
        code, told = owner(script, timeout=400)
    finally:
        server.stop()
    assert_measured(code, told)
    assert "report: " in told, told
    assert re.search(r"my-box", told)
