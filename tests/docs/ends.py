"""Write the tables of docs/ssh.md and docs/slurm.md that say what each end of a lane is called: `python -m tests.docs.ends`.

They are made from the list that the suite of ends goes through (tests/infra/workers/ssh/ends).
"""

import re
from collections.abc import Iterator

from tests.docs.shown import DOCS
from tests.infra.workers.ssh.ends.ends import ENDS, End
from tests.infra.workers.ssh.ends.lanes import CONTAINERS, KINDS, PROCESSES, SLURM

HEADS = {
    "ssh.md": "| what ends a job | state | message, in a container and without |",
    "slurm.md": "| what ends a lane | in a container | as processes | on Slurm | Slurm's state | cause |",
}
NOTHING = "–"


def code(word: str | None) -> str:
    return f"`{word}`" if word else NOTHING


def on_boxes(end: End) -> str:
    """An end as a page about boxes has it."""
    said = {kind: end.said[kind] for kind in (CONTAINERS, PROCESSES) if kind in end.said}
    states = dict.fromkeys(code(each.state) for each in said.values())
    messages = [each.message for each in said.values()]
    if len(said) == 1:
        ((kind, only),) = said.items()
        messages = [f"{'In' if kind == CONTAINERS else 'Without'} a container: {only.message}"]
    elif messages[0] != messages[1]:
        messages[1] = f"Without a container: {messages[1]}"
    return f"| {end.what} | {', '.join(states)} | {' '.join(dict.fromkeys(messages))} |"


def on_all(end: End) -> str:
    """An end as a page about all kinds of lanes has it."""
    states = [code(end.said[kind].state) if kind in end.said else NOTHING for kind in KINDS]
    causes = {kind: code(end.said[kind].cause) for kind in reversed(KINDS) if kind in end.said}
    first, *others = dict.fromkeys(causes.values())
    cause = "; on a box ".join([first, *others])
    slurm = " or ".join(map(code, end.slurm_state.split(" or ")))
    return f"| {end.what} | {' | '.join(states)} | {slurm} | {cause} |"


def lines(name: str) -> Iterator[str]:
    """The lines of a page's table."""
    yield HEADS[name]
    yield re.sub(r"[^|]+", " --- ", HEADS[name])
    if name == "slurm.md":
        yield from map(on_all, ENDS.values())
    else:
        yield from (on_boxes(end) for end in ENDS.values() if end.said.keys() != {SLURM})


def with_table(name: str, text: str) -> str:
    """A page's text with its table as the suite has it."""
    old = re.compile(re.escape(HEADS[name].partition(" | ")[0]) + r" \|.*\n(\|.*\n)*")
    return old.sub(lambda _: "\n".join([*lines(name), ""]), text, count=1)


if __name__ == "__main__":
    for name in HEADS:
        page = DOCS / name
        page.write_text(with_table(name, page.read_text()))
