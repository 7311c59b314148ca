from dataclasses import replace
from uuid import uuid4

import pytest

from tasks.dispatch.job_end import JobEnd
from tasks.dispatch.lane import (
    FRUITLESS,
    HOPELESS,
    RECLAIMS,
    Lane,
    lanes_of,
    within_budget,
)
from workloads.harness.records.record import Verdict
from workloads.harness.records.script import Script


@pytest.fixture
def lane(plan):
    lane = Lane((plan.hardware[0],))
    lane.ask(plan.repeats_on(lane.machine), now=0.0)
    return lane


def start(lane, now=0.0):
    repeats = lane.next_job()
    lane.start(uuid4(), repeats, now)
    return repeats


def test_all_that_wait_go_into_one_job_in_their_order(lane):
    repeats = start(lane)
    assert [repeat.order for repeat in repeats] == list(range(10)) and not lane.waiting


def test_a_job_takes_no_more_than_the_hardware_allows(lane):
    lane.entries = (lane.machine.model_copy(update={"cells_per_job": 5}),)
    assert len(start(lane)) == 5 and len(lane.waiting) == 5


def test_a_job_measures_in_one_image(lane):
    first, *others = lane.next_job()
    there = replace(first, script=Script(("a",), image="docker.io/a"))
    lane.waiting = {r.id: r for r in [there, *others]}
    assert start(lane) == [there] and start(lane) == others


def test_a_repeat_in_a_job_is_not_requested_twice(lane):
    repeats = start(lane)
    lane.ask(repeats, now=1.0)
    assert not lane.waiting


def test_a_job_that_delivered_everything_leaves_nothing(lane):
    for repeat in start(lane):
        lane.delivered(repeat.id)
    assert lane.job_ended(True, "done") == ([], []) and lane.job is None


def test_the_one_in_hand_is_tried_once_more_alone_then_given_up(lane):
    repeats = start(lane)
    for repeat in repeats[:3]:
        lane.delivered(repeat.id)
    lost, given_up = lane.job_ended(True, "killed")
    assert lost == repeats[3:] and not given_up
    lane.ask(lost, now=1.0)
    assert start(lane) == [repeats[3]]
    lost, given_up = lane.job_ended(True, "killed again")
    assert not lost and [(r.cell.case, r.verdict) for r in given_up] == [(repeats[3].case, Verdict.CRASHED)]
    assert "killed again" in given_up[0].reasons[0]
    assert start(lane) == repeats[4:]


def test_the_first_one_in_hand_takes_nothing_along(lane):
    repeats = start(lane)
    lost, _ = lane.job_ended(True, "the box rebooted")
    lane.ask(lost, now=1.0)
    assert start(lane) == repeats[:1]
    lost, given_up = lane.job_ended(True, "the box rebooted")
    assert not lost and [record.order for record in given_up] == [0]
    assert start(lane) == repeats[1:]


def test_a_lane_whose_jobs_never_begin_is_given_up_and_blames_no_repeat(lane):
    repeats = start(lane)
    lost, given_up = lane.job_ended(False, "no such image")
    lane.ask(lost, now=1.0)
    assert lost and not given_up
    assert start(lane) == repeats
    lost, given_up = lane.job_ended(False, "no such image")
    assert not lost and len(given_up) == 10 and not lane.waiting
    assert all("no such image" in record.reasons[0] for record in given_up)
    assert {record.verdict for record in given_up} == {Verdict.CAPACITY}


def test_a_cancelled_job_blames_no_repeat_and_two_cancellations_end_the_lane(lane):
    repeats = start(lane)
    lost, given_up = lane.job_ended(True, "cancelled", JobEnd.CANCELLED)
    lane.ask(lost, now=1.0)
    assert not given_up and start(lane) == repeats, "all of them go on together"
    _, given_up = lane.job_ended(True, "cancelled", JobEnd.CANCELLED)
    assert len(given_up) == 10 and {record.verdict for record in given_up} == {Verdict.CAPACITY}


