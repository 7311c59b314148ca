import json
import re
import time
from uuid import uuid4

import pytest

from gridbench.machines.image import add_code
from tasks.travel.tree import take
from tests.emulators import containers
from tests.emulators.containers import podman
from tests.emulators.fixtures import environment
from tests.tasks.travel.wheels import wheel

pytestmark = pytest.mark.timeout(1800)  # the first build of a checkout takes minutes


def inside(image, *command, options=(), check=True):
    return podman("run", "--rm", "--network", "host", *options, image, *command, check=check).stdout


@pytest.fixture(scope="session")
def about(bench_image):
    return json.loads(podman("image", "inspect", bench_image).stdout)[0]


def test_the_user_of_the_image_is_not_root_and_can_change_nothing(bench_image):
    told = inside(
        bench_image,
        "sh",
        "-c",
        "id -u; touch /opt/gridbench/x /opt/venv/x 2>&1; echo $PWD; touch ~/x && echo home",
    )
    assert told.splitlines()[0] == "1000"
    assert told.count("Permission denied") == 2
    assert told.splitlines()[-2:] == ["/opt/gridbench", "home"]


def test_the_image_lists_workloads_and_measures_one(bench_image, about):
    assert "matmul:" in inside(bench_image, "python", "-m", "workloads", "list")
    size = ("--size", "n=64", "--quick", "--timeout-s", "120")
    record = json.loads(inside(bench_image, "python", "-m", "workloads", "run", "matmul", *size, check=False))
    assert record["verdict"] in {"ok", "unsteady", "imprecise", "noisy", "shared"}
    assert record["environment"]["commit"] == revision_of(about)


def test_the_lane_and_the_engine_of_prefect_are_there(bench_image):
    text = "import prefect.engine, flows.lane, tasks, infra, workloads, torch; print(prefect.__version__, torch.__version__)"
    assert inside(bench_image, "python", "-c", text).split() == ["3.8.8", "2.13.0+cpu"]


def test_nothing_of_the_build_is_left(bench_image):
    look = "command -v gcc cc make pip3 pip; ls -A /root /tmp /var/lib/apt/lists /packages 2>/dev/null; find / -xdev -name '*.whl' "
    look += "-size +1M -o -xdev -name ca.crt 2>/dev/null | grep -v -e ensurepip -e /usr/share/python-wheels"
    names = inside(bench_image, "sh", "-c", f"{look}; true").split()
    assert not {"gcc", "cc", "make"} & {name.rpartition("/")[2] for name in names}
    assert not [name for name in names if name.endswith((".whl", "ca.crt")) or "cache" in name]


def test_bytecode_is_there_and_is_used(bench_image):
    look = (
        "import sys, workloads.harness.records.record as r, prefect as p; print(r.__cached__, p.__cached__)"
    )
    cached = inside(bench_image, "python", "-c", look).split()
    assert all(re.search(r"__pycache__/\w+\.cpython-3\d+\.pyc$", path) for path in cached)
    inside(bench_image, "test", "-f", cached[0])
    inside(bench_image, "test", "-f", cached[1])


def revision_of(about):
    return about["Config"]["Labels"]["org.opencontainers.image.revision"]


def test_labels_and_variables_of_the_image_name_its_commit_and_flavour(bench_image, about):
    labels = about["Config"]["Labels"]
    commit, _, dirty = revision_of(about).partition("-")
    assert re.fullmatch(r"[0-9a-f]{40}", commit)
    assert bench_image.endswith(f"-{commit[:12]}{'-dirty' if dirty else ''}")
    assert labels["dev.gridbench.flavour"] == "cpu"
    variables = dict(entry.split("=", 1) for entry in about["Config"]["Env"])
    assert variables["PYTHONUNBUFFERED"] == "1"
    assert variables["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert variables["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"


@pytest.mark.parametrize("options", [(), ("--init",)])
def test_sigterm_ends_a_container_of_the_image(bench_image, options):
    """As process 1 Python ignores it: tini is, or passes it on."""
    script = "import time\nprint('up', flush=True)\ntime.sleep(600)"
    name = podman("run", "--detach", *options, bench_image, "python", "-c", script).stdout.strip()
    try:
        while "up" not in podman("logs", name).stdout:
            time.sleep(0.1)
        podman("stop", "--time", "120", name)
        code = podman("wait", name).stdout.strip()
        assert code == "143"  # 137 would be the kill after two minutes
    finally:
        podman("rm", "--force", "--time", "0", name)


def test_the_preflight_speaks_in_it(bench_image):
    shell = "python -m workloads check --before cpu; echo $?; python -m workloads check --before cuda"
    told = inside(bench_image, "sh", "-c", f"{shell}; true", options=("--shm-size", "64m"))
    assert "shared memory (/dev/shm) has 64 MiB, data loaders need 512" in told
    assert "2.13.0+cpu is built without CUDA" in told
    inside(
        bench_image, "python", "-m", "workloads", "check", "--before", "cpu", options=("--shm-size", "512m")
    )


def test_the_size_of_the_image_is_bounded(about, record_property):
    record_property("image_bytes", about["Size"])
    assert about["Size"] < 1.8e9


IMAGE_CHECK = """
import subprocess, sys
from tasks.travel.run_code import JobCode
from tasks.travel.job_setup import prepared
from workloads.harness.records.case import Case
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import Script
code = sys.argv[1]
script = Script(("train.py",), folder="/nowhere", code=code, packages="requirements.txt")
repeat = Repeat("a-run", "a-box", Case.of("matmul", {"n": 8}), script=script)
with prepared([repeat], (sys.executable, "-m", "workloads"), JobCode((code,)), sys.exit, print) as setup:
    python, folder = setup.command(repeat, ())[0], setup.repeat(repeat).script.folder
    print(subprocess.run([python, "train.py"], cwd=folder, capture_output=True, text=True, check=True).stdout)
"""


def test_code_and_packages_of_an_image_are_found_without_a_network(bench_image, tmp_path):
    (tmp_path / "wheels").mkdir()
    wheel(tmp_path / "wheels", "gb_leaf", "1.5", "torch>=2")
    (tmp_path / "requirements.txt").write_text("--no-index\n-f ./wheels\ntorch==2.0.1\ngb_leaf\n")
    (tmp_path / "train.py").write_text(
        "import gb_leaf, torch; print(gb_leaf.__version__, torch.__version__)\n"
    )
    name = f"localhost/gridbench-code:{uuid4().hex[:8]}"
    podman("tag", bench_image, name)
    try:
        with environment(CONTAINERS_CONF=containers.environment()["CONTAINERS_CONF"]):
            add_code("podman", name, tmp_path)
        command = ("python", "-c", IMAGE_CHECK, take(tmp_path).id)
        printed = podman("run", "--rm", "--network", "none", name, *command).stdout
        assert "1.5 2.13.0+cpu" in printed.splitlines()
    finally:
        podman("rmi", "--force", name, check=False)
