"""The lines of a run that is under way: finished cells with their time, elapsed and remaining time."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from prefect.states import Completed, Failed, Running

from gridbench.run.follow import cell_text, progress_text

CELL = "local-cpu/matmul/n=500/fp32"


def cell(state, name=CELL):
    state.timestamp = datetime(2026, 11, 26, tzinfo=UTC)
    return SimpleNamespace(name=name, state=state)


@pytest.mark.parametrize(
    ("state", "words", "others"),
    [
        (Completed(name="Ok", message="1.23 ms ± 0.8 %, 3 repeats"), ["1.23 ms ± 0.8 %"], ["Ok"]),
        (
            Completed(name="Noisy", message="1.23 ms ± 4 %, 3 repeats; others took 2 CPUs"),
            ["1.23 ms ± 4 %", "(noisy)"],
            ["others"],
        ),
        (Failed(name="OutOfMemory", message="tried 6 GB"), ["OutOfMemory", "tried 6 GB"], ["±"]),
    ],
)
def test_a_finished_cell_has_its_time_before_its_verdict(state, words, others):
    text = cell_text(cell(state))
    places = [text.index(word) for word in words]
    assert text.startswith(CELL) and places == sorted(places)
    assert not any(word in text for word in others)


def test_the_remaining_time_follows_the_plan_and_then_the_finished_cells():
    waiting, done = cell(Running()), cell(Completed(name="Ok", message="1 s"))
    assert "about 90.0 s left" in progress_text([waiting] * 10, 10.0, 100.0)
    assert "5 of 10 cells, 60.0 s elapsed, about 60.0 s left" in progress_text(
        [done] * 5 + [waiting] * 5, 60.0, 1.0
    )
    assert "left" not in progress_text([done], 60.0, 100.0)
    assert "left" not in progress_text([waiting] * 10, 60.0, None)


def test_the_remaining_time_counts_the_repeats_before_the_last_and_the_slowest_lane():
    waiting, done = cell(Running()), cell(Completed(name="Ok", message="1 s"))
    assert "about 20.0 s left" in progress_text([done] + [waiting] * 4, 105.0, 1.0, repeats=5)
    slower = cell(Running(), "other/matmul/n=500/fp32")
    assert "about 95.0 s left" in progress_text([done, waiting, slower], 105.0, 200.0, repeats=5)