def test_a_lane_whose_jobs_never_deliver_is_given_up(lane):
    ended = []
    for _ in range(FRUITLESS):
        start(lane)
        lost, given_up = lane.job_ended(True, "broken")
        lane.ask(lost, now=1.0)
        ended += given_up
    assert len(ended) == 10 and not lane.waiting


def test_repeats_that_could_not_be_submitted_still_wait(lane):
    assert lane.next_job() == lane.next_job() and len(lane.waiting) == 10


def test_giving_up_names_everything_that_is_left(lane):
    lane.entries = (lane.machine.model_copy(update={"cells_per_job": 5}),)
    start(lane)
    records = lane.give_up("nobody came")
    assert len(records) == 10 and {record.verdict for record in records} == {Verdict.CAPACITY}
    assert not lane.waiting and lane.job is None


def test_a_machine_that_was_taken_away_is_no_repeats_fault(lane):
    repeats = start(lane)
    for repeat in repeats[:2]:
        lane.delivered(repeat.id)
    for _ in range(RECLAIMS):
        lost, given_up = lane.job_ended(True, "host gone", JobEnd.TAKEN_AWAY)
        assert lost == repeats[2:] and not given_up
        lane.ask(lost, now=1.0)
        assert start(lane) == repeats[2:]  # no repeat is suspected: all continue together
    lost, given_up = lane.job_ended(True, "host gone", JobEnd.TAKEN_AWAY)
    assert not lost and {record.verdict for record in given_up} == {Verdict.PREEMPTED}
    assert len(given_up) == len(repeats) - 2 and "host gone" in given_up[0].reasons[0]


def test_a_record_between_reclaims_gives_new_patience(lane):
    repeats = start(lane)
    for repeat in repeats[:8]:
        lane.delivered(repeat.id)
        lost, given_up = lane.job_ended(True, "host gone", JobEnd.TAKEN_AWAY)
        assert lost and not given_up
        lane.ask(lost, now=1.0)
        start(lane)


@pytest.mark.parametrize("end", HOPELESS)
def test_where_there_is_no_machine_asking_again_is_no_use(lane, end):
    count = len(start(lane))
    lost, given_up = lane.job_ended(False, "no g5.xlarge to be had", end)
    assert not lost and len(given_up) == count and {r.verdict for r in given_up} == {Verdict.CAPACITY}
    assert given_up[0].reasons == ("no g5.xlarge to be had",)


def test_a_repeat_that_twice_ran_its_job_out_of_memory_gets_that_verdict(lane):
    repeats = start(lane)
    lane.ask(lane.job_ended(True, "exit 137", JobEnd.OUT_OF_MEMORY)[0], now=1.0)
    assert start(lane) == repeats[:1]
    _, given_up = lane.job_ended(True, "exit 137", JobEnd.OUT_OF_MEMORY)
    assert [record.verdict for record in given_up] == [Verdict.OUT_OF_MEMORY]


class TestBudget:
    def machine(self, lane, **variables):
        price = lane.machine.price.model_copy(update={"usd_per_hour": 3.6})
        return lane.machine.model_copy(update={"job_variables": variables, "price": price})

    @pytest.mark.parametrize(("left_usd", "timeout_s"), [(1.0, 1000), (100.0, 43200), (0.0, 60), (-2.0, 60)])
    def test_a_job_must_not_take_longer_than_its_money_lasts(self, lane, left_usd, timeout_s):
        machine = self.machine(lane, timeout_s=43200, job_queue="q")
        assert within_budget(machine, left_usd) == {"timeout_s": timeout_s, "job_queue": "q"}

    def test_no_time_limit_is_added_without_a_budget_or_a_pool_limit(self, lane):
        assert within_budget(self.machine(lane, a=1), 1.0) == {"a": 1}
        assert within_budget(self.machine(lane, timeout_s=9), None) == {"timeout_s": 9}


