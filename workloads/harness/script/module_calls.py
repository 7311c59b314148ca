"""Watches on the calls of all modules of a script: none lies in a module, and Dynamo sees none.

`Module._call_impl` looks at four dictionaries of torch in each call: the hooks of all modules. Others stand
in their places here. Torch asks these for their truth and their items. Dynamo counts the items that a
dictionary itself holds: none.
"""

from __future__ import annotations

import _thread
import sys
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import attrgetter
from threading import get_ident
from types import CodeType, FrameType
from typing import Any

FIRST_CALLS = 50  # that are seen on torch's own way; a script that trains nothing in them probably only calls
FIRST_S = 0.05  # of the calling thread, in which others that wait for Python's lock would call too
VISIT, RESULT = "visit", "result"  # keys of hooks
OWN_HOOKS = (  # of a module, which `Module._call_impl` looks at before the hooks of all modules
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks",
    "_forward_pre_hooks",
)
Called = Callable[[Any, Any], Any]


class StandIn(OrderedDict[Any, Any]):
    """A dictionary in the place of an empty one of torch, by its name.

    It stays there once the script registers a hook, which then lies in it.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name, self._torchs = name, None
        self._names: dict[str, Any] = {}  # of torch's module

    @property
    def present(self) -> Any:
        return self._names.get(self._name)

    def put(self) -> bool:
        names = self._names = self._names or vars(_torchs_module())
        present = names[self._name]
        if present is not self and not present:
            self._torchs = present
            names[self._name] = self
        return names[self._name] is self

    def take(self) -> None:
        if self.present is self and not len(self):
            self._names[self._name] = self._torchs


class HiddenHooks(StandIn):
    """Hooks of all modules by key, which Dynamo does not see unless the script has such hooks itself.

    Torch asks for their truth and their items in each call, so both answers are C functions in attributes.
    """

    __bool__: Any = property(attrgetter("_truth"))

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._hooks: dict[str, Any] = {}
        self._truth = True.__bool__
        vars(self)["items"] = self._hooks.items

    def __setitem__(self, key: Any, hook: Any) -> None:
        super().__setitem__(key, hook)
        vars(self)["items"] = self._all_items

    def _all_items(self) -> Any:
        return *self._hooks.items(), *super().items()

    def add(self, key: str, hook: Any) -> None:
        self._hooks[key] = hook
        if self._names.get(self._name) is not self and not self.put():
            self.present[key] = hook

    def drop(self, key: str) -> None:
        self._hooks.pop(key, None)
        present = self._names.get(self._name)
        if present is self and not self._hooks:
            if not len(self):
                self._names[self._name] = self._torchs
        elif present is not None and present is not self:
            present.pop(key, None)

    def has(self, key: str) -> bool:
        return key in self._hooks


class _AskedFor(StandIn):
    """A watch on calls in place of the empty dictionary of backward hooks, which torch asks for its truth.

    The frame that asks has the module and its arguments, and the call goes on through the same lines of torch
    as without us. Each call of an inner module takes about 1 µs longer.
    """

    def __init__(self, called: Called) -> None:
        super().__init__("_global_backward_hooks")
        self._called = called
        self.watches = False
        self._sees_inner = 0  # the thread that wants to see the calls within its present call
        self._codes: tuple[Any, ...] = ()  # of `Module._call_impl`, and of the functions within it

    def watch(self) -> None:
        code = _call_code()
        self._codes = code, *(part for part in code.co_consts if isinstance(part, CodeType))
        self.watches = self.put()

    def stop(self) -> None:
        self.watches = False
        self.take()

    def __bool__(self) -> bool:
        """Return whether there are hooks, and note the call in which torch asks."""
        frame = sys._getframe(1)
        if self.watches and frame.f_code in self._codes and self._is_seen(frame):
            there = frame.f_locals
            if not self._asks_again(frame, there["self"]):
                is_enough = self._called(there["self"], (*there["args"], *there["kwargs"].values()))
                self._sees_inner = 0 if is_enough else get_ident()
        return len(self) > 0

    def _is_seen(self, frame: FrameType) -> bool:
        return self._sees_inner == get_ident() or self._is_outermost(frame)

    def _asks_again(self, frame: FrameType, module: Any) -> bool:
        """Return whether torch asks for the second time in a call, as if only all modules have hooks."""
        others = _torchs_module()._global_backward_pre_hooks, *(getattr(module, name) for name in OWN_HOOKS)
        return frame.f_code is not self._codes[0] and not any(others)

    def _is_outermost(self, frame: FrameType) -> bool:
        call, *_ = self._codes
        above = frame.f_back
        if frame.f_code is not call and above is not None:
            above = above.f_back  # the frame asked from is within the call's own
        while above is not None and above.f_code is not call:
            above = above.f_back
        return above is None


class _AskedOnError(StandIn):
    """A note of calls that raise, in place of the empty forward hooks, whose items torch asks for then."""

    def __init__(self, raised: Callable[[Any], None]) -> None:
        super().__init__("_global_forward_hooks")
        self._raised = raised

    def items(self) -> Any:
        frame = sys._getframe(1)
        if frame.f_code is _call_code():
            self._raised(frame.f_locals["self"])
        return super().items()


class OutermostCalls:
    """A watch on the outermost calls of modules in each thread.

    If the first calls all come from one thread, later ones are seen by a hook of all modules. It takes 2 µs
    of each call, so it takes itself away while an outermost call runs, and comes back when that call ends:
    `Module._call_impl` keeps the last hook that it has called in a variable, which goes with the call. If the
    call raises, the script can keep the error, and with it the variable; then the hook comes back before.
    When other threads call, the first calls are counted anew.

    Args:
        called: called with a module and its arguments when a call begins; returns True if the calls within
            are not to be seen. After the first calls it gets no keyword arguments.
        called_again: the same without a guard, after the first calls; it returns False if `called` has to be.
        hooks: in place of torch's forward pre-hooks.
    """

    def __init__(self, called: Called, called_again: Called, hooks: HiddenHooks) -> None:
        self._called, self.called_again, self.hooks = called, called_again, hooks
        self._first, self._errors = _AskedFor(self._first_called), _AskedOnError(self._raised)
        self._watches, self.visits = False, False
        self._count, self.threads, self._begun_s = 0, 0, 0.0
        self.thread = 0  # of the last call
        self._has_failed = False  # the hook does not come back, or several threads call
        self._callers = set[int]()
        self._is_noted = False  # the call that begins, by the watch on first calls
        self.module: Any = None  # a weak reference to the module whose outermost call the hook has seen last

    def watch(self) -> None:
        self._watches, self._count, self._has_failed, self.module = True, 0, False, None
        self._callers.clear()
        self._first.watch()
        if not self._first.watches:  # the script has backward hooks of all modules itself
            self._callers.add(get_ident())
            self._begin_visits()
            self.threads = _thread._count()

    def stop(self) -> None:
        self._watches = False
        self._first.stop()
        self._end_visits()

    def comes(self) -> None:
        if self.visits and not self.hooks.has(VISIT):
            self.hooks.add(VISIT, _Visit(self))

    def begins(self, module: Any, args: Any) -> None:
        if self._visited(module, args) and self.visits:
            if self.module is None or self.module() is not module:
                self.module = weakref.ref(module)
            self.thread = get_ident()
            self.hooks.drop(VISIT)

    def _first_called(self, module: Any, args: Any) -> Any:
        self._callers.add(get_ident())
        self._count += 1
        if self._count == 1:
            self._begun_s = time.thread_time()
        if self.visits:
            self._end_trial()
        elif self._count >= FIRST_CALLS and not self._has_failed and self._is_alone():
            self._begin_visits()
        return self._called(module, args)

    def _is_alone(self) -> bool:
        return len(self._callers) == 1 and time.thread_time() - self._begun_s >= FIRST_S

    def _end_trial(self) -> None:
        if len(self._callers) == 1 and self.hooks.has(VISIT):
            self._first.stop()
            self._is_noted, self.threads, self.module = True, _thread._count(), None
        else:
            self._end_visits()
            self._has_failed = True

    def _visited(self, module: Any, args: Any) -> Any:
        if self._first.watches or self._is_noted:  # which have seen this call already
            self._is_noted = False
            return True
        if get_ident() not in self._callers or _thread._count() != self.threads:
            self._end_visits()
            self.watch()
        return self._called(module, args)

    def _raised(self, module: Any) -> None:
        if self.module is not None and self.module() is module:
            self.comes()

    def _begin_visits(self) -> None:
        self.visits = True
        self._errors.put()
        self.comes()

    def _end_visits(self) -> None:
        if self.visits:
            self.visits = False
            self.hooks.drop(VISIT)
            self._errors.take()


class _Visit:
    """The hook of all modules; its end puts a new one in its place."""

    __slots__ = ("_calls",)

    def __init__(self, calls: OutermostCalls) -> None:
        self._calls = calls

    def __call__(self, module: Any, args: Any) -> None:
        calls = self._calls
        if (
            calls.module is not None
            and calls.module() is module
            and get_ident() == calls.thread
            and _thread._count() == calls.threads
            and calls.called_again(module, args)
        ):
            calls.hooks.drop(VISIT)
        else:
            calls.begins(module, args)

    def __del__(self) -> None:
        calls = self._calls
        if calls.visits and not calls.hooks.has(VISIT):
            calls.hooks.add(VISIT, _Visit(calls))


class CallsWithResults:
    """A watch on the outermost calls of modules in each thread, with their results, by hooks of all modules.

    The hooks take 4 µs of each call of a module, so they stay for a few steps only. `skips` returns True if a
    call is not one of a model.
    """

    def __init__(
        self,
        called: Callable[[Any, Sequence[Any], Any], None],
        skips: Callable[[], bool],
        hooks: HiddenHooks,
    ) -> None:
        self._called, self._skips = called, skips
        self._before, self._after = hooks, HiddenHooks("_global_forward_hooks")
        self._open: dict[int, tuple[Any, int]] = {}  # by thread: the outermost module and its calls of itself
        self._watches = False

    def watch(self) -> None:
        module, self._watches = _torchs_module(), True
        for kind in (module._global_forward_hooks_with_kwargs, module._global_forward_hooks_always_called):
            kind[RESULT] = True
        self._before.add(RESULT, self._begins)
        self._after.add(RESULT, self._ends)

    def stop(self) -> None:
        if not self._watches:
            return
        module, self._watches = _torchs_module(), False
        self._before.drop(RESULT)
        self._after.drop(RESULT)
        for kind in (module._global_forward_hooks_with_kwargs, module._global_forward_hooks_always_called):
            kind.pop(RESULT, None)
        self._open.clear()

    def _begins(self, module: Any, args: Any) -> None:
        thread = get_ident()
        if thread not in self._open:
            if self._skips():
                return
            self._open[thread] = module, 0
        outermost, depth = self._open[thread]
        if outermost is module:
            self._open[thread] = module, depth + 1

    def _ends(self, module: Any, args: Any, *rest: Any) -> None:
        """Note the end of a call; after an error, torch gives neither the keyword arguments nor a result."""
        thread = get_ident()
        outermost, depth = self._open.get(thread, (None, 0))
        if module is not outermost:
            return
        if depth > 1:
            self._open[thread] = module, depth - 1
            return
        self._open.pop(thread, None)
        if len(rest) == 2 and rest[1] is not None:
            self._called(module, (*args, *rest[0].values()), rest[1])


def _torchs_module() -> Any:
    return sys.modules["torch.nn.modules.module"]


def _call_code() -> CodeType:
    code: CodeType = _torchs_module().Module._call_impl.__code__
    return code
