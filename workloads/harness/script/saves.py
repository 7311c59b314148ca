"""Calls of `torch.save` in loops, by the script's text."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

LOOPS = (ast.For, ast.AsyncFor, ast.While)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def main_saves_in_a_loop() -> bool:
    try:
        with open(sys.modules["__main__"].__file__ or "", "rb") as file:
            return saves_in_a_loop(file.read())
    except (AttributeError, OSError, SyntaxError, ValueError, RecursionError):
        return False


def saves_in_a_loop(source: str | bytes) -> bool:
    """Return whether a source calls `torch.save` in a loop, also by functions.

    Raises:
        SyntaxError, ValueError: it cannot be parsed.
    """
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    saving = {"torch.save"}
    while more := {node.name for node in functions if saving & {*_calls(node)}} - saving:
        saving |= more
    return any(saving & {*_calls(node)} for node in ast.walk(tree) if isinstance(node, LOOPS))


def _calls(node: ast.AST) -> Iterator[str]:
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            yield call.func.id
        elif isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            owner = call.func.value
            yield (
                "torch.save"
                if isinstance(owner, ast.Name) and owner.id == "torch" and call.func.attr == "save"
                else call.func.attr
            )
