import pytest

from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.script import Script
from workloads.harness.script.command import filled, own_case, stem


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("src/train.py", "--lr", "1"), "train"),
        (("-m", "package.fit"), "fit"),
        (("run",), "run"),
        (("-m", "package.__main__"), "script"),
    ],
)
def test_a_script_is_called_like_its_file(command, name):
    assert stem(command) == name


def test_sizes_and_data_are_filled_in_everywhere():
    script = Script(("train.py", "--batch={batch}", "--out={data}/{batch}x{width}"), data="/d")
    case = own_case(script, {"batch": 16, "width": 4})
    assert (case.id, filled(script, case)[1:]) == (
        "train/batch=16,width=4/own",
        ("--batch=16", "--out=/d/16x4"),
    )
    assert own_case(Script(("train.py",)), {}, "mine").id == "mine/own"


def test_data_without_a_place_is_refused():
    with pytest.raises(WorkloadsError, match=r"lacks its placeholder \{data\}"):
        own_case(Script(("train.py",), data="/d"), {})


def test_braces_that_name_nothing_stay():
    script = Script(("train.py", '{"lr": 1}', "{}", "{0}"))
    assert filled(script, own_case(script, {})) == script.command


@pytest.mark.parametrize(
    ("command", "size", "sentence"),
    [
        (
            ("train.py", "{batch}"),
            {},
            "the command has {batch}, but size batch is not given",
        ),
        (
            ("train.py",),
            {"batch": 2},
            "size batch is given, but the command lacks its placeholder {batch}",
        ),
        (("train.py", "{data}"), {}, "the command has {data}, but data is not given"),
        (("--lr", "1"), {}, "the command is '--lr 1'; name a file"),
        (("-m",), {}, "name a file, such as train.py --lr 1e-3, or -m and a module"),
    ],
)
def test_a_mistake_is_one_sentence(command, size, sentence):
    with pytest.raises(WorkloadsError) as error:
        own_case(Script(command), size)
    assert sentence in str(error.value)
