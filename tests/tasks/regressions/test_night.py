import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tasks.errors import GridbenchError
from tasks.planning.channel import Night
from tasks.regressions.explain import UNCONTROLLED
from tasks.regressions.gate_file import FILE, Ticket, read_verdicts, write_verdicts
from tasks.regressions.night import judge_night
from tasks.regressions.nightly_gate import SeriesState
from tasks.regressions.tickets import verdicts_of
from tasks.report.html.tickets import write_tickets
from tests.tasks.examples.nights import HERE, keep, measured, plan_of, run_name
from tests.tasks.examples.records import ENVIRONMENT, IMAGES, MATMUL
from workloads.harness.records.record import Verdict

NOISE = np.exp(np.random.default_rng(11).normal(0, 0.004, (2, 60)))
COUNT = 14


def one_night(results, number, slow=1.0, control=1.0, plan=None, **changes):
    """Write a night of two cases with 0.4 % noise; matmul is `slow` times as slow."""
    plan = plan or plan_of(number)
    factors = {MATMUL: slow * NOISE[0, number], IMAGES: NOISE[1, number]}
    records = [
        record
        for case, factor in factors.items()
        for record in measured(plan, factor, control and 2.0 * control, **changes)
        if record.case == case
    ]
    return keep(results, plan, records)


def fresh_runs(results, number, slow=1.0, control=1.0, of=None):
    night = Night(confirms=run_name(of if of is not None else number), cases=(MATMUL.id,))
    plan = plan_of(number, night, cases=(MATMUL,), run=f"{run_name(number)}-again")
    records = [
        replace(record, repeat=len(NOISE) * group + place)
        for group in range(5)
        for place, record in enumerate(measured(plan, slow * NOISE[0, -1 - group], 2.0 * control), start=1)
    ]
    return keep(results, plan.model_copy(update={"repeats": 10}), records)


@pytest.fixture
def quiet(tmp_path):
    for number in range(COUNT):
        one_night(tmp_path, number)
    return tmp_path


def judged(results, number):
    tonight = judge_night(results, run_name(number))
    return tonight, verdicts_of(tonight)


def test_quiet_nights_have_no_ticket(quiet):
    tonight, verdicts = judged(quiet, COUNT - 1)
    assert tonight.to_confirm == {} and not verdicts.tickets and not verdicts.odd
    assert {one.state for one in verdicts.series} == {SeriesState.WATCHING}
    assert verdicts.answer == "Nothing has got worse. 2 series: 2 watching."
    assert all(0.02 <= one.smallest_change < 0.10 for one in verdicts.series)


def test_a_slowdown_is_measured_again_then_filed_once(quiet):
    one_night(quiet, COUNT, slow=1.2)
    tonight, verdicts = judged(quiet, COUNT)
    assert tonight.to_confirm == {HERE: (MATMUL.id,)} and tonight.repeats == 5 * tonight.night.plan.repeats
    assert not verdicts.tickets and [one.state for one in verdicts.series].count(SeriesState.SUSPECT) == 1
    fresh_runs(quiet, COUNT, slow=1.2)
    tonight, verdicts = judged(quiet, COUNT)
    (ticket,) = verdicts.bad
    assert (ticket.kind, ticket.cases) == ("regression", (MATMUL.id,)) and 0.17 < ticket.share < 0.23
    assert verdicts.confirmations == (f"{run_name(COUNT)}-again",) and not tonight.to_confirm
    write_verdicts(tonight.night.folder, verdicts)
    assert read_verdicts(tonight.night.folder) == verdicts
    one_night(quiet, COUNT + 1, slow=1.2)
    later, after = judged(quiet, COUNT + 1)
    assert later.to_confirm == {} and not after.tickets


def test_a_slow_box_is_the_machine_and_no_ticket(quiet):
    """The frozen controls took longer, too."""
    one_night(quiet, COUNT, slow=1.3, control=1.3)
    fresh_runs(quiet, COUNT, slow=1.3, control=1.3)
    _, verdicts = judged(quiet, COUNT)
    (one,) = [one for one in verdicts.series if one.case == MATMUL.id]
    assert not verdicts.tickets and one.state is SeriesState.CLEARED
    assert any("the cause is the machine" in sentence for sentence in one.because)


def test_a_noisy_night_without_controls_makes_no_ticket_and_gives_the_reason(quiet):
    one_night(quiet, COUNT, slow=1.5, control=None, verdict=Verdict.NOISY)
    tonight, verdicts = judged(quiet, COUNT)
    assert tonight.to_confirm == {} and not verdicts.tickets
    assert {one.because for one in verdicts.series} == {("Tonight's verdict is noisy.",)}
    assert "2 of 2 series have no number tonight" in verdicts.answer


