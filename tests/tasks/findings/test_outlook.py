import pytest

from tasks.findings.outlook import Outlook
from tasks.gather import judged
from tasks.planning.hardware import load_hardware
from tasks.prediction.outlook import outlook
from tests.tasks.examples.two_cards import two_cards
from tests.tasks.prediction.test_kept import store_of


@pytest.fixture
def found(tmp_path):
    store = store_of(tmp_path, two_cards(), "h100")
    outlook(store, [load_hardware("aws-p5en.48xlarge"), load_hardware("aws-g4dn.xlarge")])
    return judged(store.records()[0], store)


def test_predicted_machines_are_in_a_table_of_their_own(found):
    table = found.finding(Outlook).table()
    rows = [dict(zip((column.title for column in table.columns), row, strict=True)) for row in table.rows]
    names = {row["Machine"] for row in rows}
    assert len(rows) == 6 and names == {"aws-p5en.48xlarge", "aws-g4dn.xlarge"}, "a T4 has no bf16"
    assert names.isdisjoint(summary.cell.hardware for summary in found.summaries)
    for row in rows:
        time, cost = row["Predicted time per step"], row["Predicted cost of 1,000 steps"]
        assert time.low < time.value < time.high
        assert cost.value == pytest.approx(time.value * row["Price"] / 3.6)
        assert row["Predicted from"] == "h100" and row["Measure it with --on"] == row["Machine"]


def test_the_outlook_says_whether_the_answer_stands(found):
    sentences = found.finding(Outlook).details()
    assert sentences[0].startswith("To find the fastest, measure aws-p5en.48xlarge next, for about ")
    assert sentences[1].startswith("The cheapest is h100: of 1 predicted machine, none")
    assert set(sentences) <= set(found.details) and not set(sentences) & set(found.answer)


def test_a_run_without_predictions_has_no_outlook(tmp_path):
    store = store_of(tmp_path, two_cards(), "h100")
    outlook_of = judged(store.records()[0], store).finding(Outlook)
    assert outlook_of.table() is None and outlook_of.details() == ()
