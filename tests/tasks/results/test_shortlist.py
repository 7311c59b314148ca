import math
from datetime import UTC, date, datetime

import pytest

from tasks.planning.hardware import DEPLOYMENTS
from tasks.planning.rentable import rentable
from tasks.prediction.offered import offered
from tasks.results.shortlist import Candidate, chance_of_better, expected_gain, next_to_measure


def test_the_better_and_the_less_certain_come_first():
    good, unsure = Candidate(math.log(0.5), 0.1, 1.0), Candidate(math.log(0.9), 0.6, 1.0)
    bad = Candidate(math.log(2.0), 0.1, 1.0)
    assert next_to_measure(0.0, {"bad": bad, "good": good, "unsure": unsure}) == "good"
    assert next_to_measure(math.log(0.5), {"bad": bad, "good": good, "unsure": unsure}) == "unsure"
    assert next_to_measure(0.0, {"bad": bad}) is None


def test_money_and_certainty_end_the_search():
    good = Candidate(math.log(0.5), 0.1, 3.0)
    assert next_to_measure(0.0, {"good": good}, left_usd=2.0) is None
    assert next_to_measure(math.log(0.5), {"sure": Candidate(math.log(0.5), 0.0, 0.0)}) is None
    assert chance_of_better(0.0, good) > 0.99 and expected_gain(0.0, good) == pytest.approx(0.643, abs=0.01)


def test_the_cheapest_offer_of_each_card_of_ours_is_a_machine_to_predict():
    offers = rentable(DEPLOYMENTS, datetime.now(UTC).date())
    machines = offered(offers, 1)
    by_gpu = {machine.gpu for machine in machines}
    assert {"h100-sxm", "h100-pcie", "a100-40-sxm", "v100-sxm2", "l40s", "rtx-4090", "b200-sxm"} <= by_gpu
    assert all(m.gpus == 1 and m.price.usd_per_hour > 0 and m.price.date > date(2024, 1, 1) for m in machines)
    forms = [m.name for m in machines if "if it is h100-" in m.name]
    assert forms and not any("h100-nvl" in name for name in forms)
    assert {"aws-g5.xlarge", "lambda-1x-h100-sxm"} <= {m.name for m in machines}
    sxm = [m for m in machines if m.gpu == "h100-sxm" and m.name.startswith("vastai ")]
    assert [(m.name, m.price.usd_per_hour) for m in sxm] == [("vastai 1x-H100_SXM-32-65536", 1.87)]
