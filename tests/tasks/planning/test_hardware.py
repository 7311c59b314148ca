import re
import shutil

import pytest

from tasks.errors import GridbenchError
from tasks.planning.channel import Night
from tasks.planning.hardware import (
    DEPLOYMENTS,
    hardware_names,
    load_gpus,
    load_hardware,
    load_suite_checked,
    names_of,
    suites,
)
from tasks.planning.planner import make_plan
from tasks.planning.request import RunRequest
from tasks.plausibility.gpu_names import models_called

PRICE = "price: {usd_per_hour: 1, purchase: spot, source: here, date: 2026-01-01}"
HEAD = "title: t\npool: local\ndevice: cpu\n"


@pytest.fixture
def deployments(tmp_path):
    return shutil.copytree(DEPLOYMENTS, tmp_path / "deployments")


@pytest.mark.parametrize("name", hardware_names())
def test_every_hardware_file_is_sound(name):
    machine = load_hardware(name)
    assert machine.machine().usd_per_hour == machine.price.usd_per_hour
    assert machine.price.note and machine.title


@pytest.mark.parametrize("name", suites())
def test_every_suite_is_sound(name):
    assert load_suite_checked(name).cases


def test_every_gpu_peak_is_positive_and_sourced():
    for peaks in load_gpus().values():
        assert all(rate > 0 for rate in peaks.tflops.values()) and peaks.gb_per_s > 0 and peaks.source


def test_the_most_rented_gpus_have_peaks_from_an_address():
    """Except two whose sheets are offline: AWS's A10G, and the old K80."""
    gpus = load_gpus()
    assert {name for name, peaks in gpus.items() if "https://" not in peaks.source} == {"a10g", "k80"}
    assert sum(peaks.unsupported is None for peaks in gpus.values()) >= 25
    assert all(
        re.fullmatch(r"\d+\.\d", peaks.capability or "") or peaks.unsupported for peaks in gpus.values()
    )


def test_hardware_with_a_card_that_is_not_supported_is_refused_with_the_reason(deployments):
    text = f"{HEAD.replace('device: cpu', 'device: cuda')}gpus: 8\ngpu: mi300x\n{PRICE}\n"
    (deployments / "hardware" / "amd.yaml").write_text(text)
    assert "ROCm" in load_hardware("amd", deployments).unsupported


@pytest.mark.parametrize("name", hardware_names())
def test_a_clouds_gpu_is_compared_with_its_peaks(name):
    machine = load_hardware(name)
    if machine.device == "cuda" and machine.instance_type:
        assert machine.machine().peak_flops and machine.machine().peak_bytes_per_s


def test_newer_cards_have_peaks_that_fit_together():
    """Dense tensor-core rates: fp16 equals bf16, tf32 is half."""
    gpus = load_gpus()
    for name, rates in ((name, peaks.tflops) for name, peaks in gpus.items() if "tf32" in peaks.tflops):
        assert rates["fp16"] == rates["bf16"] == pytest.approx(2 * rates["tf32"], rel=0.02), name
        assert rates["fp32"] <= rates["tf32"], name


CALLED = {
    "Tesla K80": "k80",
    "Tesla P100-PCIE-16GB": "p100-pcie",
    "Tesla P4": "p4",
    "Tesla V100-SXM2-32GB": "v100-sxm2",
    "Tesla T4": "t4",
    "NVIDIA A10": "a10",
    "NVIDIA A10G": "a10g",
    "NVIDIA RTX A6000": "a6000",
    "NVIDIA L4": "l4",
    "NVIDIA A100-SXM4-40GB": "a100-40-sxm",
    "NVIDIA A100-SXM4-80GB": "a100-80-sxm",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA L40S": "l40s",
    "NVIDIA H20": "h20",
    "NVIDIA B200": "b200-sxm",
    "NVIDIA GB200": "gb200",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000",
    "Tesla V100-PCIE-16GB": "v100-pcie",
    "Quadro RTX 6000": "quadro-rtx-6000",
    "NVIDIA A40": "a40",
    "NVIDIA GeForce RTX 3090": "rtx-3090",
    "NVIDIA L40": "l40",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA A100-PCIE-40GB": "a100-40-pcie",
    "NVIDIA A100 80GB PCIe": "a100-80-pcie",
    "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA B300 SXM6 AC": "b300-sxm",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
    "AMD Instinct MI300X": "mi300x",
}


