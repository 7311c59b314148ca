"""A copy of a script's folder has all that the folder has, and nothing that is written there reaches the user's files."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.repeat import copies, folder_contents
from workloads.harness.repeat.copies import fresh_copy
from workloads.harness.repeat.write_guard import WriteGuard


@pytest.fixture
def folder(tmp_path):
    """A project next to its data: code, a checkpoint, a repository, an environment, links of all kinds."""
    project = tmp_path / "home" / "project"
    texts = {
        "train.py": "print()",
        "net/__init__.py": "",
        "out/last.pt": "weights of a real training",
        ".git/HEAD": "ref",
        ".mypy_cache/x": "x",
        "env/pyvenv.cfg": "",
        "env/lib/y": "",
        "../data/pictures": "of all",
    }
    for name, text in texts.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    (project / "train.py").chmod(0o755)
    os.utime(project / "train.py", ns=(10**18, 10**18))
    (project / "within").symlink_to("out/last.pt")
    (project / "absolute").symlink_to(project / "out")
    (project / "outside").symlink_to("../data")
    return project


@pytest.fixture
def small(monkeypatch):
    """Limits that tests can reach."""
    monkeypatch.setattr(folder_contents, "LARGE_BYTES", 1000)
    monkeypatch.setattr(folder_contents, "MOST_FILES", 20)
    for module in (folder_contents, copies):
        monkeypatch.setattr(module, "MOST_BYTES", 5000)


def state(folder):
    """All files of a folder, with their contents and times."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()
    }


def test_a_copy_has_all_and_the_original_stays(folder):
    before = state(folder.parent)
    with fresh_copy(folder) as copy:
        here = copy.folder
        assert (here / "train.py").stat().st_mtime_ns == 10**18 and os.access(here / "train.py", os.X_OK)
        assert (here / "outside/pictures").read_text() == "of all"
        assert (here / "../data/pictures").read_text() == "of all"
        assert {path.name for path in here.iterdir()} == {path.name for path in folder.iterdir()} - {
            ".mypy_cache"
        }
        for path in ("out/last.pt", "within", "absolute/new.pt", "train.py", "net/made"):
            (here / path).write_text("written")
        assert copy.linked == [] and copy.changed_originals() == []
        assert copy.written() == ["net/made", "out/last.pt", "out/new.pt", "train.py"]
    assert state(folder.parent) == before
    assert not here.exists()


def test_tools_are_links_and_no_copies(folder):
    with fresh_copy(folder) as copy:
        for name in (".git", "env"):
            assert (copy.folder / name).readlink() == folder / name


def test_paths_in_texts_and_variables(folder):
    with fresh_copy(folder) as copy:
        paths = [f"{folder}/net", "/elsewhere", "", "net"]
        inside = copy.environ({"PYTHONPATH": os.pathsep.join(paths), "A": "b"})
        assert inside == {"PYTHONPATH": os.pathsep.join([f"{copy.folder}/net", *paths[1:]]), "A": "b"}
        assert copy.environ({"A": "b"}) == {"A": "b"}
        assert copy.there(f"File {copy.folder}/train.py") == f"File {folder}/train.py"


def test_files_that_change_in_the_folder_itself_are_seen(folder):
    with fresh_copy(folder) as copy:
        (folder / "out/last.pt").write_text("overwritten by an absolute path")
        (folder / "new.pt").touch()
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__/train.pyc").touch()
        assert copy.changed_originals() == ["new.pt", "out/last.pt"]


def test_written_files_can_be_kept(folder, tmp_path):
    with fresh_copy(folder) as copy:
        (copy.folder / "out/last.pt").write_text("new weights")
        copy.keep(copy.written(), tmp_path / "kept")
    assert [path.read_text() for path in (tmp_path / "kept").rglob("*.pt")] == ["new weights"]


