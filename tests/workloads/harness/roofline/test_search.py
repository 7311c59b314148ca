"""The search for the fastest size, on simulated devices other than those of its settings."""

import math

import pytest

from tests.workloads.harness.roofline.surfaces import FIRST_UNSEEN, Cpu, Gpu, shares
from workloads.harness.roofline.products import flops_of
from workloads.harness.roofline.search import GRAIN, Search, Space

UNSEEN = range(FIRST_UNSEEN, FIRST_UNSEEN + 10)


@pytest.mark.parametrize("kind", [Cpu, Gpu])
def test_the_search_comes_within_a_percent_of_a_scan_in_a_tenth_of_its_time(kind):
    found = shares(kind, UNSEEN, 0.1)
    assert sum(share >= 0.99 for share, _ in found) >= 9, found
    assert min(share for share, _ in found) >= 0.96
    assert max(part for _, part in found) <= 0.11  # the last sample can end late


def searched(rate, most=(1024, 1024, 1024), budget_s=100.0, sample_s=0.01, **space):
    """Search a device without noise, whose samples take `sample_s`; return the search and its size."""
    now_s = 0.0

    def sample(size):
        nonlocal now_s
        now_s += sample_s
        return flops_of(size) / rate(size)

    search = Search(Space(most, flops_of, **space), sample, lambda: now_s, budget_s)
    return search, search.best(), now_s


def test_the_search_finds_a_peak_anywhere():
    for peak in ((1024, 64, 512), (160, 1024, 48), (16, 16, 1024)):
        # highest at `peak`, by the distance in octaves
        search, size, _ = searched(
            lambda size, peak=peak: (
                1e15 / (1 + sum(abs(math.log2(a / b)) for a, b in zip(size, peak, strict=True)))
            )
        )
        assert size == peak, search.rates[size]


def test_sizes_are_multiples_of_the_grain_and_within_the_space():
    search, _, _ = searched(lambda size: 1e15, most=(300, 64, 2048))
    assert all(
        side % GRAIN == 0 and side <= most
        for size in search.rates
        for side, most in zip(size, (300, 64, 2048), strict=True)
    )


def test_a_size_that_does_not_fit_is_not_tried():
    search, size, _ = searched(flops_of, fits=lambda size: size[0] * size[2] <= 2**16)
    assert all(m * k <= 2**16 for m, _, k in search.rates)
    assert size[0] * size[2] == 2**16


def test_the_search_ends_in_time_and_early_if_nothing_is_left_to_try():
    _, _, short_s = searched(lambda size: 1e12, budget_s=0.5)
    assert short_s <= 0.5 + 0.05
    search, _, long_s = searched(lambda size: 1e15, most=(32, 32, 32))
    assert len(search.rates) <= 8 and long_s < 2


def test_one_sample_that_was_held_up_does_not_end_the_search():
    held_up = iter([1e-6])
    _, size, _ = searched(lambda size: 1e12 * next(held_up, 1.0))
    assert max(size) > GRAIN


def test_a_search_without_time_returns_its_tried_size():
    search, size, _ = searched(lambda size: 1e9, budget_s=1e-6)
    assert size in search.rates


def test_one_lucky_sample_does_not_win():
    lucky, seen = (64, 64, 64), set()

    def rate(size):
        first = size not in seen
        seen.add(size)
        return 3e12 if size == lucky and first else 1e12 * min(size) / (min(size) + 64)

    assert searched(rate)[1] != lucky


def test_the_same_device_gives_the_same_size():
    assert Gpu(FIRST_UNSEEN).searched(5.0) == Gpu(FIRST_UNSEEN).searched(5.0)
