import math
import random
from itertools import accumulate

import pytest

from tests.workloads.harness.script.simulated_jobs import WORLDS, covered
from workloads.harness.script.job_prediction import OTHER_TIMES, job_time, pace_of, speed_variation

STEP_S, START_S = 0.1, 5.0


def ends_of(steps, seed=0, every=None, every_s=0.0, epoch=None, end_s=0.0):
    """Return the steps' end times: noisy steps, regular evaluations, and ends of epochs."""
    draw = random.Random(seed)
    lengths = []
    for place in range(steps):
        length = STEP_S * draw.lognormvariate(0, 0.1)
        if every and place and place % every == 0:
            length += every_s * draw.lognormvariate(0, 0.05)
        if epoch and place and place % epoch == 0:
            length += end_s * draw.lognormvariate(0, 0.05)
        lengths.append(length)
    return list(accumulate(lengths))


def share_covered(observed, whole, epoch=None, **options):
    """Return how often the interval holds the real time of a job whose first steps were seen."""
    covered = 0
    for seed in range(40):
        ends = ends_of(whole, seed, epoch=epoch, **options)
        epochs_at = [place for place in range(1, observed) if epoch and place % epoch == 0]
        pace = pace_of(ends[:observed], epochs_at, epoch, 20)
        job = job_time(pace, ends[:observed], epochs_at, START_S, 20, whole)
        covered += job.low_s <= START_S + ends[-1] - ends[0] + options.get("end_s", 0.0) <= job.high_s
    return covered / 40


@pytest.mark.parametrize(
    "options",
    [
        {"observed": 200, "whole": 3000},
        {"observed": 300, "whole": 3000, "epoch": 100, "end_s": 4.0},
        {"observed": 150, "whole": 3000, "epoch": 100, "end_s": 4.0},
        {"observed": 600, "whole": 6000, "every": 50, "every_s": 3.0},
        {"observed": 130, "whole": 3000, "every": 50, "every_s": 3.0},
    ],
)
def test_the_interval_covers_the_real_time_of_the_job(options):
    assert share_covered(**options) >= 0.9


@pytest.mark.parametrize(
    ("world", "least", "widest"),
    [
        ("independent 5 %", 0.93, 0.05),
        ("AR(1) .9, 20 %", 0.93, 0.12),
        ("stalls of 20 steps", 0.9, 0.9),
        ("epochs of 150-250", 0.93, 0.2),
        ("checkpoint 5 s each 400", 0.93, 0.2),
    ],
)
def test_the_interval_holds_in_each_world_that_a_measurement_sees(world, least, widest):
    found = covered(WORLDS[world], jobs=60)
    assert found.inside >= least, found
    assert found.width < widest


def test_an_end_of_an_epoch_that_no_measurement_waits_for_is_named():
    found = covered(WORLDS["epoch of 5,000, 30 s"], jobs=10)
    assert found.unseen == 1.0 and found.ratio < 1.0


def test_the_mean_over_the_wall_has_work_that_a_median_leaves_out():
    ends = ends_of(450, epoch=100, end_s=4.0)
    pace = pace_of(ends, [100, 200, 300, 400], 100, 20)
    mean_s, low_s, high_s = pace.mean()
    assert mean_s == pytest.approx(STEP_S + 4.0 / 100, rel=0.02)
    assert low_s < mean_s < high_s


def test_a_loader_that_reads_ahead_ends_its_epoch_a_step_early():
    ends = ends_of(450, epoch=100, end_s=4.0)
    early = pace_of(ends, [99, 199, 299, 399], 100, 20)
    assert early.end.mean == pytest.approx(pace_of(ends, [100, 200, 300, 400], 100, 20).end.mean)


def test_a_job_shorter_than_the_measurement_has_its_measured_time():
    ends = ends_of(200)
    job = job_time(pace_of(ends, [], None, 50), ends, [], START_S, 50, 30)
    assert job.seconds == pytest.approx(START_S + ends[29] - ends[0])


def test_too_few_steps_have_no_pace():
    assert pace_of(ends_of(4), [], None, 1) is None


def test_an_epoch_that_ends_for_nothing_adds_nothing_however_uneven_steps_are():
    draw = random.Random(0)
    ends = list(accumulate(STEP_S * draw.lognormvariate(0, 1.0) for _ in range(20_000)))
    pace = pace_of(ends, range(2, 20_000, 2), 2, 20)  # as many ends as steps between them
    assert pace.mean()[0] == pytest.approx((ends[-1] - ends[19]) / (20_000 - 20), rel=0.002)


def test_where_each_step_is_an_epoch_its_end_is_part_of_it():
    ends = ends_of(100)
    pace = pace_of(ends, range(1, 100), 1, 20)
    assert pace.end is None
    assert pace.mean()[0] == pytest.approx((ends[-1] - ends[19]) / 80)


