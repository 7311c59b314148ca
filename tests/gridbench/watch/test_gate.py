import random
import sys
from xml.etree import ElementTree

import pytest

from gridbench import main
from gridbench.watch import gate
from tests.tasks.examples.nights import HERE, NEW_DRIVER, keep, measured, plan_of, run_name
from tests.tasks.examples.records import ENVIRONMENT, IMAGES, MATMUL, record
from workloads.harness.records.case import Case

GOOD, SLOW, FEW, DRIVER, LOST, LAST = range(6)
FACTORS = (1.0, 1.004, 0.997)


def a_run(results, number, factor=1.0, repeats=3, lost=(), **changes):
    """Write a run of two cases; matmul takes `factor` seconds."""
    plan = plan_of(number, night=None, repeats=repeats)
    changes = {"environment": ENVIRONMENT} | changes
    records = [record(FACTORS[i] * factor, MATMUL, HERE, i, run=plan.run, **changes) for i in range(repeats)]
    records += [record(FACTORS[i], IMAGES, HERE, i, run=plan.run, **changes) for i in range(repeats)]
    return keep(results, plan, [one for one in records if one.case not in lost])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    a_run(folder, GOOD)
    a_run(folder, SLOW, 1.1)
    a_run(folder, FEW, repeats=1)
    a_run(folder, DRIVER, 1.1, environment=NEW_DRIVER)
    a_run(folder, LOST, lost=[IMAGES])
    a_run(folder, LAST, 1.01)
    return folder


@pytest.fixture
def run(monkeypatch, capsys, results):
    def said(*words, folder=results):
        monkeypatch.setattr(sys, "argv", ["gridbench", "gate", *words, "--results", str(folder)])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code or 0, "".join(capsys.readouterr())

    return said


def test_a_slower_cell_is_the_first_one_and_the_exit_code(run):
    code, text = run(run_name(SLOW), "--against", run_name(GOOD))
    lines = text.splitlines()
    assert code == 1 and f"{run_name(SLOW)} against {run_name(GOOD)}" in lines[0]
    assert lines[3].startswith(f"{HERE}/{MATMUL.id} ") and "slower" in lines[3] and "+10.0 %" in lines[3]
    assert "unchanged" in lines[4]
    assert (
        f"1 cell got slower: {HERE}/{MATMUL.id} by +10.0 % (+" in lines[-1] and "(1 unchanged)" in lines[-1]
    )


def many_cells(results, number, cells, slow=0, factor=1.2):
    """Write cells of five repeats with 1 % noise, the first `slow` of them slower by the factor."""
    chance = random.Random(1000 * cells + number)
    cases = [Case.of("matmul", {"n": 64 * (place + 1)}) for place in range(cells)]
    plan = plan_of(number, night=None, repeats=5, cases=cases)
    records = [
        record(
            (factor if place < slow else 1.0) * chance.lognormvariate(0, 0.01),
            case,
            HERE,
            repeat,
            run=plan.run,
            environment=ENVIRONMENT,
        )
        for place, case in enumerate(cases)
        for repeat in range(5)
    ]
    return keep(results, plan, records)


@pytest.mark.parametrize(("cells", "slow"), [(8, 4), (14, 7), (14, 4), (14, 9), (6, 3)])
def test_a_change_of_half_of_the_cells_fails(run, tmp_path, cells, slow):
    """A median of changes does not show which half is unchanged."""
    many_cells(tmp_path, 0, cells)
    many_cells(tmp_path, 1, cells, slow)
    code, text = run("--against", run_name(0), folder=tmp_path)
    assert code == 1 and f"{slow} cells got slower" in text


def test_the_same_cells_without_a_change_pass(run, tmp_path):
    many_cells(tmp_path, 0, 14)
    many_cells(tmp_path, 1, 14)
    code, text = run("--against", run_name(0), folder=tmp_path)
    assert code == 0 and "(14 unchanged)" in text


def test_undecided_is_no_success_unless_it_is_allowed(run, tmp_path):
    """At 1 % of noise five repeats exclude a slowdown by 5 %, not one by 1 %."""
    many_cells(tmp_path, 0, 8)
    many_cells(tmp_path, 1, 8)
    words = ("--against", run_name(0), "--margin", "1%", "--least-change", "1%")
    code, text = run(*words, folder=tmp_path)
    assert code == 3 and "would not have been seen" in text and "could not be decided" in text
    code, text = run(*words, "--allow-undecided", folder=tmp_path)
    assert code == 0 and "undecided cells can be slower by up to" in text


def test_the_newest_run_is_judged_where_none_is_named(run):
    code, text = run("--against", run_name(GOOD), "--run-effect", "0.5%")
    assert code == 0 and f"{run_name(LAST)} against {run_name(GOOD)}: no cell got slower" in text
    assert "2 unchanged" in text and "can be slower by up to 2.3 %" in text
    code, text = run("--against", run_name(LAST))
    assert code == 2 and text == f"error: run {run_name(LAST)} can't be compared with itself; name two runs\n"


