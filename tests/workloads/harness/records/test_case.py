import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.harness.records.case import Case, Cell, parse_size, whole
from workloads.harness.records.errors import WorkloadsError

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)


def test_ids_are_readable_and_stable():
    case = Case.of("image_pipeline", {"pixels": 4096, "batch": 2}, "bf16")
    assert case.id == "image_pipeline/pixels=4096,batch=2/bf16"
    assert Cell("aws-g5.8xlarge", case).id == "aws-g5.8xlarge/image_pipeline/pixels=4096,batch=2/bf16"


def test_a_case_is_a_key():
    assert Case.of("a", {"n": 1}) == Case.of("a", {"n": 1})
    assert len({Case.of("a", {"n": 1}), Case.of("a", {"n": 1}), Case.of("a", {"n": 1}, "bf16")}) == 2


@given(size=st.dictionaries(NAMES, st.integers(1, 10**12), min_size=1, max_size=4))
def test_a_size_comes_back_from_its_text(size):
    text = ",".join(f"{name}={value}" for name, value in size.items())
    assert parse_size(text) == size
    assert parse_size(text.replace(",", " , ")) == size


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n", "size 'n' is not of the form name=number, such as n=1000"),
        ("n=", "size 'n=' is not of the form name=number"),
        ("=5", "size '=5' is not of the form"),
        ("N=5", "size 'N=5' is not of the form"),
        ("n=5;m=6", "size n=5;m=6 must be a whole number of 0 or more"),
        ("n=5.5", "size n=5.5 must be a whole number of 0 or more"),
        ("n=1e3", "size n=1e3 must be a whole number of 0 or more"),
        ("n=-3", "size n=-3 must be 0 or more"),
        ("n=5,n=6", "size n is given twice"),
        (f"n={'9' * 5000}", "size n=9999.* must be a whole number of 0 or more"),
    ],
)
def test_a_wrong_size_is_reported(text, words):
    with pytest.raises(WorkloadsError, match=words) as caught:
        parse_size(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [True, False, 1.0, None, "x", "", [1], "1.0", "0x10", "1_000"])
def test_only_whole_numbers_are_sizes(value):
    with pytest.raises(WorkloadsError, match=r"size n=.* must be a whole number above 0"):
        whole("n", value)


def test_only_some_parameters_can_be_0():
    assert whole("workers", 0, least=0) == 0
    with pytest.raises(WorkloadsError, match="size n=0 must be above 0"):
        whole("n", 0)


@pytest.mark.parametrize("value", [7, "7", "007"])
def test_numbers_can_come_as_text(value):
    assert whole("n", value) == 7
