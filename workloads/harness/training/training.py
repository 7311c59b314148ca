"""Training and inference steps of any model, with float64 references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from workloads.harness.engine.correctness import WrongError
from workloads.harness.prepared import EXACT, Env, Prepared
from workloads.harness.records.case import CAPTURED, EAGER
from workloads.harness.training.layers import copy_on, layer_flops, parameter_bytes, parameter_count
from workloads.harness.training.masks import Kept, keeping, replay
from workloads.harness.training.wider import (
    apart,
    as_it_began,
    name_of,
    place_of,
    visited,
    widened,
    wider_copy,
    wider_than,
)

if TYPE_CHECKING:
    import torch

Loss = Callable[..., "torch.Tensor"]
Optimizer = Callable[[Iterator["torch.nn.Parameter"]], "torch.optim.Optimizer"]
SHOWN = 512  # elements of each parameter's gradient that are checked
SCALE = 1024.0  # first loss scale in fp16: torch's own of 65536 makes the first steps overflow
# Multiplies a tolerance: gradients have gone through the roundings of both passes. TF32 has fp16's mantissa,
# and rounds the factors of every product although its tensors are fp32.
GRADIENTS = {"fp32": 1.0, "tf32": 5.0, "fp16": 5.0, "bf16": 5.0}
SAMPLES = 4  # results of an inference that are checked


def training_step(
    env: Env,
    model: torch.nn.Module,
    loss: Loss,
    inputs: tuple[torch.Tensor, ...],
    optimizer: Optimizer,
    *,
    unit: str,
    units: float,
    tolerance: float = 1.0,
    flops: float | None = None,
    after: Callable[[], None] = lambda: None,
    state: Sequence[torch.nn.Module] = (),
    data: str = "synthetic",
    blocks: str | None = None,
) -> Prepared:
    """Return training steps on the same batch: a training's compute alone.

    A step's result is its loss, checked with a part of every gradient from the initial weights.

    Args:
        model: on the device, in fp32; fp16 and bf16 are mixed precision by autocast, fp16 with a loss scale.
        loss: `loss(model, *inputs)`, the mean over the batch, a tensor without dimensions.
        inputs: one batch, on the device; the model is called with the first.
        tolerance: multiplies the precision's bound.
        flops: of a step in matrix products, if the model has others than in its layers.
        after: called after every step, such as for a moving average of the weights.
        state: further modules that steps change.
        blocks: name of the model's row of blocks, "" for the model itself, if float64 on the host would take
            minutes; the reference is then `Learner.wider`.
    """
    learner = Learner(env, model, optimizer, state)

    def step() -> torch.Tensor:
        value = learner.learn(lambda: loss(learner.called, *inputs))
        after()
        return value

    counted = flops if flops is not None else layer_flops(model, inputs[0])[1]
    weights = parameter_bytes(model)
    return Prepared(
        step=step,
        inputs=inputs,
        reference=lambda: (
            learner.reference(loss, inputs) if blocks is None else learner.wider(loss, inputs, blocks)
        ),
        view=learner.shown,
        units=units,
        unit=unit,
        flops=counted,
        bytes=sum(t.numel() * t.element_size() for t in inputs) + 2 * weights,  # read once, written once
        matmul_flops=counted,
        reset=learner.reset,
        watched=learner.watched,
        tolerance=tolerance * GRADIENTS[env.precision],
        parameters=parameter_count(model),
        data=data,
        reference_on_device=blocks is not None,
        reference_dtype=name_of(wider_than(env.dtype)) if blocks is not None else EXACT,
    )


def inference_step(
    env: Env,
    model: torch.nn.Module,
    *inputs: torch.Tensor,
    unit: str,
    tolerance: float = 1.0,
    flops: float | None = None,
    data: str = "synthetic",
    large: bool = False,
) -> Prepared:
    """Return an inference step on one batch; its first results are checked, of a `large` model on the device."""
    import torch

    called = env.compiled(model.eval())

    def step() -> torch.Tensor:
        with torch.inference_mode():
            result: torch.Tensor = called(*inputs)
            return result

    def reference() -> torch.Tensor:
        first = [tensor[:SAMPLES] for tensor in inputs]
        with torch.inference_mode():
            if large:
                wide_model, wide = wider_copy(env, model)
                exact: torch.Tensor = wide_model(*(widened(tensor, wide) for tensor in first))
            else:
                exact = copy_on("cpu", model).double()(*map(as_exact, first))
            return exact.cpu().double()

    counted = flops if flops is not None else layer_flops(model, *inputs)[0]
    return Prepared(
        step=step,
        inputs=inputs,
        reference=reference,
        view=lambda result: result[:SAMPLES],
        units=len(inputs[0]),
        unit=unit,
        flops=counted,
        bytes=sum(t.numel() * t.element_size() for t in inputs) + parameter_bytes(model),
        matmul_flops=counted,
        tolerance=tolerance,
        parameters=parameter_count(model),
        data=data,
        reference_on_device=large,
        reference_dtype=name_of(wider_than(env.dtype)) if large else EXACT,
    )


def as_exact(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy on the CPU; floating-point numbers become float64."""
    host = tensor.detach().cpu()
    return host.double() if host.is_floating_point() else host