@pytest.mark.parametrize(
    ("verdict", "control"), [(Verdict.IMPRECISE, None), (Verdict.UNSTEADY, None), (Verdict.NOISY, 1.0)]
)
def test_a_wide_night_counts(quiet, verdict, control):
    one_night(quiet, COUNT, slow=1.5, control=control, verdict=verdict)
    tonight, verdicts = judged(quiet, COUNT)
    assert tonight.to_confirm == {HERE: (MATMUL.id,)}
    assert "have no number tonight" not in verdicts.answer
    one_night(quiet, COUNT + 1, verdict=Verdict.THROTTLED)
    assert "2 of 2 series have no number tonight" in judged(quiet, COUNT + 1)[1].answer


@pytest.mark.parametrize("table", [True, False])
def test_repeats_that_are_broken_beside_others_that_count_are_reported(quiet, table):
    plan = plan_of(COUNT)
    verdicts = {(MATMUL, 0): Verdict.WRONG, (IMAGES, 1): Verdict.THROTTLED}
    records = [replace(r, verdict=verdicts.get((r.case, r.repeat), r.verdict)) for r in measured(plan)]
    keep(quiet, plan, records, table)
    sentence = judged(quiet, COUNT)[1].odd[-1]
    assert sentence == (
        f"Some repeats failed in {HERE}/{MATMUL.id} (1 of 2: wrong): "
        f"`gridbench show {run_name(COUNT)}` lists the reasons."
    )
    one_night(quiet, COUNT + 1, verdict=Verdict.CRASHED)
    assert not any("Not every" in sentence for sentence in judged(quiet, COUNT + 1)[1].odd), "all are broken"


def test_three_nights_without_a_number_are_one_ticket(quiet):
    found = []
    for number in range(COUNT, COUNT + 5):
        one_night(quiet, number, verdict=Verdict.CRASHED)
        tonight, verdicts = judged(quiet, number)
        write_verdicts(tonight.night.folder, verdicts)
        found.append([ticket.kind for ticket in verdicts.tickets])
    assert found == [[], [], ["missing", "missing"], [], []]


def test_a_corrupt_gate_file_is_judged_once_more_and_nothing_is_filed_twice(quiet):
    one_night(quiet, COUNT, slow=1.2)
    fresh_runs(quiet, COUNT, slow=1.2)
    tonight, verdicts = judged(quiet, COUNT)
    one_night(quiet, COUNT + 1, slow=1.2)
    without = judged(quiet, COUNT + 1)[1]
    path = tonight.night.folder / FILE
    for content in ("{", '{"schema_version": 99, "run": "x", "channel": "main", "confirm_z": 1}', "[]"):
        path.write_text(content)
        _, after = judged(quiet, COUNT + 1)
        (sentence,) = after.odd
        assert "gate.json" in sentence and "judged once more" in sentence
        assert after.series == without.series and not after.tickets
    write_verdicts(tonight.night.folder, verdicts)
    assert judged(quiet, COUNT + 1)[1] == without


def test_another_driver_starts_anew(quiet):
    from tests.tasks.examples.nights import NEW_DRIVER

    one_night(quiet, COUNT, slow=1.5, environment=NEW_DRIVER)
    assert {one.state for one in judged(quiet, COUNT)[1].series} == {SeriesState.WARMING}


def test_a_run_that_is_no_night_is_refused_in_one_sentence(quiet):
    with pytest.raises(GridbenchError, match=r"run 2026 in .* is not a night that can be judged"):
        judge_night(quiet, "2026")


def test_nights_of_another_channel_are_not_compared(quiet):
    one_night(quiet, COUNT, slow=1.5, plan=plan_of(COUNT, Night(channel="torch-nightly")))
    tonight, verdicts = judged(quiet, COUNT)
    assert {one.state for one in verdicts.series} == {SeriesState.WARMING} and len(tonight.series) == 2


def test_a_ticket_is_a_page(quiet, tmp_path):
    one_night(quiet, COUNT, slow=1.2)
    fresh_runs(quiet, COUNT, slow=1.2)
    tonight, verdicts = judged(quiet, COUNT)
    (page,) = write_tickets(tonight.night.folder, tonight, verdicts)
    text = page.read_text()
    assert verdicts.tickets[0].sentence.split(" ")[0] in text and run_name(COUNT) in text
    assert text.count('<tr><th scope="row">') == 5 + COUNT + 1
    assert text.count("data:image/svg+xml;base64,") == 2
    assert json.loads(verdicts.model_dump_json())["tickets"][0]["kind"] == "regression"
    assert page.name == f"ticket-regression-{HERE}-matmul-n-5000-fp32.html"


def test_the_reasons_of_a_ticket_are_on_its_page(quiet):
    tonight, verdicts = judged(quiet, COUNT - 1)
    leak = Ticket(
        kind="leak", hardware=HERE, cases=(MATMUL.id,), sentence="It is slower.", because=(UNCONTROLLED,)
    )
    (page,) = write_tickets(quiet, tonight, verdicts.model_copy(update={"tickets": (leak,)}))
    assert page.read_text().count(UNCONTROLLED) == 1


