import ast
import re
from pathlib import Path

import pytest

from infra.lambda_cloud.errors import KINDS
from tests.emulators.lambda_cloud import reasons

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests/emulators/lambda_cloud/reasons.py"
PAGE = (ROOT / "docs/lambda.md").read_text()
ANSWERS = {name: value for name, value in vars(reasons).items() if isinstance(value, reasons.Answer)}


def above(name):
    lines = FILE.read_text().splitlines()
    (node,) = [
        n for n in ast.parse(FILE.read_text()).body if isinstance(n, ast.Assign) and n.targets[0].id == name
    ]
    first = node.lineno - 1
    while lines[first - 1].startswith("#"):
        first -= 1
    return " ".join(lines[first : node.lineno - 1])


@pytest.mark.parametrize("name", ANSWERS)
def test_each_answer_has_its_source(name):
    assert re.search(r"\[(doc|thread)\][^[]*(openapi\.json|docs\.lambda\.ai)|\[belief\]", above(name)), above(
        name
    )


def test_the_client_relies_on_no_code_that_is_only_believed():
    believed = {answer.code for name, answer in ANSWERS.items() if "[doc]" not in above(name)}
    assert believed == {reasons.DUPLICATE.code, reasons.PROVIDER.code}
    assert not believed & KINDS.keys()


def test_the_client_knows_every_code_that_the_document_has_for_keys_and_accounts():
    assert {
        reasons.INVALID_KEY.code,
        reasons.ACCOUNT_INACTIVE.code,
        reasons.INVALID_ADDRESS.code,
    } <= KINDS.keys()


@pytest.mark.parametrize("name", [n for n, b in reasons.BEHAVIOUR.items() if b.mark != "doc" or b.paid])
def test_answers_that_only_an_account_can_confirm_are_on_the_page(name):
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("belief", reasons.BEHAVIOUR.values(), ids=reasons.BEHAVIOUR.keys())
def test_each_behaviour_has_a_mark_and_known_ones_a_source(belief):
    assert belief.mark in ("doc", "thread", "belief")
    assert belief.mark == "belief" or re.search(r"openapi\.json|docs\.lambda\.ai|#[0-9]+", belief.source)
