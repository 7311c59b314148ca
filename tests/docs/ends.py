"""Write the tables of lanes' ends in docs/ssh.md and docs/slurm.md: `python -m tests.docs.ends`.

They are made from the list of tests/infra/workers/ssh/ends.
"""

import re
from collections.abc import Iterator

from tests.docs.shown import DOCS
from tests.infra.workers.ssh.ends.ends import ENDS, End
from tests.infra.workers.ssh.ends.lanes import CONTAINERS, PROCESSES, SLURM

HEADS = {
    "ssh.md": "| what ends a job | state | message, in a container and without |",
    "slurm.md": "| what ends a lane | state | Slurm's state | cause |",
}
NOTHING = "–"


def code(word: str | None) -> str:
    return f"`{word}`" if word else NOTHING


def on_boxes(end: End) -> str:
    """Return a row about boxes."""
    said = {kind: end.said[kind] for kind in (CONTAINERS, PROCESSES) if kind in end.said}
    states = dict.fromkeys(code(each.state) for each in said.values())
    messages = [each.message for each in said.values()]
    if len(said) == 1:
        ((kind, only),) = said.items()
        messages = [f"{'In' if kind == CONTAINERS else 'Without'} a container: {only.message}"]
    elif messages[0] != messages[1]:
        messages[1] = f"Without a container: {messages[1]}"
    return f"| {end.what} | {', '.join(states)} | {' '.join(dict.fromkeys(messages))} |"


def on_slurm(end: End) -> str:
    """Return a row about Slurm."""
    said = end.said[SLURM]
    states = " or ".join(map(code, end.slurm_state.split(" or ")))
    return f"| {end.what} | {code(said.state)} | {states} | {code(said.cause)} |"


def lines(name: str) -> Iterator[str]:
    yield HEADS[name]
    yield re.sub(r"[^|]+", " --- ", HEADS[name])
    if name == "slurm.md":
        yield from (on_slurm(end) for end in ENDS.values() if SLURM in end.said)
    else:
        yield from (on_boxes(end) for end in ENDS.values() if messages_on_boxes(end))


def messages_on_boxes(end: End) -> list[str]:
    """Return an end's messages on boxes; none of a job that only exits, which the page states above."""
    said = [each.message for kind, each in end.said.items() if kind != SLURM]
    return [message for message in said if not message.startswith("The job ended with exit code")]


def with_table(name: str, text: str) -> str:
    old = re.compile(re.escape(HEADS[name].partition(" | ")[0]) + r" \|.*\n(\|.*\n)*")
    return old.sub(lambda _: "\n".join([*lines(name), ""]), text, count=1)


if __name__ == "__main__":
    for name in HEADS:
        page = DOCS / name
        page.write_text(with_table(name, page.read_text()))
