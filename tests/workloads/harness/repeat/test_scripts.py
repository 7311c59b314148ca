import json
from pathlib import Path

import pytest

from workloads.harness.records.case import Case
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat
from workloads.harness.records.script import OWN, Script
from workloads.harness.repeat import series
from workloads.harness.repeat.limits import Limits, too_large, too_much_for
from workloads.harness.repeat.runs import COMMAND, arguments
from workloads.harness.repeat.scripts import image_in, python_words
from workloads.harness.repeat.suite import load_suite


@pytest.fixture
def suite_of(tmp_path):
    """Return a function that loads a suite with this text, next to a folder with a script."""
    (tmp_path / "code").mkdir()
    for name in ("train.py", "matmul.py", "requirements.txt", "notes.md"):
        (tmp_path / "code" / name).write_text("")

    def load(text):
        (tmp_path / "mine.toml").write_text(text)
        return load_suite(str(tmp_path / "mine.toml"))

    return load


def script(run="train.py", more=""):
    return f'[[scripts]]\nfolder = "code"\nrun = {json.dumps(run)}\n{more}\n'


def test_every_combination_of_sizes_is_a_case_with_its_script(suite_of, tmp_path):
    sizes = "size = { seq = [64, 128], batch = 8 }"
    more = 'packages = "requirements.txt"\ndata = "../cifar"\nsteps = 10000\nprocesses = 2\nwhole = true'
    run = "python train.py --batch {batch} --seq={seq} '{data}/a b'"
    text = f"{sizes}\n{more}"
    suite = suite_of(f"timeout_s = 500\n{script(run, text)}")
    assert [case.id for case in suite.cases] == ["train/batch=8,seq=64/own", "train/batch=8,seq=128/own"]
    expected = Script(
        command=("train.py", "--batch", "{batch}", "--seq={seq}", "{data}/a b"),
        folder=str(tmp_path / "code"),
        packages="requirements.txt",
        data=str(tmp_path / "../cifar"),
        steps=10000,
        processes=2,
        whole=True,
    )
    assert {entry.script for entry in suite.entries} == {expected}
    assert [(entry.estimate_s, entry.assumed) for entry in suite.entries] == [(500, True)] * 2


def test_a_script_without_sizes_is_one_case_beside_others(suite_of):
    text = script(more='name = "nano.gpt"\nestimate_s = 40\nthreads = 1\ndevice = "cpu"\nepochs = 3')
    module = script("-m package.train_it --lr 1e-3")
    suite = suite_of(f'{text}{module}[[cases]]\nworkload = "matmul"\nsize = {{ n = 64 }}\n')
    assert [case.id for case in suite.cases] == ["matmul/n=64/fp32", "nano.gpt/own", "train_it/own"]
    nano, module = suite.entries[1:]
    assert (nano.estimate_s, nano.threads, nano.device, nano.assumed) == (40, 1, "cpu", False)
    assert (module.estimate_s, module.assumed, module.script.epochs) == (90, True, None)
    assert suite.tiny().cases[0].id == "nano.gpt/own" and suite.on({"cuda"}).cases[-1].id == "train_it/own"
    assert suite.minutes == pytest.approx((15 + 40 + 90) * 3 / 60)


