import hashlib
import json
import subprocess
import sys
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZipFile

import pytest

from tasks.errors import GridbenchError
from tasks.travel import cache, environment
from tasks.travel.environment import environment_for, look_at
from tests.tasks.travel.wheels import wheel

PYTHON = Path(sys.executable)
SHOW = """
import json
from importlib.metadata import version
from importlib.util import find_spec
print(json.dumps({{name: [find_spec(name).origin, version(name)] for name in {0}}}))
"""

PROJECT = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools"\n'
BACKEND = """
import json, os, zipfile
INFO = "gb_built-1.0.dist-info"

def build_wheel(folder, *options):
    json.dump(dict(os.environ), open({0!r}, "w"))
    with zipfile.ZipFile(f"{{folder}}/gb_built-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{{INFO}}/METADATA", "Metadata-Version: 2.1\\nName: gb_built\\nVersion: 1.0\\n")
        wheel.writestr(f"{{INFO}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{INFO}}/RECORD", "")
    return "gb_built-1.0-py3-none-any.whl"
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of code with its own index: packages that need torch, and other versions of installed ones."""
    monkeypatch.setenv("GRIDBENCH_KEPT", str(tmp_path / "kept"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    wheels = tmp_path / "code" / "wheels"
    wheels.mkdir(parents=True)
    wheel(wheels, "gb_needy", "1.0", "torch>=2", "numpy", "gb_leaf<2", "psutil")
    wheel(wheels, "gb_leaf", "1.5")
    wheel(wheels, "gb_leaf", "2.0")
    wheel(wheels, "gb_vision", "0.1", "torch==2.1.0")
    wheel(wheels, "gb_vision", "0.2", f"torch=={look_at(PYTHON).installed['torch'].partition('+')[0]}")
    wheel(wheels, "torch", "9.0")
    wheel(wheels, "numpy", "9.0")
    wheel(wheels, "nvidia_cublas", "9.0")
    wheel(wheels, "gb_cuda", "1.0", "nvidia-cublas", "gb_leaf")
    return tmp_path / "code"


def asks(folder, *lines):
    (folder / "requirements.txt").write_text("\n".join(["--no-index", "-f ./wheels", *lines, ""]))
    return folder


def sees(python, *modules):
    """Return the places of modules in a Python, and their versions."""
    done = subprocess.run([python, "-c", SHOW.format(modules)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_requested_packages_are_installed_and_torch_stays(folder):
    said = []
    asks(folder, "torch==2.1.0", "gb_needy  # with a comment", "gb-vision", "-e .", "pandas")
    made = environment_for(folder, "requirements.txt", PYTHON, said.append)
    assert made.packages == ("gb-leaf==1.5", "gb-needy==1.0", "gb-vision==0.2")
    there = sees(made.python, "torch", "numpy", "gb_leaf")
    assert there.pop("gb_leaf")[1] == "1.5" and there == sees(PYTHON, "torch", "numpy")
    assert said[0].startswith("requirements.txt asks for torch==2.1.0, and this machine's torch ")
    assert said[-1].startswith("installed for requirements.txt: gb-leaf==1.5")


def test_an_environment_is_cached_by_its_requirements(folder, monkeypatch):
    asks(folder, "gb_leaf")
    first = environment_for(folder, "requirements.txt", PYTHON, print)
    with monkeypatch.context() as patched:
        patched.setattr(environment, "_make", None)
        assert environment_for(folder, "requirements.txt", PYTHON, print) == first
    asks(folder, "gb_leaf<2")
    other = environment_for(folder, "requirements.txt", PYTHON, print)
    assert (first.packages, other.packages) == (("gb-leaf==2.0",), ("gb-leaf==1.5",))
    assert first.python.is_file() and other.python != first.python


def test_packages_of_a_lane_are_added_if_missing_and_never_replace_installed_ones(folder):
    asks(folder, "gb_needy")
    least = ("gb_leaf==1.5", "numpy==9.0")
    made = environment_for(folder, "requirements.txt", PYTHON, print, least)
    assert "gb_leaf==1.5" in made.packages and not any("numpy" in package for package in made.packages)
    assert sees(made.python, "numpy") == sees(PYTHON, "numpy")


@pytest.fixture
def index(folder):
    """Yield the address of a server of the folder's wheels, with a login in it."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder / "wheels"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://me:sesame@127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_login_is_used_and_never_told(folder, index):
    said = []
    asks(folder, f"gb_leaf @ {index}/gb_leaf-1.5-py3-none-any.whl")
    for _ in range(2):  # made, and found as it is kept
        made = environment_for(folder, "requirements.txt", PYTHON, said.append)
        (package,) = made.packages
        assert package.startswith("gb-leaf @ http://***@127.0.0.1:") and sees(made.python, "gb_leaf")
    assert said and "sesame" not in f"{said}{(made.python.parents[1] / environment.NOTE).read_text()}"


def test_a_file_with_another_hash_is_not_installed(folder):
    digest = hashlib.sha256((folder / "wheels" / "gb_leaf-1.5-py3-none-any.whl").read_bytes()).hexdigest()
    asks(folder, f"gb_leaf==1.5 --hash=sha256:{'0' * 64}")
    with pytest.raises(GridbenchError, match=r"packages can't be installed: .*[Hh]ash mismatch"):
        environment_for(folder, "requirements.txt", PYTHON, print)
    asks(folder, f"gb_leaf==1.5 --hash=sha256:{digest}", "gb_needy")
    made = environment_for(folder, "requirements.txt", PYTHON, print)
    assert made.packages == ("gb-leaf==1.5", "gb-needy==1.0")
    asks(folder, "--require-hashes", f"gb_leaf==1.5 --hash=sha256:{digest}", "gb_needy==1.0")
    with pytest.raises(GridbenchError, match=r"--require-hashes.*gb-needy"):
        environment_for(folder, "requirements.txt", PYTHON, print)


def test_a_build_has_its_tools_and_sees_no_variable_but_those_that_are_named(folder, monkeypatch):
    monkeypatch.setenv("PREFECT_API_KEY", "sesame")
    monkeypatch.setenv("NAMED", str(folder))
    (folder / "part").mkdir()
    (folder / "part" / "pyproject.toml").write_text(PROJECT)
    backend = BACKEND.format(str(folder / "seen.json"))
    wheel(folder / "wheels", "setuptools", look_at(PYTHON).installed["setuptools"], text=backend)
    with tarfile.open(folder / "wheels" / "gb_built-1.0.tar.gz", "w:gz") as archive:
        archive.add(folder / "part", "gb_built-1.0")
    asks(folder, "-f ${NAMED}/wheels", "gb_built")
    made = environment_for(folder, "requirements.txt", PYTHON, print)
    assert made.packages == ("gb-built==1.0",)
    seen = json.loads((folder / "seen.json").read_text())
    assert seen["NAMED"] == str(folder) and "PATH" in seen and "PREFECT_API_KEY" not in seen


def test_a_machine_has_modules_of_each_of_its_folders(tmp_path, monkeypatch):
    for folder, version in (("first", "1.5"), ("second", "2.0")):  # as of Debian's Python
        wheel_at = tmp_path / folder
        wheel_at.mkdir()
        wheel(wheel_at, "gb_leaf", version)
        with ZipFile(wheel_at / f"gb_leaf-{version}-py3-none-any.whl") as archive:
            archive.extractall(wheel_at)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    here = look_at(PYTHON)
    assert here.installed["gb-leaf"] == "1.5"
    assert here.paths[:2] == (str(tmp_path / "first"), str(tmp_path / "second"))


def test_packages_of_nvidia_are_never_brought_along(folder):
    made = environment_for(asks(folder, "gb_cuda", "nvidia-cublas==9.0"), "requirements.txt", PYTHON, print)
    assert made.packages == ("gb-cuda==1.0", "gb-leaf==2.0")


def test_packages_that_need_another_torch_are_refused(folder):
    asks(folder, "gb_vision==0.1")
    with pytest.raises(
        GridbenchError, match=r"cannot be installed together with this machine's torch .*torch==2\.1\.0"
    ):
        environment_for(folder, "requirements.txt", PYTHON, print)
    names = [path.name for path in cache.cache_folder(cache.ENVIRONMENTS).iterdir()]
    assert all(name.endswith(".lock") for name in names), "nothing half made is left"


def test_where_all_of_it_is_there_nothing_is_made(folder):
    said = []
    made = environment_for(asks(folder, "torch", "numpy"), "requirements.txt", PYTHON, said.append)
    assert made.python == PYTHON and made.packages == () and said == []
    assert not cache.cache_folder(cache.ENVIRONMENTS).exists()


def test_a_half_made_one_is_made_again(folder):
    asks(folder, "gb_leaf")
    made = environment_for(folder, "requirements.txt", PYTHON, print)
    (made.python.parents[1] / environment.NOTE).unlink()
    (made.python.parents[1] / "stray").write_text("")
    again = environment_for(folder, "requirements.txt", PYTHON, print)
    assert again == made and not (made.python.parents[1] / "stray").exists()


def test_an_environment_in_the_image_is_used(folder, monkeypatch, tmp_path):
    asks(folder, "gb_leaf")
    environment_for(folder, "requirements.txt", PYTHON, print)
    monkeypatch.setattr(cache, "IMAGE_CACHE", tmp_path / "kept")
    monkeypatch.setenv("GRIDBENCH_KEPT", str(tmp_path / "another"))
    made = environment_for(folder, "requirements.txt", PYTHON, print)
    assert made.python.is_relative_to(tmp_path / "kept") and not (tmp_path / "another").exists()
