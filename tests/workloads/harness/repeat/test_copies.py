import errno
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.repeat import copies, descendants, folder_contents, mirrors
from workloads.harness.repeat.copies import fresh_copy
from workloads.harness.repeat.write_guard import WriteGuard


@pytest.fixture
def folder(tmp_path):
    """A project next to its data: code, a checkpoint, a repository, an environment, all kinds of links."""
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
    monkeypatch.setattr(folder_contents, "LARGE_BYTES", 1000)
    for module in (folder_contents, mirrors):
        monkeypatch.setattr(module, "MOST_FILES", 20)
    for module in (folder_contents, copies):
        monkeypatch.setattr(module, "MOST_BYTES", 5000)


def state(folder):
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


@pytest.fixture
def large(folder, small):
    """The project with a folder that is too large to copy: logs, pictures, and very many of one kind."""
    for place, count in (("pictures", 2), ("pictures/cats", 15), ("pictures/dogs", 30)):
        (folder / place).mkdir()
        for number in range(count):
            (folder / place / f"{number}").write_text("of the user")
    return folder


def test_a_folder_that_is_too_much_is_a_real_one_with_links(large, monkeypatch):
    monkeypatch.setattr(mirrors, "FEW", 5)
    before = state(large)
    with fresh_copy(large) as copy:
        here = copy.folder / "pictures"
        assert copy.links == ["pictures"] and copy.linked_files == []
        assert (here / "cats/3").is_symlink() and (here / "dogs").readlink() == large / "pictures/dogs"
        assert {*copy.other_files} == {large / f"pictures/cats/{number}" for number in range(15)}
        for made in ("0", "new", "cats/new"):  # a small file in a folder with few is copied
            (here / made).write_text("written")
        assert copy.written() == ["pictures/0", "pictures/cats/new", "pictures/new"]
        assert copy.changed_originals() == [] and state(large) == before
        for changed in ("cats/3", "dogs/3", "dogs/new"):
            (here / changed).write_text("written through a link")
        assert copy.changed_originals() == [f"pictures/{name}" for name in ("cats/3", "dogs/3", "dogs/new")]


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


def test_another_programs_writer_goes_on_soon(folder, tmp_path):
    file, rung = folder / "out/last.pt", []
    write = (
        f"sleep 0.3; date +%s.%N > {tmp_path / 'began'}; echo x > {file}; date +%s.%N > {tmp_path / 'ended'}"
    )
    with WriteGuard([file], rung.append):
        subprocess.run(["setsid", "--fork", "sh", "-c", write], check=True)  # its parent is not this process
        ends_s = time.monotonic() + 20
        while not (tmp_path / "ended").exists() and time.monotonic() < ends_s:
            time.sleep(0.05)
        time.sleep(0.2)
        waited_s = float((tmp_path / "ended").read_text()) - float((tmp_path / "began").read_text())
    assert waited_s < 10 and rung == [] and file.read_text() == "x\n"  # the kernel would wait for 45 s


def test_a_process_that_outlives_its_parent_is_ended(tmp_path):
    with descendants.no_orphans():
        done = subprocess.run(
            ["setsid", "--fork", "sh", "-c", f"echo $$ > {tmp_path / 'pid'}; exec sleep 60"]
        )
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.05)
        pid = int((tmp_path / "pid").read_text())
        assert done.returncode == 0 and Path(f"/proc/{pid}").exists()
    assert not Path(f"/proc/{pid}").exists()


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


@pytest.fixture
def linked(tmp_path):
    """A project whose checkpoints and latest weights are links to another disk and to each other."""
    project, scratch = tmp_path / "project", tmp_path / "scratch"
    (scratch / "ckpt").mkdir(parents=True)
    project.mkdir()
    (project / "train.py").touch()
    (scratch / "ckpt/step-3.pt").write_text("weights of a real training")
    (scratch / "ckpt/last.pt").symlink_to("step-3.pt")
    (scratch / "ckpt/self").symlink_to("../ckpt")
    (scratch / "ckpt/project").symlink_to(project)
    (scratch / "best.pt").write_text("the best weights")
    (scratch / "common.py").touch()
    (project / "ckpt").symlink_to(scratch / "ckpt")
    (project / "best.pt").symlink_to("../scratch/best.pt")
    (project / "new").symlink_to(scratch / "new")
    (project / "common.py").symlink_to(scratch / "common.py")
    (project / "above").symlink_to(tmp_path)
    (project / "same.py").symlink_to(project / "train.py")
    return project


def test_writes_through_a_link_that_leads_out_stay_in_the_copy(linked):
    before = state(linked.parent)
    with fresh_copy(linked) as copy:
        here = copy.folder
        assert (here / "ckpt/last.pt").read_text() == "weights of a real training"
        for name in ("ckpt/last.pt", "ckpt/step-4.pt", "best.pt", "new", "same.py"):
            (here / name).write_text("written")
        assert copy.written() == ["best.pt", "ckpt/step-3.pt", "ckpt/step-4.pt", "new", "train.py"]
        assert (here / "common.py").resolve() == linked.parent / "scratch/common.py"
        assert (here / "above").resolve() == here.parent and (here / "ckpt/project").resolve() == here
        assert copy.links == ["common.py"]
        assert copy.other_files == [linked / "common.py"] and copy.changed_originals() == []
    assert state(linked.parent) == before


def test_files_outside_that_links_lead_to_are_watched(linked):
    with fresh_copy(linked) as copy:
        (linked.parent / "scratch/best.pt").write_text("changed")
        (linked.parent / "scratch/ckpt/step-4.pt").touch()
        assert copy.changed_originals() == ["best.pt", "ckpt/step-4.pt"]


