import math
import random
from dataclasses import replace

import pytest

from tasks.findings.compare import compare
from tasks.findings.forecasts import Forecasts
from tasks.imported import run_of
from tasks.planning.hardware import load_hardware
from tasks.prediction.kept import FILE, kept, kept_in, machine_texts, scored
from tasks.prediction.outlook import outlook, planned_forecasts
from tasks.results.forecast import Forecast, held, typical_error, widening
from tasks.store.store import Store
from tests.tasks.examples.two_cards import two_cards

LATER = "2031-01-01T00:00:00+00:00"
PRICES = {"h100": 2.49, "h200": 3.29}


def forecast(value_s=1.0, low_s=0.8, high_s=1.25, **changes):
    fields = {"hardware": "b", "case": "matmul/n=1/fp32", "source": "a", "card": "l4", "bound": "memory"}
    fields |= {"made_at": "2026-01-01T00:00:00+00:00", **changes}
    return Forecast(low_s=low_s, value_s=value_s, high_s=high_s, **fields)


def store_of(folder, records, hardware):
    own = [r for r in records if r.hardware == hardware]
    plan, numbered = run_of(own, {hardware: PRICES[hardware]}, hardware)
    store = Store.create(folder, plan)
    for record in numbered:
        store.add(record)
    return store


@pytest.fixture
def source(tmp_path):
    return store_of(tmp_path, two_cards(), "h100")


def target():
    return load_hardware("aws-p5en.48xlarge").model_copy(update={"name": "h200", "gpus": 1})


def test_a_prediction_is_kept_and_scored_once_its_machine_is_measured(tmp_path, source):
    rows = outlook(source, [target()])
    assert [f.value_s for f in kept_in(source.folder)] == [row.step_s.value for row in rows] and not scored(
        tmp_path
    )
    before = [replace(r, started_at="2020-01-01T00:00:00+00:00") for r in two_cards()]
    store_of(tmp_path, before, "h200")
    assert not scored(tmp_path)
    store_of(tmp_path, [replace(r, started_at=LATER) for r in two_cards()], "h200")
    pairs = scored(tmp_path)
    assert len(pairs) == 5 and held(pairs) == 1 and typical_error(pairs) < 0.2
    assert {f.card for f, _ in pairs} == {"h200-sxm"} and "compute" in {f.bound for f, _ in pairs}


def test_a_plan_has_the_predictions_of_its_machines(tmp_path, source):
    plan = source.plan.model_copy(update={"hardware": (target(), *source.plan.hardware), "run": "next"})
    made = planned_forecasts(plan, tmp_path)
    assert len(made) == 5 and {f.hardware for f in made} == {"h200"}
    text = machine_texts(made, plan)["h200"]
    assert "a step, $" in text and text.endswith("per 1,000: 5 of 5 cases")
    assert planned_forecasts(plan, tmp_path / "nothing") == []


def test_the_report_shows_both(tmp_path, source):
    outlook(source, [target()])
    later = [replace(r, started_at=LATER) for r in two_cards() if r.hardware == "h200"]
    found = compare(later, [target().machine()], "h200", forecasts=kept(tmp_path)).finding(Forecasts)
    assert len(found.table().rows) == 5 and "5 of 5 measured times are within" in found.observations()[0]


def test_intervals_that_miss_get_wider_until_they_hold_nine_of_ten():
    chance = random.Random(3)

    def drawn(number):
        return [(forecast(), math.exp(chance.gauss(0, 0.3))) for _ in range(number)]

    assert widening(drawn(8)) == 1.0
    factor = widening(drawn(1000))
    wider = [(forecast(low_s=0.8**factor, high_s=1.25**factor, widened=factor), t) for _, t in drawn(2000)]
    assert held(drawn(2000)) < 0.6 and held(wider) == pytest.approx(0.9, abs=0.05)
    assert widening(wider) == pytest.approx(factor, rel=0.1)


def test_intervals_that_hold_stay_as_they_are():
    assert widening([(forecast(), 1.0)] * 50) == 1.0


@pytest.mark.parametrize(
    "line", ["no JSON", "{}", "x" * 30_000, forecast().model_dump_json().replace("1.0", "-1")]
)
def test_a_line_that_is_no_forecast_is_left_out(tmp_path, line):
    (tmp_path / FILE).write_text(f"{line}\n{forecast().model_dump_json()}\n")
    assert kept_in(tmp_path) == [forecast()]