def test_a_lost_cell_fails(run):
    code, text = run(run_name(LOST), "--against", run_name(GOOD))
    assert code == 1 and f"1 cell lost: {HERE}/{IMAGES.id} ({run_name(LOST)} has no record of it)" in text


@pytest.mark.parametrize(
    ("number", "why"),
    [(FEW, "3 usable repeats or more"), (DRIVER, "the machine differs: nvidia_driver 580.1")],
)
def test_nothing_decided_is_not_green(run, number, why):
    code, text = run(run_name(number), "--against", run_name(GOOD))
    assert code == 3 and "no cell could be decided" in text and why in text


@pytest.mark.parametrize("least", ["20%", "0.2", " 20 % "])
def test_the_least_change_can_be_raised(run, least):
    assert run(run_name(SLOW), "--against", run_name(GOOD), "--least-change", least)[0] == 0


@pytest.mark.parametrize("least", ["2", "-1%", "nan", "inf", "x", "", "100%", "2%%"])
@pytest.mark.parametrize("option", ["--least-change", "--margin", "--run-effect"])
def test_an_invalid_share_is_one_sentence(run, option, least):
    code, text = run("--against", run_name(GOOD), option, least)
    name = option.removeprefix("--").replace("-", "_")
    assert code == 2 and text.startswith(f"error: {name}={least!r} must be from 0 to below 1")
    assert len(text.splitlines()) == 1


def test_the_file_of_a_gate_agrees_with_its_exit_code(run, tmp_path):
    file = tmp_path / "new" / "gate.xml"
    code, _ = run(run_name(SLOW), "--against", run_name(GOOD), "--junit", str(file))
    root = ElementTree.parse(file).getroot()
    (suite,) = root
    assert code == 1 and (suite.get("name"), suite.get("tests"), suite.get("failures")) == (HERE, "2", "1")
    (tmp_path / "file").write_text("")
    code, text = run("--against", run_name(GOOD), "--junit", str(tmp_path / "file" / "gate.xml"))
    assert code == 2 and text.startswith("error: junit: ") and "can't be written" in text


def test_mistakes_are_one_sentence(run, tmp_path):
    code, text = run("--against", "20300101")
    assert code == 2 and text.startswith("error: run '20300101' is unknown")
    code, text = run(run_name(SLOW), "--against", "2026")
    assert code == 2 and run_name(SLOW) in text and run_name(GOOD) in text
    a_run(tmp_path, GOOD)
    keep(tmp_path, plan_of(SLOW, night=None), [])
    code, text = run("--against", run_name(GOOD), folder=tmp_path)
    assert code == 2 and f"run {run_name(SLOW)} has no record that can be read" in text
    code, text = run("--against", run_name(GOOD), folder=tmp_path / "none")
    assert code == 2 and " is unknown in " in text


def test_controls_beside_the_repeats_tell_a_slow_box(run, tmp_path):
    plans = [plan_of(number, cases=[MATMUL], repeats=3) for number in (0, 1)]
    for plan, box in zip(plans, (1.0, 1.3), strict=True):
        keep(tmp_path, plan, measured(plan, 1.0 * box, 2.0 * box))
    code, text = run("--against", run_name(0), "--run-effect", "0", folder=tmp_path)
    assert code == 0 and "divided by the time of its control" in text


def test_hostile_names_stay_text(run, tmp_path):
    for number, name in enumerate(("1[red]x", "2[bold]y")):
        plan = plan_of(number, night=None, run=name)
        keep(tmp_path, plan, measured(plan, control_s=None))
    code, text = run("--against", "1", "--run-effect", "0", folder=tmp_path)
    assert code == 0 and "2[bold]y against 1[red]x" in text


def test_a_bucket_is_asked_for_records_that_only_history_has_brought(run, tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    for number in (0, 1):
        store = a_run(there, number)
        copy = here / store.folder.name
        copy.mkdir(parents=True)
        (copy / "plan.json").write_bytes((store.folder / "plan.json").read_bytes())

    class Bucket:
        @classmethod
        def load(cls, name):
            assert name == "s3-bucket/kept"
            return cls()

        storage = type("Storage", (), {"basepath": str(there)})

        def fetch(self, run, folder):
            (there / run / "records").rename(folder / run / "records")

    monkeypatch.setattr(gate, "Bucket", Bucket)
    monkeypatch.setattr("tasks.store.bucket.Bucket", Bucket)
    monkeypatch.setattr("tasks.store.address.DEFAULT_FOLDER", here)
    code, text = run("--against", run_name(0), folder="s3-bucket/kept")
    assert code == 0 and f"{run_name(1)} against {run_name(0)}" in text
