import io

import pandas as pd
import pytest

from tasks.report.files.csv_cells import csv_of, harmless

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "=cmd|' /C calc'!A0", "\t=1", "\r=1", "-"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_begins_a_formula(text):
    assert harmless(text) == f"'{text}"


@pytest.mark.parametrize("cell", ["aws-g5", "1-2", "n=5000", "", -1.5, -3, None, True])
def test_everything_else_stays_as_it_is(cell):
    assert harmless(cell) is cell


def test_numbers_stay_numbers_and_titles_are_text_too():
    texts = [text for text in FORMULAS if "\r" not in text]  # which ends a line for readers of CSV
    frame = pd.DataFrame({"why": [*texts, "ok"], "=title": [-1.5] * 8})
    again = pd.read_csv(io.BytesIO(csv_of(frame)), keep_default_na=False)
    assert [*again.columns] == ["why", "'=title"] and again["'=title"].tolist() == [-1.5] * 8
    assert [*again["why"]] == [*(f"'{text}" for text in texts), "ok"]