class Learner:
    """A model with its optimizer, which can restart and be compared with float64."""

    def __init__(
        self,
        env: Env,
        model: torch.nn.Module,
        optimizer: Optimizer,
        state: Sequence[torch.nn.Module] = (),
    ) -> None:

        self._env, self.model, self._state = env, model.train(), (model, *state)
        self.called = env.compiled(self.model)
        self._make_optimizer = optimizer
        self._beginning = [_learnable(model), *(copy_on("cpu", module).state_dict() for module in state)]
        self._masks: Kept = {}
        self._start()

    def _start(self) -> None:
        """Make the optimizer and the loss scale, which grows with the steps."""
        import torch

        self._scaler: Any = torch.amp.GradScaler(
            self._env.device.type, init_scale=SCALE, enabled=self._env.precision == "fp16"
        )
        self.optimizer = self._make_optimizer(self.model.parameters())
        for group in self.optimizer.param_groups:  # those that keep their state on the device for a graph
            if "capturable" in group and self._env.mode in CAPTURED:
                group["capturable"] = True

    def learn(self, loss: Callable[[], torch.Tensor]) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        with self._env.autocast():
            value = loss()
        self._scaler.scale(value).backward()
        self._scaler.step(self.optimizer)
        self._scaler.update()
        return value.detach()

    def reset(self) -> None:
        """Restore the initial weights, with a fresh optimizer and the first loss scale.

        A graph goes on with the tensors that it was captured with, so the optimizer's become zero, at which
        Adam, SGD and their relatives begin.
        """
        import torch

        with torch.no_grad():
            for module, beginning in zip(self._state, self._beginning, strict=True):
                state = module.state_dict()
                for name, value in beginning.items():
                    _own(state[name]).copy_(value)
            if self._env.mode in CAPTURED and self.optimizer.state:
                for kept in self.optimizer.state.values():
                    for tensor in filter(torch.is_tensor, kept.values()):
                        tensor.zero_()
                self._scaler.update(SCALE)
                return
        self._start()

    def watched(self) -> AbstractContextManager[None]:
        self._masks.clear()
        if self._env.mode != EAGER:  # its hooks are compiled away, or not called in a replay
            return nullcontext()
        return keeping(self.model, self._masks)

    def shown(self, loss: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the loss, and a part of every gradient, or raise WrongError if no weight changed."""
        self.check_changed()
        return loss, gradients_of(self.model)

    def check_changed(self) -> None:
        """Raise WrongError if no weight changed; by dropout's luck the loss can fall even so."""
        import torch

        beginning = self._beginning[0]
        learnt = [(name, weight) for name, weight in self.model.named_parameters() if name in beginning]
        if all(torch.equal(_own(weight).cpu(), beginning[name]) for name, weight in learnt):
            raise WrongError("the first step changed no weight: the training does not learn")

    def reference(self, loss: Loss, inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute `shown` after a step from the initial weights, in float64 on the CPU."""
        exact = self.exact()
        value = loss(exact, *map(as_exact, inputs))
        value.backward()  # type: ignore[no-untyped-call]
        return value.detach(), gradients_of(exact)

    def wider(
        self, loss: Loss, inputs: Sequence[torch.Tensor], blocks: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute `reference` on the device, in a wider type, block by block.

        If the device has no room for a whole wider copy, blocks come from the host one by one. The step's own
        gradients are freed, except those of a graph, because each replay fills the same.
        """
        if self._env.mode not in CAPTURED:
            self.optimizer.zero_grad(set_to_none=True)
        wide, beginning = wider_than(self._env.dtype), self._beginning[0]
        count = sum(tensor.numel() for tensor in beginning.values())
        began = as_it_began(self.model, beginning, wide, place_of(self._env.device, count * wide.itemsize))
        replay(began, self._masks)
        exact = visited(began, blocks, self._env.device, wide)
        return apart(exact, loss, inputs, wide), gradients_of(exact)

    def exact(self) -> torch.nn.Module:
        import torch

        exact = copy_on("cpu", self.model)
        exact.load_state_dict(self._beginning[0], strict=False)
        exact.to(torch.float64).zero_grad(set_to_none=True)
        replay(exact, self._masks)
        return exact


def _learnable(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    frozen = {name for name, weight in module.named_parameters() if not weight.requires_grad}
    state = module.state_dict()
    return {name: _own(state[name].detach()).to("cpu", copy=True) for name in state if name not in frozen}


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """Return this rank's share of a tensor (FSDP), or all of any other."""
    share: torch.Tensor = cast(Any, tensor).to_local() if hasattr(tensor, "to_local") else tensor
    return share


def gradients_of(model: torch.nn.Module) -> torch.Tensor:
    """Return a part of every gradient in a row, gathered, in float64 on the host."""
    import torch

    parts = []
    for parameter in (p for p in model.parameters() if p.requires_grad):
        gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        whole = cast(Any, gradient).full_tensor() if hasattr(gradient, "full_tensor") else gradient
        flat = whole.reshape(-1)
        parts.append(flat[:: max(len(flat) // SHOWN, 1)][:SHOWN])
    return torch.cat([part.cpu().double() for part in parts])
