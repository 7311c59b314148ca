"""Models of the Llama 3 family with a static cache, and a pass's reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from workloads.harness.prepared import Env
from workloads.harness.training.drawn import Pool, drawn_model
from workloads.harness.training.layers import copy_on
from workloads.harness.training.wider import place_of
from workloads.nets.shapes import LlamaShape

EPSILON, BASE = 1e-5, 500_000.0  # of the norms, and of the rotary frequencies
Cache = Sequence[torch.Tensor] | None  # keys and values of a block [b, kv, c, d]
SEQUENCES, POSITIONS, SCORES = 2, 8, 512  # that are checked, of each as many at most


class LlamaTrace(NamedTuple):
    """A pass's scores [b, vocabulary] and values between blocks [b, width], last position."""

    scores: torch.Tensor
    first: torch.Tensor
    before_last: torch.Tensor


class LlamaAttention(nn.Module):
    """Causal attention of grouped queries over cached keys and values."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.shape = shape
        heads = shape.heads + 2 * shape.kv_heads
        self.together = nn.Linear(shape.width, heads * shape.head_width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)

    def project(
        self, x: torch.Tensor, turns: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return queries, keys and values [b, heads, l, d] of x [b, l, width]."""
        counts = (self.shape.heads, self.shape.kv_heads, self.shape.kv_heads)
        heads = self.together(x).unflatten(-1, (sum(counts), -1)).transpose(1, 2)
        query, key, value = heads.split(counts, dim=1)
        return _turned(query, turns), _turned(key, turns), value

    def forward(
        self, x: torch.Tensor, turns: torch.Tensor, cache: Cache = None, start: int = 0
    ) -> torch.Tensor:
        query, key, value = self.project(x, turns)
        if cache is not None:
            keys, values = cache
            end = start + x.shape[1]
            keys[:, :, start:end] = key
            values[:, :, start:end] = value
            key, value = keys[:, :, :end], values[:, :, :end]
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=x.shape[1] > 1, enable_gqa=True)
        out: torch.Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


class LlamaBlock(nn.Module):
    """Attention, then the gated network, both pre-norm."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.norm, self.attention = nn.RMSNorm(shape.width, EPSILON), LlamaAttention(shape)
        self.norm_after = nn.RMSNorm(shape.width, EPSILON)
        self.gate_and_up = nn.Linear(shape.width, 2 * shape.inner, bias=False)
        self.down = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(
        self, x: torch.Tensor, turns: torch.Tensor, cache: Cache = None, start: int = 0
    ) -> torch.Tensor:
        x = x + self.attention(self.norm(x), turns, cache, start)
        gate, up = self.gate_and_up(self.norm_after(x)).chunk(2, dim=-1)
        added: torch.Tensor = x + self.down(F.silu(gate) * up)
        return added


class Llama(nn.Module):
    """Tokens to the scores of the token after the last."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.embed = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(LlamaBlock(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width, EPSILON)
        self.head = None if shape.tied else nn.Linear(shape.width, shape.vocabulary, bias=False)

    @property
    def table(self) -> torch.Tensor:
        return self.embed.weight if self.head is None else self.head.weight

    def forward(
        self, tokens: torch.Tensor, turns: torch.Tensor, caches: Sequence[Sequence[torch.Tensor]], start: int
    ) -> LlamaTrace:
        x = self.embed(tokens)
        ends = []
        for block, of_block in zip(self.blocks, caches, strict=True):
            ends.append(x[:, -1])
            x = block(x, turns, of_block, start)
        return LlamaTrace(F.linear(self.norm(x[:, -1]), self.table), ends[1], ends[-1])