def test_large_files_behind_links_are_guarded(linked, small):
    (linked.parent / "scratch/ckpt/big.pt").write_bytes(b"x" * 6000)
    with fresh_copy(linked) as copy:
        assert copy.linked_files == [linked / "ckpt/big.pt"]


def test_a_home_is_not_copied(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home/me"))
    (tmp_path / "home/me/project").mkdir(parents=True)
    for folder in (tmp_path / "home/me", tmp_path / "home"):
        with pytest.raises(WorkloadsError, match="--folder"), fresh_copy(folder):
            pass
    with fresh_copy(tmp_path / "home/me/project"):
        pass


def test_secrets_are_links_and_only_this_user_can_read_a_copy(folder):
    (folder / ".env").write_text("TOKEN=x")
    (folder / ".aws").mkdir()
    (folder / ".aws/credentials").write_text("key")
    with fresh_copy(folder) as copy:
        assert (copy.folder / ".env").readlink() == folder / ".env"
        assert (copy.folder / ".aws").readlink() == folder / ".aws"
        assert copy.room.stat().st_mode & 0o777 == 0o700
        assert copy.links == [".env"] and copy.other_files == [folder / ".env"]


def test_kept_files_are_in_no_copy(folder):
    (folder / "kept/1").mkdir(parents=True)
    (folder / "kept/1/last.pt").touch()
    with fresh_copy(folder, folder / "kept") as copy:
        assert not (copy.folder / "kept").exists() and (copy.folder / "out/last.pt").exists()
        assert copy.changed_originals() == []


def test_links_and_files_above_the_copy_are_kept(folder, tmp_path):
    with fresh_copy(folder) as copy:
        (copy.folder / "out/latest").symlink_to(copy.folder / "out/last.pt")
        (copy.folder / "../../made").mkdir()
        for name in ("../new.pt", "../../made/x.pt"):
            (copy.folder / name).write_text("x")
        assert copy.written() == ["../../made/x.pt", "../new.pt", "out/latest"]
        copy.keep(copy.written(), tmp_path / "kept")
        assert (tmp_path / "kept/out/latest").readlink() == Path("last.pt")
    assert {"parent/new.pt", "parent/parent/made/x.pt"} <= {
        str(path.relative_to(tmp_path / "kept")) for path in (tmp_path / "kept").rglob("*")
    }


def test_a_folder_that_the_script_has_closed_goes_with_the_copy(folder, tmp_path):
    (tmp_path / "mine").mkdir(0o750)
    with fresh_copy(folder) as copy:
        (copy.folder / "out/mine").symlink_to(tmp_path / "mine")
        (copy.folder / "out").chmod(0)
        (copy.folder / "net").chmod(0)
    assert not copy.room.exists()
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o750


@pytest.mark.timeout(20)
def test_a_pipe_or_a_link_with_the_name_of_a_copy_is_left_alone(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    os.mkfifo(tmp_path / f"{copies.PREFIX}pipe")
    (tmp_path / "mine").mkdir()
    os.utime(tmp_path / "mine", (1, 1))
    (tmp_path / f"{copies.PREFIX}link").symlink_to(tmp_path / "mine")
    with fresh_copy(folder):
        pass
    assert (tmp_path / "mine").exists() and (tmp_path / f"{copies.PREFIX}pipe").is_fifo()


def test_a_file_system_without_locks_can_hold_copies(folder, monkeypatch):
    def no_locks(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(copies.fcntl, "flock", no_locks)
    with fresh_copy(folder) as copy:
        assert (copy.folder / "train.py").exists()


@pytest.mark.parametrize(
    ("word", "moved"),
    [
        ("{there}/out/last.pt", "{here}/out/last.pt"),
        ("--out={there}/out", "--out={here}/out"),
        ("--out={alias}/out", "--out={here}/out"),
        ("sqlite:///{there}/runs.db", "sqlite:///{here}/runs.db"),
        ("{there}", "{here}"),
        ("a:{there}/x:{there}/y", "a:{here}/x:{here}/y"),
        ("../project/out", "{here}/out"),
        ("--out={there}/../project/out", "--out={here}/../project/out"),
        ("{above}/other/../project/out", "{here}/out"),
        ("{there}2/out", "{there}2/out"),
        ("/elsewhere{there}/out", "/elsewhere{there}/out"),
        ("{there}/env/bin/tool", "{there}/env/bin/tool"),
        ("../data/pictures", "../data/pictures"),
        ("--lr=1e-3", "--lr=1e-3"),
    ],
)
def test_arguments_in_the_folder_are_those_in_the_copy(folder, tmp_path, word, moved):
    (tmp_path / "alias").symlink_to(folder)
    with fresh_copy(folder) as copy:
        names = {
            "there": folder,
            "above": folder.parent,
            "alias": tmp_path / "alias",
            "here": copy.folder,
        }
        assert copy.words([word.format(**names)]) == (moved.format(**names),)
        assert copy.environ({"OUT": f"{folder}/out"}) == {"OUT": f"{copy.folder}/out"}
        assert copy.environ({"VIRTUAL_ENV": f"{folder}/env"}) == {"VIRTUAL_ENV": f"{folder}/env"}


def test_the_working_directory_variable_is_that_of_the_copy(tmp_path):
    (tmp_path / "train.py").touch()
    with fresh_copy(tmp_path) as copy:
        assert copy.environ({"PWD": str(tmp_path)})["PWD"] == str(copy.folder)
        assert "PWD" not in copy.environ({})
