import pytest

from tasks.findings.acceptance.advice import Advice
from tasks.findings.compare import compare
from tests.tasks.examples.records import machine
from tests.tasks.findings.acceptance.test_acceptance import A10G_CARD, POPULATION, advised, box

PART = {"profile": "1g.5gb", "compute_share": 1 / 7, "memory_share": 0.125, "of": "GPU-x"}
SLICED = [{"name": "NVIDIA A10G", "uuid": "MIG-a", "mig_slice": PART}]


@pytest.mark.parametrize(("facts", "advice"), [({}, Advice.RETURN), ({"gpus": SLICED}, Advice.UNDECIDED)])
def test_a_slice_is_not_compared_with_the_rates_of_the_whole_card(facts, advice):
    found, _ = advised(box("a", slower=7.0, **facts), (), **A10G_CARD)
    assert found.machines[0].advice is advice


def test_a_slice_is_named_with_its_share_in_the_caveats():
    records = box("a", gpus=SLICED)
    comparison = compare(records, [machine("box-a", **A10G_CARD)], "box-a")
    (only,) = comparison.machines
    assert only.slice == "1g.5gb, 14% of the card's compute slices and 12% of its memory"
    assert (only.peak_flops, only.peak_bytes_per_s, only.reach) == ((), None, None)
    assert [caveat for caveat in comparison.caveats if only.slice in caveat.reason]
    whole = compare(box("a"), [machine("box-a", **A10G_CARD)], "box-a")
    assert whole.machines[0].slice == "" and whole.machines[0].peak_flops


@pytest.mark.parametrize("share", [10**400, -1.0, float("nan"), True, 2.0, "all"])
def test_an_invalid_share_is_left_out(share):
    gpus = [{"name": "NVIDIA A10G", "mig_slice": PART | {"compute_share": share}}]
    comparison = compare(box("a", gpus=gpus), [machine("box-a", **A10G_CARD)], "box-a")
    assert comparison.machines[0].slice == "1g.5gb, 12% of its memory"


def test_slices_are_no_siblings_of_whole_cards():
    found, _ = advised(box("a", gpus=SLICED), POPULATION)
    assert found.machines[0].siblings == 0 and "MIG slice 1g.5gb" in found.machines[0].kind


@pytest.mark.parametrize("gpus", [None, "none", [None], [{"mig_slice": 3}], [{"mig_slice": {}}]])
def test_odd_fingerprints_are_of_whole_cards(gpus):
    comparison = compare(box("a", gpus=gpus), [machine("box-a", **A10G_CARD)], "box-a")
    assert comparison.machines[0].slice == ""