def test_entries_of_a_box_that_one_job_can_measure_take_turns_by_repeat(plan):
    (lane,) = lanes_of(plan.hardware)
    for machine in plan.hardware:
        lane.ask(plan.repeats_on(machine), now=0.0)
    order = lane.next_job()
    pairs = list(zip(order[::2], order[1::2], strict=True))
    assert len(pairs) == 10 and all(
        (a.case, a.repeat) == (b.case, b.repeat) and a.hardware != b.hardware for a, b in pairs
    )
    assert len({a.hardware for a, _ in pairs}) == 2  # no entry always comes first
    assert [a.repeat for a, _ in pairs] == [1] * 5 + [2] * 5
    again = lane.next_job()
    assert again == order


@pytest.mark.parametrize(
    "change",
    [
        {"box": None},
        {"box": "another"},
        {"pool": "ssh"},
        {"device": "cuda"},
        {"job_variables": {"image": "x"}},
        {"command": ("python", "-m", "workloads")},
        {"reference": None},
    ],
)
def test_other_entries_have_lanes_of_their_own(plan, change):
    one, other = plan.hardware
    assert [len(lane.entries) for lane in lanes_of([one, other.model_copy(update=change)])] == [1, 1]
    price = other.price.model_copy(update={"usd_per_hour": 7.0})
    assert len(lanes_of([one, other.model_copy(update={"price": price})])) == 2


def test_a_case_that_kills_its_job_on_every_entry_does_not_take_their_lane_along(plan):
    one, other = plan.hardware
    third = other.model_copy(update={"name": "a-third"})
    (lane,) = lanes_of([one, other, third])
    for machine in lane.entries:
        lane.ask(plan.repeats_on(machine), now=0.0)
    killer = lane.next_job()[0].case
    ended = {}
    while lane.waiting:
        for repeat in start(lane):
            if repeat.case == killer:
                break
            lane.delivered(repeat.id)
        lost, given_up = lane.job_ended(True, "killed")
        ended |= {record.id: record for record in given_up}
        lane.ask(lost, now=1.0)
    assert {record.verdict for record in ended.values()} == {Verdict.CRASHED}
    assert {record.case for record in ended.values()} == {killer} and len(ended) == 6


def test_a_job_in_which_entries_take_turns_has_the_time_of_all(plan):
    machine = plan.hardware[0].model_copy(update={"job_variables": {"timeout_s": 3600}})
    assert within_budget(machine, None, 2)["timeout_s"] == 7200
    assert within_budget(machine, 0.1, 2)["timeout_s"] == 3600, "0.10 USD buy an hour"


def test_boxes_that_go_after_one_record_each_are_not_rented_for_ever(lane, monkeypatch):
    monkeypatch.setattr("tasks.dispatch.lane.BOXES_LOST", 4)
    lane.entries = (lane.machine.model_copy(update={"rent": object()}),)
    for lost_boxes in range(1, 5):
        lane.delivered(start(lane)[0].id)
        lost, given_up = lane.job_ended(True, "it hung up", JobEnd.TAKEN_AWAY)
        assert len(lost) == (10 - lost_boxes if lost_boxes < 4 else 0)
        lane.ask(lost, now=1.0)
    assert len(given_up) == 6 and "4 rented boxes were lost in this run" in given_up[0].reasons[0]
    assert {record.verdict for record in given_up} == {Verdict.PREEMPTED} and not lane.waiting


def test_rented_boxes_that_go_before_their_job_are_bounded_as_well(lane, monkeypatch):
    monkeypatch.setattr("tasks.dispatch.lane.BOXES_LOST", 2)
    lane.entries = (lane.machine.model_copy(update={"rent": object()}),)
    assert lane.box_gone("reclaimed", JobEnd.TAKEN_AWAY) == ([], [])
    assert len(lane.box_gone("reclaimed", JobEnd.TAKEN_AWAY)[1]) == 10
