import gzip
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from gridbench import main
from tasks.imported import merged, read_folder, run_of
from tasks.planning.hardware import load_hardware
from tasks.store.store import Store, runs
from tests.tasks.examples.records import IMAGES, MATMUL, record
from workloads.harness.records.files import read_records

TWO_CARDS = Path(__file__).parents[1] / "tasks" / "examples" / "two_cards.jsonl.gz"


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    def said(*words):
        words = ["gridbench", "import", *map(str, words), "--results", str(tmp_path / "results")]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main.main()
        return ended.value.code or 0, "".join(capsys.readouterr())

    return said


@pytest.fixture
def box(tmp_path):
    """A suite's folder from a machine without a name."""
    folder = tmp_path / "box-a"
    folder.mkdir()
    for number, case in enumerate((MATMUL, MATMUL, IMAGES)):
        one = record(1 + number / 100, case, "here", number)
        (folder / f"{number}.json").write_text(one.to_json())
    return folder


def test_records_of_two_machines_become_a_run_with_prices_and_a_report(run, tmp_path):
    records = tmp_path / "records.jsonl"
    records.write_bytes(gzip.decompress(TWO_CARDS.read_bytes()))
    code, text = run(records, "--usd", "h100=2.49", "--usd", "h200=3.29", "--title", "Two cards")
    assert code == 0 and "Fastest: h200" in text
    (name,) = runs(tmp_path / "results")
    store = Store.open(tmp_path / "results", name)
    assert len(store.records()[0]) == 13 and store.plan.title == "Two cards"
    prices = {m.name: m.price.usd_per_hour for m in store.plan.hardware}
    assert prices == {"h100": 2.49, "h200": 3.29} and all(m.gpus == 1 for m in store.plan.hardware)
    page = (store.folder / "report.html").read_text()
    assert "by the card" in page and "<h1>Two cards</h1>" in page and f"<title>Two cards · {name} ·" in page


def test_a_price_can_be_that_of_hardware_by_its_share_of_the_gpus(run, tmp_path):
    records = tmp_path / "records.jsonl"
    records.write_bytes(gzip.decompress(TWO_CARDS.read_bytes()))
    code, _ = run(records, "--usd", "h100=aws-p5.4xlarge", "--usd", "h200=aws-p5en.48xlarge")
    (name,) = runs(tmp_path / "results")
    prices = {m.name: m.price for m in Store.open(tmp_path / "results", name).plan.hardware}
    assert code == 0 and {price.purchase for price in prices.values()} == {"on-demand"}
    assert prices["h200"].usd_per_hour == load_hardware("aws-p5en.48xlarge").price.usd_per_hour / 8
    assert (
        "1 of 8 GPUs of aws p5en.48xlarge" in prices["h200"].note and "us-east-1, 20" in prices["h200"].note
    )
    assert prices["h100"].usd_per_hour == load_hardware("aws-p5.4xlarge").price.usd_per_hour


def test_a_folder_names_a_machine_without_a_name_and_repeats_are_numbered(box):
    found = read_folder(box)
    plan, kept = run_of(merged([found]), {})
    assert found.problems == [] and [machine.name for machine in plan.hardware] == ["box-a"]
    assert sorted((one.case.workload, one.repeat) for one in kept) == [
        ("image_pipeline", 1),
        ("matmul", 1),
        ("matmul", 2),
    ]
    assert {one.run for one in kept} == {plan.run} and plan.repeats == 2


def test_the_same_records_are_the_same_run_and_count_once(run, box, tmp_path):
    run(box, box)
    code, _ = run(box)
    (name,) = runs(tmp_path / "results")
    assert code == 0 and len(Store.open(tmp_path / "results", name).records()[0]) == 3


def test_a_file_that_is_no_record_is_named_and_left_out(run, box):
    (box / "notes.json").write_text(json.dumps({"a": 1}))
    code, text = run(box)
    assert code == 0 and "left out:" in text and "notes.json, line 1" in text


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (["--usd", "box-a"], ["--usd 'box-a'", "h100=2.49"]),
        (["--usd", "box-a=0"], ["--usd 'box-a=0'"]),
        (["--usd", "other=1"], ["--usd other", "box-a"]),
        (["--usd", "box-a=local-cqu"], ["local-cqu", "did you mean local-cpu"]),
        (["--usd", "box-a=aws-p5.4xlarge"], ["0 GPUs", "aws-p5.4xlarge has 1"]),
    ],
)
def test_a_wrong_price_is_one_sentence(run, box, words, facts):
    code, text = run(box, *words)
    assert code == 2 and text.startswith("error: ") and all(fact in text for fact in facts)


