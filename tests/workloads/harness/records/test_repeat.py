from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.command.measure import _ordered, _typed
from workloads.command.parser import parser
from workloads.harness.records.case import DEVICES, PRECISIONS, Case
from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.repeat import Repeat
from workloads.harness.repeat.runs import COMMAND, arguments

CASE = Case.of("image_pipeline", {"pixels": 32, "batch": 2})
EVERYTHING = Repeat(
    "a run of $$ and \"quotes\"", "a-box", replace(CASE, precision="bf16"), 3, 17, -4, "cuda", 2, True, True, 7.5, True,
    "/a folder", True, True, gpu="l4",
)  # fmt: skip
# The options of `run` in the versions that have been frozen as references: an additional option would end them.
FIRST_OPTIONS = {
    *("size", "precision", "run", "hardware", "repeat", "order", "seed", "device", "threads", "timeout-s"),
    *("data", "quick", "brief", "profile", "trial", "cold-cache"),
}
numbers = st.integers(0, 2**40)
repeats = st.builds(
    Repeat,
    run=st.text(min_size=1),
    hardware=st.from_regex(r"\w[\w .+@-]*", fullmatch=True),
    case=st.builds(
        lambda pixels, batch, precision: Case.of(
            "image_pipeline", {"pixels": pixels, "batch": batch}, precision
        ),
        st.integers(1, 2**40),
        st.integers(1, 2**40),
        st.sampled_from(PRECISIONS),
    ),
    repeat=st.integers(1, 2**40),
    order=numbers,
    seed=st.integers(-(2**40), 2**40),
    device=st.sampled_from(DEVICES),
    threads=st.none() | st.integers(1, 2**40),
    timeout_s=st.floats(1e-3, 1e9),
    data=st.none(),
)


@given(repeats)
def test_a_repeat_survives_json(repeat):
    assert Repeat.from_json(repeat.to_json()) == repeat
    assert "\n" not in repeat.to_json()


@given(repeats)
def test_the_command_line_reads_its_options(repeat):
    assert _typed(parser("").parse_args(repeat.options())) == repeat


def test_our_own_process_gets_json_and_any_other_command_the_options():
    assert arguments(EVERYTHING)[0] == arguments(EVERYTHING, list(COMMAND))[0] == "repeat"
    options = parser("").parse_args(arguments(EVERYTHING))
    assert _ordered(options.json) == EVERYTHING
    for command in (("/frozen/bin/python", "-P", "-m", "workloads"), (*COMMAND, "--more")):
        assert arguments(EVERYTHING, command) == EVERYTHING.options()


def test_a_frozen_reference_knows_every_option():
    for repeat in (EVERYTHING, Repeat("r", "h", CASE)):
        run, workload, *words = repeat.options()
        assert (run, workload) == ("run", "image_pipeline")
        names = [word.removeprefix("--").partition("=")[0] for word in words]
        assert len(set(names)) == len(names) and set(names) <= FIRST_OPTIONS
    assert len(EVERYTHING.options()) == len(FIRST_OPTIONS) + 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "the repeat is not JSON"),
        ("[]", "field repeat is \\[\\], expected an object"),
        ('{"run": "r"}', "repeat lacks one of the fields .*case"),
        (EVERYTHING.to_json().replace('"seed"', '"sead"'), "repeat has the unknown field 'sead'"),
        (EVERYTHING.to_json().replace("7.5", "NaN"), "not JSON"),
        (EVERYTHING.to_json().replace("7.5", '"soon"'), "field repeat.timeout_s is 'soon', expected float"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence(text, words):
    with pytest.raises(RecordError, match=words):
        Repeat.from_json(text)


def test_an_ordered_repeat_is_checked_like_a_typed_one():
    order = replace(EVERYTHING, case=Case.of("image_pipeline", {"pixels": 0, "batch": 1}))
    with pytest.raises(WorkloadsError, match="size pixels=0 must be above 0"):
        _ordered(order.to_json())
