"""Planning: what is decided before anything runs, and what is refused."""

import pytest

from tasks.errors import GridbenchError
from tasks.plan import check_budget, make_plan, read_plan


def test_a_plan_is_the_whole_grid(plan):
    assert len(plan.cells) == len(plan.cases) * len(plan.hardware) == len({cell.id for cell in plan.cells})
    assert plan.baseline == "local-cpu-1"


def test_a_plan_survives_its_file(plan):
    assert read_plan(plan.model_dump_json(), "plan.json") == plan


def test_order_is_shuffled_the_same_way_for_a_seed(plan):
    again = make_plan("quick", ["local-cpu-1", "local-cpu"], repeats=2, seed=7)
    machine = plan.hardware[0]
    ids = [repeat.id for repeat in plan.repeats_on(machine)]
    assert ids == [repeat.id for repeat in again.repeats_on(machine)]
    assert ids != sorted(ids) and len(ids) == len(set(ids)) == 2 * len(plan.cases)
    assert [repeat.order for repeat in plan.repeats_on(machine)] == list(range(len(ids)))


def test_every_machine_draws_the_same_inputs(plan):
    seeds = [{r.id.partition("/")[2]: r.seed for r in plan.repeats_on(machine)} for machine in plan.hardware]
    assert seeds[0] == seeds[1]


def test_lanes_of_one_box_take_turns_in_the_estimate():
    one, both = (make_plan("quick", names) for names in (["local-cpu"], ["local-cpu", "local-cpu-1"]))
    assert both.estimate_s == 2 * one.estimate_s


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"suite": "nope", "hardware": ["local-cpu"]}, "suite 'nope' is unknown"),
        ({"suite": "quick", "hardware": ["laptop"]}, "hardware 'laptop' is unknown"),
        ({"suite": "quick", "hardware": []}, "hardware is empty"),
        (
            {"suite": "quick", "hardware": ["local-cpu"], "baseline": "local-cpu-1"},
            "baseline 'local-cpu-1' is not among",
        ),
        ({"suite": "quick", "hardware": ["local-cpu"], "repeats": 0}, "repeats=0 must be 1 or more"),
        ({"suite": "full", "hardware": ["local-cpu"], "budget_usd": 0.0001}, "above budget_usd=0.0001"),
        ({"suite": "quick", "hardware": ["local-cpu"], "budget_usd": -1}, "budget_usd=-1 must be 0 or more"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, words):
    with pytest.raises(GridbenchError) as caught:
        make_plan(**arguments)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_no_budget_is_no_limit(plan):
    check_budget(plan, None)


def test_a_plan_of_another_version_is_refused(plan):
    text = plan.model_dump_json().replace('"schema_version":1', '"schema_version":2')
    with pytest.raises(GridbenchError, match="schema 2, this version reads 1"):
        read_plan(text, "plan.json")
    with pytest.raises(GridbenchError, match=r"plan\.json can't be read"):
        read_plan(text[:50], "plan.json")
