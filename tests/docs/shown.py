"""The commands that a page shows, in its blocks and in the first column of its tables."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DIGEST = "sha256:" + "0" * 64


def commands_of(page: Path) -> list[str]:
    """Return a page's command lines in order, without comments, placeholders filled."""
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
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    (block,) = [block for language, block in blocks if not language and block.startswith(first)]
    return [re.sub(r"\s+#.*", "", line) for line in block.splitlines() if line]


def filled(command: str) -> str:
    """Return a command with its placeholders filled."""
    for shown, own in (
        ("@sha256:…", f"@{DIGEST}"),
        ("REGISTRY/…", "registry.example/gridbench"),
        ("HOST/", "registry.example/"),
        ("secret_…", "secret_of_tests"),
    ):
        command = command.replace(shown, own)
    return command
