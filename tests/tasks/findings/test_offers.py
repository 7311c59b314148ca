from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from tasks.findings import offers
from tasks.findings.compare import compare
from tasks.findings.offers import Offer, Offers
from tasks.findings.totals import CommonCases, total_seconds
from tasks.results.speedup import scaled
from tasks.results.values import Estimate, RatioVerdict
from tests.tasks.examples.records import IMAGES, MATMUL, machine, repeats, timing


@st.composite
def estimates(draw):
    value = draw(st.floats(1, 10))
    if draw(st.integers(0, 9)) == 0:
        return Estimate(value)  # a single repeat
    spread = 1 + draw(st.floats(0, 0.3))
    return Estimate(value, value / spread, value * spread)


@st.composite
def rivals(draw):
    names = draw(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6, unique=True))
    found = []
    for name in names:
        listed = Offer(name, "listed", None, draw(estimates()), draw(estimates()))
        found.append(listed)
        if draw(st.booleans()):
            found.append(replace(listed, purchase="spot", usd=scaled(listed.usd, draw(st.floats(0.2, 1.1)))))
    return found


def by_intervals(one, other):
    """Return the ratio of two offers without repeats: below 1 if their intervals are apart."""

    def ratio(a, b):
        if a.low is None or b.low is None:
            return Estimate(a.value / b.value)
        return Estimate(a.value / b.value, a.low / b.high, a.high / b.low)

    return ratio(one.seconds, other.seconds), ratio(one.usd, other.usd)


def front(rivals):
    return offers.front(rivals, by_intervals)


def dominates(one, other):
    return offers.dominates(one, other, by_intervals)


def tied(one, other):
    return offers.tied(one, other, by_intervals)


@given(rivals(), st.randoms())
def test_the_order_of_offers_changes_nothing(found, chance):
    mixed = [*found]
    chance.shuffle(mixed)
    assert set(front(found)) == set(front(mixed))


@given(rivals(), st.integers(-8, 8), st.integers(-8, 8))
def test_the_front_does_not_depend_on_the_units(found, seconds, usd):
    # powers of two: milliseconds for seconds would round, and a tie to the last bit could break
    other = [replace(o, seconds=scaled(o.seconds, 2.0**seconds), usd=scaled(o.usd, 2.0**usd)) for o in found]
    pairs = zip(front(found), front(other), strict=True)
    assert all((a.dominated_by, a.tied_with) == (b.dominated_by, b.tied_with) for a, b in pairs)


@given(rivals())
def test_the_front_is_not_empty_and_dominance_is_not_mutual(found):
    placed = front(found)
    assert any(not offer.dominated_by for offer in placed)
    for one in found:
        assert not dominates(one, one)
        assert not any(dominates(one, other) and dominates(other, one) for other in found)
        assert not any(tied(one, other) and dominates(one, other) for other in found)
        assert all(tied(one, other) == tied(other, one) for other in found)


@given(rivals())
def test_an_offer_that_is_worse_in_time_and_money_is_never_on_the_front(found):
    for offer in front(found):
        beaten = any(
            rival.purchase == "listed"
            and (rival.seconds.high or 1e9) < (offer.seconds.low or 0)
            and (rival.usd.high or 1e9) < (offer.usd.low or 0)
            for rival in found
        )
        assert bool(offer.dominated_by) >= beaten


def offer(name, seconds, usd, spread=0.01, purchase="listed"):
    both = [Estimate(v, v * (1 - spread), v * (1 + spread)) for v in (seconds, usd)]
    return Offer(name, purchase, None, *both)


def test_a_machine_that_is_as_fast_and_dearer_is_beaten_and_one_that_is_as_both_is_tied():
    fast, dear, same, slow = front(
        [offer("fast", 1, 10), offer("dear", 1.01, 20), offer("same", 0.995, 10.1), offer("slow", 5, 1)]
    )
    assert (fast.dominated_by, dear.dominated_by, same.dominated_by, slow.dominated_by) == (
        "",
        "fast",
        "",
        "",
    )
    assert (fast.tied_with, same.tied_with, dear.tied_with) == (("same",), ("fast",), ())


def test_spot_capacity_beats_spot_capacity_only():
    listed, spot, other = front(
        [offer("a", 5, 10), offer("b", 1, 1, purchase="spot"), offer("c", 5, 5, purchase="spot")]
    )
    assert (listed.dominated_by, spot.dominated_by, other.dominated_by) == ("", "", "b")


def test_a_spot_price_above_the_listed_one_is_beaten_by_it_however_wide_the_interval():
    listed = offer("a", 1, 1, spread=0.5)
    cheap, dear = (replace(listed, purchase="spot", usd=scaled(listed.usd, k)) for k in (0.99, 1.01))
    assert [o.dominated_by for o in front([listed, dear])] == ["", "a"]
    assert [o.dominated_by for o in front([listed, cheap])] == ["", ""]


