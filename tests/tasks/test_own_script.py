from dataclasses import replace

import pytest

from tasks.errors import GridbenchError
from tasks.own_script import OwnScript, measured_s, sizes_of, write_suite
from tasks.store.store import Store
from tests.tasks.examples.scripts import own, plan_of, ran
from workloads.harness.repeat.suite import load_suite


@pytest.fixture
def code(tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("")
    (tmp_path / "code" / "requirements.txt").write_text("numpy\n")
    return str(tmp_path / "code")


def test_a_written_suite_is_read_as_it_was_asked_for(code, tmp_path):
    asked = OwnScript(
        run='train.py --note "a \\"b\\" ü" --batch {batch} {data}',
        folder=code,
        name="nano",
        size={"batch": [16, 32]},
        packages="requirements.txt",
        data="s3://bucket/data",
        epochs=3,
        through=2,
        step_of="Adam:2",
        samples=64,
        processes=2,
        whole=True,
        repeats=4,
        timeout_s=900,
    )
    path = write_suite(asked, tmp_path / "results")
    assert path == tmp_path / "results" / "suites" / "nano.toml"
    suite = load_suite(str(path))
    assert (suite.repeats, suite.timeout_s, suite.title) == (4, 900, "The script nano")
    assert suite.cases == (own(16, "nano"), own(32, "nano"))
    script = suite.entries[0].script
    assert script.command == ("train.py", "--note", 'a "b" ü', "--batch", "{batch}", "{data}")
    assert (script.folder, script.packages, script.data) == (code, "requirements.txt", "s3://bucket/data")
    assert (script.epochs, script.steps, script.processes, script.whole) == (3, None, 2, True)
    assert (script.through, script.step_of, script.samples) == (2, "Adam:2", 64)
    plain = load_suite(str(write_suite(OwnScript(run="train.py", folder=code), tmp_path / "results")))
    assert plain.name == "train" and plain.entries[0].assumed and plain.repeats == 3


def test_earlier_measurements_of_a_script_are_its_estimate(code, tmp_path):
    results = tmp_path / "results"
    asked = OwnScript(run="train.py --batch {batch}", folder=code, size={"batch": [16, 32]})
    assert measured_s(results, [own(16)]) is None
    for run, walls_s in (("1", (80.0, 90.0)), ("2", (41.26, 20.0))):
        plan = plan_of(tmp_path, run=run)
        store = Store.create(results, plan)
        for repeat in plan.repeats_on(plan.hardware[0]):
            wall_s = walls_s[repeat.case == own(32)] + repeat.repeat - 2
            store.add(replace(ran(1.0, repeat), wall_s=wall_s))
    Store.create(results, plan_of(tmp_path, run="3"))  # planned, and never measured
    (results / "4").mkdir()
    (results / "4" / "plan.json").write_text("no JSON")
    assert measured_s(results, [own(32)]) == 20.0
    suite = load_suite(str(write_suite(asked, results)))
    assert {(entry.estimate_s, entry.assumed) for entry in suite.entries} == {(41.3, False)}


def test_sizes_are_read_in_any_number_of_words():
    assert sizes_of(["batch=16,32", "seq=8 k=0"]) == {"batch": [16, 32], "seq": [8], "k": [0]}
    assert sizes_of([]) == {}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["batch"], "size 'batch' is not of the form name=number,number, such as batch=16,32"),
        (["batch="], "size 'batch=' is not of the form"),
        (["batch=1", "batch=2"], "size batch is given twice; give all of its values at once: batch=16,32"),
        (["batch=1,x"], "size batch=x must be a whole number"),
    ],
)
def test_a_mistake_in_sizes_is_one_sentence(given, words):
    with pytest.raises(GridbenchError) as caught:
        sizes_of(given)
    assert str(caught.value).startswith(words)


def test_nothing_is_written_for_a_script_that_can_not_be_measured(code, tmp_path):
    with pytest.raises(GridbenchError, match=r"^run names the file 'gone\.py', which "):
        write_suite(OwnScript(run="gone.py", folder=code, name="../x"), tmp_path / "results")
    assert not (tmp_path / "results").exists()
