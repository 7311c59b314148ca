"""The commands that a page shows: in its blocks, and in the first column of its tables."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DIGEST = "sha256:" + "0" * 64


def commands_of(page: Path) -> list[str]:
    """Return each command line of a page in its order, without comments; what stands for a name is a name."""
    lines, fenced = [], False
    for line in page.read_text().splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced:
            lines.append(line.strip())
        elif line.startswith("| `"):
            lines += re.findall(r"`([^`]+)`", line.split(" | ")[0])
    return [filled(re.sub(r"\s+#.*", "", line)) for line in lines if line]


def block_of(page: Path, first: str) -> list[str]:
    """Return the commands of the block that begins with `first`."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    blocks = [block for language, block in fenced if not language]  # what is printed is marked as text
    (block,) = [block for block in blocks if block.startswith(first)]
    return [re.sub(r"\s+#.*", "", line) for line in block.splitlines() if line]


def filled(command: str) -> str:
    """Return a command with something where the page leaves a place for the reader's own."""
    for shown, own in (
        ("@sha256:…", f"@{DIGEST}"),
        ("REGISTRY/…", "registry.example/gridbench"),
        ("HOST/", "registry.example/"),
        ("secret_…", "secret_of_tests"),
    ):
        command = command.replace(shown, own)
    return command