def test_offers_of_a_comparison_are_the_suite_first_then_each_case():
    times = {"cpu-box": (1.0, 1.01, 0.99), "gpu-box": (0.1, 0.101, 0.099), "free": (0.5, 0.5, 0.51)}
    energies = {"cpu-box": 110.0, "gpu-box": 11.0}
    records = [
        record
        for name, of in times.items()
        for case, factor in ((MATMUL, 1), (IMAGES, 2))
        for record in repeats([t * factor for t in of], case, name, energy_j=energies.get(name))
    ]
    machines = (
        machine("cpu-box", 3600.0),
        machine("gpu-box", 7200.0, spot_usd_per_hour=3600.0),
        machine("free", 0.0),
    )
    found = compare(records, machines, "cpu-box").finding(Offers).offers
    assert [(o.case, o.hardware, o.purchase) for o in found] == [
        (case, *offer)
        for case in (None, MATMUL, IMAGES)
        for offer in (("cpu-box", "listed"), ("gpu-box", "listed"), ("gpu-box", "spot"))
    ]
    cpu, gpu, spot = found[:3]
    assert (cpu.usd.value, gpu.usd.value, spot.usd.value) == pytest.approx((3.0, 0.6, 0.3), rel=0.01)
    assert (cpu.dominated_by, gpu.dominated_by, spot.dominated_by) == ("gpu-box", "", "")
    assert gpu.seconds.low < gpu.seconds.value < gpu.seconds.high
    # 11 samples of one step: 110 J are 10 J a step, in both cases of the suite
    assert (cpu.energy_j, gpu.energy_j, found[3].energy_j) == pytest.approx((20.0, 2.0, 10.0))


def test_energy_counts_every_step_of_a_block():
    block = replace(timing(1.0), block=4)
    records = repeats([1.0, 1.0], MATMUL, "cpu-box", energy_j=440.0, wall=block)
    assert compare(records, (machine(),), "cpu-box").finding(Offers).offers[-1].energy_j == pytest.approx(
        10.0
    )


def test_energy_is_of_every_step_between_the_readings_of_the_counter():
    """A GPU takes steps before the first sample, and drifting steps are in no sample."""
    probes = {"window_steps": 44.0}
    records = repeats([1.0, 1.0], MATMUL, "cpu-box", energy_j=440.0, probes=probes)
    assert compare(records, (machine(),), "cpu-box").finding(Offers).offers[-1].energy_j == pytest.approx(
        10.0
    )
    odd = repeats([1.0, 1.0], MATMUL, "cpu-box", energy_j=110.0, probes={"window_steps": -1.0})
    assert compare(odd, (machine(),), "cpu-box").finding(Offers).offers[-1].energy_j == pytest.approx(10.0)


def test_a_single_repeat_shows_nothing():
    records = [*repeats([1.0], MATMUL, "a"), *repeats([100.0], MATMUL, "b")]
    found = compare(records, (machine("a"), machine("b")), "a").finding(Offers).offers
    assert [(o.dominated_by, o.tied_with) for o in found] == [("", ("b",)), ("", ("a",))] * 2


def test_offers_are_told_apart_where_the_answer_tells_the_machines_apart():
    """Their intervals overlap; that of their ratio excludes 1."""
    spread = (0.988, 0.994, 1.0, 1.006, 1.012)
    records = [
        r for name, s in (("a", 1.0), ("b", 1.02)) for r in repeats([s * t for t in spread], MATMUL, name)
    ]
    found = compare(records, (machine("a", box="one"), machine("b", box="one")), "a")
    assert found.answer[1].startswith("Cheapest: a, 1.020×")
    for a, b in zip(*[iter(found.finding(Offers).offers)] * 2, strict=True):
        assert a.seconds.high > b.seconds.low
        assert [(o.hardware, o.dominated_by, o.tied_with) for o in (a, b)] == [("a", "", ()), ("b", "a", ())]


@pytest.mark.parametrize("b_usd", [0.9, 0.97, 0.98, 1.0, 1.02])
@pytest.mark.parametrize("b_s", [0.97, 0.985, 1.0, 1.02])
def test_no_offer_contradicts_the_answer(b_s, b_usd):
    spread = (0.99, 1.0, 1.01)
    records = [
        r for name, s in (("a", 1.0), ("b", b_s)) for r in repeats([s * t for t in spread], MATMUL, name)
    ]
    found = compare(records, (machine("a"), machine("b", b_usd)), "a")
    (pairing,) = found.pairings
    a, b = found.finding(Offers).offers[:2]
    outcomes = {pairing.compute.outcome, pairing.cost.outcome}
    assert bool(a.tied_with) == (outcomes == {RatioVerdict.UNDECIDED})
    assert bool(b.dominated_by) == (RatioVerdict.SLOWER in outcomes and RatioVerdict.FASTER not in outcomes)
    assert bool(a.dominated_by) == (RatioVerdict.FASTER in outcomes and RatioVerdict.SLOWER not in outcomes)


def test_equal_machines_seldom_leave_the_front_by_chance():
    """Uncorrected, one pair of ten machines would in almost every run."""
    chance, names, runs = np.random.default_rng(5), [f"m{place}" for place in range(10)], 200
    machines = [machine(name, 1.0) for name in names]
    beaten = 0
    for _ in range(runs):
        logs = {name: chance.normal(0, 0.01, (2, 3)).tolist() for name in names}
        suite = CommonCases((MATMUL, IMAGES), logs)
        rivals = [
            Offer(name, "listed", None, seconds, seconds)
            for name in names
            for seconds in [total_seconds(suite, name)]
        ]
        beaten += any(offer.dominated_by for offer in offers.front(rivals, offers.over_in(suite, machines)))
    assert beaten <= binom.ppf(0.9999, runs, 0.05)