def test_a_creeping_slowdown_is_reported_once_by_the_weekly_look(tmp_path):
    told = {}
    for number in range(56):
        one_night(tmp_path, number, slow=1.004 ** max(number - 21, 0))
        if number % 7 == 6 and number > 27:
            tonight, verdicts = judged(tmp_path, number)
            told[number] = [ticket for ticket in verdicts.tickets if ticket.kind == "leak"]
            write_verdicts(tonight.night.folder, verdicts)
    found = [ticket for tickets in told.values() for ticket in tickets]
    assert found and {ticket.cases for ticket in found} == {(MATMUL.id,)} and all(t.is_bad for t in found)
    assert len(found) <= 3 and found[0].since, [ticket.sentence for ticket in found]


def test_a_night_that_ended_before_its_verdict_is_filed_by_the_next(quiet):
    one_night(quiet, COUNT, slow=1.2)
    fresh_runs(quiet, COUNT, slow=1.2)
    one_night(quiet, COUNT + 1, slow=1.2)
    tonight, verdicts = judged(quiet, COUNT + 1)
    assert tonight.unfiled == (run_name(COUNT),) and not verdicts.tickets
    earlier, filed = judged(quiet, COUNT)
    assert [ticket.kind for ticket in filed.tickets] == ["regression"]
    write_verdicts(earlier.night.folder, filed)
    assert judged(quiet, COUNT + 1)[0].unfiled == ()


def test_a_suspect_that_could_not_be_measured_again_stays_a_suspect(quiet):
    one_night(quiet, COUNT, slow=1.2)
    store = fresh_runs(quiet, COUNT, slow=1.2)
    plan, (records, _) = store.plan, store.records()
    failed = [replace(record, verdict=Verdict.CAPACITY, wall=None) for record in records]
    shutil.rmtree(store.folder)
    keep(quiet, plan, failed)
    tonight, verdicts = judged(quiet, COUNT)
    assert tonight.to_confirm and SeriesState.CLEARED not in {one.state for one in verdicts.series}
    shutil.rmtree(store.folder)
    keep(quiet, plan, records[:2])
    (one,) = [one for one in judged(quiet, COUNT)[1].series if one.case == MATMUL.id]
    assert one.state is SeriesState.SUSPECT and "Too few fresh runs" in one.because[0]


def test_a_change_that_is_confirmed_late_names_the_commits_from_before_it_came(quiet):
    old, new = (
        {"environment": ENVIRONMENT | {"commit": letter * 40, "torch": t}} for letter, t in ("c3", "d4")
    )
    for number in (COUNT, COUNT + 1):
        one_night(quiet, number, slow=1.2, **new)
    fresh_runs(quiet, COUNT + 1, slow=1.2)
    (ticket,) = judged(quiet, COUNT + 1)[1].tickets
    assert f"git log {'c' * 12}..{'d' * 12}" in ticket.because
    assert any("torch" in sentence for sentence in ticket.because) and old != new


def test_a_night_without_any_number_is_reported(quiet):
    one_night(quiet, COUNT, verdict=Verdict.CRASHED)
    _, verdicts = judged(quiet, COUNT)
    assert verdicts.is_empty
    assert verdicts.answer.startswith("Nothing could be judged. 2 of 2 series have no number tonight.")


@pytest.mark.parametrize(
    "refused",
    [
        {"verdict": Verdict.NOISY, "probes": {"foreign_load_share": 0.9, "foreign_cores": 3.0}},
        {"verdict": Verdict.NOISY, "probes": {"foreign_load_share": 0.9, "foreign_cores": 3.0}, "control": 0},
        {"verdict": Verdict.THROTTLED},
        {"verdict": Verdict.IMPOSSIBLE},
    ],
)
def test_a_night_whose_repeats_are_all_refused_could_not_be_judged(quiet, refused):
    one_night(quiet, COUNT, **refused)
    _, verdicts = judged(quiet, COUNT)
    assert verdicts.is_empty and verdicts.answer.startswith("Nothing could be judged.")


def test_missing_is_told_late_where_the_third_night_was_not_judged(quiet):
    for number in range(COUNT, COUNT + 5):
        one_night(quiet, number, verdict=Verdict.CRASHED)
    tonight, verdicts = judged(quiet, COUNT + 4)
    assert [ticket.kind for ticket in verdicts.tickets] == ["missing", "missing"]
    write_verdicts(tonight.night.folder, verdicts)
    one_night(quiet, COUNT + 5, verdict=Verdict.CRASHED)
    assert not judged(quiet, COUNT + 5)[1].tickets
