import ast

import pytest

from tests.ladder import JOURNEYS, TESTS, level_of, refusal


@pytest.mark.parametrize(
    ("path", "markers", "level"),
    [
        ("tasks/store/test_store.py", [], "unit"),
        ("tasks/store/test_store.py", ["alone"], "unit"),
        ("flows/server/test_bench.py", [], "server"),
        ("flows/server/test_bench.py", ["chaos"], "chaos"),
        ("infra/workers/ssh/cloud/test_box.py", ["server"], "cloud"),
        ("emulators/aws/tests/test_batch.py", [], "chaos"),
        ("tasks/cloud.py", [], "unit"),
    ],
)
def test_the_folder_says_the_level_and_a_marker_can_raise_it(path, markers, level):
    assert level_of(TESTS / path, markers) == level


@pytest.mark.parametrize(
    ("level", "mark", "words"),
    [
        ("server", pytest.mark.flaky(reruns=2, reason="the server is late"), None),
        ("server", pytest.mark.flaky(reruns=2), "needs a reason"),
        ("server", pytest.mark.flaky(reruns=2, reason=" "), "needs a reason"),
        ("cloud", pytest.mark.flaky(reason="the server is late"), "needs a reason"),
        ("chaos", pytest.mark.flaky(2, reason="the server is late"), "needs a reason"),
        ("unit", pytest.mark.flaky(reruns=2, reason="the server is late"), "is a bug"),
    ],
)
def test_a_rerun_needs_a_reason(level, mark, words):
    sentence = refusal(level, mark.mark)
    assert sentence is None if words is None else words in sentence


def test_a_test_that_asks_for_no_rerun_is_welcome():
    assert refusal("unit", None) is None


@pytest.mark.parametrize("journey", sorted(JOURNEYS))
def test_each_journey_names_an_existing_test(journey):
    file, _, name = journey.partition("::")
    body = ast.parse((TESTS / file).read_text()).body
    assert name in {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_this_test_runs_at_its_level(request):
    assert [mark.name for mark in request.node.iter_markers()] == ["unit"]
