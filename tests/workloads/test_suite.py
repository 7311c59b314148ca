"""Suites: the shipped ones load, and every mistake in a file names file, field, value and what would be right."""

import pytest

from workloads.harness.errors import WorkloadsError
from workloads.harness.suite import load_suite, suite_names

GOOD = """
title = "T"
repeats = 2
[[cases]]
workload = "matmul"
size = { n = [64, 128] }
precision = ["fp32", "bf16"]
[[cases]]
workload = "image_pipeline"
size = { pixels = [32, 64], batch = [1, 2] }
"""


def case(text):
    return f"[[cases]]\n{text}\n"


MATMUL = 'workload = "matmul"\nsize = { n = 64 }'


@pytest.mark.parametrize("name", suite_names())
def test_the_shipped_suites_load(name):
    suite = load_suite(name)
    assert suite.name == name
    assert len(set(suite.cases)) == len(suite.cases) > 0
    assert suite.repeats >= 1
    assert suite.title


def test_all_combinations_each_once_in_the_files_order(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + case(MATMUL))
    suite = load_suite(str(path))
    assert (suite.name, suite.title, suite.repeats, suite.quick) == ("mine", "T", 2, False)
    assert [c.id for c in suite.cases] == [
        *("matmul/n=64/fp32", "matmul/n=128/fp32", "matmul/n=64/bf16", "matmul/n=128/bf16"),
        *("image_pipeline/pixels=32,batch=1/fp32", "image_pipeline/pixels=32,batch=2/fp32"),
        *("image_pipeline/pixels=64,batch=1/fp32", "image_pipeline/pixels=64,batch=2/fp32"),
    ]


def test_parameters_are_in_the_workloads_order_whatever_the_files(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(case('workload = "image_pipeline"\nsize = { batch = 1, pixels = 32 }'))
    assert load_suite(str(path)).cases[0].id == "image_pipeline/pixels=32,batch=1/fp32"


MISTAKES = {
    "": "it has no cases; give at least one",
    "cases = []": "it has no cases",
    "repeats = 2\nrepeats = 3": r"can't be read: Cannot overwrite a value",
    "[[cases": r"can't be read: Expected '\]\]'",
    "a = 1\nb = oops": r"can't be read: Invalid value \(at line 2, column 5\)",
    f"repeats = {'9' * 5000}": r"can't be read: Exceeds the limit",
    "colour = 1": "the suite has the unknown key 'colour'; known are title, repeats,",
    "repeats = 0\n" + case(MATMUL): "repeats=0 must be above 0",
    "timeout_s = -5\n" + case(MATMUL): "timeout_s=-5 must be above 0",
    "estimate_s = 0\n" + case(MATMUL): "estimate_s=0 must be above 0",
    "repeats = true\n" + case(MATMUL): "repeats is True, expected int",
    'repeats = "3"\n' + case(MATMUL): "repeats is '3', expected int",
    "quick = 1\n" + case(MATMUL): "quick is 1, expected bool",
    "cases = 3": "cases is 3, expected list",
    'cases = ["matmul"]': r"a case is 'matmul', expected a table",
    "[cases]\nx = 1": "cases is .* expected list",
    case("size = { n = 64 }"): "a case lacks the key workload",
    case(
        MATMUL + "\nprecission = 1"
    ): "a case has the unknown key 'precission'; known are workload, size, precision",
    case('workload = "matmull"\nsize = { n = 1 }'): "workload 'matmull' is unknown; did you mean matmul",
    case('workload = "zzz"\nsize = { n = 1 }'): "workload 'zzz' is unknown; there are .*matmul",
    case("workload = 5"): "workload is 5, expected str",
    case('workload = "matmul"\nsize = 5'): "size is 5, expected dict",
    case('workload = "matmul"'): "workload matmul needs the size parameter 'n'",
    case('workload = "matmul"\nsize = { n = 64, m = 1 }'): "matmul has no size parameter 'm'; it takes n",
    case('workload = "matmul"\nsize = { n = 0 }'): "size n=0 must be above 0",
    case('workload = "matmul"\nsize = { n = [64, -1] }'): "size n=-1 must be above 0",
    case('workload = "matmul"\nsize = { n = 1.5 }'): "size n=1.5 must be a whole number above 0",
    case('workload = "matmul"\nsize = { n = true }'): "size n=True must be a whole number above 0",
    case('workload = "matmul"\nsize = { n = [[1]] }'): r"size n=\[1\] must be a whole number above 0",
    case('workload = "matmul"\nsize = { n = [] }') + case(MATMUL): r"n is \[\], which makes no case",
    case(MATMUL + "\nprecision = []") + case(MATMUL): r"precision is \[\], which makes no case",
    case(MATMUL + '\nprecision = "fp32"'): "precision is 'fp32', expected list",
    case(MATMUL + '\nprecision = ["fp64"]'): "precision 'fp64' is unknown; there are fp32, tf32, fp16, bf16",
    case(MATMUL + "\nprecision = [32]"): "precision 32 is unknown; there are fp32",
    case(MATMUL + '\nprecision = [["fp32"]]'): r"precision \['fp32'\] is unknown",
}


@pytest.mark.parametrize(("text", "words"), MISTAKES.items(), ids=MISTAKES.values())
def test_a_mistake_is_said_in_one_sentence(tmp_path, text, words):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(WorkloadsError, match=words) as caught:
        load_suite(str(path))
    assert "mine.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_suite_names_the_nearest(tmp_path):
    (tmp_path / "nightly.toml").write_text(GOOD)
    with pytest.raises(WorkloadsError, match="suite 'nigthly' is unknown; did you mean nightly"):
        load_suite("nigthly", tmp_path)
    with pytest.raises(WorkloadsError, match="suite 'zzz' is unknown; there are nightly"):
        load_suite("zzz", tmp_path)
    with pytest.raises(WorkloadsError, match="there are none"):
        load_suite("zzz", tmp_path / "nowhere")


def test_files_that_are_no_text_of_ours(tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder.toml").mkdir()
    for name in ("binary", "folder"):
        with pytest.raises(WorkloadsError, match=rf"{name}.toml can't be read: "):
            load_suite(name, tmp_path)
    with pytest.raises(WorkloadsError, match=r"binary.toml/x.toml can't be read: .*Not a directory"):
        load_suite(str(tmp_path / "binary.toml" / "x.toml"))
