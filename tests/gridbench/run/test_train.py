import re
import sys

import pytest

from gridbench import main
from gridbench.run import candidates, train
from workloads.harness.probes import device_here
from workloads.harness.repeat.suite import load_suite


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run the command in a folder with a script; return exit code and output on one line."""
    (tmp_path / "train.py").write_text("")
    (tmp_path / ".gitignore").write_text("out/\n")
    monkeypatch.chdir(tmp_path)

    def said(*words):
        monkeypatch.setattr(sys, "argv", ["gridbench", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code or 0, " ".join("".join(capsys.readouterr()).split())

    return said


OPTIONS = ("--results", "out", "--on", "local-cpu", "--on", "local-cpu-1", "--dry-run")


def test_options_behind_the_script_are_the_scripts(run, tmp_path):
    sizes = ("--size", "batch=4,8", "--size", "seq=2", "--data", "cifar", "--steps", "100", "--repeats", "2")
    words = ("python", "train.py", "--batch={batch}", "--seq", "{seq}", "--data", "{data}", "--steps", "7")
    for dashes in ((), ("--",)):
        code, said = run("train", *OPTIONS, *sizes, *dashes, *words)
        path = tmp_path / "out" / "suites" / "train.toml"
        assert code == 0 and str(path) in said and "4 cells, 2 repeats each: about" in said
        assert "90 s a repeat are a guess for train" in said and "baseline local-cpu" in said
        suite = load_suite(str(path))
        assert [case.size_text for case in suite.cases] == ["batch=4,seq=2", "batch=8,seq=2"]
        script = suite.entries[0].script
        assert script.command == ("train.py", *words[2:]) and script.steps == 100
        assert (script.folder, script.data) == (str(tmp_path), str(tmp_path / "cifar"))


def test_the_suite_of_a_trained_script_can_be_run_again_by_its_path(run):
    assert run("train", *OPTIONS, "--name", "mine", "train.py")[0] == 0
    code, said = run("run", "out/suites/mine.toml", *OPTIONS)
    assert code == 0 and "The script mine" in said and "2 cells, 3 repeats each" in said


def test_a_single_cell_and_repeat_are_printed_in_the_singular(run):
    here = ("--results", "out", "--on", "local-cpu", "--dry-run")
    code, said = run("train", *here, "--repeats", "1", "train.py")
    assert code == 0 and "1 cell, 1 repeat each: about" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("gone.py",), "error: run names the file 'gone.py', which "),
        (("train.py", "{n}"), "error: run is \"train.py '{n}'\"; {n} has no size: give --size n=VALUE"),
        (("--steps", "3", "--epochs", "1", "train.py"), "error: steps=3 and epochs=1 are both given"),
        (("--steps", "0", "train.py"), "error: steps=0 must be above 0"),
        (("--repeats", "0", "train.py"), "error: train: repeats is 0: must be greater than 0"),
        (("--folder", "gone", "train.py"), "gone', but "),
        (("--size", "n", "train.py"), "error: size 'n' is not of the form name=number,number"),
        (("--budget-usd", "0.0001", "train.py"), "exceeds budget_usd=0.0001"),
        (("run.toml",), "error: run names the file 'run.toml', which "),
    ],
)
def test_a_mistake_is_one_sentence_and_code_2(run, words, sentence):
    code, said = run("train", *OPTIONS, *words)
    assert code == 2 and sentence in said and "Traceback" not in said


@pytest.mark.parametrize("words", [("--on", "laptop"), ("--baseline", "laptop")])
def test_an_unknown_machine_leaves_no_suite_behind(run, tmp_path, words):
    code, said = run("train", *OPTIONS, *words, "train.py")
    assert code == 2 and "'laptop' is" in said and not list(tmp_path.rglob("*.toml"))


def test_code_that_a_machine_could_not_get_is_refused_before_anything_starts(run, tmp_path):
    """A secret never leaves this machine, so no other can measure the folder."""
    (tmp_path / ".env").write_text("KEY=1\n")
    code, said = run("train", "--on", "aws-c5.2xlarge", "--results", "out", "--dry-run", "train.py")
    assert code == 2 and "looks like a secret, and secrets do not travel" in said
    assert run("train", *OPTIONS, "train.py")[0] == 0, "this machine has the folder itself"


def test_packages_that_no_machine_could_have_are_refused_before_anything_starts(run, tmp_path):
    (tmp_path / "requirements.txt").write_text("./part\n")
    code, said = run("train", *OPTIONS, "--packages", "requirements.txt", "train.py")
    assert code == 2 and "asks for './part', which has no name of a package" in said
    (tmp_path / "requirements.txt").write_text("tqdm\n")
    assert run("train", *OPTIONS, "--packages", "requirements.txt", "train.py")[0] == 0


def test_results_in_the_code_are_refused_because_each_run_would_change_it(run, tmp_path):
    code, said = run("train", "--results", "results", "--dry-run", "train.py")
    assert code == 2 and "inside of the code's folder" in said and not list(tmp_path.rglob("*.toml"))


def test_a_training_uses_the_gpu_of_this_machine(monkeypatch):
    for sees, names in ((True, ["local-cuda"]), (False, ["local-cpu"])):
        monkeypatch.setattr(
            "workloads.harness.probes.device_here.device_here", lambda sees=sees: "cuda" if sees else "cpu"
        )
        assert train.this_machine() == names


def test_a_shortlist_is_planned_with_its_first_machine_alone(run, monkeypatch):
    named = ("--on", "aws-g6.xlarge", "--on", "aws-p5.4xlarge")
    code, said = run("train", "--offers", *named, "--results", "out", "--dry-run", "train.py")
    alone = run("train", *named[:2], "--results", "out", "--dry-run", "train.py")[1]
    assert code == 0 and "aws-g6.xlarge is measured first; then, within the budget" in said
    estimate = re.search(r"about \d+ min and [\d.]+ USD", said)[0]
    assert estimate in alone and "aws-p5.4xlarge" in said


def test_the_candidates_are_the_machines_that_are_reached(run, monkeypatch):
    monkeypatch.delenv("LAMBDA_API_KEY", raising=False)
    monkeypatch.setattr(device_here, "device_here", lambda: "cpu")
    monkeypatch.setattr(candidates, "read_notes", lambda: ())
    code, said = run("train", "--offers", "--results", "out", "--dry-run", "train.py")
    assert (
        code == 2
        and "--offers finds no machine with 1 GPU that is reached from here: name some with --on" in said
    )
    monkeypatch.setenv("LAMBDA_API_KEY", "secret")
    code, said = run("train", "--offers", "--results", "out", "--dry-run", "train.py")
    names = candidates.candidates(1)
    assert code == 0 and names[0] == "lambda-1x-rtx6000" and "lambda-1x-h100" in names
    assert f"{names[0]} is measured first" in said and "lambda-8x-h100" not in said
