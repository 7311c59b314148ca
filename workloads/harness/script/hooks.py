"""Hooks of torch that see a script's steps and change nothing else of the script.

The script's objects hold no hook: a copy or a pickle of its model, optimizer or loader is the same without us.
Dynamo sees no hook on modules (`module_calls`). Once the script compiles something, every other function that Dynamo
could trace has `torch._dynamo.disable`, and calls of modules are watched from outside the compiled code.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from threading import RLock, get_ident
from types import FrameType
from typing import Any, Protocol

from workloads.harness.script.loaders import LoaderPass, first_tensor
from workloads.harness.script.module_calls import CallsWithResults, HiddenHooks, OutermostCalls
from workloads.harness.script.observations import Observations
from workloads.harness.script.saves import main_saves_in_a_loop
from workloads.harness.script.short_paths import WatchedBatches, WatchedEngine, WatchedRequest
from workloads.harness.script.watching import CompiledCalls, WatchedMethod, WatchedReading

BATCH = "data"  # variable of a loader iterator's `__next__`
# Classes of torch.save, for a path and for a file.
SAVERS = ("_open_zipfile_writer_file", "_open_zipfile_writer_buffer")
Safe = Callable[[Callable[..., Any]], Callable[..., Any]]


class Listener(Protocol):
    """The measurement that hooks call."""

    def optimizer_stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Note the end of an optimizer's step; it guards itself by `Hooks.own`."""

    def backward_begins(self) -> None:
        """Note the beginning of a backward call, if `Observations.counts_backwards`."""

    def model_called(self) -> None:
        """Note that the model is called again: its call before is over."""

    def batch_asked(self, loader_pass: LoaderPass) -> None:
        """Note that a loader is asked for a batch after its first one, if batches are declared to be steps."""

    def failed(self, error: Exception) -> None:
        """Note an error of our own, which must not reach the script; all hooks are off then."""


