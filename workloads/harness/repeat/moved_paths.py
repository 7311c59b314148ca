"""Move paths in a script's arguments and variables to the copy."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from workloads.harness.repeat.folder_contents import is_within

# Characters before and after a path in a text; `//` is that of an address.
BEFORE = r"(?:^|(?<=[=:,;\"'\s\[({@])|(?<=//))"
AFTER = r"(?=$|[/:,;\"'\s\])}?&#])"


def moved(text: str, folder: str, copy: str, stay: Sequence[str] = ()) -> str:
    kept = f"(?!/(?:{'|'.join(map(re.escape, stay))}){AFTER})" if stay else ""
    for name in dict.fromkeys((folder, os.path.realpath(folder))):
        text = re.sub(f"{BEFORE}{re.escape(name)}{AFTER}{kept}", lambda _: copy, text)
    return text


def moved_word(word: str, folder: str, copy: str, stay: Sequence[str] = ()) -> str:
    """Move an argument, also one with links, `~` or `..` in it."""
    text = moved(word, folder, copy, stay)
    option, is_option, value = word.rpartition("=")
    path = os.path.expanduser(value)
    if text != word or not (os.path.isabs(path) or path.startswith("../")):
        return text
    root, there = os.path.realpath(folder), os.path.realpath(os.path.join(folder, path))
    inner = os.path.relpath(there, root)
    if not is_within(there, root) or any(is_within(inner, name) for name in stay):
        return text
    return f"{option}{is_option}{os.path.normpath(os.path.join(copy, inner))}"
