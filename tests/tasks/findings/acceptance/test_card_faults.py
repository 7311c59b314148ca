"""Faults that a card reports: NVIDIA's own reason to replace it decides, the others are shown."""

from dataclasses import replace

import pytest

from tasks.findings.acceptance.advice import Advice
from tests.tasks.findings.acceptance.test_acceptance import POPULATION, advised, box


def reporting(**facts):
    return [replace(one, probes=one.probes | facts) for one in box("a")]


def test_a_card_that_failed_to_remap_a_row_is_returned_however_fast_it_is():
    found, sentence = advised(reporting(gpu_remap_failed=1.0), POPULATION)
    assert found.machines[0].advice is Advice.RETURN and found.exit_code == 4
    assert "remap a row" in sentence and "RMA policy" in sentence
    assert len(found.headline()[0].split()) <= 25


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"gpu_remap_pending": 1.0}, "waits for a reset"),
        ({"gpu_ecc_uncorrected": 3.0}, "3 uncorrected memory errors"),
        ({"gpu_xid_errors": 2.0}, "2 XID errors"),
        ({"gpu_pcie_gen": 3.0, "gpu_pcie_gen_max": 5.0}, "PCIe generation 3 of 5"),
        ({"gpu_pcie_width": 8.0, "gpu_pcie_width_max": 16.0}, "PCIe width 8 of 16"),
        ({"gpu_nvlinks_up": 17.0, "gpu_nvlinks": 18.0}, "17 of 18 NVLinks up"),
        ({"gpu_power_limit_share": 0.7}, "power limit of 70%"),
    ],
)
def test_other_faults_are_shown_and_do_not_decide(facts, words):
    before, _ = advised(box("a"), POPULATION)
    found, _ = advised(reporting(**facts), POPULATION)
    assert found.machines[0].advice is before.machines[0].advice
    assert any(words in note for note in found.table().notes)


def test_a_card_without_faults_has_no_note():
    facts = {"gpu_remap_failed": 0.0, "gpu_xid_errors": 0.0, "gpu_nvlinks_up": 18.0, "gpu_nvlinks": 18.0}
    found, _ = advised(reporting(**facts), POPULATION)
    assert not any("reports" in note for note in found.table().notes)
