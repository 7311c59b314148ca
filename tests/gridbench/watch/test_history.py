import csv
import sys
from datetime import datetime

import pytest

from gridbench import main
from gridbench.watch import history
from tasks.planning.channel import Night
from tasks.store import sync
from tests.tasks.examples.nights import HERE, NEW_DRIVER, a_night, keep, measured, plan_of, run_name
from tests.tasks.examples.records import IMAGES, MATMUL
from workloads.harness.records.case import Case

SMALL = Case.of("matmul", {"n": 64})


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Four nights: of two cases on one machine, the last with another driver, the third with a corrupt plan."""
    folder = tmp_path_factory.mktemp("nights")
    a_night(folder, 0)
    a_night(folder, 1, cases=[MATMUL, IMAGES, SMALL])
    (a_night(folder, 2).folder / "plan.json").write_text("{")
    plan = plan_of(3)
    keep(folder, plan, [one for one in measured(plan, environment=NEW_DRIVER) if one.case == MATMUL])
    a_night(folder, 4, night=None)
    a_night(folder, 5, night=Night(confirms=run_name(3)), cases=[MATMUL])
    return folder


@pytest.fixture
def run(monkeypatch, capsys, results):
    """Run the command on a wide terminal; return exit code, and output on one line and on several."""
    monkeypatch.setattr(history.console, "_width", 200)

    def said(*words, folder=results):
        monkeypatch.setattr(sys, "argv", ["gridbench", "history", *words, "--results", str(folder)])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code or 0, "".join(capsys.readouterr())

    return said


def test_a_case_is_shown_with_its_nights_its_changes_and_their_sum(run):
    code, text = run(MATMUL.id)
    lines = [line.split() for line in text.splitlines() if line.startswith("2026-11-")]
    assert code == 0 and f"{HERE}/{MATMUL.id}@main" in text
    assert lines[0] == ["2026-11-01", "02:00", run_name(0), "1.01", "s", "2.00", "s", "ok", "c" * 8]
    assert lines[2] == [
        "2026-11-04",
        "02:00",
        run_name(3),
        "1.01",
        "s",
        "2.00",
        "s",
        "ok",
        "e" * 8,
        "machine",
    ]
    assert "3 nights, 3 of them ok; 1 since 2026-11-04, when the machine changed" in text
    assert f"note: left out: {run_name(2)}" not in text and f"{run_name(2)}/plan.json can't be read" in text


def test_the_history_explains_a_missing_number_and_an_ended_case(run):
    _, text = run(IMAGES.id)
    (line,) = [line.split() for line in text.splitlines() if run_name(3) in line]
    assert line == ["2026-11-04", "02:00", run_name(3), "–", "–", "missing"]
    assert "3 nights, 2 of them ok" in text
    _, text = run("n=64")
    assert "1 night, 1 of them ok; the newest night of its channel did not plan it" in text


def test_a_workload_has_all_its_cases_and_a_machine_can_be_named(run):
    code, text = run("matmul", "--on", HERE)
    assert code == 0 and MATMUL.id in text and SMALL.id in text and IMAGES.id not in text
    code, text = run("matmul", "--on", "local-cp")
    assert code == 2 and "hardware 'local-cp' has no history of matmul; did you mean local-cpu?" in text


def test_other_runs_are_shown_when_asked_for(run):
    _, text = run(MATMUL.id)
    assert run_name(4) not in text and run_name(5) not in text
    _, text = run(MATMUL.id, "--all")
    assert f"{MATMUL.id}: runs that are not nights" in text and run_name(4) in text
    assert f"{MATMUL.id}: confirmations" in text and f"confirms {run_name(3)}" in text


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("matmull", "error: case 'matmull' has no history; similar names are matmul"),
        (
            "fp32",
            f"error: case 'fp32' fits {IMAGES.id}, {MATMUL.id}, {SMALL.id}; give more of its name",
        ),
        ("", "error: case '' has no history"),
        ("[/x]", "error: case '[/x]' has no history; similar names are"),
    ],
)
def test_a_name_that_fits_none_or_several_is_one_sentence(run, case, sentence):
    code, text = run(case)
    assert code == 2 and text.startswith(sentence) and len(text.splitlines()) == 1


def test_an_empty_history_is_one_sentence(run, tmp_path):
    code, text = run("matmul", folder=tmp_path)
    assert code == 2 and str(tmp_path) in text and "channel 'main'" in text
    code, text = run("matmul", "--channel", "release")
    assert code == 2 and "no nights of channel 'release'" in text and "1 can't be read" in text
    assert len(text.splitlines()) == 1


def test_a_file_has_every_night_of_every_series(run, tmp_path):
    file = tmp_path / "out.csv"
    code, text = run("matmul", "--csv", str(file))
    rows = list(csv.DictReader(file.open()))
    assert code == 0 and f"written: {file}" in text
    assert [(row["case"], row["run"], row["segment"]) for row in rows] == [
        (MATMUL.id, run_name(0), "0"),
        (MATMUL.id, run_name(1), "0"),
        (MATMUL.id, run_name(3), "1"),
        (SMALL.id, run_name(1), "0"),
    ]
    assert float(rows[0]["seconds"]) == pytest.approx(1.02**0.5) and rows[0]["hardware"] == HERE
    assert datetime.fromisoformat(rows[0]["at"]).utcoffset().total_seconds() == 0
    (tmp_path / "file").write_text("")
    code, text = run("matmul", "--csv", str(tmp_path / "file" / "out.csv"))
    assert code == 2 and "error: csv: " in text and "can't be written" in text


def test_hostile_names_stay_text(run, tmp_path):
    a_night(tmp_path, 0, run="[red]x", night=Night(channel="[/main]"))
    code, text = run("matmul", "--channel", "[/main]", folder=tmp_path)
    assert code == 0 and "[red]x" in text and "@[/main]" in text


def test_a_bucket_is_read_from_its_working_copy(run, results, monkeypatch):
    monkeypatch.setattr(sync, "bring", lambda name: results if str(name) == "s3-bucket/kept" else None)
    code, text = run("n=64", folder="s3-bucket/kept")
    assert code == 0 and run_name(1) in text
