import pytest

from tests.benchmarks.simulated.__main__ import HEADING, MARK, PAGE, PARTS, caption, with_row
from tests.benchmarks.simulated.intervals import sources
from tests.docs import tables

QUICK = ("gate", "sessions", "several sessions", "turns", "together", "two states")


def test_a_row_takes_the_place_of_its_earlier_one_in_the_order_of_parts_and_worlds():
    (first, second, *_), later = PARTS["gate"].worlds, next(iter(PARTS["turns"].worlds))
    rows = [f"| {world} (9 runs) | a |" for world in (first, second)]
    last = f"| {later} | a |"
    lines = with_row(with_row(with_row([], "turns", last), "gate", rows[1]), "gate", rows[0])
    assert lines[len(HEADING) :] == [caption("gate"), *rows, caption("turns"), last]
    again = rows[0].replace("| a |", "| c |")
    assert with_row(lines, "gate", again)[len(HEADING) + 1] == again


def test_the_page_has_no_row_of_a_world_that_is_not_simulated():
    lines = tables.lines(PAGE, MARK)
    first, *_ = [line for line in lines[len(HEADING) :] if not line.startswith("| **")]
    assert with_row(lines, lines[len(HEADING)].split("**")[1], first) == lines
    assert not any("runs) |" in line for line in lines)


def test_the_page_names_the_source_of_each_statistic():
    assert tables.lines(PAGE, "sources")[2:] == [*sources()]


@pytest.mark.parametrize("part", QUICK)
def test_a_part_has_a_cell_before_and_after(part):
    world = next(iter(PARTS[part].worlds.values()))
    before, after = world(2)
    assert any(letter.isdigit() for letter in before) and any(letter.isdigit() for letter in after)