def test_sizes_that_are_no_grid_are_two_tables_of_one_command(suite_of):
    sizes = ("size = { a = 1, b = 9 }", "size = { a = [1, 3], b = 9 }")
    suite = suite_of("".join(script("train.py {a} {b}", size) for size in sizes))
    assert [case.size_text for case in suite.cases] == ["a=1,b=9", "a=3,b=9"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[scripts]]\nfolder = "code"\n', "a script lacks the key run, such as"),
        ("scripts = [3]\n", "a script is 3, expected a table with name, run,"),
        (script(more="speed = 3"), "a script has the unknown key 'speed'; known are name, run,"),
        (script("train.py --batch {batch}"), "{batch} has no size: give --size batch=VALUE"),
        (script(more="size = { batch = 4 }"), "size batch is given, but run lacks its placeholder {batch}"),
        (script("train.py {batch}", "size = { batch = [] }"), "size batch is [], which makes no case"),
        (script("train.py {batch}", "size = { batch = 1.5 }"), "size batch=1.5 must be a whole number"),
        (script("train.py {B}", "size = { B = 1 }"), "size 'B' must be lower-case letters"),
        (script("train.py {workers}", "size = { workers = 1 }"), "size 'workers' is a reserved name"),
        (script("train.py {data}"), "{data} needs the key data: a folder or an s3:// address"),
        (script(more='data = "cifar"'), "data is given, but run lacks its placeholder {data}"),
        (script(more="steps = 5\nepochs = 1"), "steps=5 and epochs=1 are both given"),
        (script(more="steps = 0"), "steps=0 must be above 0"),
        (script(more="steps = 2.5"), "steps is 2.5, expected int"),
        (script(more="processes = 0"), "processes=0 must be above 0"),
        (script(more="through = 5"), "through=5 needs the length of the job; give steps or epochs"),
        (script(more="steps = 3\nthrough = 5"), "through=5 is longer than the job, steps=3"),
        (script(more="samples = 0"), "samples=0 must be above 0"),
        (script(more="step_of = 'Adam:0'"), "step_of='Adam:0' must be the class of an optimizer, such as AdamW"),
        (script(more="whole = 1"), "whole is 1, expected bool"),
        (script("train.py {data}", 'data = "gs://b/x"'), "data is 'gs://b/x'; give a folder on the machine, or an s3://"),
        (script(more='packages = "nope.txt"'), "has no such file"),
        (script(more='packages = "notes.md"'), "packages is 'notes.md'; give requirements.txt, pyproject.toml"),
        (script(more='device = "tpu"'), "device is 'tpu'; choose from cpu, cuda"),
        (script("gone.py"), "run names the file 'gone.py', which "),
        (script("../mine.toml"), "run names '../mine.toml', which is outside the folder"),
        (script("''"), "run is \"''\"; give a file, or -m and a module"),
        (script("-u train.py"), "run begins with '-u'; give a file, or -m and a module"),
        (script("torchrun train.py"), "run begins with torchrun; give the script alone, and its ranks as proc"),
        (script('train.py "'), "can't be split into words: No closing quotation"),
        ('[[scripts]]\nfolder = "gone"\nrun = "train.py"\n', "folder is 'gone', but "),
        (script("matmul.py"), "name 'matmul' is the name of a workload; choose another, such as name = \"my-matmul\""),
        (script(more='name = "a/b"'), "name is 'a/b'; use up to 60 letters"),
        (script() + script(more="steps = 3"), "name 'train' is used by two commands"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_with_the_file(suite_of, text, words):
    with pytest.raises(WorkloadsError) as caught:
        suite_of(text)
    assert str(caught.value).startswith("suite mine.toml: ")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_python_before_the_script_is_left_out():
    assert python_words(["/usr/bin/python3.12", "train.py", "-x"]) == ("train.py", "-x")
    assert python_words(["-m", "package.module"]) == ("-m", "package.module")


def case_of(**size):
    return Case.of("train", size, OWN)


def repeat_of(case, **more):
    return Repeat("run", "here", case, script=Script(("train.py", "{batch}"), **more))


def test_larger_sizes_of_a_script_that_ran_out_of_memory_are_skipped():
    ended = [repeat_of(case_of(batch=32)).failed(Verdict.OUT_OF_MEMORY, "memory ran out")]
    assert (
        too_much_for(case_of(batch=64), ended, 600)
        == "train/batch=32/own ran out of memory, and this case is at least as large"
    )
    assert too_much_for(case_of(batch=16), ended, 600) is None
    assert too_much_for(Case.of("other", {"batch": 64}, OWN), ended, 600) is None


def test_a_script_of_more_ranks_than_a_machine_has_room_for_is_too_large():
    limits = Limits("here", processes=2, peak_flops={OWN: 1.0})
    reason = too_large(case_of(batch=1), limits, 600, Script(("train.py",), processes=4))
    assert reason == "4 processes measure together, but here has room for 2"
    assert too_large(case_of(batch=1), limits, 600, Script(("train.py",), processes=2)) is None


def test_any_command_is_given_a_script_as_json():
    repeat = repeat_of(case_of(batch=1))
    for command in (COMMAND, ("/envs/v2/bin/python", "-P", "-m", "workloads")):
        assert arguments(repeat, command) == ["repeat", repeat.to_json()]
    assert Repeat.from_json(repeat.to_json()) == repeat


def test_a_suite_measures_its_scripts_and_a_reference_adds_no_control(suite_of, monkeypatch):
    """A control would run the same code, and hide its change."""
    measured = []

    def run_repeat(repeat, lock, say, command):
        measured.append(repeat)
        return repeat.failed(Verdict.CRASHED, "KeyError: 'lr'")

    monkeypatch.setattr(series, "run_script", run_repeat)
    suite = suite_of("repeats = 1\n" + script("train.py {batch}", "size = { batch = [1, 2] }"))
    records = []
    series.measure_suite(suite, Repeat("r", "here", suite.cases[0]), 1, lambda text: None, records.append)
    assert sorted(repeat.case.id for repeat in measured) == ["train/batch=1/own", "train/batch=2/own"]
    assert {repeat.script for repeat in measured} == {suite.entries[0].script}
    assert {record.reasons for record in records} == {("KeyError: 'lr'",)}
    record = series.measure_or_skip(measured[0], [], lambda text: None, reference=("frozen",))
    assert record.control is None and len(measured) == 3


def test_the_folder_of_a_script_can_be_anywhere(suite_of, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "run.py").write_text("")
    suite = suite_of(f'[[scripts]]\nrun = "run.py"\nfolder = "{elsewhere}"\n')
    assert Path(suite.entries[0].script.folder) == elsewhere


@pytest.mark.parametrize(
    "image",
    [
        "ubuntu",
        "vllm/vllm-openai:v0.11.0",
        "localhost:5000/a/b_c:1",
        f"gcr.io/a/b:t@sha256:{'0' * 64}",
    ],
)
def test_an_image_is_a_name_with_its_registry_tag_and_digest(image):
    assert image_in(image) == image


@pytest.mark.parametrize(
    "image", ["", "-v", "user:secret@host/a", "a b", "a@sha256:0", "{{ prefect.variables.a }}", "a" * 501]
)
def test_an_image_with_a_login_or_an_option_is_refused_and_not_repeated(image):
    with pytest.raises(WorkloadsError, match="the login of a registry belongs to the machine") as refused:
        image_in(image)
    assert "secret" not in str(refused.value)
