import json

import pytest

from tests.prose import BUDGET, ROOT, Text, counts, hits, shown_hits, texts


def test_no_room_has_more_odd_patterns_than_its_budget():
    budget = json.loads(BUDGET.read_text())
    over = {
        room: (count, budget.get(room, 0)) for room, count in counts().items() if count > budget.get(room, 0)
    }
    assert over == {}, "list them with `python -m tests.prose --all PATH`"


@pytest.mark.parametrize(
    ("sentence", "phrase"),
    [
        ("It lists what is refused.", "what is"),
        ("The box is nobody's.", "nobody"),
        ("Empty where there is nothing.", "where there"),
        ("This is no rate.", "is no rate"),
        ("There are cells, but refused are none.", "are none"),
        ("A box may hang.", "may"),
        ("Measured beside other work.", "beside"),
        ("It is told apart.", "told"),
        ("A folder of ours.", "of ours"),
        ("It is to be kept.", "is to be"),
    ],
)
def test_an_odd_pattern_is_seen(sentence, phrase):
    assert [hit.phrase for hit in hits(Text(ROOT / "x.md", 1, True, sentence))] == [phrase]


@pytest.mark.parametrize(
    "sentence",
    [
        "Prices as of 12 May 2026.",
        "It is no longer used.",
        "There is none.",
        "The folder in which results lie.",
    ],
)
def test_plain_sentences_are_not_odd(sentence):
    assert list(hits(Text(ROOT / "x.md", 1, True, sentence))) == []


def test_texts_of_a_source_are_split_by_who_reads_them(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.prose.ROOT", tmp_path)
    path = tmp_path / "tasks" / "x.py"
    path.parent.mkdir()
    path.write_text(
        '"""A docstring."""\n# A comment.\nx = f"shown to {y} always"\nz = "theirs: may be"  # quoted\n'
    )
    assert [(text.line, text.shown, text.words) for text in texts(path)] == [
        (1, False, "A docstring."),
        (2, False, "A comment."),
        (4, False, "quoted"),
        (3, True, "shown to {} always"),
    ]


def test_code_on_a_page_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.prose.ROOT", tmp_path)
    page = tmp_path / "README.md"
    page.write_text("It `may` run.\n```\nwhat is\n```\n")
    assert [(text.line, text.shown, text.words) for text in texts(page)] == [(1, True, "It  run.")]


def test_the_texts_that_people_read_at_run_time_have_no_odd_pattern():
    assert shown_hits() == []