def test_large_files_are_copied_as_far_as_there_is_room_and_else_linked(folder, small):
    for name, count in (("a.bin", 2000), ("b.bin", 2500), ("c.bin", 4000)):
        (folder / name).write_bytes(b"x" * count)
    with fresh_copy(folder) as copy:
        assert copy.linked == ["c.bin"] and copy.linked_files == [folder / "c.bin"]
        assert (copy.folder / "c.bin").stat().st_size == 4000
        assert not (copy.folder / "b.bin").is_symlink()


def test_a_folder_that_is_too_much_is_one_link(folder, small):
    for place in ("pictures/train", "pictures/test"):
        (folder / place).mkdir(parents=True)
        for number in range(15):
            (folder / place / str(number)).touch()
    with fresh_copy(folder) as copy:
        assert copy.linked == ["pictures"] and copy.linked_files == []
        assert (copy.folder / "pictures/train/3").exists()
        assert (copy.folder / "out/last.pt").exists()


def test_too_many_files_in_the_folder_itself_are_refused(folder, small):
    for number in range(21):
        (folder / str(number)).touch()
    with pytest.raises(WorkloadsError, match="move data into a folder"), fresh_copy(folder):
        pass


def test_copies_of_killed_processes_are_removed(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    old = tmp_path / f"{copies.PREFIX}old"
    (old / "project").mkdir(parents=True)
    with fresh_copy(folder) as alive:
        os.utime(old, (1, 1))
        os.utime(tmp_path / alive.folder.relative_to(tmp_path).parts[0], (1, 1))
        with fresh_copy(folder):
            assert not old.exists() and (alive.folder / "train.py").exists()


def opened(path, mode):
    """Start a process that opens a file, and return it."""
    return subprocess.Popen([sys.executable, "-c", f"open({str(path)!r}, {mode!r}).close()"])


def test_a_guarded_file_can_be_read_and_not_written(folder):
    file, rung = folder / "out/last.pt", []
    before = state(folder)
    with WriteGuard([file], rung.append) as guard:
        assert guard.unguarded == []
        assert opened(file, "rb").wait(20) == 0 and rung == []
        writer = opened(file, "wb")
        ends_s = time.monotonic() + 20
        while not rung and time.monotonic() < ends_s:
            time.sleep(0.05)
        assert rung == [file] and writer.poll() is None  # it waits in the kernel
        writer.kill()
        writer.wait()
    assert state(folder) == before
    assert opened(file, "wb").wait(20) == 0 and file.stat().st_size == 0


def test_a_file_that_is_being_written_cannot_be_guarded(folder):
    file = folder / "out/last.pt"
    with file.open("ab"), WriteGuard([file, Path("/proc/version")], print) as guard:
        assert guard.unguarded[0] == file


def test_files_next_to_a_folder_of_very_many_are_all_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(folder_contents, "MOST_LOOKED_AT", 40)
    names = {f"{letter}.py" for letter in "abcxyz"} | {"train.py"}
    for place in range(30):
        folder = tmp_path / "data" / f"class-{place}"
        folder.mkdir(parents=True)
        for image in range(5):
            (folder / f"{image}.png").touch()
    (tmp_path / "later").mkdir()
    for name in names:
        (tmp_path / name).touch()
    found = folder_contents.contents_of(tmp_path)
    assert set(found.files) == names
    assert "data" in found.whole and {"data", "later"} <= {*found.whole, *found.folders}


def test_links_that_lead_out_of_the_folder_are_named(tmp_path):
    project, outside = tmp_path / "project", tmp_path / "scratch"
    project.mkdir()
    outside.mkdir()
    (project / "train.py").touch()
    (project / "ckpt").symlink_to(outside)
    (project / "same.py").symlink_to("train.py")
    with fresh_copy(project) as copy:
        assert copy.outward == ["ckpt"]


def test_the_working_directory_variable_is_that_of_the_copy(tmp_path):
    (tmp_path / "train.py").touch()
    with fresh_copy(tmp_path) as copy:
        assert copy.environ({"PWD": str(tmp_path)})["PWD"] == str(copy.folder)
        assert "PWD" not in copy.environ({})
