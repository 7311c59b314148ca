from dataclasses import replace

import pytest

from tasks.findings.acceptance.advice import Advice
from tasks.findings.acceptance.card_faults import missing_cards
from tests.tasks.findings.acceptance.test_acceptance import POPULATION, advised, box
from workloads.harness.probes.device_here import driver_answer
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.records.parts import Group, Rank
from workloads.harness.records.record import Verdict
from workloads.harness.records.repeat import Repeat


def reporting(**facts):
    return [replace(one, probes=one.probes | facts) for one in box("a")]


@pytest.mark.parametrize(
    ("name", "words"), [("gpu_remap_failed", "remap a row"), ("gpu_sram_threshold_exceeded", "in its caches")]
)
def test_a_fault_of_nvidias_rma_policy_returns_a_card_of_any_speed(name, words):
    found, sentence = advised(reporting(**{name: 1.0}), POPULATION)
    assert found.machines[0].advice is Advice.RETURN and found.exit_code == 4
    assert words in sentence and "RMA policy" in sentence
    assert len(found.headline()[0].split()) <= 25


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"gpu_remap_pending": 1.0}, "waits for a reset"),
        ({"gpu_ecc_uncorrected": 3.0}, "3 uncorrected memory errors"),
        ({"gpu_xid_errors": 2.0}, "2 XID errors"),
        ({"gpu_xid_errors": 1.0, "gpu_xid_79": 1.0}, "XID 79 in the kernel's log: it has fallen off the bus"),
        ({"gpu_xid_errors": 3.0, "gpu_xid_48": 2.0}, "1 other XID error in"),
        ({"gpu_fabric_state": 1.0, "gpu_fabric_status": 0.0}, "nvidia-fabricmanager"),
        ({"gpu_fabric_state": 3.0, "gpu_fabric_status": 999.0}, "NVML's error 999"),
        ({"gpu_fabric_degraded": 1.0}, "reduced bandwidth to NVSwitch"),
        ({"gpu_slowed_by_power_brake_share": 0.25}, "power brake of its machine in 25.0%"),
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


@pytest.mark.parametrize(
    ("cards", "on_bus", "devices", "words"),
    [
        (7.0, 8.0, 8, "7 of its 8 GPUs, and the PCI bus has 8"),
        (7.0, None, 8, "7 of its 8 GPUs"),
        (7.0, 8.0, 1, "7 of the 8 GPUs on the PCI bus"),
        (1.0, 8.0, 1, None),  # a container that was given one
        (8.0, 8.0, 8, None),
    ],
)
def test_a_machine_with_too_few_cards_is_reported(cards, on_bus, devices, words):
    facts = {"gpu_cards": cards} | ({"gpu_cards_on_bus": on_bus} if on_bus else {})
    found = [*missing_cards(facts, devices)]
    assert len(found) == bool(words) and (not words or words in found[0])


def test_of_several_cards_the_one_with_the_fault_is_named():
    ranks = tuple(
        Rank(
            n, f"cuda:{n}", 1e-3, probes={"gpu_remap_failed": float(n == 1), "gpu_pcie_width": 16.0 / (1 + n)}
        )
        for n in range(2)
    )
    ranks = tuple(replace(rank, probes=rank.probes | {"gpu_pcie_width_max": 16.0}) for rank in ranks)
    records = [replace(one, group=Group("nccl", "weak", ranks)) for one in box("a")]
    found, sentence = advised(records, POPULATION, devices=2)
    assert found.machines[0].advice is Advice.RETURN and "its card 1 has failed to remap" in sentence
    assert found.machines[0].faults == ("card 1: PCIe width 8 of 16",)


@pytest.mark.parametrize(
    ("end", "words"),
    [("time.sleep(60)", "does not answer within 1 s"), ("os.kill(os.getpid(), 11)", "by signal 11")],
)
def test_a_machine_whose_driver_does_not_answer_is_returned(end, words):
    with pytest.raises(WorkloadsError) as caught:
        driver_answer(f"import os, time; {end}", 1)
    why = f"its job failed: Flow run encountered an exception: WorkloadsError: {caught.value}"
    lost = [
        Repeat(each.run, each.hardware, each.case, each.repeat).failed(Verdict.CAPACITY, why)
        for each in box("a")
    ]
    found, sentence = advised(lost, POPULATION)
    assert (found.machines[0].advice, found.exit_code) == (Advice.RETURN, 4)
    assert sentence.startswith("Return box-a: its NVIDIA driver ") and words in sentence
    assert words in found.headline()[0] and len(found.headline()[0].split()) <= 25
    others, _ = advised([*lost[:2], *box("a")[2:]], POPULATION)
    assert others.machines[0].advice is Advice.UNDECIDED, "it has answered"


def test_a_card_without_faults_has_no_note():
    facts = {"gpu_fabric_state": 3.0, "gpu_fabric_status": 0.0, "gpu_slowed_by_power_cap_share": 1.0}
    facts |= {"gpu_remap_failed": 0.0, "gpu_xid_errors": 0.0, "gpu_nvlinks_up": 18.0, "gpu_nvlinks": 18.0}
    found, _ = advised(reporting(**facts), POPULATION)
    assert not any("reported by" in note for note in found.table().notes)
