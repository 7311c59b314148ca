"""Containers for tests: a private Docker API socket of podman, and a small base image with Python.

The machine's configuration is neither read nor changed: CONTAINERS_CONF names podman's own.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from filelock import FileLock

BASE_IMAGE = "localhost/gridbench-base:latest"
PUBLIC_IMAGE = "docker.io/library/python:3.11-slim"
LABEL = "gridbench-emulator"  # with the session's process id, on every container that it starts
PACKAGES = "python3,python3-venv,ca-certificates"
MISSING = "These tests run real containers and {tool} is not installed; `make containers` installs it."

# podman's own limits are above those that a process without CAP_SYS_RESOURCE can set, and podman 4.3's crun
# refuses mixed cgroup hierarchies, which runc takes.
CONFIGURATION = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]

[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def need(tool: str) -> None:
    """Fail in one sentence if a program is missing: such a test must not be skipped silently."""
    if not shutil.which(tool):
        raise RuntimeError(MISSING.format(tool=tool))


@cache
def environment() -> dict[str, str]:
    need("podman")
    folder = Path(tempfile.mkdtemp(prefix="gridbench-containers-"))
    runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
    (folder / "containers.conf").write_text(CONFIGURATION + runtime)
    return os.environ | {"CONTAINERS_CONF": str(folder / "containers.conf")}


def podman(*arguments: str, check: bool = True, **options) -> subprocess.CompletedProcess:
    """Run one podman command; a failure's error has its output."""
    command = ["podman", *arguments]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, **options)
    if check and done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done


@contextlib.contextmanager
def docker_socket() -> Iterator[str]:
    """Yield the DOCKER_HOST of podman's Docker API for this test session."""
    folder = Path(tempfile.mkdtemp(prefix="gridbench-podman-"))
    socket = folder / "podman.sock"
    command = ["podman", "system", "service", "--time=0", f"unix://{socket}"]
    with (folder / "log").open("wb") as log:
        # Where memory runs out, conmon leaves a file named oom in the folder that it was started in.
        service = subprocess.Popen(
            command, env=environment(), cwd=folder, stdout=log, stderr=log, start_new_session=True
        )
    try:
        while not socket.exists():
            if service.poll() is not None:
                raise RuntimeError(f"podman's service ended: {(folder / 'log').read_text().strip()}")
            time.sleep(0.05)
        yield f"unix://{socket}"
    finally:
        service.terminate()
        service.wait()
        shutil.rmtree(folder, ignore_errors=True)


def has_image(name: str) -> bool:
    return podman("image", "exists", name, check=False).returncode == 0


def base_image() -> str:
    """Return a Debian image with Python, pulled or debootstrapped once per machine."""
    with FileLock(Path(tempfile.gettempdir()) / "gridbench-base.lock"):
        if not has_image(BASE_IMAGE):
            if podman("pull", "--quiet", PUBLIC_IMAGE, check=False).returncode == 0:
                podman("tag", PUBLIC_IMAGE, BASE_IMAGE)
            else:
                debootstrap(BASE_IMAGE)
    return BASE_IMAGE


def debootstrap(name: str) -> None:
    need("debootstrap")
    with tempfile.TemporaryDirectory(prefix="gridbench-base-") as folder:
        root, archive = Path(folder) / "root", Path(folder) / "root.tar"
        bootstrap = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(root)]
        done = subprocess.run(bootstrap, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"debootstrap made no base image: {done.stdout[-1000:]}{done.stderr[-1000:]}")
        for cached in (root / "var/cache/apt/archives").glob("*.deb"):
            cached.unlink()
        subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
        podman("import", str(archive), name)


def remove_containers(label: str) -> None:
    listed = podman("ps", "--all", "--quiet", "--filter", f"label={label}").stdout.split()
    if listed:
        podman("rm", "--force", "--time", "0", *listed, check=False)