def test_every_gpu_is_known_by_its_drivers_name():
    called = names_of(load_gpus())
    assert {*called} == {*load_gpus()} == {*CALLED.values()}
    assert {name: models_called(name, called) for name in CALLED} == {n: [m] for n, m in CALLED.items()}
    for name in ("NVIDIA A30", "NVIDIA H100 GEN2 96GB", "Tesla P100-SXM2-16GB", "NVIDIA RTX A1000", ""):
        assert models_called(name, called) == []


def test_an_assumed_price_is_noted_as_an_assumption():
    assert load_hardware("local-cpu").price.note.startswith("stated assumption")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + PRICE + "\ncolour: red", "the key 'colour' is unknown"),
        (HEAD, "the key 'price' is missing"),
        (
            HEAD + PRICE.replace("1,", "-1,"),
            "price.usd_per_hour is -1: must be greater than or equal to 0",
        ),
        (HEAD + PRICE.replace("1,", ".inf,"), "price.usd_per_hour is inf"),
        (HEAD + PRICE.replace("1,", "cheap,"), "price.usd_per_hour is 'cheap'"),
        (HEAD + PRICE.replace("spot", "stolen"), "price.purchase is 'stolen'"),
        (HEAD + PRICE + "\nthreads: 0", "threads is 0: must be greater than or equal to 1"),
        (HEAD.replace("cpu", "tpu") + PRICE, "device is 'tpu'"),
        (HEAD + PRICE + "\ngpu: T4", "gpu 'T4' is unknown; there are"),
        ("- a list", "holds list"),
        ("a: " + "[" * 10_000, "odd.yaml can't be read: its brackets are nested too deeply"),
        ("a: [", "odd.yaml can't be read at line 1, column 5"),
        ("pool: local\ntitle: a: b", "odd.yaml can't be read at line 2, column 9: mapping values"),
    ],
)
def test_a_mistake_in_a_hardware_file_is_one_sentence(deployments, text, words):
    (deployments / "hardware" / "odd.yaml").write_text(text)
    with pytest.raises(GridbenchError) as caught:
        load_hardware("odd", deployments)
    assert words in str(caught.value) and "odd.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


RENTED = HEAD.replace("local", "ssh") + "price: {provider: lambda, instance: gpu_1x_a10}\n"


def test_a_rent_stands_for_the_instance_that_is_priced(deployments):
    for rent in ("lambda", "{provider: lambda, most_hours: 2}"):
        (deployments / "hardware" / "box.yaml").write_text(f"{RENTED}rent: {rent}\n")
        machine = load_hardware("box", deployments)
        assert machine.rent.instances == ("gpu_1x_a10",) and machine.rent.regions is None
    assert machine.rent.most_hours == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (RENTED + "rent: runpod", "rent.provider is 'runpod': must be 'lambda'"),
        (RENTED + "rent: 3", "rent is 3"),
        (RENTED + "rent: {provider: lambda, regions: []}", "rent.regions is []"),
        (
            RENTED.replace("ssh", "local") + "rent: lambda",
            "pool is 'local': a rented machine is reached by pool",
        ),
        (RENTED + "rent: lambda\njob_variables: {hosts: []}", "has hosts or is rented"),
        (HEAD.replace("local", "ssh") + PRICE + "\nrent: lambda", "the key 'rent.instances' is missing"),
    ],
)
def test_a_mistake_in_a_rent_is_one_sentence(deployments, text, words):
    (deployments / "hardware" / "box.yaml").write_text(text)
    with pytest.raises(GridbenchError, match=re.escape(words)):
        load_hardware("box", deployments)


def test_unknown_hardware_names_the_nearest():
    with pytest.raises(GridbenchError, match="did you mean local-cpu"):
        load_hardware("local_cpu")


def test_a_box_address_in_a_night_is_refused_with_advice():
    """A night runs later, without the user's keys."""
    with pytest.raises(
        GridbenchError, match=r"is an address: .* `bisect` detect .*; a night, .* need a file in"
    ):
        make_plan(RunRequest(hardware=("ssh://me@box.example",), night=Night(channel="main")))


def test_unknown_suite_names_the_nearest():
    with pytest.raises(GridbenchError, match="did you mean quick"):
        load_suite_checked("qick")


def test_a_gpu_reaches_the_comparison_as_peaks(deployments):
    (deployments / "hardware" / "big.yaml").write_text(HEAD + PRICE + "\ngpu: t4\ngpus: 1")
    machine = load_hardware("big", deployments).machine()
    assert dict(machine.peak_flops)["fp32"] == 8.1e12 and machine.peak_bytes_per_s == 320e9
