"""Whether each machine of a run is as good as others of its kind."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from tasks.findings.acceptance.advice import PUBLISHED, TOLERATED, Advice, Held, MachineAdvice, advise
from tasks.findings.acceptance.population import member_of, members_of
from tasks.findings.acceptance.prediction import CONFIDENCE, FALSE_RETURNS, FEWEST
from tasks.results.finding import Finding, Results
from tasks.results.format import capitalised, format_count, format_ratio, listed, significant
from tasks.results.table import Column, Mark, Quantity, Table
from tasks.results.values import RatioVerdict

COLUMNS = (
    Column("Machine", Quantity.MACHINE),
    Column("Advice", Quantity.VERDICT),
    Column("Measure"),
    Column("Compared with"),
    Column("Relative time", Quantity.RATIO),
    Column("Slow above", Quantity.RATIO),
    Column("Good machines as slow", Quantity.SHARE),
    Column("Standing", Quantity.VERDICT),
)
LEAD = (
    "Siblings are other machines with the same card and stack. A measure is the time per step "
    "(after the soak, if there is one) or the share that the soak adds; it is compared with the typical sibling's."
)
MARKS = {
    Advice.KEEP: Mark("keep", RatioVerdict.FASTER),
    Advice.RETURN: Mark("return", RatioVerdict.SLOWER),
    Advice.UNDECIDED: Mark("undecided", RatioVerdict.UNDECIDED),
}
LONGEST = "longest time that its card's published rates allow"
FARTHEST = 1e-6
SURE = 0.5 + CONFIDENCE / 2  # for one bound of an interval
EXIT_CODES = {Advice.KEEP: 0, Advice.UNDECIDED: 3, Advice.RETURN: 4}  # the gravest is the highest


@dataclass(frozen=True, slots=True)
class Acceptance(Finding):
    """The advice on each machine of a run that asks for it."""

    name = "acceptance"
    title = "Keep or return"
    section = "machines"
    order = 5
    machines: tuple[MachineAdvice, ...]

    @classmethod
    def find(cls, results: Results) -> "Acceptance":
        if results.population is None:
            return cls(())
        cells = {
            machine.name: [cell for cell in results.suite_cells if cell.cell.hardware == machine.name]
            for machine in results.machines
        }
        here = {name: member_of(of_machine) for name, of_machine in cells.items() if of_machine}
        earlier = members_of(results.population)
        boxes = {member.box for member in here.values()}
        others = [*here.values(), *(member for member in earlier if member.box not in boxes)]
        return cls(
            tuple(
                advise(machine, cells[machine.name], here[machine.name], others)
                for machine in results.machines
                if machine.name in here
            )
        )

    @property
    def exit_code(self) -> int:
        """Return 0 to keep all machines, 4 to return one, else 3."""
        return max((EXIT_CODES[machine.advice] for machine in self.machines), default=0)

    def table(self) -> Table | None:
        rows = tuple(
            (
                machine.hardware,
                MARKS[machine.advice],
                held.name,
                held.against or None,
                held.ratio,
                held.limit,
                held.chance,
                _standing(machine, held),
            )
            for machine in self.machines
            for held in machine.held or (Held("–"),)
        )
        notes = tuple(note for machine in self.machines for note in _notes(machine))
        return Table(COLUMNS, rows, LEAD, notes) if rows else None

    def headline(self) -> tuple[str, ...]:
        if len(self.machines) == 1:
            return (_line(self.machines[0]),)
        groups = {a: [m.hardware for m in self.machines if m.advice is a] for a in Advice}
        words = {Advice.RETURN: "return", Advice.KEEP: "keep", Advice.UNDECIDED: "undecided:"}
        parts = [f"{word} {listed(groups[a])}" for a, word in words.items() if groups[a]]
        return (f"{capitalised('; '.join(parts))}.",) if parts else ()

    def details(self) -> tuple[str, ...]:
        return tuple(map(sentence, self.machines))

    def published(self) -> dict[str, Any]:
        return {"acceptance": [asdict(each) | {"advice": str(each.advice)} for each in self.machines]}


def _line(machine: MachineAdvice) -> str:
    if machine.advice is Advice.KEEP:
        return f"Keep {machine.hardware}: {format_count(len(machine.compared), 'measure')} as expected."
    if machine.advice is Advice.UNDECIDED:
        return f"Undecided whether to keep {machine.hardware}."
    if machine.fatal:
        return f"Return {machine.hardware}: {machine.fatal[0].partition(':')[0]}."
    if machine.wrong:
        return f"Return {machine.hardware}: wrong results in {format_count(len(machine.wrong), 'measure')}."
    worst = machine.slow[0]
    limit = "the slowest published rate" if worst.against == PUBLISHED else "its typical sibling"
    return f"Return {machine.hardware}: {worst.name} takes {format_ratio(worst.ratio)} the time of {limit}."


def sentence(machine: MachineAdvice) -> str:
    if machine.advice is Advice.RETURN:
        return f"Return {machine.hardware}: {_why_return(machine)}."
    if machine.advice is Advice.KEEP:
        names = [held.name for held in machine.held if not held.against]
        others = f"; not compared: {', '.join(names)}" if names else ""
        return f"Keep {machine.hardware}: {_why_keep(machine)}{others}."
    return f"Undecided whether to keep {machine.hardware}: {'; '.join(_why_undecided(machine))}."


def _why_return(machine: MachineAdvice) -> str:
    if machine.fatal:
        return "; ".join(machine.fatal)
    if machine.wrong:
        return (
            f"wrong results in {', '.join(machine.wrong)}, although other repeats or siblings have right ones"
        )
    worst, *more = machine.slow
    also = f"; also slow: {', '.join(held.name for held in more)}" if more else ""
    takes = f"{worst.name} takes {format_ratio(worst.ratio)} the"
    if worst.against == PUBLISHED:
        return f"{takes} {LONGEST}{also}"
    measures = len(machine.compared)
    odds = _odds(min(1.0, (worst.chance or 0.0) * measures))
    return (
        f"{takes} time of the typical one of its {machine.siblings} siblings{also}; {odds} good machines is as slow "
        f"in any of {format_count(measures, 'measure')}, and the limit is {_odds(FALSE_RETURNS)}"
    )


def _why_keep(machine: MachineAdvice) -> str:
    count = format_count(len(machine.compared), "measure")
    if machine.compared[0].against == PUBLISHED:
        return (
            f"{count} within the published rates of its card, which reveal only gross faults; "
            f"{FEWEST} siblings would show more"
        )
    highest = max(held.ratio.high or math.inf for held in machine.compared if held.ratio)
    most = f"at most {significant(100 * (highest - 1), 2)} % slower" if highest > 1 else "not slower"
    siblings = format_count(machine.siblings, "sibling")
    return (
        f"in each of {count} it is {most} than the typical one of its {siblings}, with {100 * SURE:g} % "
        f"confidence; at most {_odds(1 - SURE)} machines that are {100 * (TOLERATED - 1):.0f} % slower in one is kept"
    )


def _why_undecided(machine: MachineAdvice) -> Iterator[str]:
    if machine.without_number:
        yield f"no valid result for {', '.join(machine.without_number)}; measure it again"
    if not machine.compared:
        yield _nobody(machine)
    for held in machine.open[:1]:
        takes = f"{held.name} takes {format_ratio(held.ratio)} the"
        if held.is_slow:
            over = LONGEST if held.against == PUBLISHED else "time of its typical sibling"
            yield f"{takes} {over}, but {_load(held)}"
        elif held.against == PUBLISHED:
            yield f"{takes} {LONGEST}; more repeats would decide"
        else:
            yield (
                f"{takes} time of the typical one of its {machine.siblings} siblings: not above "
                f"{significant(held.limit or 0.0, 3)}× (slow), but not shown to be below {TOLERATED:.2f}× (good); "
                "more siblings or repeats would decide"
            )


def _load(held: Held) -> str:
    if held.is_busy:
        return "other programs used the machine meanwhile; measure it again on an idle machine"
    return "the CPU's speed varied meanwhile, as it does next to another VM's load; measure it again"


def _nobody(machine: MachineAdvice) -> str:
    if not machine.kind:
        return "its records do not name its card and stack, so it cannot be compared"
    few = f"{machine.siblings} of the {FEWEST} siblings needed" if machine.siblings else "no sibling"
    more = f"{FEWEST - machine.siblings}{' more' if machine.siblings else ''}"
    return (
        f"no machine to compare with: these results have {few}, and its card has no published rates; "
        f"the same suite on {more} of its kind ({machine.kind}) would decide"
    )


def _notes(machine: MachineAdvice) -> Iterator[str]:
    if machine.kind:
        siblings = format_count(machine.siblings, "sibling")
        yield f"{machine.hardware}: {machine.kind}; compared with {siblings}."
    if machine.faults:
        yield f"{machine.hardware}: reported by its cards: {'; '.join(machine.faults)}."
    if machine.left_out:
        yield f"{machine.hardware}: siblings left out because they are slow: {', '.join(machine.left_out)}."


def _standing(machine: MachineAdvice, held: Held) -> Mark | None:
    if held in machine.slow:
        return Mark("slow", RatioVerdict.SLOWER)
    if not held.against:
        return None
    is_open = held in machine.open
    return Mark("undecided", RatioVerdict.UNDECIDED) if is_open else Mark("fine", RatioVerdict.FASTER)


def _odds(chance: float) -> str:
    """Return such as `1 in 100`; no distribution is known beyond one in a million."""
    return f"1 in {round(1 / chance):,}" if chance > FARTHEST else f"fewer than 1 in {round(1 / FARTHEST):,}"
