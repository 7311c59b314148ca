"""Watches on calls of torch's methods that leave no trace in the script's objects and tracebacks."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any


class WatchedMethod:
    """A method that notes its owner when it is looked up on an instance, as each call does first.

    No other frame encloses the real method, so tracebacks and the lines of warnings are the same without us.
    """

    def __init__(self, kind: type, name: str, note: Callable[[Any], None]) -> None:
        self._kind, self._name, self._note = kind, name, note
        self._real: Any = kind.__dict__[name]
        setattr(kind, name, self)

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if owner is not None:
            self._note(owner)
        return self._real.__get__(owner, kind)

    def remove(self) -> None:
        """Put the real method back, unless the script has put another one in its place."""
        if self._kind.__dict__.get(self._name) is self:
            setattr(self._kind, self._name, self._real)


class WatchedNumber:
    """An attribute of which `note` gets each new value with its instance, in whose dictionary it lies."""

    def __init__(self, kind: type, name: str, note: Callable[[Any, Any], None]) -> None:
        self._kind, self._name, self._note = kind, name, note
        setattr(kind, name, self)

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__[self._name] = value
        self._note(owner, value)

    def remove(self) -> None:
        if self._kind.__dict__.get(self._name) is self:
            delattr(self._kind, self._name)


class WatchedReading:
    """An attribute whose readings by one function are noted; others, as by `hasattr`, are not.

    On an instance it lies in the dictionary, as without us. `note` is called with the instance, or None if
    the class was asked, and with the function's frame.
    """

    def __init__(
        self, kind: type, name: str, reader: CodeType, note: Callable[[Any, FrameType], None]
    ) -> None:
        self._kind, self._name, self._reader, self._note = kind, name, reader, note
        self._real = kind.__dict__.get(name)
        self.put()

    def put(self) -> None:
        """Watch from now on, unless the script has put something else in the place."""
        if self._kind.__dict__.get(self._name) is self._real:
            setattr(self._kind, self._name, self)

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        frame = sys._getframe(1)
        if frame.f_code is self._reader:
            self._note(owner, frame)
        return self._value(owner)

    def _value(self, owner: Any) -> Any:
        if owner is None:
            return self._real
        if self._name in owner.__dict__:
            return owner.__dict__[self._name]
        raise AttributeError(f"{type(owner).__name__!r} object has no attribute {self._name!r}")

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__[self._name] = value

    def remove(self) -> None:
        """End the watch; the class and its instances keep their values."""
        if self._kind.__dict__.get(self._name) is not self:
            return
        if self._real is None:
            delattr(self._kind, self._name)
        else:
            setattr(self._kind, self._name, self._real)


class CompiledCalls:
    """A watch on the calls of compiled modules, from outside the compiled code."""

    def __init__(
        self,
        kind: Any,
        called: Callable[[Any, Any], Any],
        ended: Callable[[Any, Sequence[Any], Any], Any],
        is_compiling: Callable[[], bool],
    ) -> None:
        self._kind, self._real = kind, kind.__call__

        @functools.wraps(self._real)
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():  # a compiled function that calls the module is traced through this line
                return call.__wrapped__(module, *args, **kwargs)
            given = (*args, *kwargs.values())
            called(module, given)
            result = call.__wrapped__(module, *args, **kwargs)
            ended(module, given, result)
            return result

        self._watched = call

    def watch(self) -> None:
        self._kind.__call__ = self._watched

    def stop(self) -> None:
        if self._kind.__call__ is self._watched:
            self._kind.__call__ = self._real