def test_a_folder_without_records_is_one_sentence(run, tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "none"):
        code, text = run(tmp_path / name)
        assert code == 2 and name in text and len(text.splitlines()) == 1


def test_an_unknown_price_of_an_imported_machine_is_reported(run, box):
    assert "box-a: its price is unknown, 1 USD/h is assumed" in run(box)[1]


def test_folders_can_be_compared_as_runs_and_as_machines(monkeypatch, capsys, tmp_path):
    for name, factor in (("old", 1.0), ("new", 1.2)):
        (tmp_path / name).mkdir()
        for number in range(3):
            one = record(
                factor + number / 1000, MATMUL, "here", number, started_at=f"2026-11-2{number}T00:00:00+00:00"
            )
            (tmp_path / name / f"{number}.json").write_text(one.to_json())
            same = record(factor + number / 1000, MATMUL, "gpu", number)
            (tmp_path / f"{name}-{number}.json").write_text(same.to_json())

    def said(*words):
        words = ["gridbench", "compare", *map(str, words), "--results", str(tmp_path / "results")]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as ended:
            main.main()
        assert not ended.value.code
        return capsys.readouterr().out

    read = []
    monkeypatch.setattr("tasks.imported.read_records", lambda path: read.append(path) or read_records(path))
    assert "Fastest: old" in said(tmp_path / "old", tmp_path / "new")  # two machines, named by their folders
    assert len(read) == len(set(read)) > 0, "each file is read once"
    assert len(list(runs(tmp_path / "results"))) == 1
    text = said(tmp_path / "old-0.json", tmp_path / "new-0.json")  # one machine, twice
    assert "report: " in text and len(list(runs(tmp_path / "results"))) == 3
    page = Path(text.rpartition("report: ")[2].strip()).read_text()
    heading = page.partition("<h1>")[2].partition("</h1>")[0]
    assert len(set(heading.split(" against ")) & set(runs(tmp_path / "results"))) == 2
    assert f"<title>{heading} · Gridbench</title>" in page
    sections = re.findall(r"<section[^>]*>(.*?)</section>", page, re.DOTALL)
    bodies = [re.sub(r"<h2.*?</h2>|<[^>]+>", "", section, flags=re.DOTALL).strip() for section in sections]
    assert len(bodies) > 5 and all(bodies)


def test_a_copy_of_a_folder_counts_once_and_folders_below_name_their_machines(tmp_path):
    for box in ("h100", "h200"):
        folder = tmp_path / "results" / box / "here" / "matmul"
        folder.mkdir(parents=True)
        one = record(1.0 if box == "h100" else 2.0, MATMUL, "here", 1)
        (folder / "1.json").write_text(one.to_json())
    shutil.copytree(tmp_path / "results" / "h100", tmp_path / "copy")
    records = merged([read_folder(tmp_path / name) for name in ("results", "copy")])
    assert sorted(one.hardware for one in records) == ["h100", "h200"]


@pytest.mark.parametrize(
    "environment",
    [{"gpus": "x"}, {"gpus": ["x"]}, {"gpus": 5}, {"memory_total_bytes": "²"}, {"memory_total_bytes": 0}],
)
def test_an_odd_environment_leaves_a_machine_with_fewer_facts(environment):
    odd = record(
        1.0,
        MATMUL,
        "box",
        1,
        environment=environment,
        device="cuda",
        threads=0,
        started_at="0001-01-01T00:00:00+01:00",
    )
    plan, _ = run_of([odd], {})
    assert plan.hardware[0].gpus in (0, 1) and plan.hardware[0].threads is None


def test_the_record_with_most_gpus_describes_the_machine():
    cards = {"gpus": [{"name": "NVIDIA H100 80GB HBM3"}] * 8}
    one = record(1.0, MATMUL, "box", 1, environment={"gpus": cards["gpus"][:1]}, device="cuda")
    all_of_them = record(1.0, IMAGES, "box", 1, environment=cards, device="cuda")
    assert run_of([one, all_of_them], {})[0].hardware[0].gpus == 8


def test_an_imported_run_is_not_measured_again_from_here(run, box, monkeypatch, capsys, tmp_path):
    run(box)
    (name,) = runs(tmp_path / "results")
    monkeypatch.setattr(sys, "argv", ["gridbench", "resume", name, "--results", str(tmp_path / "results")])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 2 and "was imported" in capsys.readouterr().err
