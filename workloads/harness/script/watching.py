"""Ways to see calls of torch's methods that leave nothing in the script's objects and no frame in its tracebacks."""

from __future__ import annotations

import functools
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any

OWN_HOOKS = (  # of a module, which `Module._call_impl` looks at before the hooks of all modules
    "_backward_hooks",
    "_backward_pre_hooks",
    "_forward_hooks",
    "_forward_pre_hooks",
)


class WatchedMethod:
    """A method that notes its owner when it is looked up on an instance, as each call does first.

    The real method is called then. No other frame encloses it, so tracebacks and the lines of warnings are the same
    without us. On the class, the look-up gives the real function.
    """

    def __init__(self, kind: type, name: str, note: Callable[[Any], None]) -> None:
        self._kind, self._name, self._note = kind, name, note
        self._real: Any = kind.__dict__[name]
        setattr(kind, name, self)

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """Return the real method, and note `owner` if there is one."""
        if owner is not None:
            self._note(owner)
        return self._real.__get__(owner, kind)

    def remove(self) -> None:
        """Put the real method back, unless the script has put another one in its place."""
        if self._kind.__dict__.get(self._name) is self:
            setattr(self._kind, self._name, self._real)


class WatchedNumber:
    """An attribute whose every new value is noted; it lies in the instance's dictionary, as without us.

    `note` is called with the instance, the value before (None for the first one) and the new value.
    """

    def __init__(self, kind: type, name: str, note: Callable[[Any, Any, Any], None]) -> None:
        self._kind, self._name, self._note = kind, name, note
        setattr(kind, name, self)

    def __set__(self, owner: Any, value: Any) -> None:
        """Set the value and note it."""
        before = owner.__dict__.get(self._name)
        owner.__dict__[self._name] = value
        self._note(owner, before, value)

    def remove(self) -> None:
        """End the watch; the instances keep their values."""
        if self._kind.__dict__.get(self._name) is self:
            delattr(self._kind, self._name)


class FirstCalls(OrderedDict[int, Any]):
    """A watch on the first outermost calls of modules, in place of torch's empty dictionary of global backward hooks.

    `Module._call_impl` asks that dictionary at each call whether it is empty. Its frame has the arguments then, and
    the call goes on as without us, through the same lines of torch. Each call of a module takes about 1 µs longer.

    Args:
        called: called with a module and its arguments when a call begins; it returns True if the calls within are
            not to be seen.
    """

    def __init__(self, called: Callable[[Any, Any], bool]) -> None:
        super().__init__()
        self._called, self._watches, self._sees_inner = called, False, True
        self._empty: Any = None
        self._codes: tuple[Any, ...] = ()  # of `Module._call_impl`, and of the functions within it

    def watch(self) -> None:
        """Watch from the next call on."""
        from torch.nn.modules import module

        if not self._watches and not module._global_backward_hooks:
            self._watches, self._empty = True, module._global_backward_hooks
            code = module.Module._call_impl.__code__
            self._codes = code, *(part for part in code.co_consts if isinstance(part, CodeType))
            module._global_backward_hooks = self

    def stop(self) -> None:
        """Watch no calls; the script's own hooks stay, if it has set some meanwhile."""
        if self._watches:
            from torch.nn.modules import module

            self._watches = False
            if module._global_backward_hooks is self and not len(self):
                module._global_backward_hooks = self._empty

    def __bool__(self) -> bool:
        """Return whether there are hooks, as torch asks, and note the call that it asks for."""
        frame = sys._getframe(1)
        if self._watches and frame.f_code in self._codes and (self._sees_inner or self._is_outermost(frame)):
            there = frame.f_locals
            if "self" in there and "args" in there and not self._asks_again(frame, there["self"]):
                given = (*there["args"], *there.get("kwargs", {}).values())
                self._sees_inner = not self._called(there["self"], given)
        return len(self) > 0

    def _asks_again(self, frame: FrameType, module: Any) -> bool:
        """Return whether torch asks for the second time in a call: it does if only other hooks of all modules exist."""
        is_first = frame.f_code is self._codes[0] or any(getattr(module, name) for name in OWN_HOOKS)
        return not is_first

    def _is_outermost(self, frame: FrameType) -> bool:
        call, *_ = self._codes
        above = frame.f_back
        if frame.f_code is not call and above is not None:
            above = above.f_back  # the frame asked from is within the call's own
        while above is not None and above.f_code is not call:
            above = above.f_back
        return above is None