class Hooks:
    """Hooks that take notes in `observed` and call `listener`.

    After the first steps short paths take the notes (`short_paths`), and watches rest in most of the steps (`rests`).

    Attributes:
        active: False switches all hooks off, as in forked children.
        lock: held while a note is taken: a script can call from several threads.
        counts_calls: calls of the model are steps, also once something is trained.

    Args:
        declared: the kind of step that the user has declared, such as `forward` or `loader`; empty if none.
    """

    def __init__(self, observed: Observations, listener: Listener, declared: str = "") -> None:
        self.active, self.counts_calls, self.lock = True, declared == "forward", RLock()
        self._counts_batches = declared == "loader"
        self._observed, self._listener = observed, listener
        self._torch: Any = None
        self._watches: list[Any] = []  # each is ended by `remove`
        before = HiddenHooks("_global_forward_pre_hooks")
        self._calls: OutermostCalls | CompiledCalls = OutermostCalls(
            self.own(self._model_called), self._model_called_again, before
        )
        self._model: Any = None  # a weak reference to the module whose calls are counted
        self._input: tuple[Any, Any] | None = (
            None  # shape and type of the last call's input, if it is the first argument
        )
        self._wants_input = 0  # the thread whose present call of the model has shown no input yet
        self._trained = CallsWithResults(self.own(self._trained_call), self._is_no_model, before)
        self._scaler: Any = None  # a weak reference to the scaler of the next backward call
        self._next: Any = None  # the code of `__next__` of a loader's iterator
        self._passes: dict[int, tuple[Any, LoaderPass]] = {}  # by the id of a loader's iterator
        self._keys: dict[int, tuple[Any, int]] = {}  # of data sets, by their ids while they live
        self._numbers = count()
        self._compile: Any = None  # torch's own function
        self._sees_saves, self._saves = False, 0  # calls of `torch.save` after the first step
        os.register_at_fork(after_in_child=self.remove)

    def install(self, torch: Any) -> None:
        """Set all hooks, when torch has been imported."""
        self._torch, self._observed.imported = torch, True
        self._set_hooks(lambda function: function)
        self._calls.watch()
        self._wrap_compile()

    def remove(self) -> None:
        """Take no more notes, and leave torch as it was."""
        self.active = False
        self._trained.stop()
        self._calls.stop()
        self._remove_watches()
        if self._compile is not None:
            self._torch.compile = self._compile

    def look(self) -> None:
        """Look at the calls of models in the next whole steps of a training."""
        self._observed.look()
        if not self._observed.compiled:
            self._trained.watch()

    def stop_looking(self) -> None:
        """Look at no calls of a training's models any more."""
        self._trained.stop()

    def rest(self, stepped: Callable[[Any, Any, Any], None]) -> None:
        """Watch no backward calls until `wake`, and no requests for batches until then or until a pass begins.

        `stepped` takes the place of `optimizer_stepped` meanwhile.
        """
        self._engine.remove()
        self._requests.remove()
        self._set_step_hook(stepped)

    def wake(self) -> None:
        """Watch all again."""
        self._watch_requests()
        if self.active:
            self._engine.put()
            self._set_step_hook(self._listener.optimizer_stepped)

    def _set_step_hook(self, stepped: Callable[[Any, Any, Any], None]) -> None:
        hooks = self._steps.hooks_dict_ref()
        if hooks is not None and self._steps.id in hooks:
            hooks[self._steps.id] = stepped

    def _watch_requests(self) -> None:
        self._observed.end_rest()
        if self.active:
            self._requests.put()

    def unused_loaders(self) -> tuple[str, ...]:
        """Name the loaders that the script has made and not used yet, such as those of its evaluations."""
        if self._torch is None:
            return ()
        from torch.utils.data import DataLoader

        loaders = [
            thing
            for thing in gc.get_objects()
            if issubclass(type(thing), DataLoader) and id(thing.__dict__.get("dataset")) not in self._keys
        ]
        if len(loaders) == 1 and (batches := _length(loaders[0]._index_sampler)):
            return (f"passes over a loader of {batches:,} batches",)
        return (f"passes over {len(loaders)} other loaders",) if loaders else ()

    def unseen_saves(self) -> tuple[str, ...]:
        """Name the saves in the script's loops if none came after its first step, such as the first checkpoint."""
        is_unseen = self._sees_saves and not self._saves and main_saves_in_a_loop()
        return ("calls of torch.save in its loops",) if is_unseen else ()

    def own(self, note: Callable[..., Any]) -> Callable[..., Any]:
        """Return a note whose errors do not reach the script."""

        def guarded(*args: Any) -> Any:
            if self.active:
                try:
                    with self.lock:
                        return note(*args)
                except Exception as error:
                    self.remove()
                    # The frames of its traceback would hold the script's objects.
                    self._listener.failed(error.with_traceback(None))
            return None

        return guarded

    def _set_hooks(self, safe: Safe) -> None:
        """Set the hooks that stay for the whole run, each wrapped by `safe`."""
        from torch.optim.optimizer import register_optimizer_step_post_hook
        from torch.utils.data import dataloader

        self._remove_watches()
        batches: Any = dataloader._BaseDataLoaderIter
        self._next = batches.__next__.__code__
        self._gone = safe(self.own(self._went))
        engine, runs = self._torch.autograd.Variable, self._torch.autograd.graph._engine_run_backward.__code__
        self._tensor, self._is_tracing = self._torch.Tensor, self._torch._C._is_tracing
        self._graph_task: Callable[[], int] = self._torch._C._current_graph_task_id
        backward = self._torch.autograd.backward.__code__
        observed, passes, asked = self._observed, self._passes, safe(self.own(self._asked))
        note = safe(self.own(self._engine_runs))
        self._engine = WatchedEngine(engine, runs, note, observed, backward, self._graph_task)
        self._requests = (
            WatchedReading(batches, "_profile_name", self._next, asked)
            if self._counts_batches
            else WatchedRequest(batches, self._next, asked, observed, passes)
        )
        numbers = WatchedBatches(batches, safe(self.own(self._yielded)), observed, passes)
        self._watches += [self._engine, self._requests, numbers]
        self._watches.append(WatchedMethod(self._torch.amp.GradScaler, "scale", safe(self.own(self._scales))))
        for name in SAVERS:
            if "__exit__" in vars(kind := getattr(self._torch.serialization, name, object)):
                self._watches.append(WatchedMethod(kind, "__exit__", safe(self.own(self._saved))))
                self._sees_saves = True
        self._steps = register_optimizer_step_post_hook(safe(self._listener.optimizer_stepped))
        self._watches.append(self._steps)

    def _remove_watches(self) -> None:
        while self._watches:
            self._watches.pop().remove()

    def _engine_runs(self, owner: None, frame: FrameType) -> None:
        """Note a backward call, by whatever function, but not the gradients of `torch.autograd.grad`."""
        observed = self._observed
        if not frame.f_locals["kwargs"].get("accumulate_grad"):
            return
        if self._graph_task() >= 0:  # within another one
            return
        if observed.counts_backwards:
            self._listener.backward_begins()
        if not observed.backwards:
            self._stop_counting_calls()
            self.look()
        scaler, self._scaler = self._scaler and self._scaler(), None
        losses = frame.f_locals["t_outputs"]
        only = losses[0] if len(losses) == 1 else None
        is_number = isinstance(only, self._torch.Tensor) and only.numel() == 1
        observed.backward(losses, _before_scaling(only, scaler) if is_number else None)

    def _stop_counting_calls(self) -> None:
        if not self.counts_calls and not self._observed.compiled:
            self._calls.stop()

    def _scales(self, scaler: Any) -> None:
        self._scaler = weakref.ref(scaler)

    def _saved(self, writer: Any) -> None:
        self._saves += bool(self._observed.ends_s)

    def _asked(self, iterator: Any, frame: FrameType) -> None:
        """Note that a loader is asked for a batch."""
        observed = self._observed
        if observed.loading == get_ident():
            self._is_loading(frame.f_back)  # notes the end of another loader
        key = id(iterator)
        if key not in self._passes:
            gone = functools.partial(self._gone, key)
            self._passes[key] = weakref.ref(iterator, gone), LoaderPass(self._key_of(iterator._dataset))
        loader_pass = self._passes[key][1]
        if self._counts_batches and loader_pass.batches:
            self._listener.batch_asked(loader_pass)
        observed.loading, observed.awaited = get_ident(), loader_pass
        loader_pass.asked_s = time.perf_counter()

    def _key_of(self, data: Any) -> int:
        """Return a data set's key, which no other one gets, also if it takes the place of this one in memory.

        A list takes no weak reference: its place is its key.
        """
        place = id(data)
        if place not in self._keys:
            key, reference = place, None
            with suppress(TypeError):
                reference = weakref.ref(data, lambda _: self._keys.pop(place, None))
                key = next(self._numbers)
            self._keys[place] = reference, key
        return self._keys[place][1]

    def _yielded(self, iterator: Any, batches: int) -> None:
        """Note a batch of a loader, or that the loader begins again."""
        known, observed = self._passes.get(id(iterator)), self._observed
        if batches == 0:  # at the beginning of a pass
            observed.has_new_pass = True
            if observed.rest_share is not None:
                self._watch_requests()
                observed.phase_left = 0
        if known is None:
            return
        loader_pass = known[1]
        if batches == 0:
            observed.loader_ended(loader_pass)
            return
        loader_pass.batches, observed.loading = batches, 0
        if observed.rest_share is None:
            observed.loader_s += time.perf_counter() - loader_pass.asked_s
        loaders = observed.loaders
        if loader_pass.settled == loaders.generation:
            return
        if (frame := self._frame_of_next(sys._getframe())) is not None:
            # A sampler's length can be the user's own code, which can do more than count: it is asked for once.
            length = None if loaders.knows(loader_pass) else _length(iterator._index_sampler)
            observed.batch_came(loader_pass, frame.f_locals.get(BATCH), length)

    def _went(self, key: int, iterator: Any) -> None:
        self._observed.loader_ended(self._passes.pop(key)[1])

    def _frame_of_next(self, frame: FrameType | None) -> FrameType | None:
        """Return the frame in which a loader makes a batch, if `frame` is within one."""
        while frame is not None and frame.f_code is not self._next:
            frame = frame.f_back
        return frame

    def _is_loading(self, frame: FrameType | None) -> bool:
        """Return whether a loader makes a batch in a frame of this thread, perhaps by modules."""
        if self._observed.loading != get_ident():
            return False
        if self._frame_of_next(frame) is None:
            self._observed.loading_failed()
            return False
        return True

    def _is_no_model(self) -> bool:
        """Return whether a call makes samples in a loader, or is traced."""
        return self._is_loading(sys._getframe()) or bool(self._is_tracing())

    def _trained_call(self, module: Any, given: Sequence[Any], result: Any) -> None:
        """Note a call of a training's model with its result."""
        if self._observed.calls is not None:
            self._observed.calls.called(module, given, result)

    def _model_called_again(self, module: Any, args: Any) -> bool:
        """Note a call of the model like the one before, by the short path; return False if it is another one."""
        observed, known = self._observed, self._input
        if (
            known is None
            or not args
            or type(args[0]) is not self._tensor
            or args[0].shape != known[0]
            or args[0].dtype is not known[1]
            or self._model() is not module
            or observed.loading
            or observed.backwards
            or observed.calls_left <= 0
            or self._is_tracing()
        ):
            return False
        observed.ends_s.append(time.perf_counter() - observed.paused_s)
        observed.calls_left -= 1
        observed.forwards += 1
        observed.inputs_again += 1
        return True

    def _model_called(self, module: Any, args: Any) -> bool:
        """Note the beginning of a call; return whether the calls within it are not to be seen.

        The model is the first module that is called. Calls within it are seen until its input is found, because
        this hook gets no keyword arguments.
        """
        observed = self._observed
        if self._is_no_model():
            return False
        if observed.backwards and not self.counts_calls:
            return True
        if self._model is None or self._model() is None:
            self._model = weakref.ref(module)
        if self._model() is module:
            observed.forwards += 1
            if observed.forwards > 1:
                self._listener.model_called()
            self._wants_input = 0 if observed.backwards else get_ident()
        if self._wants_input == get_ident() and (tensor := first_tensor(args)) is not None:
            self._wants_input = 0
            is_first = bool(args) and tensor is args[0] and self._model() is module
            self._input = (tensor.shape, tensor.dtype) if observed.input_came(tensor) and is_first else None
        return self._wants_input != get_ident()

    def _wrap_compile(self) -> None:
        """Make all hooks safe for Dynamo before the script compiles anything."""
        real = self._compile = self._torch.compile

        @functools.wraps(real)
        def compile_after_us(*args: Any, **kwargs: Any) -> Any:
            if self.active:
                self.own(self._make_safe)()
            return real(*args, **kwargs)

        self._torch.compile = compile_after_us

    def _make_safe(self) -> None:
        """Keep Dynamo out of all hooks, and watch calls of modules from outside the compiled code."""
        import torch._dynamo

        if self._observed.compiled:
            return
        self._observed.compiled, self._observed.phase_left = True, 0
        disable: Any = torch._dynamo.disable
        for method in (
            WatchedMethod.__get__,
            WatchedReading.__get__,
            WatchedEngine.__get__,
            WatchedRequest.__get__,
            WatchedBatches.__set__,
        ):
            disable(method, recursive=False)
        self._set_hooks(disable)
        self._trained.stop()
        self._calls.stop()
        called, ended = disable(self.own(self._model_called)), disable(self.own(self._trained_call))
        kind = torch._dynamo.eval_frame.OptimizedModule
        self._calls = CompiledCalls(kind, called, ended, torch.compiler.is_compiling)
        self._calls.watch()


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


def _length(batches: Any) -> int | None:
    """Return the number of batches of a loader or its sampler; None without one, or if the user's own code fails."""
    try:
        return len(batches)
    except Exception:
        return None
