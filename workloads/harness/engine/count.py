"""Torch's own counts of a step: operations handed to the device, and FLOPs of those that it knows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

ATTENTION = "_scaled_dot_product_"  # what torch's operations for fused attention begin with


@dataclass(slots=True)
class Counts:
    """Counts of one step.

    Attributes:
        flops: matrix products, convolutions and attention, by torch's own formulas but for attention; they
            leave out elementwise operations, sparse products, and attention on a CPU.
        conv_flops: those of `flops` in convolutions.
        launches: operations that compute something: those that only make a view of a tensor don't count.
        attention: the fused kernels that attention took, by torch's names of them.
        missing: why `flops` is not all of them, where a formula failed; else empty.
    """

    flops: float = 0.0
    conv_flops: float = 0.0
    launches: int = 0
    attention: set[str] = field(default_factory=set)
    missing: str = ""

    def add(self, name: str, formula: Callable[..., float], args: Any, kwargs: Any, out: Any) -> None:
        """Count an operation by its formula; one that fails is noted, for a count is no reason to crash."""
        try:
            flops = formula(*args, **kwargs, out_val=out)
        except Exception as error:
            words = filter(None, (type(error).__name__, *str(error).splitlines()[:1]))
            self.missing = self.missing or f"torch's count of {name} failed: {': '.join(words)}"[:200]
            return
        self.flops += flops
        self.conv_flops += flops if "convolution" in name else 0


@contextmanager
def counted() -> Iterator[Counts]:
    """Count what happens inside.

    It is `torch.utils.flop_counter.FlopCounterMode` with launches, and without the second that the latter
    takes to import torch's compiler.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    counts, formulas = Counts(), dict[Any, Any](flop_registry) | _of_attention(flop_registry)

    class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs, formula = kwargs or {}, formulas.get(func.overloadpacket)
            if formula is None:
                with self:  # in inference mode whole layers arrive here: count what they are made of
                    made = func.decompose(*args, **kwargs)
                if made is not NotImplemented:
                    return made
            out, name = func(*args, **kwargs), func.overloadpacket.__name__
            if name.startswith(ATTENTION) and not name.endswith("_backward"):
                counts.attention.add(name.removeprefix(ATTENTION).removesuffix("_attention"))
            counts.launches += not func.is_view
            if formula:
                counts.add(name, formula, args, kwargs, out)
            return out

    counting: Any = Counting
    with counting():
        yield counts


def _of_attention(formulas: Mapping[Any, Any]) -> dict[Any, Callable[..., float]]:
    """Return formulas in place of torch's for fused attention.

    Before torch 2.12 those refuse grouped queries, of which several share the keys and values of one head.
    """
    named = {operation: getattr(operation, "__name__", "") for operation in formulas}
    return {
        operation: _attention_backward if name.endswith("_backward") else _attention
        for operation, name in named.items()
        if name.startswith(ATTENTION)
    }


def _attention(query: Any, key: Any, value: Any, *others: Any, **options: Any) -> float:
    """Count two products for every head of the queries [b, heads, l, d]."""
    return float(_scores(query, key) * (query.shape[-1] + value.shape[-1]))


def _attention_backward(
    gradient: Any, query: Any, key: Any, value: Any, *others: Any, **options: Any
) -> float:
    """Count five products: the scores anew, and the gradients of scores, values, queries and keys."""
    return float(_scores(query, key) * (3 * query.shape[-1] + 2 * value.shape[-1]))


def _scores(query: Any, key: Any) -> int:
    return int(2 * math.prod(query.shape[:-1]) * key.shape[-2])
