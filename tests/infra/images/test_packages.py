import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import distributions
from pathlib import Path

import pytest

from infra.images import flavours
from infra.images.context import HERE, Inputs, fill
from infra.images.errors import ImageError
from tests.infra.images.package_indexes import add, served

LOCKED = {"certifi": "2026.10.18", "numpy": "2.3.0", "jinja2": "3.1.6"}
OLD = {"certifi": "2022.12.7", "numpy": "1.24.1", "jinja2": "3.1.2", "prefect": "9.0"}
PROJECT = """[project]
dependencies = ["numpy", "prefect==3.8.8", "torch==2.13.0"]
"""


@pytest.fixture
def root(tmp_path):
    """A checkout, PyPI with its locked packages, and a torch index with old versions of the same."""
    root, pypi, torch = (tmp_path / name for name in ("root", "pypi", "torch"))
    for name in flavours.load()["source"]:
        (root / name).mkdir(parents=True)
    hashes = {(name, version): add(pypi, name, version) for name, version in LOCKED.items()}
    hashes["prefect", "3.8.8"] = add(pypi, "prefect", "3.8.8", "certifi")
    add(pypi, "torch", "2.13.0", "nvidia-cublas==13.1.1.3")  # PyPI's own build, for CUDA
    add(torch, "torch", "2.13.0+cpu", "jinja2", "numpy")
    for name, version in OLD.items():
        add(torch, name, version)
    (root / "pyproject.toml").write_text(PROJECT)
    hashes["uv", flavours.locked()["uv"]] = "0" * 64
    lines = [f"{name}=={version} \\\n    --hash=sha256:{one}" for (name, version), one in hashes.items()]
    (root / "requirements.lock").write_text("\n".join(lines) + "\n")
    return root


def command_of_the_dockerfile(packages, python):
    """Return the Dockerfile's arguments of `uv pip install`, with other places."""
    text = (HERE / "Dockerfile").read_text().replace("\\\n", " ")
    (line,) = re.findall(r"/tmp/installer/bin/(uv pip install .*?) && ", text)
    places = {"/packages": str(packages), "/opt/venv/bin/python": str(python)}
    for place, here in places.items():
        assert place in line
        line = line.replace(place, here)
    return [str(Path(sysconfig.get_path("scripts")) / "uv"), *shlex.split(line)[1:]]


def install(root, inputs=Inputs()):  # noqa: B008
    folder, environment = root.parent / "context", root.parent / "environment"
    shutil.rmtree(folder, ignore_errors=True)
    with served(root.parent / "pypi") as pypi, served(root.parent / "torch") as torch:
        fill(folder, dataclasses.replace(flavours.flavour("cpu"), index=torch), inputs, root)
        command = command_of_the_dockerfile(folder / "packages", environment / "bin" / "python")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
        made = [command[0], "venv", "--quiet", "--python", sys.executable, "--clear", str(environment)]
        subprocess.run(made, env=environ, check=True)
        environ["UV_DEFAULT_INDEX"] = pypi
        done = subprocess.run(
            command, cwd=environment, env=environ, capture_output=True, text=True, check=False
        )
    (place,) = environment.glob("lib/python*/site-packages")
    return {one.name: one.version for one in distributions(path=[str(place)])}, done.stderr


def test_torch_alone_comes_from_its_own_index(root):
    found, said = install(root)
    assert found == {**LOCKED, "prefect": "3.8.8", "torch": "2.13.0+cpu"}, said


def test_a_folder_of_wheels_stands_in_for_torchs_index(root, tmp_path):
    wheels = tmp_path / "wheels"
    add(wheels, "torch", "2.13.0+cpu")
    shutil.rmtree(tmp_path / "torch" / "torch")
    found, said = install(root, Inputs(wheels / "torch"))
    assert found == {"prefect": "3.8.8", "numpy": "2.3.0", "certifi": "2026.10.18", "torch": "2.13.0+cpu"}, (
        said
    )


def test_packages_that_pypi_lacks_are_not_searched_in_torchs_index(root, tmp_path):
    shutil.rmtree(tmp_path / "pypi" / "jinja2")
    add(tmp_path / "torch", "jinja2", LOCKED["jinja2"])
    found, said = install(root)
    assert not found and "jinja2 was not found" in said


def test_a_file_with_another_hash_is_refused(root, tmp_path):
    file = tmp_path / "pypi" / "numpy" / "numpy-2.3.0-py3-none-any.whl"
    shutil.rmtree(file.parent)
    add(tmp_path / "pypi", "numpy", "2.3.0", "certifi")  # the same version with other contents
    found, said = install(root)
    assert not found and "Hash mismatch for `numpy==2.3.0`" in said


def test_the_installer_itself_is_pinned_by_its_hashes(root):
    install(root)
    lines = (root.parent / "context/packages/installer.txt").read_text().split()
    assert lines == [f"uv=={flavours.locked()['uv']}", "\\", f"--hash=sha256:{'0' * 64}"]
    assert len(flavours.pin("uv").split("--hash=")) > 5
    with pytest.raises(ImageError, match="nothing is not in requirements"):
        flavours.pin("nothing")
    assert "--require-hashes --requirement /packages/installer.txt" in (HERE / "Dockerfile").read_text()
