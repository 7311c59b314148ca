"""How often verdicts are wrong, now and at d1e4668: `python -m tests.benchmarks.simulated [PART ...] [--write]`.

Each share is of N simulated runs (`--runs`), so its standard error is sqrt(share x (1 - share) / N).
`--write` puts today's rows into docs/statistics.md, in place of those of the same parts and worlds.
"""

import argparse
import contextlib
import re
from collections.abc import Iterator

from tests.benchmarks.simulated import controls, modes, nights, samples, sessions, several, turns, verdicts
from tests.docs import tables

PARTS = {
    "gate": verdicts.gate(),
    "sessions": sessions.one_session(),
    "several sessions": several.part(),
    "turns": turns.part(),
    "together": verdicts.together(),
    "samples": samples.part(),
    "power limit": samples.power_limit(),
    "two states": modes.part(),
    "nights": nights.part(),
    "young controls": controls.young_controls(),
}
PAGE, MARK = "statistics.md", "verdicts"
HEADING = ("| world | result |", "| --- | --- |")
USUAL_RUNS = 1000  # a row states other numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=[*PARTS], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--world", default="", help="a part of the names of worlds")
    parser.add_argument("--runs", type=int, default=USUAL_RUNS)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for part in given.parts:
        print(f"{part}: {PARTS[part].counted}", flush=True)
        for world, simulated in PARTS[part].worlds.items():
            if given.world in world:
                before, after = simulated(given.runs)
                print(f"  {world}: before {before}; now {after}", flush=True)
                if given.write:
                    runs = "" if given.runs == USUAL_RUNS else f" ({given.runs} runs)"
                    row = f"| {world}{runs} | {after} |"
                    tables.written(PAGE, MARK, with_row(tables.lines(PAGE, MARK), part, row))


def caption(part: str) -> str:
    return f"| **{part}**: *{PARTS[part].counted}* | |"


def with_row(lines: list[str], part: str, row: str) -> list[str]:
    """Return the table's lines with a row, in the order of parts and worlds."""
    rows = dict(_by_world([*lines, caption(part), row]))
    ordered = [*HEADING]
    for name, found in PARTS.items():
        known = [rows[name, world] for world in found.worlds if (name, world) in rows]
        ordered += [caption(name), *known] if known else []
    return ordered


def _by_world(lines: list[str]) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the rows of a table with their part, named by the last caption above, and world."""
    part = ""
    for line in lines:
        if line.startswith("| **"):
            part = line.split("**")[1]
        else:
            yield (part, re.sub(r" \(\d+ runs\)$", "", line.split("|")[1].strip())), line


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
