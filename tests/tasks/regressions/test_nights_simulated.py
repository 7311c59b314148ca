"""Simulated histories with a known truth: false tickets of the gate, and its delay of a 5 % slowdown.

`python -m tests.benchmarks.simulated.nights` prints the same figures from more histories for docs/nightly.md.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

from tasks.regressions.nightly_gate import screen
from tests.tasks.examples import night_noise as noise
from tests.tasks.examples.simulated_nights import (
    QUIET,
    SLOWDOWN,
    WATCHED,
    Plan,
    false_tickets,
    filed,
    named_within,
    panel_of,
    slowed,
)

HISTORIES = 200
FEW, MANY = 20, 300
# Limits of the gate, by model and presence of a control: false tickets in 100 nights of a series,
# and the share of histories whose slowdown is named within one night, three, seven. By a simulation of 400 histories.
FALSE_TICKETS = {
    (noise.gauss, False): 0.02,
    (noise.heavy, False): 0.04,
    (noise.ar1, False): 0.02,
    (noise.two_hosts, False): 0.02,
    (noise.unlike, False): 0.02,
    (noise.night_state, False): 0.15,
    (noise.drifting_box, False): 0.23,
    (noise.lottery, False): 0.1,
    (noise.busy, False): 0.05,
    (noise.weekends, False): 0.07,
    (noise.cycle, False): 0.1,
    (noise.gauss, True): 0.02,
    (noise.night_state, True): 0.02,
    (noise.drifting_box, True): 0.02,
    (noise.two_hosts_controlled, True): 0.02,
    (noise.lottery, True): 0.0,
    (noise.slow_boxes, True): 0.03,
    (noise.neighbour, True): 0.1,
}
NAMED = {
    (noise.gauss, False): (0.52, 0.89, 0.98),
    (noise.heavy, False): (0.3, 0.7, 0.96),
    (noise.ar1, False): (0.3, 0.66, 0.91),
    (noise.two_hosts, False): (0.39, 0.83, 0.98),
    (noise.night_state, False): (0.24, 0.74, 0.98),
    (noise.drifting_box, False): (0.25, 0.55, 0.85),
    (noise.gauss, True): (0.52, 0.88, 0.98),
    (noise.night_state, True): (0.85, 0.98, 0.99),
    (noise.two_hosts_controlled, True): (0.88, 0.98, 0.99),
    (noise.lottery, True): (1.0, 1.0, 1.0),
}


def made(model, control=False, histories=HISTORIES):
    nights = model(np.random.default_rng(20261122), (histories, QUIET + WATCHED))
    return nights if control else nights.without_control()


def within(share, histories=HISTORIES):
    """Return tickets in 100 nights plus what chance adds in 1 of 1,000 simulations."""
    return share + 3.1 * math.sqrt(max(share, 1 / histories) * (1 / histories + 1 / 400))


def id_of(value):
    return getattr(value, "__name__", "control" if value is True else "alone" if value is False else None)


@pytest.mark.parametrize(("model", "control"), FALSE_TICKETS, ids=id_of)
def test_the_nightly_gate_has_no_more_false_tickets_than_designed(model, control):
    assert false_tickets(made(model, control)) <= within(FALSE_TICKETS[model, control])


@pytest.mark.parametrize(("model", "control"), NAMED, ids=id_of)
def test_the_nightly_gate_reports_a_slowdown_as_soon_as_designed(model, control):
    seen = named_within(made(model, control), slowed())
    for share, least in zip(seen, NAMED[model, control], strict=True):
        slack = 2.6 * math.sqrt(max(least * (1 - least), 0.005) * (1 / 400 + 1 / HISTORIES))
        assert share >= least - slack, seen


def test_a_hundred_series_on_two_kinds_of_host_see_a_slowdown_in_three_nights():
    assert named_within(made(noise.two_hosts), slowed(100))[1] >= 0.75


def test_a_control_that_moved_explains_a_change_on_a_box_that_never_moved_before():
    """Without its weight a control cannot explain a neighbour's first visit."""
    quiet = made(noise.gauss, control=True, histories=100)
    beside = np.where(np.arange(QUIET + WATCHED) >= QUIET, 0.06, 0.0)
    came = noise.Noise(
        *(replace(side, log_s=side.log_s + beside) for side in (quiet.series, quiet.control)),
        lambda rows, night: tuple(side + beside[night] for side in quiet.fresh(rows, night)),
    )
    told = filed(came, Plan(nights=QUIET + 10))
    assert sum(each.share > 0 for each in told) <= 10