def uneven(kind, seed, steps=4000):
    """Return the steps' end times with random pauses, heavy tails, or a varying machine."""
    draw, mood, lengths = random.Random(seed), 0.0, []
    for _ in range(steps):
        mood = 0.98 * mood + draw.gauss(0, 0.02)
        factors = {
            "pauses": 1 + 20 * (draw.random() < 0.02),
            "tails": draw.lognormvariate(0, 1.0),
            "changing speed": max(1 + mood, 0.3),
        }
        lengths.append(STEP_S * factors[kind])
    return list(accumulate(lengths))


@pytest.mark.parametrize(("kind", "widest"), [("pauses", 0.5), ("tails", 0.2), ("changing speed", 0.2)])
def test_the_interval_holds_for_uneven_steps_and_is_not_the_wider_for_it(kind, widest):
    covered, widths = 0, []
    for seed in range(40):
        ends = uneven(kind, seed)
        job = job_time(pace_of(ends[:600], [], None, 20), ends[:600], [], START_S, 20, len(ends))
        covered += job.low_s <= START_S + ends[-1] - ends[0] <= job.high_s
        widths.append((job.high_s - job.low_s) / 2 / job.seconds)
    assert covered / 40 >= 0.9
    assert sorted(widths)[20] < widest


def walked(seed, share, seconds=300):
    """Return a factor for each second of a machine whose speed varies on all time scales at once."""
    draw = random.Random(seed)
    slow = {lasts_s: draw.gauss(0, share) for lasts_s in (1, 3, 10, 30, 100, 300)}
    factors = []
    for _ in range(seconds):
        for lasts_s, mood in slow.items():
            keep = math.exp(-1 / lasts_s)
            slow[lasts_s] = keep * mood + math.sqrt(1 - keep**2) * draw.gauss(0, share)
        factors.append(math.exp(sum(slow.values())))
    return factors


@pytest.mark.parametrize("share", [0.0, 0.01, 0.04])
def test_a_machine_that_was_seen_to_go_up_and_down_can_do_so_at_another_time(share):
    covered = 0
    for seed in range(60):
        draw, factors = random.Random(seed), walked(seed, share)
        lengths = [
            STEP_S * factor * draw.lognormvariate(0, 0.03)
            for factor in factors
            for _ in range(round(1 / STEP_S))
        ]
        ends, again = list(accumulate(lengths[:600])), lengths[1000:2500]
        job = job_time(pace_of(ends, [], None, 20), ends, [], START_S, 20, 1500)
        covered += job.low_s <= START_S + math.fsum(again) <= job.high_s
    assert covered / 60 >= 0.85  # as one in twenty should not be, and 60 s don't show the slowest of it


def test_work_done_once_is_in_the_job_once():
    """Like `torch.compile` at the first of several evaluations."""
    once_s = 20.0
    within = list(
        accumulate(1.0 if place % 50 else 11.0 + once_s * (place == 50) for place in range(1, 2001))
    )
    job = job_time(pace_of(within[:320], [], None, 20), within[:320], [], START_S, 20, 2000)
    assert job.seconds == pytest.approx(START_S + within[-1] - within[0], rel=1e-6)
    epochs_at = list(range(50, 320, 50))
    at_ends = list(accumulate(1.0 if place % 50 else 11.0 + once_s * (place == 50) for place in range(2000)))
    job = job_time(pace_of(at_ends[:320], epochs_at, 50, 20), at_ends[:320], epochs_at, START_S, 20, 2000)
    last_end_s = 10.0  # behind the last step, and the first step of all holds none
    assert job.seconds == pytest.approx(START_S + at_ends[-1] - at_ends[0] + last_end_s, rel=1e-6)


@pytest.mark.parametrize(("compiled", "share"), [(False, 0.3), (True, 1.0)])
def test_the_only_epoch_end_seen_is_less_certain_with_a_compiler(compiled, share):
    ends = list(accumulate(1.0 + 50.0 * (place == 100) for place in range(180)))
    pace = pace_of(ends, [100], 100, 20, compiled=compiled)
    job = job_time(pace, ends, [100], START_S, 20, 100_000)
    others = 999 * 50.0
    assert (job.high_s - job.seconds) / others == pytest.approx(share, rel=0.1)


def test_a_quiet_machine_has_no_moods():
    draw = random.Random(3)
    for spread in (0.001, 0.1, 1.0):
        observed = [speed_variation([draw.lognormvariate(0, spread) for _ in range(400)]) for _ in range(100)]
        assert sum(share > 0 for share in observed) <= 15
    assert speed_variation([0.1] * 20) == 0.0 and OTHER_TIMES > 0


def test_an_end_of_an_epoch_in_the_warm_up_is_one_that_was_seen():
    ends = ends_of(300, epoch=40, end_s=4.0)
    pace = pace_of(ends[:75], [40], 40, 50)
    job = job_time(pace, ends[:75], [40], START_S, 50, 280)
    assert job.left_out == () and pace.end.mean == pytest.approx(4.0, rel=0.1)
    assert job.low_s < START_S + ends[279] - ends[0] + 4.0 < job.high_s


def test_work_that_was_never_seen_is_named():
    ends = ends_of(200)
    job = job_time(pace_of(ends, [], None, 50), ends, [], START_S, 50, 1000, ("passes over a loader",))
    assert job.left_out == ("passes over a loader",)
