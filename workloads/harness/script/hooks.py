"""Hooks of torch that see a script's steps and change nothing else of the script.

The script's objects hold no hook: a copy or a pickle of its model, optimizer or loader is the same without us.
Once the script compiles something, every function that Dynamo could trace has `torch._dynamo.disable`, and the hook on
all modules is gone: it would break each graph.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from types import FrameType
from typing import Any

from workloads.harness.script.observations import (
    FIRST_BATCHES,
    LOSSES,
    LoaderPass,
    Observations,
    first_tensor,
    is_token_ids,
)
from workloads.harness.script.watching import CompiledCalls, ModuleCalls, WatchedMethod, WatchedNumber

MOST_CALLS = 1000  # of modules in which the model's input is looked for
YIELDED, BATCH = "_num_yielded", "data"  # attribute of a loader's iterator, and variable of its `__next__`
Stepped = Callable[[Any, Any, Any], None]  # a hook of torch, after the step of an optimizer
Safe = Callable[[Callable[..., Any]], Callable[..., Any]]


class Hooks:
    """Hooks that take notes in `observed` and call `stepped` after each optimizer's step.

    Until something is trained, `on_forward` is called when the model is called again: the step before is over then.
    `failed` is called with an error of our own, which must not reach the script; all hooks are off then.

    Attributes:
        active: False switches all hooks off, as in forked children.
    """

    def __init__(
        self,
        observed: Observations,
        stepped: Stepped,
        on_forward: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.active = True
        self._observed, self._stepped, self._on_forward, self._failed = observed, stepped, on_forward, failed
        self._torch: Any = None
        self._watches: list[Any] = []  # each is ended by `remove`
        self._calls: ModuleCalls | CompiledCalls = ModuleCalls(self._own(self._model_called))
        self._model: Any = None  # a weak reference to the module whose calls are counted
        self._looks = 0  # calls in which the model's input is still looked for
        self._scaler: Any = None  # a weak reference to the scaler of the next backward call
        self._next: Any = None  # the code of `__next__` of a loader's iterator
        self._passes: dict[int, tuple[Any, LoaderPass]] = {}  # by the id of a loader's iterator
        self._compile: Any = None  # torch's own function
        os.register_at_fork(after_in_child=self.remove)

    def install(self, torch: Any) -> None:
        """Set all hooks, when torch has been imported."""
        self._torch, self._observed.imported = torch, True
        self._set_hooks(lambda function: function)
        self.watch_next_call()
        self._wrap_compile()

    def remove(self) -> None:
        """Take no more notes, and leave torch as it was."""
        self.active = False
        self._calls.stop()
        self._remove_watches()
        if self._compile is not None:
            self._torch.compile = self._compile

    def watch_next_call(self) -> None:
        """Look at the model's input once more: the first call can be a trial."""
        self._looks = MOST_CALLS
        self._calls.watch()

    def _own(self, note: Callable[..., Any]) -> Callable[..., Any]:
        """Return a note whose errors do not reach the script."""

        def guarded(*args: Any) -> Any:
            if self.active:
                try:
                    return note(*args)
                except Exception as error:
                    self.remove()
                    self._failed(error)
            return None

        return guarded

    def _set_hooks(self, safe: Safe) -> None:
        """Set the hooks that stay for the whole run, each wrapped by `safe`."""
        from torch.optim.optimizer import register_optimizer_step_post_hook
        from torch.utils.data import dataloader

        self._remove_watches()
        batches: Any = dataloader._BaseDataLoaderIter
        self._next = batches.__next__.__code__
        self._gone = safe(self._own(self._went))
        methods = ((self._torch.Tensor, "backward", self._backward), (batches, "__next__", self._asked))
        for kind, name, note in (*methods, (self._torch.amp.GradScaler, "scale", self._scales)):
            self._watches.append(WatchedMethod(kind, name, safe(self._own(note))))
        self._watches.append(WatchedNumber(batches, YIELDED, safe(self._own(self._yielded))))
        self._watches.append(register_optimizer_step_post_hook(safe(self._own(self._stepped))))

    def _remove_watches(self) -> None:
        while self._watches:
            self._watches.pop().remove()

    def _backward(self, loss: Any) -> None:
        observed = self._observed
        if len(observed.losses) >= LOSSES:  # this path is short: it runs in each of millions of steps
            observed.backwards += 1
            return
        scaler, self._scaler = self._scaler and self._scaler(), None
        observed.backward(_before_scaling(loss, scaler) if loss.numel() == 1 else None)

    def _scales(self, scaler: Any) -> None:
        self._scaler = weakref.ref(scaler)

    def _asked(self, iterator: Any) -> None:
        """Note that a loader is asked for a batch."""
        self._is_loading()  # notes the end of another loader
        key = id(iterator)
        if key not in self._passes:
            gone = functools.partial(self._gone, key)
            self._passes[key] = weakref.ref(iterator, gone), LoaderPass()
        self._observed.asked(self._passes[key][1])

    def _yielded(self, iterator: Any, before: int | None, batches: int) -> None:
        """Note a batch of a loader, or that the loader begins again."""
        if id(iterator) not in self._passes:
            return
        loader_pass = self._passes[id(iterator)][1]
        if batches == 0:
            self._observed.loader_ended(loader_pass)
            return
        self._observed.answered(loader_pass, batches)
        if batches <= FIRST_BATCHES and (frame := self._frame_of_next()) is not None:
            self._observed.batch_came(loader_pass, frame.f_locals.get(BATCH), _batches_of(iterator))

    def _went(self, key: int, iterator: Any) -> None:
        self._observed.loader_ended(self._passes.pop(key)[1])

    def _frame_of_next(self) -> FrameType | None:
        """Return the frame in which a loader makes a batch, if this thread is in one."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code is not self._next:
            frame = frame.f_back
        return frame

    def _is_loading(self) -> bool:
        """Return whether a loader makes a batch in this thread, perhaps by modules."""
        if self._observed.loading != get_ident():
            return False
        if self._frame_of_next() is None:
            self._observed.loading_failed()
            return False
        return True

    def _model_called(self, module: Any, args: Any) -> bool:
        """Note the beginning of a call; return whether the calls within it are not to be seen.

        Calls in a loader make samples and are ignored, and so are calls without gradients in a training script.
        """
        observed = self._observed
        if self._is_loading() or self._torch.jit.is_tracing():
            return False
        if observed.backwards and not self._torch.is_grad_enabled():
            return False
        self._look_at(args)
        if observed.backwards:
            if not self._looks:
                self._calls.stop()
            return False
        if self._model is None or self._model() is None:
            self._model = weakref.ref(module)
        if self._model() is module:
            observed.forwards += 1
            if observed.forwards > 1:
                self._on_forward()
        return not self._looks

    def _look_at(self, args: Any) -> None:
        """Note the model's input, if it is still looked for."""
        if self._looks:
            self._looks -= 1
            if (tensor := first_tensor(args)) is not None:
                self._observed.shape, self._observed.is_tokens = tuple(tensor.shape), is_token_ids(tensor)
                self._looks = 0

    def _wrap_compile(self) -> None:
        """Make all hooks safe for Dynamo before the script compiles anything."""
        real = self._compile = self._torch.compile

        @functools.wraps(real)
        def compile_after_us(*args: Any, **kwargs: Any) -> Any:
            if self.active:
                self._own(self._make_safe)()
            return real(*args, **kwargs)

        self._torch.compile = compile_after_us

    def _make_safe(self) -> None:
        """Keep Dynamo out of all hooks, and watch calls of modules from outside the compiled code."""
        import torch._dynamo

        if self._observed.compiled:
            return
        self._observed.compiled = True
        disable: Any = torch._dynamo.disable
        for method in (WatchedMethod.__get__, WatchedNumber.__set__):
            disable(method, recursive=False)
        self._set_hooks(disable)
        self._calls.stop()
        kind, called = torch._dynamo.eval_frame.OptimizedModule, disable(self._own(self._model_called))
        self._calls = CompiledCalls(kind, called, torch.compiler.is_compiling)
        self.watch_next_call()


def has_optimizer() -> bool:
    """True if the script holds an optimizer, so it is going to train."""
    from torch.optim import Optimizer

    return any(
        issubclass(type(thing), Optimizer) for thing in gc.get_objects()
    )  # `isinstance` asks the thing


def _before_scaling(loss: Any, scaler: Any) -> Any:
    """Return a loss as it was before the scaler multiplied it, if there is a scaler."""
    scale = scaler._scale if scaler is not None and scaler.is_enabled() else None
    return loss if scale is None else loss.detach() / scale.to(loss.device)


def _batches_of(iterator: Any) -> int | None:
    """Return the batches of a whole pass; None if its sampler has no length, or the user's own one fails."""
    try:
        return len(iterator._index_sampler)
    except Exception:
        return None