@pytest.mark.parametrize("model", [noise.gauss, noise.heavy, noise.two_hosts], ids=id_of)
def test_three_hundred_series_have_three_false_tickets_in_a_hundred_nights(model):
    assert false_tickets(made(model), MANY) <= 0.01 + 1 / HISTORIES


def test_three_hundred_series_see_a_slowdown_in_three_nights():
    assert named_within(made(noise.gauss), slowed(MANY))[1] >= 0.8


def test_a_box_with_slow_nights_is_known_only_by_its_control():
    """Fresh runs share the night's state; a flapping series needs two nights."""
    assert 0.5 < false_tickets(made(noise.slow_boxes, histories=50)) < 2.7


@pytest.mark.parametrize(
    ("model", "days", "least"), [(noise.gauss, 5, 0.7), (noise.gauss, 9, 0.8)], ids=id_of
)
def test_a_slowdown_just_after_the_machine_changed_is_seen(model, days, least):
    plan = slowed(moved=QUIET, shifted=QUIET + days, nights=QUIET + days + 15)
    assert named_within(made(model), plan, (14,))[0] >= least


@pytest.mark.parametrize("model", [noise.gauss, noise.heavy, noise.night_state], ids=id_of)
def test_another_machine_files_nothing_by_itself(model):
    told = filed(made(model), Plan(moved=QUIET))
    assert sum(each.share > 0 for each in told) / HISTORIES <= within(0.15)


def test_without_a_control_it_works_as_well_where_the_box_is_not_to_blame():
    alone, beside = (named_within(made(noise.gauss, control), slowed())[2] for control in (False, True))
    assert abs(alone - beside) < 0.05


def test_a_larger_shift_is_seen_at_once_and_a_small_one_is_not_told():
    quiet = made(noise.gauss)
    assert named_within(quiet, slowed(shift=math.log(1.10)), (1,))[0] > 0.95
    told = {each.row for each in filed(quiet, Plan(shift=math.log(1.01))) if each.share > 0}
    assert len(told) / HISTORIES < 0.35  # it is below what anybody would act on


def test_faster_is_told_as_slower_is():
    told = filed(made(noise.gauss), Plan(shift=-SLOWDOWN, nights=QUIET + 7))
    assert len({each.row for each in told if each.share < 0}) / HISTORIES >= 0.95


@pytest.mark.parametrize("model", [noise.gauss, noise.heavy, noise.two_hosts, noise.night_state], ids=id_of)
def test_a_young_history_cries_wolf_no_more_often(model):
    """From the ninth night on, fewer nights need more evidence."""
    told = filed(made(model), Plan(nights=QUIET), first=8)
    assert sum(each.share > 0 for each in told) / ((QUIET - 8) * HISTORIES / 100) < 0.2


def at_night(night, shift=0.08, control=True):
    """Return histories on a box that moves by 4 % a night, slower from that night on."""
    plan = Plan(shift=math.log1p(shift), shifted=night, nights=night + 14)
    return made(noise.moving_box, control), plan


def test_a_control_counts_from_the_first_night_on():
    """After eight nights a slowdown by 8 % is named at once, half of the box's noise."""
    assert named_within(*at_night(8), (1,))[0] >= 0.9
    assert named_within(*at_night(8, control=False), (1,))[0] <= 0.2
    judged = screen(panel_of(made(noise.moving_box, control=True), Plan(nights=9)), (), 8)
    assert np.median(judged.before.beta) > 0.9 and 0.02 < np.median(judged.smallest) < 0.05


@pytest.mark.parametrize(
    "model", [noise.moving_box, noise.gauss, noise.night_state, noise.slow_boxes], ids=id_of
)
def test_a_young_history_next_to_a_control_cries_wolf_no_more_often(model):
    told = filed(made(model, control=True), Plan(nights=40), first=8)
    assert sum(each.share > 0 for each in told) / ((40 - 8) * HISTORIES / 100) < 0.12


def test_a_young_series_takes_the_weight_of_the_other_series_of_its_hardware():
    """On a box that nothing moves the weight is 0."""
    quiet = made(noise.gauss, control=True, histories=12)
    panel = panel_of(quiet, Plan(nights=41))
    young = np.arange(12) == 0
    panel = replace(
        panel,
        log_s=np.where(young[:, None] & (np.arange(41) < 32), np.nan, panel.log_s),
        own_control=np.full_like(panel.own_control, np.nan),
        together=np.full_like(panel.together, np.nan),
    )
    alone = screen(panel, (), 40).before.beta[0]
    moving = replace(
        panel,
        hardware=np.zeros(12, np.int64),
        log_s=panel.log_s + 3 * (panel.log_control_s - np.nanmean(panel.log_control_s)),
    )
    assert alone < 0.6 and screen(moving, (), 40).before.beta[0] > 0.7
