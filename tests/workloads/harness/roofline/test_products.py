import json

import pytest
import torch

from tests.workloads.building import build
from tests.workloads.harness.virtual import VirtualTime
from workloads.harness.checks.fakes import faked
from workloads.harness.checks.needs import needs_of
from workloads.harness.engine.correctness import check, first_step
from workloads.harness.probes.roof import facts_here, kept_roof, roof_path
from workloads.harness.records.case import Case
from workloads.harness.roofline import products
from workloads.harness.roofline.products import Products, fastest_product, search

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch, one_thread):
    monkeypatch.setenv("GRIDBENCH_ROOF", str(tmp_path))
    return tmp_path


@pytest.fixture
def searches(monkeypatch):
    """The arguments of every search, each of which ends at once."""
    seen = []

    class Found:
        def best(self):
            return (32, 16, 16 * len(seen))

    monkeypatch.setattr(products, "search", lambda *arguments: seen.append(arguments) or Found())
    return seen


def kept_here():
    return roof_path(facts_here("cpu"), "cpu", 1)


def test_the_fastest_product_is_searched_once(searches):
    assert fastest_product(CPU, "fp32", 64) == fastest_product(CPU, "fp32", 64) == (32, 16, 16)
    assert len(searches) == 1
    assert kept_roof(kept_here())["sizes"] == {"fp32/64": [32, 16, 16]}


def test_each_precision_and_side_has_its_own_and_again_searches_again(searches):
    fastest_product(CPU, "fp32", 64)
    fastest_product(CPU, "bf16", 64)
    fastest_product(CPU, "fp32", 128)
    assert fastest_product(CPU, "fp32", 64, again=True) == (32, 16, 64)
    assert kept_roof(kept_here())["sizes"].keys() == {"fp32/64", "bf16/64", "fp32/128"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sizes": 1}', '{"sizes": {"fp32/64": [1, 2]}}',
    '{"sizes": {"fp32/64": [128, 16, 16]}}', '{"sizes": {"fp32/64": ["16", 16, 16]}}', '{"sizes": {"fp32/64": [17, 16, 16]}}'])  # fmt: skip
def test_an_invalid_cached_size_is_searched_again(searches, text):
    kept_here().parent.mkdir(exist_ok=True)
    kept_here().write_text(text)
    fastest_product(CPU, "fp32", 64)
    assert len(searches) == 1


def test_where_nothing_can_be_kept_it_is_found_all_the_same(searches, monkeypatch):
    monkeypatch.setenv("GRIDBENCH_ROOF", "/proc/none")
    assert fastest_product(CPU, "fp32", 64) == (32, 16, 16)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_real_search_ends_with_a_size_within_its_bounds(precision):
    found = search(CPU, precision, 96, 0.2)
    size = found.best()
    assert size in found.rates and max(size) <= 96
    assert all(0 < rate < 1e13 for rates in found.rates.values() for rate in rates)


def test_a_size_that_takes_too_much_memory_is_not_tried(monkeypatch):
    monkeypatch.setattr(products, "available_bytes", lambda: 4 * 4 * 3 * 64 * 64)
    found = search(CPU, "fp32", 256, 0.2)
    found.best()
    assert all(m * k + n * k + m * n <= 3 * 64 * 64 for m, n, k in found.rates)


def test_the_factors_are_drawn_and_as_long_as_they_must_be():
    made = Products(CPU, "fp32")
    values = made._values(0, 2**20 + 5)
    assert values.shape == (2**20 + 5,) and values.unique().numel() > 10**5
    assert made.sample_s((16, 32, 48)) > 0


def test_the_time_to_load_a_kernel_is_not_part_of_the_rate(monkeypatch):
    time, made, sizes = VirtualTime().install(monkeypatch), Products(CPU, "fp32"), []

    def product(a, weights):
        time.sleep(1e-4 if a.shape in sizes else 0.02)
        sizes.append(a.shape)
        return a @ weights.T

    made._product = product
    assert made.sample_s((16, 32, 48)) == pytest.approx(1e-4, rel=0.01)


def test_the_workload_uses_the_cached_product_and_counts_its_flop(searches):
    prepared = build("roof")
    assert prepared.chosen == (32, 16, 16)
    assert [tuple(t.shape) for t in prepared.inputs] == [(32, 16), (16, 16)]
    assert (prepared.units, prepared.unit) == (2 * 32 * 16 * 16, "FLOP")
    assert build("roof").chosen == prepared.chosen and len(searches) == 1
    check(prepared, first_step(prepared), "fp32")


def test_without_values_it_is_the_largest_and_nothing_is_kept(searches, own_folder):
    with faked():
        assert fastest_product(CPU, "fp32", 4096) == (4096,) * 3
    needs = needs_of(Case.of("roof", {"side": 512}), "cpu")
    assert needs.tensors_bytes >= 3 * 512**2 * 4
    assert not searches and not [*own_folder.iterdir()]


def test_another_box_stack_or_number_of_threads_has_another_file():
    facts = dict(facts_here("cpu"))
    others = [
        roof_path(facts | change, device, threads)
        for change, device, threads in (
            ({}, "cpu", 1), ({}, "cpu", 2), ({}, "cuda", 1), ({"hostname": "other"}, "cpu", 1), ({"torch": "9.9"}, "cpu", 1),
            ({"cuda": "13.0"}, "cpu", 1), ({"gpus": [{"uuid": "GPU-1"}]}, "cpu", 1), ({"gpus": [{"uuid": "GPU-2"}]}, "cpu", 1),
            ({"variables": {"NVIDIA_TF32_OVERRIDE": "0"}}, "cpu", 1),
        )
    ]  # fmt: skip
    assert len(set(others)) == len(others)
    assert roof_path(facts | {"commit": "abc"}, "cpu", 1) == others[0]
    assert json.dumps(facts["hostname"])
