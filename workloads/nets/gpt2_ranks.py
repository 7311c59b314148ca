"""GPT-2 trained by the ranks of a group, as replicas or in shares."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from workloads.harness.group.distributed import mean_over_ranks, replicated, sharded_over_ranks
from workloads.harness.prepared import Env
from workloads.harness.training.training import GRADIENTS, Learner, gradients_of
from workloads.harness.training.wider import apart, name_of, place_of, visited, wider_than
from workloads.nets.gpt2 import Gpt, adamw, drawn_gpt, next_token_loss
from workloads.nets.shapes import GptShape


class GroupTrainer:
    """A rank's part of the model, comparable with the plain model.

    Attributes:
        tolerance: multiplies the precision's bound.
        unexchanged: a context in which gradients stay on their rank; None if weights are gathered, too.
    """

    unexchanged: Callable[[], AbstractContextManager[object]] | None = None

    def __init__(self, env: Env, shape: GptShape, sharded: bool) -> None:
        self._env, self._shape, self.tolerance = env, shape, GRADIENTS[env.precision]
        self.reference_dtype = name_of(wider_than(env.dtype))
        self._drawn = env.generator.get_state()
        model = self._built(env, "cpu" if sharded else env.device)  # a device might not hold all of it
        if sharded:
            self._called: Any = sharded_over_ranks(env, model, model.blocks)
        self._learner = Learner(env, model, adamw)
        if not sharded:
            self._called = replicated(env, model)
            self.unexchanged = self._called.no_sync
        self.reset = self._learner.reset

    def _built(self, env: Env, device: str | torch.device) -> Gpt:
        place = torch.device(device)
        return drawn_gpt(replace(env, device=place, to_device=lambda tensor: tensor.to(place)), self._shape)

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        return self._learner.learn(lambda: next_token_loss(self._called, tokens))

    def shown(self, loss: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the last step's loss, and a part of every gathered gradient."""
        return self._learner.shown(loss)

    def exact(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute `shown` from the beginning, in a wider type; without room, block by block."""
        wide = wider_than(self._env.dtype)
        generator = torch.Generator()
        generator.set_state(self._drawn)
        place = place_of(self._env.device, self._shape.parameters * wide.itemsize)
        whole = self._built(replace(self._env, generator=generator), place).to(wide)
        model = visited(whole, "blocks", self._env.device, wide)
        loss = apart(model, next_token_loss, (tokens,), wide)
        return loss, mean_over_ranks(gradients_of(model))
