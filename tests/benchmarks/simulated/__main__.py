"""Verdicts before and after their rules changed: `python -m tests.benchmarks.simulated [PART ...] [--write]`.

Each share is of N simulated runs (`--runs`), so its standard error is sqrt(share x (1 - share) / N).
`--write` puts rows into docs/statistics.md, in place of those of the same parts and worlds.
"""

import argparse
import contextlib

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
HEADING = ("| part | world | runs | before | after |", "| --- | --- | --- | --- | --- |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=[*PARTS], metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--world", default="", help="a part of the names of worlds")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    print(*HEADING, sep="\n", flush=True)
    for part in given.parts:
        print(caption(part), flush=True)
        for world, simulated in PARTS[part].worlds.items():
            if given.world in world:
                row = f"| {part} | {world} | {given.runs} | {' | '.join(simulated(given.runs))} |"
                print(row, flush=True)
                if given.write:
                    tables.written(PAGE, MARK, with_row(tables.lines(PAGE, MARK), row))


def caption(part: str) -> str:
    return f"| **{part}** | *{PARTS[part].counted}* | | | |"


def with_row(lines: list[str], row: str) -> list[str]:
    """Return the table's lines with a row, in the order of parts and worlds."""
    rows = {_key(line): line for line in [*lines, row]}
    ordered = [*HEADING]
    for name, part in PARTS.items():
        known = [rows[name, world] for world in part.worlds if (name, world) in rows]
        ordered += [caption(name), *known] if known else []
    return ordered


def _key(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split("|")[1:3])


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
