"""Keep a proof: `python3 -m tests.gpu_proof.keep FOLDER` writes docs/gpu-proof.json and the table of docs/gpu-
proof.md.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.gpu_proof.bench import ROOT
from tests.gpu_proof.table import FAIL, NOT_RUN, OK, SHOWN

KEPT = ROOT / "docs" / "gpu-proof.json"
PAGE = ROOT / "docs" / "gpu-proof.md"
BEGIN, END = "<!-- proof -->", "<!-- /proof -->"
NEVER = "**It has never run on a GPU.** What this page says of its outcome is what is expected, not what was seen."
OF_THE_CARD = ("name", "count", "driver", "torch", "cuda", "cudnn", "python")


def shortened(proof: dict[str, Any]) -> dict[str, Any]:
    names = ("content_id", "date", "seconds", "card", "counts", "clocks", "rows")
    return {name: proof[name] for name in names}


def last() -> dict[str, Any] | None:
    return json.loads(KEPT.read_text()) if KEPT.is_file() else None


def told(proof: dict[str, Any] | None) -> str:
    if proof is None:
        return NEVER
    counts, card = proof["counts"], proof["card"]
    where = ", ".join(f"{name} {card[name]}" for name in OF_THE_CARD if card.get(name) is not None)
    asked = counts[OK] + counts[FAIL] + counts[NOT_RUN]
    head = f"Run on {proof['date']} in {proof['seconds']} s: {where}. The hash of `workloads/` was `{proof['content_id']}`."
    held = f"{counts[OK]} of {asked} hold, {counts[FAIL]} fail, {counts[NOT_RUN]} were not run, {counts[SHOWN]} are figures of which nothing was expected."
    lines = [
        f"| {state} | {_cell(subject)} | {_cell('; '.join(texts))} |"
        for (state, subject), texts in _noted(proof)
    ]
    return "\n".join(
        [head, held, _left_out(proof), "", "| | what | figures |", "| --- | --- | --- |", *lines]
    )


def _noted(proof: dict[str, Any]) -> Iterable[tuple[tuple[str, str], list[str]]]:
    """Return the texts of failed and shown rows, by state and subject."""
    texts: dict[tuple[str, str], list[str]] = {}
    for row in proof["rows"]:
        if row["state"] in (FAIL, SHOWN):
            subject, _, aspect = row["name"].partition(": ")
            text = f"{aspect} {row['text']}" if aspect else row["text"]
            texts.setdefault((row["state"], subject), []).append(" ".join(text.split()))
    return texts.items()


def _left_out(proof: dict[str, Any]) -> str:
    """Return the checks that were not run, with their number by stage and workload."""
    names = (row["name"].split()[:2] for row in proof["rows"] if row["state"] == NOT_RUN)
    found = Counter(" ".join(name).removeprefix("cases ") for name in names)
    text = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in found.items())
    return f"Not run, by workload or stage: {text or 'none'}. All rows are in `docs/gpu-proof.json`."


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").strip()


def with_proof(page: str, proof: dict[str, Any] | None) -> str:
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{told(proof)}\n{END}{rest.partition(END)[2]}"


def main(folder: str) -> None:
    proof = json.loads((Path(folder) / "proof.json").read_text())
    if proof["device"] != "cuda":
        sys.exit(f"{folder} is of a {proof['device']}: only what ran on a GPU is kept")
    KEPT.write_text(json.dumps(shortened(proof), indent=1) + "\n")
    PAGE.write_text(with_proof(PAGE.read_text(), last()))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("name the folder of a proof: python3 -m tests.gpu_proof.keep FOLDER")
    main(sys.argv[1])
