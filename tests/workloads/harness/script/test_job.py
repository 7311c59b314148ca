"""The time of a job, predicted from its beginning: what lies between steps is in it."""

import random
from itertools import accumulate

import pytest

from workloads.harness.script.job import job_time, pace_of

STEP_S, START_S = 0.1, 5.0


def ends_of(steps, seed=0, every=None, every_s=0.0, epoch=None, end_s=0.0):
    """When each step ended: noisy steps, an evaluation every so many steps, and at the ends of epochs."""
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


def share_covered(seen, whole, epoch=None, **options):
    """How often the interval holds the real time of a job, of which the first steps were seen."""
    covered = 0
    for seed in range(40):
        ends = ends_of(whole, seed, epoch=epoch, **options)
        epochs_at = [place for place in range(1, seen) if epoch and place % epoch == 0]
        pace = pace_of(ends[:seen], epochs_at, epoch, 20)
        job = job_time(pace, ends[:seen], epochs_at, START_S, 20, whole)
        covered += job.low_s <= START_S + ends[-1] - ends[0] + options.get("end_s", 0.0) <= job.high_s
    return covered / 40


@pytest.mark.parametrize(
    "options",
    [
        {"seen": 200, "whole": 3000},
        {"seen": 300, "whole": 3000, "epoch": 100, "end_s": 4.0},
        {"seen": 150, "whole": 3000, "epoch": 100, "end_s": 4.0},
        {"seen": 600, "whole": 6000, "every": 50, "every_s": 3.0},
        {"seen": 130, "whole": 3000, "every": 50, "every_s": 3.0},
    ],
)
def test_the_interval_covers_the_real_time_of_the_job(options):
    assert share_covered(**options) >= 0.9


def test_the_mean_over_the_wall_has_what_a_median_leaves_out():
    ends = ends_of(450, epoch=100, end_s=4.0)
    pace = pace_of(ends, [100, 200, 300, 400], 100, 20)
    mean_s, low_s, high_s = pace.mean()
    assert mean_s == pytest.approx(STEP_S + 4.0 / 100, rel=0.02)
    assert low_s < mean_s < high_s


def test_a_loader_that_reads_ahead_ends_its_epoch_a_step_early():
    ends = ends_of(450, epoch=100, end_s=4.0)
    early = pace_of(ends, [99, 199, 299, 399], 100, 20)
    assert early.end.mean == pytest.approx(pace_of(ends, [100, 200, 300, 400], 100, 20).end.mean)


def test_a_job_that_is_shorter_than_what_was_seen_is_what_was_seen_of_it():
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
    """When each step ended, of a script with pauses by chance, heavy tails, or a machine with moods."""
    draw, mood, lengths = random.Random(seed), 0.0, []
    for _ in range(steps):
        mood = 0.98 * mood + draw.gauss(0, 0.02)
        factors = {
            "pauses": 1 + 20 * (draw.random() < 0.02),
            "tails": draw.lognormvariate(0, 1.0),
            "moods": max(1 + mood, 0.3),
        }
        lengths.append(STEP_S * factors[kind])
    return list(accumulate(lengths))


@pytest.mark.parametrize(("kind", "widest"), [("pauses", 0.5), ("tails", 0.2), ("moods", 0.15)])
def test_the_interval_holds_for_uneven_steps_and_is_not_the_wider_for_it(kind, widest):
    covered, widths = 0, []
    for seed in range(40):
        ends = uneven(kind, seed)
        job = job_time(pace_of(ends[:600], [], None, 20), ends[:600], [], START_S, 20, len(ends))
        covered += job.low_s <= START_S + ends[-1] - ends[0] <= job.high_s
        widths.append((job.high_s - job.low_s) / 2 / job.seconds)
    assert covered / 40 >= 0.9
    assert sorted(widths)[20] < widest
