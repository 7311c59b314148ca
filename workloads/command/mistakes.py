"""A parser that suggests the nearest name for a misspelt command, option or value."""

import argparse
from collections.abc import Sequence
from typing import Any, NoReturn

from workloads.harness.records.errors import hint

HIDDEN = ("repeat", "needs")  # commands for processes of this program


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` whose errors say what would be right."""

    _given: Sequence[str] = ()

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Exit with a sentence and code 2 for an unknown word; the options have the subcommand's `parser`."""
        options, rest = self.parse_known_args(args, namespace)
        if rest:
            parser = getattr(options, "parser", self)
            parser.error(f"{rest[0]} is unknown; {parser.option_hint(rest[0])}")
        return options

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given = tuple(args or ())
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        if "required" in message:
            known = self._option_string_actions
            words = (word.partition("=")[0] for word in self._given if word.startswith("--"))
            unknown = [word for word in words if not any(name.startswith(word) for name in known)]
            message += "".join(f"; {word} is unknown, {self.option_hint(word)}" for word in unknown[:1])
        super().error(message)

    def option_hint(self, word: str) -> str:
        return hint(word.partition("=")[0], [name for name in self._option_string_actions if name != "-h"])

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(name) for name in action.choices if name not in HIDDEN]
            raise argparse.ArgumentError(action, f"{value!r} is unknown; {hint(str(value), names)}")
