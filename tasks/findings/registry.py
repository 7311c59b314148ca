"""All findings: every subclass of `Finding` in a file of this folder, or of one in it."""

import pkgutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module

import tasks.findings
from tasks.results.finding import Finding, Results


@cache
def kinds() -> tuple[type[Finding], ...]:
    """Return every kind of finding, in the order of a report."""
    return tuple(sorted(_members(), key=lambda kind: (kind.order, kind.name)))


def find_all(results: Results) -> tuple[Finding, ...]:
    """Return one finding of every kind."""
    return tuple(kind.find(results) for kind in kinds())


def _members() -> Iterator[type[Finding]]:
    for file in pkgutil.walk_packages(tasks.findings.__path__, "tasks.findings."):
        for value in vars(import_module(file.name)).values():
            if isinstance(value, type) and issubclass(value, Finding) and value.__module__ == file.name:
                yield value