class ModuleCalls:
    """A watch on the calls of all modules, by torch's global hook, which is away while an outermost call runs.

    A global hook takes about 2 µs of each call, and a model has hundreds of modules in it. So the hook takes itself
    away when an outermost call begins. It comes back when the call ends: `Module._call_impl` keeps the last hook that
    it has called in a variable, which goes with the call. If another torch does not, the hook stays and costs its time.

    Args:
        called: called with a module and its positional arguments when a call begins; it returns True if the calls
            within are not to be seen.
    """

    def __init__(self, called: Callable[[Any, Any], bool]) -> None:
        self._called = called
        self._hooks: Any = None  # torch's dictionary of the hooks of all modules
        self._key = self._trial_key = 0
        self._watches, self._tried = False, False
        self._first: Any = None  # a weak reference to the module of the first outermost call

    def watch(self) -> None:
        """Watch from the next call on."""
        if self._hooks is None:
            from torch.nn.modules.module import register_module_forward_pre_hook

            visits, trial = (register_module_forward_pre_hook(hook) for hook in (self._stays, self._tries))
            self._hooks, self._key, self._trial_key = visits.hooks_dict_ref(), visits.id, trial.id
            self.stop()
        self._watches = True
        self.comes()

    def stop(self) -> None:
        """Watch no calls."""
        self._watches = False
        if self._hooks is not None:
            self._hooks.pop(self._key, None)
            self._hooks.pop(self._trial_key, None)

    def comes(self) -> None:
        """Put the hook in its place, if calls are watched and it is away."""
        if self._watches and self._key not in self._hooks:
            self._hooks[self._key] = _Visit(self)

    def begins(self, module: Any, args: Any) -> None:
        """Note the beginning of a call, and take the hook away if the calls within are not to be seen."""
        if self._called(module, args) and self._watches:
            self._hooks.pop(self._key, None)
            if not self._tried:
                self._tried, self._first = True, weakref.ref(module)
                self._hooks[self._trial_key] = self._tries

    def _tries(self, module: Any, args: Any) -> None:
        """Find out at the next call of the first module if the hook has come back; if not, add one that stays."""
        if module is self._first():
            del self._hooks[self._trial_key]
            if self._key not in self._hooks:
                self._hooks[self._key] = self._stays
                self._stays(module, args)

    def _stays(self, module: Any, args: Any) -> None:
        self._called(module, args)


class _Visit:
    """The hook of all modules; its end puts a new one in its place."""

    __slots__ = ("_calls",)

    def __init__(self, calls: ModuleCalls) -> None:
        self._calls = calls

    def __call__(self, module: Any, args: Any) -> None:
        self._calls.begins(module, args)

    def __del__(self) -> None:
        self._calls.comes()


class CallsWithResults:
    """A watch on the outermost calls of modules, with their results, by torch's hooks of all modules.

    The hooks take 4 µs of each call of a module, so they stay for a few steps only.

    Args:
        called: called with a module, its arguments and its result when an outermost call has ended.
        skips: returns True if the call that begins is not one of a model.
    """

    def __init__(self, called: Callable[[Any, Sequence[Any], Any], None], skips: Callable[[], bool]) -> None:
        self._called, self._skips = called, skips
        self._hooks: list[Any] = []
        self._outermost: Any = None  # the module whose call is going on
        self._depth = 0  # of its calls of itself

    def watch(self) -> None:
        """Watch from the next call on."""
        from torch.nn.modules import module

        if not self._hooks:
            begins = module.register_module_forward_pre_hook(self._begins)
            ends = module.register_module_forward_hook(self._ends, with_kwargs=True, always_call=True)
            self._hooks = [begins, ends]

    def stop(self) -> None:
        """Watch no calls."""
        if not self._hooks:
            return
        from torch.nn.modules import module

        self._outermost, self._depth = None, 0
        while self._hooks:
            hook = self._hooks.pop()
            hook.remove()
            module._global_forward_hooks_with_kwargs.pop(hook.id, None)  # which `remove` leaves

    def _begins(self, module: Any, args: Any) -> None:
        if self._outermost is None and not self._skips():
            self._outermost = module
        self._depth += self._outermost is module

    def _ends(self, module: Any, args: Any, *rest: Any) -> None:
        """Note the end of a call; after an error, torch gives neither the keyword arguments nor a result."""
        if module is not self._outermost:
            return
        self._depth -= 1
        if self._depth == 0:
            self._outermost = None
            if len(rest) == 2 and rest[1] is not None:
                self._called(module, (*args, *rest[0].values()), rest[1])


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
        """Watch from the next call on."""
        self._kind.__call__ = self._watched

    def stop(self) -> None:
        """Watch no calls."""
        if self._kind.__call__ is self._watched:
            self._kind.__call__ = self._real
