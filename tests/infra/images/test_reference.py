import json
import os
import shutil
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gridbench.main import app
from infra.images import reference
from infra.images.errors import ImageError
from workloads.harness.probes.frozen import CODE, MARK, content_id, versions


@pytest.fixture
def quickly(monkeypatch):
    """Make the environment without pip, from installed packages."""

    def install(folder, scratch, say):
        venv.create(folder, symlinks=True)
        (place,) = folder.glob("lib/python*/site-packages")
        (place / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")

    monkeypatch.setattr(reference, "_install", install)
    monkeypatch.delenv("GRIDBENCH_WORKLOADS", raising=False)


class TestCode:
    def test_is_the_checkouts_without_bytecode(self, tmp_path):
        reference.collect_code(tmp_path / "code", {})
        assert content_id(tmp_path / "code", {}) == content_id(CODE, {})
        assert not list(tmp_path.rglob("*.pyc"))

    def test_has_the_users_workloads_among_them(self, tmp_path):
        mine = tmp_path / "mine"
        mine.mkdir()
        for name in ("nap.py", "_parts.py"):
            (mine / name).touch()
        reference.collect_code(tmp_path / "code", {"GRIDBENCH_WORKLOADS": str(mine)})
        assert (tmp_path / "code" / "nap.py").exists() and not (tmp_path / "code" / "_parts.py").exists()
        assert content_id(tmp_path / "code", {}) != content_id(CODE, {})

    def test_mistakes_are_one_sentence(self, tmp_path):
        with pytest.raises(ImageError, match="is not a folder; name a folder with workload files"):
            reference.collect_code(tmp_path / "code", {"GRIDBENCH_WORKLOADS": str(tmp_path / "none")})
        (tmp_path / "matmul.py").touch()
        with pytest.raises(ImageError, match=r"matmul\.py has the name of an existing workload"):
            reference.collect_code(tmp_path / "more", {"GRIDBENCH_WORKLOADS": str(tmp_path)})


class TestFreezing:
    def test_makes_an_environment_of_its_own_once(self, quickly, tmp_path):
        folder = tmp_path / "frozen"
        made = CliRunner().invoke(app, ["reference", str(folder)])
        assert made.exit_code == 0, made.output
        expected = content_id(CODE, versions())
        assert f"reference {expected} is in " in made.output.replace("\n", " ")
        line = made.output.splitlines()[-1]
        assert tuple(yaml.safe_load(line)["reference"]) == reference.command_of(folder)
        assert reference.id_of(folder) == expected
        (mark,) = folder.rglob(MARK)
        assert json.loads(mark.read_text())["torch"] == versions()["torch"]
        again = reference.freeze(folder, pytest.fail)
        assert again == reference.Reference(expected, reference.command_of(folder))

    def test_a_changed_reference_is_refused_and_stays(self, quickly, tmp_path):
        folder = tmp_path / "frozen"
        first = reference.freeze(folder, print)
        (matmul,) = folder.rglob("workloads/matmul.py")
        matmul.write_text(matmul.read_text() + "# changed\n")
        changed = reference.id_of(folder)
        assert changed not in (None, first.id)
        with pytest.raises(
            ImageError, match=f"holds reference {changed}, but .* {first.id}; name a new folder"
        ):
            reference.freeze(folder, print)
        assert matmul.read_text().endswith("# changed\n")

    @pytest.mark.parametrize("kind", ["folder", "file", "environment"])
    def test_an_existing_path_that_is_no_reference_is_refused(self, tmp_path, kind):
        path = tmp_path / "there"
        if kind == "file":
            path.touch()
        elif kind == "folder":
            path.mkdir()
        else:
            venv.create(path, symlinks=True)
        with pytest.raises(ImageError, match="exists and holds no reference") as caught:
            reference.freeze(path, print)
        assert "\n" not in str(caught.value) and path.exists()

    def test_nothing_half_made_is_left(self, quickly, tmp_path, monkeypatch):
        monkeypatch.setattr(reference, "_put_code", lambda folder, code, wanted: None)
        with pytest.raises(ImageError):
            reference.freeze(tmp_path / "frozen", print)
        assert not (tmp_path / "frozen").exists()

    def test_packages_of_a_reference_are_links_to_the_installed_files(self, tmp_path):
        """Links take no space; a later replaced package stays in the reference."""
        (name, numpy), *_ = ((n, d) for n, d in reference._needed().items() if n == "numpy")
        reference._link(numpy, tmp_path)
        own, here = tmp_path / name / "version.py", Path(str(numpy.locate_file(f"{name}/version.py")))
        assert own.read_bytes() == here.read_bytes() and not (tmp_path.parent / "bin").exists()
        assert sum(path.is_file() for path in tmp_path.rglob("*")) > 500
        assert own.stat().st_ino == here.stat().st_ino or own.stat().st_dev != here.stat().st_dev

    def test_requirements_of_torch_are_frozen_too(self):
        needed = reference._needed()
        assert {"torch", "numpy", "psutil", "sympy", "mpmath", "jinja2", "markupsafe"} <= {*needed}
        assert "prefect" not in needed

    def test_pip_is_asked_for_exactly_the_installed_versions(self, tmp_path, monkeypatch):
        calls = []
        monkeypatch.setattr(reference, "_call", lambda command: calls.append(command) or "")
        reference._install_by_pip(tmp_path / "frozen", tmp_path)
        assert [f"torch=={versions()['torch']}", f"numpy=={versions()['numpy']}"] == calls[-1][-4:-2]
        constraints = (tmp_path / "constraints.txt").read_text().lower().splitlines()
        assert any(line.startswith("sympy==") for line in constraints)  # what torch needs is pinned too

    def test_the_first_night_freezes_and_the_next_finds_it(self, quickly, tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
        half_made = tmp_path / "gridbench" / "reference" / "bin"
        half_made.mkdir(parents=True)
        first = reference.standing(print)
        monkeypatch.setattr(reference, "freeze", pytest.fail)
        assert reference.standing(print) == first == reference.Reference(first.id, first.command)
        assert Path(first.command[0]).is_relative_to(tmp_path)

    def test_a_failure_is_one_sentence(self, tmp_path):
        with pytest.raises(ImageError) as caught:
            reference._call([sys.executable, "-c", "raise ValueError('one\\nlast words')"])
        assert "failed: last words" in str(caught.value) and "\n" not in str(caught.value)


def test_the_python_of_a_reference_imports_nothing_from_its_working_folder(quickly, tmp_path, monkeypatch):
    reference.freeze(tmp_path / "frozen", print)
    other = tmp_path / "other"
    shutil.copytree(CODE, other / "workloads", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(other)
    monkeypatch.setenv("PYTHONPATH", str(other))
    ask = "import workloads; print(workloads.__file__)"
    found = Path(reference._call([*reference.command_of(tmp_path / "frozen")[:1], "-c", ask]))
    assert found.is_relative_to(tmp_path / "frozen") and os.environ["PYTHONPATH"] == str(other)
