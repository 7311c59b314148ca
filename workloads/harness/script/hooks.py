"""Hooks of torch that see a script's steps and change nothing else of the script.

Once the script compiles something, every wrapper that Dynamo could trace has `torch._dynamo.disable`, and the
hooks on modules are removed: they would break each graph.
"""

from __future__ import annotations

import functools
import gc
import os
import time
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

from workloads.harness.script.observations import (
    FIRST_BATCHES,
    LOSSES,
    Observations,
    first_tensor,
    is_token_ids,
)

MOST_CALLS = 1000  # of modules in which the model's input is looked for
Stepped = Callable[[Any, Any, Any], None]  # a hook of torch, after the step of an optimizer


class Hooks:
    """Hooks that take notes in `observed` and call `stepped` after each optimizer's step.

    `on_forward` is called after each outermost call of the model, until something is trained.

    Attributes:
        active: False switches all hooks off, as in forked children.
    """

    def __init__(self, observed: Observations, stepped: Stepped, on_forward: Callable[[], None]) -> None:
        self.active = True
        self._observed, self._stepped, self._on_forward = observed, stepped, on_forward
        self._model_hooks: list[Any] = []
        self._step_hook: Any = None
        self._scaled: tuple[Any, Any] = (None, None)
        self._torch: Any = None
        os.register_at_fork(after_in_child=self.switch_off)

    def switch_off(self) -> None:
        """Take no more notes."""
        self.active = False

    def install(self, torch: Any) -> None:
        """Set all hooks, when torch has been imported."""
        self._torch, self._observed.imported = torch, True
        self._set_hooks(lambda function: function)
        self._watch_models()
        self._wrap_compile()

    def watch_next_call(self) -> None:
        """Look at the model's input once more: the first call may have been a trial."""
        if not self._observed.compiled:
            self._drop_model_hooks()
            self._watch_models()

    def _set_hooks(self, safe: Callable[[Any], Any]) -> None:
        """Set the hooks that stay for the whole run, each wrapped by `safe`."""
        from torch.optim.optimizer import register_optimizer_step_post_hook

        if self._step_hook is not None:
            self._step_hook.remove()
        self._step_hook = register_optimizer_step_post_hook(safe(self._stepped))
        self._wrap_autograd(safe)
        self._wrap_loader(safe)

    def _wrap_autograd(self, safe: Callable[[Any], Any]) -> None:
        autograd, scaler = self._torch.autograd, self._torch.amp.GradScaler

        def note(tensors: Any) -> None:
            loss = tensors if hasattr(tensors, "numel") else next(iter(tensors), None)
            if not self.active or loss is None or loss.numel() != 1:
                return
            scaled, plain = self._scaled
            self._observed.backward(plain if scaled is not None and scaled() is loss else loss)
            self._scaled = (None, None)

        observed = self._observed
        real, scale = _plain(autograd.backward), _plain(scaler.scale)

        @functools.wraps(real)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if len(observed.losses) < LOSSES:
                note(args[0] if args else kwargs.get("tensors", ()))
            else:  # this path is short: it runs in each of millions of steps
                observed.backwards += 1
            return real(*args, **kwargs)

        @functools.wraps(scale)
        def scaled_loss(*args: Any, **kwargs: Any) -> Any:
            made = scale(*args, **kwargs)
            if self.active and hasattr(args[1], "detach"):
                self._scaled = (weakref.ref(made), args[1].detach())
            return made

        autograd.backward = _wrapping(safe(backward), real)
        scaler.scale = _wrapping(safe(scaled_loss), scale)

    def _wrap_loader(self, safe: Callable[[Any], Any]) -> None:
        from torch.utils.data import dataloader

        kind: Any = dataloader._BaseDataLoaderIter
        observed, real = self._observed, _plain(kind.__next__)

        @functools.wraps(real)
        def timed(iterator: Any) -> Any:
            if not self.active:
                return real(iterator)
            observed.loading, started_s = get_ident(), time.perf_counter()
            try:
                batch = real(iterator)
            except StopIteration:
                observed.loader_ended(iterator)
                raise
            finally:
                observed.loading = 0
            observed.loader_s += time.perf_counter() - started_s
            if iterator._num_yielded < FIRST_BATCHES:
                observed.batch_came(iterator, batch)
            return batch

        kind.__next__ = _wrapping(safe(timed), real)

    def _watch_models(self) -> None:
        """Wait for the first call of any module, the outermost one, and then watch that module.

        Calls in a loader make samples and are ignored, and so are calls without gradients in a training script.
        """
        from torch.nn.modules.module import register_module_forward_pre_hook

        left, observed, trained = MOST_CALLS, self._observed, self._torch.is_grad_enabled

        def first_call(module: Any, args: Any) -> None:
            nonlocal left
            loading = observed.loading == get_ident()
            left -= not loading
            if left < 0:
                self._model_hooks.pop(0).remove()
            if not self.active or left < 0 or loading or (observed.backwards and not trained()):
                return
            tensor = first_tensor(args)
            if not self._observed.backwards and not self._observed.forwards and len(self._model_hooks) == 1:
                self._model_hooks.append(module.register_forward_hook(after_call))
            if tensor is not None:
                self._observed.shape, self._observed.is_tokens = tuple(tensor.shape), is_token_ids(tensor)
                self._model_hooks.pop(0).remove()

        def after_call(module: Any, args: Any, made: Any) -> None:
            if self.active:
                self._observed.forwards += 1
                self._on_forward()

        self._model_hooks.append(register_module_forward_pre_hook(first_call))

    def _drop_model_hooks(self) -> None:
        while self._model_hooks:
            self._model_hooks.pop().remove()

    def _wrap_compile(self) -> None:
        """Make all hooks safe for Dynamo before the script compiles anything."""
        real = self._torch.compile

        @functools.wraps(real)
        def compile_after_us(*args: Any, **kwargs: Any) -> Any:
            if self.active and not self._observed.compiled:
                self._observed.compiled = True
                self._make_safe()
            return real(*args, **kwargs)

        self._torch.compile = compile_after_us

    def _make_safe(self) -> None:
        import torch._dynamo

        self._drop_model_hooks()
        self._set_hooks(torch._dynamo.disable)
        self._watch_compiled(torch._dynamo.eval_frame.OptimizedModule)

    def _watch_compiled(self, kind: Any) -> None:
        real, observed, trained = kind.__call__, self._observed, self._torch.is_grad_enabled

        @functools.wraps(real)
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if self.active and len(observed.ends_s) < 2 and (trained() or not observed.backwards):
                tensor = first_tensor((*args, *kwargs.values()))
                if tensor is not None:
                    observed.shape, observed.is_tokens = tuple(tensor.shape), is_token_ids(tensor)
            made = real(module, *args, **kwargs)
            if self.active and not observed.backwards:
                observed.forwards += 1
                self._on_forward()
            return made

        kind.__call__ = call


def has_optimizer() -> bool:
    """True if the script holds an optimizer, so it is going to train."""
    from torch.optim import Optimizer

    return any(isinstance(thing, Optimizer) for thing in gc.get_objects())


def _plain(function: Any) -> Any:
    """Return a function without our wrapper."""
    return getattr(function, "_gridbench_real", function)


def _wrapping(wrapper: Any, real: Any) -> Any:
    """Return a wrapper that `_plain` can remove."""
    wrapper._gridbench_real = real
    return wrapper
