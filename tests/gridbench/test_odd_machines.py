import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gridbench.main import app
from gridbench.terminal import check_utf8, current_folder
from tasks.errors import GridbenchError

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).with_name("gridbench")
C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
PRICES = ("prices", "list")


def gridbench(*words, stdout=subprocess.PIPE, **variables):
    return subprocess.run(
        [PROGRAM, *words], stdout=stdout, stderr=subprocess.PIPE, env=os.environ | variables, timeout=100
    )


def test_another_state_folder_is_taken_before_a_command_reads_it(tmp_path, monkeypatch):
    monkeypatch.setenv("GRIDBENCH_STATE", "")  # and restored afterwards
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["--state", "mine", "prices", "--help"]).exit_code == 0
    assert os.environ["GRIDBENCH_STATE"] == str(tmp_path / "mine")


@pytest.mark.parametrize(
    ("redirection", "code"), [({"stdout": "/dev/full"}, 1), ({"stdout": os.devnull}, 0)], ids=["full", "null"]
)
def test_a_standard_output_that_is_full_is_reported_and_ends_nothing_early(tmp_path, redirection, code):
    table = tmp_path / "table.csv"
    table.write_text("GPU,TFLOPS\nH100,500\n")
    with open(redirection["stdout"], "w") as stream:
        done = gridbench("check", table, stdout=stream)
        assert done.returncode == code
        assert (b"standard output can't be written (No space" in done.stderr) is bool(code)
        assert b"Traceback" not in done.stderr


def test_a_name_of_a_file_in_utf8_is_read_in_every_locale(tmp_path):
    table = tmp_path / "ü €.csv"
    table.write_text("GPU,TFLOPS\nH100,500\n")
    done = gridbench("check", table, **C_LOCALE)
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr


def test_an_argument_that_is_not_utf8_is_refused_in_a_sentence():
    done = gridbench("show", "--results", b"/tmp/e\xff")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.count(b"\n") == 1 and rb"'/tmp/e\xff' is not UTF-8" in done.stderr


def test_a_current_folder_that_is_not_utf8_is_refused_in_a_sentence(tmp_path, monkeypatch):
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/e\xff"))
    folder.mkdir()
    monkeypatch.chdir(folder)
    with pytest.raises(GridbenchError, match=r"the current folder .* is not UTF-8"):
        current_folder()
    check_utf8("argument", "ü")
