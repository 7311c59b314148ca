import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.dispatch.break_even_search import MOST, WITHIN, next_cells, next_sizes
from tasks.findings.break_even import bracket
from tasks.findings.compare import compare
from tasks.results.speedup import speedup
from tasks.results.values import RatioVerdict
from tests.tasks.examples.records import machine, repeats
from workloads.harness.records.case import Case, Cell

FASTER, SLOWER, UNDECIDED = RatioVerdict.FASTER, RatioVerdict.SLOWER, RatioVerdict.UNDECIDED
ANY = (*RatioVerdict, None)


def narrowed(planned, verdict, step=1):
    verdicts = {size: verdict(size) for size in planned}
    for _ in range(20):
        if not (asked := next_sizes(verdicts, planned, step)):
            return verdicts, [size for size in verdicts if size not in planned]
        assert not set(asked) & verdicts.keys()
        verdicts |= {size: verdict(size) for size in asked}
    raise AssertionError("the loop goes on")


def sharp(crossing):
    return lambda size: FASTER if size > crossing else SLOWER


def test_a_coarse_grid_around_415():
    verdicts, extra = narrowed([200, 500, 1000], sharp(415))
    found = bracket(verdicts)
    assert extra == [316, 397, 446][: len(extra)] and len(extra) <= 4
    assert found.below < 415 < found.above <= WITHIN * found.below


@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=6, unique=True), st.floats(0.5, 2e6))
def test_without_noise_every_crossing_is_bracketed_as_closely_as_whole_sizes_allow(planned, crossing):
    verdicts, extra = narrowed(planned, sharp(crossing))
    found = bracket(verdicts)
    if found.below is None or found.above is None:
        assert not extra, "beyond the grid nothing is measured"
        return
    assert found.below <= crossing <= found.above and len(extra) <= MOST
    first = bracket({size: sharp(crossing)(size) for size in planned})
    if first.above <= 1e4 * first.below:
        assert found.above <= WITHIN * found.below or found.above == found.below + 1


@given(
    st.lists(st.integers(1, 500), min_size=2, max_size=6, unique=True), st.integers(2, 64), st.floats(2, 6e4)
)
def test_new_sizes_are_multiples_that_the_workload_accepts(places, step, crossing):
    planned = [place * step for place in places]
    verdicts, extra = narrowed(planned, sharp(crossing), step)
    found = bracket(verdicts)
    assert all(size % step == 0 for size in extra)
    if extra:
        assert found.above <= WITHIN * found.below or found.above == found.below + step


@given(st.lists(st.integers(0, 4000), min_size=2, max_size=6, unique=True), st.data())
def test_the_loop_ends_with_any_verdicts_and_requests_no_size_twice(planned, data):
    def any_verdict(size):
        return data.draw(st.sampled_from(ANY))

    _, extra = narrowed(planned, any_verdict)
    lows, highs = min(planned), max(planned)
    assert len(extra) <= MOST and all(lows < size < highs for size in extra)


@settings(deadline=None)
@given(
    first=st.integers(100, 5000),
    ratios=st.lists(st.floats(1.5, 30), min_size=1, max_size=3),
    place=st.floats(0.02, 0.98),
    slope=st.floats(0.8, 3),
    noise=st.floats(0.002, 0.01),
    seed=st.integers(0, 2**32 - 1),
)
@example(first=200, ratios=[2.5, 2.0], place=math.log(415 / 200) / math.log(5), slope=3, noise=0.01, seed=1)
def test_a_planted_crossing_is_found_in_noise(first, ratios, place, slope, noise, seed):
    """Within 1.25x in at most 6 cells, from real intervals of 5 repeats a side.

    One verdict in 20 can be wrong, but only if the machines are equal to within the noise, so the true
    crossing can lie outside the bracket by that much.
    """
    chance = np.random.default_rng(seed)
    planned = [round(first * math.prod(ratios[:k])) for k in range(len(ratios) + 1)]
    crossing = planned[0] * (planned[-1] / planned[0]) ** place

    def verdict(size):
        cpu, gpu = np.exp(chance.normal(0, noise, (2, 5)))
        return speedup([*(size / crossing) ** slope * cpu], [*gpu]).outcome

    verdicts, extra = narrowed(planned, verdict)
    found = bracket(verdicts)
    assert len(extra) <= MOST
    if found.below is None or found.above is None:
        # the machines are equal, within the noise, at an end of the grid
        assert any(abs(math.log(size / crossing)) * slope < 10 * noise for size in (planned[0], planned[-1]))
        return
    slack = math.exp(10 * noise / slope)
    assert found.below / slack <= crossing <= found.above * slack
    assert found.above <= WITHIN * found.below or found.above == found.below + 1