class LlamaPass:
    """A pass of `length` tokens after `start` others, which each pass overwrites.

    Attributes:
        inputs: the tokens [b, l]; if l is below 16, candidates for the next tokens, of which the first l are.
        bytes: least traffic of a pass.
        is_exact_on_device: the device has room for two blocks in float64, so `exact` computes there.
    """

    def __init__(self, env: Env, shape: LlamaShape, batch: int, length: int, start: int = 0) -> None:
        self.model = drawn_model(env, lambda: Llama(shape), env.dtype).eval().requires_grad_(False)
        self._called = env.compiled(self.model)
        drawn = torch.randint(shape.vocabulary, (batch, max(length, 16)), generator=env.generator)
        self.inputs, self._length, self._start = env.place_exact(drawn), length, start
        size = (batch, shape.kv_heads, start + length, shape.head_width)
        pool = Pool(env, shape.cached(batch, start + length), env.dtype)
        # Separate tensors: if the blocks write into views of one, torch.compile copies all of it in each block.
        self._caches = [(pool.filled(size), pool.filled(size)) for _ in range(shape.layers)]
        self._turns = turns(shape.head_width, start, length).to(env.device, env.dtype)
        block_bytes = 8 * sum(weight.numel() for weight in self.model.blocks[0].parameters())
        self._place = place_of(env.device, 2 * block_bytes)
        self.is_exact_on_device = env.device.type != "cpu" and self._place == env.device
        self._rows = env.draw(shape.vocabulary, SCORES)
        self._positions = sorted({*env.draw(length, POSITIONS), length - 1})
        read = shape.read_weights + shape.cached(batch, start)
        written = shape.cached(batch, length) + batch * shape.vocabulary
        self.bytes = env.dtype.itemsize * (read + written) + self.inputs.numel() * self.inputs.element_size()
        self._trace: LlamaTrace | None = None

    def step(self) -> torch.Tensor:
        with torch.inference_mode():
            tokens = self.inputs[:, : self._length]
            self._trace = self._called(tokens, self._turns, self._caches, self._start)
            return self._trace.scores

    def view(self, scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return parts of the first block's cache and output, and of the scores."""
        assert self._trace is not None
        cached = [kept[:SEQUENCES, :, self._start :][:, :, self._positions] for kept in self._caches[0]]
        return torch.stack(cached), self._trace.first[:SEQUENCES], scores[:SEQUENCES, self._rows]

    def _exact_block(self, at: int) -> Any:
        return copy_on(self._place, self.model.blocks[at]).double()

    def _widened(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self._place, torch.float64)

    def exact(self) -> tuple[torch.Tensor, ...]:
        """Compute `view` in float64: the first block, and the last from its input.

        A copy of all blocks would take tens of gigabytes.
        """
        assert self._trace is not None
        with torch.inference_mode():
            first, last = (self._exact_block(at) for at in (0, -1))
            exact_turns, last_at = self._widened(self._turns), self._start + self._length - 1
            tokens = self.inputs[:SEQUENCES, self._positions]
            x = self._widened(self.model.embed(tokens))
            _, *cached = first.attention.project(first.norm(x), exact_turns[:, self._positions])

            def alone(block: nn.Module, x: torch.Tensor, at: int) -> torch.Tensor:
                kept = [self._widened(part[:SEQUENCES]) for part in self._caches[at]]
                done: torch.Tensor = block(x, exact_turns[:, -1:], kept, last_at)
                return done[:, -1]

            ended = alone(last, self._widened(self._trace.before_last[:SEQUENCES, None]), -1)
            norm = copy_on(self._place, self.model.norm).double()
            scores = F.linear(norm(ended), self._widened(self.model.table[self._rows]))
            results = (torch.stack(cached), alone(first, x[:, -1:], 0), scores)
            return tuple(result.cpu() for result in results)


def turns(head_width: int, start: int, length: int) -> torch.Tensor:
    """Return cosines and sines [2, length, head width] of rotary positions from `start` on."""
    halves = torch.arange(0, head_width, 2, dtype=torch.float64) / head_width
    places = torch.arange(start, start + length, dtype=torch.float64)
    angles = (places[:, None] * BASE**-halves).repeat(1, 2)
    return torch.stack([angles.cos(), angles.sin()])


def _turned(heads: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    low, high = heads.chunk(2, dim=-1)
    return heads * turns[0] + torch.cat([-high, low], -1) * turns[1]
