"""Compare two sets of records, case by case: speedups, their intervals and parts."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, geometric_mean

from workloads.command.output import say
from workloads.harness.records.case import Case
from workloads.harness.records.errors import RecordError, WorkloadsError
from workloads.harness.records.files import read_records
from workloads.harness.records.grade import counts
from workloads.harness.records.intervals import ratio_interval
from workloads.harness.records.record import Record
from workloads.harness.records.step_parts import (
    StepParts,
    cards_s,
    is_cards,
    mostly_by,
    step_parts,
    wait_text,
)
from workloads.harness.records.text import seconds, table
from workloads.harness.roofline.bounds import case_without_loader

HEAD = ["case", "base", "other", "speedup", "95 % interval", "verdict"]
PARTS_HEAD = ["by the card", "base's card waits", "other's card waits", "mostly by"]
Cells = Mapping[Case, Sequence[Record]]


def compare(options: argparse.Namespace) -> int:
    (base, base_sound), (other, other_sound) = (
        _of_one_machine(path) for path in (options.base, options.other)
    )
    print(comparison(base, other))
    return 0 if base_sound and other_sound else 1


def comparison(base: Sequence[Record], other: Sequence[Record]) -> str:
    """Tabulate the speedup of `other` over `base`; a sentence names each reason that is not the device's."""
    cases = list(dict.fromkeys(record.case for record in [*base, *other]))
    sides = [{case: _usable(side, case) for case in cases} for side in (base, other)]
    names = _names(base, other)
    rows, parts_rows, notes = [], [], []
    for case in cases:
        rows.append(_row(case, sides[0][case], sides[1][case]))
        split = _parts_row(case, sides[0], sides[1], names)
        parts_rows.append(split[0])
        notes += split[1]
    if any(row[0] != "–" for row in parts_rows):
        full = [[*row, *parts] for row, parts in zip(rows, parts_rows, strict=True)]
        return "\n".join([table([[*HEAD, *PARTS_HEAD], *full]), *notes])
    return table([HEAD, *rows])


def read(path: Path) -> tuple[list[Record], bool]:
    """Return a path's readable records, and whether all were readable."""
    records, sound = [], True
    for item in read_records(path):
        if isinstance(item, RecordError):
            say(f"error: {item}")
            sound = False
        else:
            records.append(item)
    if sound and not records:
        raise WorkloadsError(f"{path} holds no records; name a file of records or a run's folder")
    return records, sound


def _of_one_machine(path: Path) -> tuple[list[Record], bool]:
    records, sound = read(path)
    machines = list(dict.fromkeys(record.hardware for record in records))
    if len(machines) > 1:
        folders = (folder / machines[0] for folder in (path, path / "records"))
        example = next((f", such as {folder}" for folder in folders if folder.is_dir()), "")
        raise WorkloadsError(
            f"{path} holds records of {', '.join(machines)}; name a folder or a file of one machine{example}"
        )
    return records, sound


def _usable(records: Sequence[Record], case: Case) -> list[Record]:
    return [r for r in records if r.case == case and counts(r) and r.mean_s and r.mean_s > 0]


def _names(base: Sequence[Record], other: Sequence[Record]) -> tuple[str, str]:
    names = [next((record.hardware for record in side), "") for side in (base, other)]
    return ("base", "other") if names[0] == names[1] else (names[0], names[1])


def _row(case: Case, base: Sequence[Record], other: Sequence[Record]) -> list[str]:
    if not (base and other):
        states = ("ok" if side else "no valid record" for side in (base, other))
        return [case.id, *states, "–", "–", "unpaired"]
    sides = [_means_s(side) for side in (base, other)]
    means = [geometric_mean(side) for side in sides]
    ratio = ratio_interval(sides[0], sides[1])
    verdict = "undecided"
    if ratio is not None and (ratio.low > 1 or ratio.high < 1):
        verdict = "faster" if ratio.low > 1 else "slower"
    bounds = f"{ratio.low:.3g} – {ratio.high:.3g}" if ratio else "needs two repeats"
    return [case.id, *map(seconds, means), f"{means[0] / means[1]:.3g}x", bounds, verdict]


def _parts_row(case: Case, base: Cells, other: Cells, names: tuple[str, str]) -> tuple[list[str], list[str]]:
    before, after = _parts(case, base), _parts(case, other)
    cards = cards_s(base[case], other[case])
    if not (before and after and cards):
        return ["–"] * len(PARTS_HEAD), []
    ratio = geometric_mean(_means_s(base[case])) / geometric_mean(_means_s(other[case]))
    by_card = geometric_mean(cards[0]) / geometric_mean(cards[1])
    waits = [f"{parts.waiting_share:.0%}" for parts in (before, after)]
    cells = [f"{by_card:.3g}x", *waits, mostly_by(ratio, by_card, before, after)]
    if is_cards(ratio, by_card):
        return cells, []
    text = wait_text((names[0], before), (names[1], after))
    return cells, [f"{case.id}: {ratio:.3g}x, {by_card:.3g}x by the card: {text}."]


def _parts(case: Case, cells: Cells) -> StepParts | None:
    without = case_without_loader(case)
    plain = cells.get(without) if without else None
    return step_parts(cells[case], fmean(_means_s(plain)) if plain else None)


def _means_s(records: Sequence[Record]) -> list[float]:
    return [record.mean_s for record in records if record.mean_s]