def test_an_undecided_size_is_bracketed_by_its_neighbours():
    verdicts, extra = narrowed([100, 400, 1000], lambda n: UNDECIDED if 390 < n < 410 else sharp(400)(n))
    assert extra == [365, 438] and bracket(verdicts).inside == (400,)


def test_machines_that_are_equal_over_a_stretch_are_not_bisected_for_ever():
    verdicts, extra = narrowed([100, 1000], lambda n: UNDECIDED if 200 < n < 600 else sharp(400)(n))
    assert len(extra) <= MOST
    inside = bracket(verdicts).inside
    assert inside[-1] >= WITHIN * inside[0]
    assert narrowed([100, 300, 500, 1000], lambda n: verdicts.get(n, UNDECIDED))[1] == []


def test_a_size_that_could_not_be_measured_is_gone_around():
    verdicts, extra = narrowed([100, 400, 1600], lambda n: None if n == 400 else sharp(500)(n))
    found = bracket(verdicts)
    assert found.below < 500 < found.above and 400 not in extra and len(extra) <= MOST
    _, failed = narrowed([100, 1600], lambda n: None if n not in (100, 1600) else sharp(500)(n))
    assert len(failed) <= MOST


def test_sizes_one_apart_have_nothing_between_them():
    assert narrowed([1, 2, 3], sharp(1.5))[1] == []
    assert narrowed([0, 4], sharp(1.5)) == ({0: SLOWER, 4: FASTER, 2: FASTER, 1: SLOWER}, [2, 1])


@pytest.mark.parametrize("hidden", [0.7, 3.0])
def test_cells_are_requested_on_both_machines_for_planned_cases_only(hidden):
    def case(n, batch=1):
        return Case.of("job", {"n": n, "batch": batch})

    def records(cases):
        return [
            r
            for c in cases
            for name, s in (("cpu", c.params["n"] / 415), ("gpu", 1.0), ("other", hidden))
            for r in repeats([s, s * 1.001, s * 0.999], c, name)
        ]

    machines = (machine("cpu", 1.0), machine("gpu", 1.0), machine("other", None))
    planned = [case(200), case(500), case(200, 2)]
    found = next_cells(compare(records(planned), machines, "cpu").pairings, planned, lambda case, name: 4)
    asked = [Cell("cpu", case(316)), Cell("gpu", case(316))]
    assert list(found) == (asked if hidden > 1 else [*asked, Cell("other", case(316))])
    more = [*planned, case(316), case(316, 2)]  # an added size makes no separate row
    found = next_cells(compare(records(more), machines, "cpu").pairings, planned, lambda case, name: 4)
    assert {cell.case for cell in found} == ({case(396)} if hidden > 1 else {case(396), case(252)})


def test_along_cost_the_change_is_looked_for_where_the_price_puts_it():
    def records(sizes):
        return [
            r
            for n in sizes
            for name, s in (("cpu", n / 400), ("gpu", 1.0))
            for r in repeats([s, s * 1.001, s * 0.999], Case.of("job", {"n": n}), name)
        ]

    planned = [Case.of("job", {"n": n}) for n in (100, 350, 450, 2000)]
    machines = (machine("cpu", 1.0), machine("gpu", 2.0))
    assert WITHIN < 450 / 350  # by time it lies here, by cost at twice the size
    found = next_cells(
        compare(records([100, 350, 450, 2000]), machines, "cpu").pairings, planned, lambda *_: 1
    )
    assert {cell.case.params["n"] for cell in found} == {
        round(math.sqrt(350 * 450)),
        round(math.sqrt(450 * 2000)),
    }
