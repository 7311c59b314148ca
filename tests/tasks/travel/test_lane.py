import sys
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.errors import GridbenchError
from tasks.travel import lane
from tasks.travel.environment import Environment
from tasks.travel.lane import put_in_place

LINES = {"requirements.txt": "prefect\n", "constraints.txt": "numpy==2.1.0 \\\n    --hash=x\npsutil==7.0.0\n"}


@pytest.fixture
def made(monkeypatch, tmp_path):
    asked = []
    (tmp_path / "venv/bin").mkdir(parents=True)

    def environment_for(*words):
        asked.append(words)
        return Environment(tmp_path / "venv/bin/python")

    monkeypatch.setattr(lane, "environment_for", environment_for)
    monkeypatch.setattr(lane, "find_uv", lambda: "uv")
    return asked


@pytest.fixture
def sent(tmp_path):
    path = tmp_path / "lane-1.pyz"
    with zipfile.ZipFile(path, "w") as file:
        for name, text in {"flows/lane.py": "code", "installer.txt": "uv==1", **LINES}.items():
            file.writestr(name, text)
    return path


def test_code_and_packages_lie_next_to_the_sent_files(sent, made, tmp_path):
    put_in_place(sent, Path("/python"), print)
    place = tmp_path / "lane-1"
    assert (place / "code/flows/lane.py").read_text() == "code"
    assert (place / "bin").resolve() == tmp_path / "venv/bin"
    assert made == [
        (place / "code", "requirements.txt", Path("/python"), print, ("numpy==2.1.0", "psutil==7.0.0"))
    ]


@pytest.mark.parametrize("harm", ["lost", "changed"])
def test_code_that_is_not_as_it_was_sent_comes_anew(sent, made, tmp_path, harm):
    put_in_place(sent, Path("/python"), print)
    file = tmp_path / "lane-1/code/flows/lane.py"
    file.unlink() if harm == "lost" else file.write_text("other")
    (kept := tmp_path / "lane-1/code/made-there").touch()
    put_in_place(sent, Path("/python"), print)
    assert file.read_text() == "code" and not kept.exists()
    kept.touch()
    put_in_place(sent, Path("/python"), print)
    assert kept.exists(), "whole code is left as it is"


def test_two_that_start_at_once_take_turns(sent, monkeypatch, tmp_path):
    inside, together = [], []

    def environment_for(*_):
        inside.append(1)
        together.append(len(inside))
        time.sleep(0.05)
        inside.pop()
        return Environment(tmp_path / "bin/python")

    monkeypatch.setattr(lane, "environment_for", environment_for)
    monkeypatch.setattr(lane, "find_uv", lambda: "uv")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: put_in_place(sent, Path("/python"), print), range(3)))
    assert together == [1, 1, 1]


def test_old_lanes_are_deleted_except_those_that_might_be_in_use(sent, made, tmp_path, monkeypatch):
    for number in range(5):
        (tmp_path / f"lane-old{number}.pyz").touch()
        (tmp_path / f"lane-old{number}").mkdir()
    put_in_place(sent, Path("/python"), print)
    assert len(list(tmp_path.glob("lane-old*.pyz"))) == 5
    monkeypatch.setattr(lane, "IN_USE_S", -1.0)
    put_in_place(sent, Path("/python"), print)
    assert len(list(tmp_path.glob("lane-*.pyz"))) == lane.MOST and sent.exists()
    assert len([path for path in tmp_path.glob("lane-*") if path.is_dir()]) == lane.MOST


def test_a_box_without_uv_whose_pip_can_bring_none_says_why(sent, made, monkeypatch, tmp_path):
    monkeypatch.setattr(lane, "find_uv", lambda: None)
    monkeypatch.setenv("GRIDBENCH_KEPT", str(tmp_path / "kept"))
    with pytest.raises(
        GridbenchError, match=r"uv is not on this box, and pip can't bring it: .*no-such-option"
    ):
        lane._fetch_uv(tmp_path / "no-such-option", Path(sys.executable))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("requirements.txt can't be had: error sending request for url", "reaches no package index"),
        ("requirements.txt can't be had: no solution found", "no solution found."),
    ],
)
def test_a_box_that_reaches_no_package_index_gets_advice(monkeypatch, capsys, error, said):
    def fails(*_):
        raise GridbenchError(error)

    monkeypatch.setattr(lane, "put_in_place", fails)
    assert lane.main() == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert said in line and ("index" in line) == ("request" in error)
