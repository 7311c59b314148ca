import re
from dataclasses import replace

import pytest

from tests.tasks.examples.two_cards import two_cards
from workloads.__main__ import main
from workloads.command.compare import comparison
from workloads.harness.records.case import Case
from workloads.harness.records.files import write_record
from workloads.harness.records.parts import Group, Rank


@pytest.fixture(scope="module")
def cards():
    records = two_cards()
    return {name: [r for r in records if r.hardware == name] for name in ("h100", "h200")}


@pytest.fixture
def folders(cards, tmp_path):
    for name, records in cards.items():
        for record in records:
            write_record(tmp_path / name, record)
    return tmp_path


def row_of(text, workload):
    (line,) = (line for line in text.splitlines() if re.match(rf"{workload}/\S+  ", line))
    return re.split(r" {2,}", line)


def test_a_speedup_by_the_host_is_not_called_the_cards(folders, capsys):
    assert main(["compare", str(folders / "h100"), str(folders / "h200")]) == 0
    out = capsys.readouterr().out
    assert row_of(out, "lora_step")[3:] == [
        *("1.54x", "needs two repeats", "undecided", "1.06x", "37%", "1%", "host")
    ]
    assert row_of(out, "memory_bandwidth")[-1] == "the card"
    (sentence,) = (line for line in out.splitlines() if " by the card: " in line)
    assert sentence.startswith("lora_step/") and "h100's card waits for its host for 37 %" in sentence


def test_a_loaders_part_is_read_from_the_same_case_without_it(cards):
    (plain,) = [r for r in cards["h200"] if r.case.workload == "lora_step"]
    resnet = Case.of("resnet_train", {"batch": 16})
    loaded = Case.of("resnet_train_loader", {"batch": 16, "workers": 2})

    def at(case, name, added_s):
        step = replace(plain.device_time, mean_s=plain.mean_s + added_s)
        return replace(plain, hardware=name, case=case, device_time=step)

    slow = [at(resnet, "slow", 0.0), at(loaded, "slow", 0.02)]
    out = comparison(slow, [at(resnet, "fast", 0.0), at(loaded, "fast", 0.0)])
    assert row_of(out, "resnet_train_loader")[-1] == "loader" and "slow's card waits for its loader" in out
    assert row_of(out, "resnet_train")[-1] == "the card"


def test_records_of_a_cpu_have_no_columns_of_cards(cards):
    plain = [replace(r, device="cpu", device_busy_s=None) for r in cards["h100"]]
    assert "by the card" not in comparison(plain, plain)


def test_two_machines_are_never_averaged(folders, capsys):
    assert main(["compare", str(folders), str(folders / "h200")]) == 2
    assert re.fullmatch(
        rf"error: .* holds records of h100, h200; .*, such as {folders}/h100\n", capsys.readouterr().err
    )


def test_a_card_that_only_exchanges_gradients_has_no_split(cards):
    (plain,) = [r for r in cards["h200"] if r.case.workload == "lora_step"]
    ranks = (Rank(0, "cuda:0", plain.mean_s), Rank(1, "cuda:1", plain.mean_s))
    only_exchanges = replace(plain, group=Group("nccl", "strong", ranks, 1.0))
    assert row_of(comparison([plain, only_exchanges], [plain, plain]), "lora_step")[3] == "1x"
