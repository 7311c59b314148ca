"""An emulator uses only seen or documented sentences of a service, each with its source."""

import ast
import re
from pathlib import Path

import pytest

AWS = Path(__file__).parents[1] / "emulators/aws"
MARK = re.compile(r"\[(doc|thread|belief)\]")
SOURCE = re.compile(r"\w+\.\w+/|\w+/[\w.-]+ #\d+|\w+ #\d+|botocore|same page")
OWN = {"NO_MULTINODE", "NO_ARRAYS", "BROKEN"}  # sentences of the emulator itself
# Believed and undocumented sentences; the project does not depend on these words.
BELIEFS = {
    *("TIMED_OUT", "TOO_MANY_IDS", "TIMEOUT_TOO_SHORT"),
    *("RESERVED_VARIABLE", "QUEUE_ENABLED", "ENVIRONMENT_ENABLED"),
}


def sentences():
    """Yield the constants of reasons.py, each with the comment above it."""
    lines = (AWS / "reasons.py").read_text().splitlines()
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.Assign):
            above = []
            while lines[node.lineno - 2 - len(above)].startswith("#"):
                above.insert(0, lines[node.lineno - 2 - len(above)])
            yield node.targets[0].id, " ".join(above)


def test_each_sentence_of_batch_has_its_source():
    unmarked = [name for name, above in sentences() if name not in OWN and not MARK.search(above)]
    assert unmarked == []
    unfounded = [
        name
        for name, above in sentences()
        if re.search(r"\[(doc|thread)\]", above) and not SOURCE.search(above)
    ]
    assert unfounded == []


def test_believed_sentences_are_listed_and_no_pattern_of_the_product_matches_one():
    assert {name for name, above in sentences() if "[belief]" in above} == BELIEFS
    from infra.workers.batch import reasons as product
    from tests.emulators.aws import reasons

    patterns = [value for value in vars(product).values() if isinstance(value, re.Pattern)]
    for name in BELIEFS:
        assert not any(pattern.search(getattr(reasons, name)) for pattern in patterns), name


MENDED = (
    "batch.py",
    "cloudformation.py",
    "language.py",
    "iam.py",
    "retry.py",
    "fit.py",
    "describe.py",
    "job.py",
)


@pytest.mark.parametrize("file", MENDED)
def test_each_part_of_the_emulator_says_where_it_is_from(file):
    text = (AWS / file).read_text()
    assert re.search(r"\[(doc|thread)\]", text) and SOURCE.search(text)


def test_each_answer_that_is_mended_has_its_source():
    from tests.emulators.aws import batch

    for mend in batch.ANSWERS:
        assert MARK.search(mend.__doc__ or "") and SOURCE.search(mend.__doc__), mend.__name__
