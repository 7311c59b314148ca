"""Torch's counts of a step: launched operations, and FLOPs by formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

ATTENTION = "_scaled_dot_product_"  # prefix of torch's operations for fused attention
UNFUSED = "math"  # torch's name of attention that no fused kernel computes


@dataclass(slots=True)
class Counts:
    """Counts of one step.

    Attributes:
        flops: of matrix products, convolutions and attention, without elementwise operations, sparse
            products, and attention on a CPU.
        conv_flops: the part of `flops` in convolutions.
        launches: operations that compute; views of tensors do not count.
        attention: torch's names of the kernels of attention; `math` for several operations.
        fused: calls of the kernels of attention.
        missing: the failed formula, which makes `flops` incomplete; else empty.
    """

    flops: float = 0.0
    conv_flops: float = 0.0
    launches: int = 0
    attention: set[str] = field(default_factory=set)
    fused: int = 0
    missing: str = ""

    def add(self, name: str, formula: Callable[..., float], args: Any, kwargs: Any, out: Any) -> None:
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
    """Count the operations inside.

    Unlike `torch.utils.flop_counter.FlopCounterMode`, it does not import torch's compiler, which takes a
    second.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    counts, formulas = Counts(), dict[Any, Any](flop_registry)
    for operation in flop_registry:  # torch's own formulas refuse grouped queries before torch 2.12
        if (name := getattr(operation, "__name__", "")).startswith(ATTENTION):
            formulas[operation] = attention_backward if name.endswith("_backward") else attention

    class Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func.namespace == "prim":  # a fake tensor is asked for its device
                return NotImplemented
            kwargs, formula = kwargs or {}, formulas.get(func.overloadpacket)
            if formula is None:
                with self:  # in inference mode whole layers arrive here: count their parts
                    made = func.decompose(*args, **kwargs)
                if made is not NotImplemented:
                    return made
            out, name = func(*args, **kwargs), func.overloadpacket.__name__
            if name.startswith(ATTENTION) and not name.endswith("_backward"):
                counts.attention.add(name.removeprefix(ATTENTION).removesuffix("_attention"))
                counts.fused += 1
            counts.launches += not func.is_view
            if formula:
                counts.add(name, formula, args, kwargs, out)
            return out

    counting: Any = Counting
    with _unfused_attention(counts), counting():
        yield counts


def _unfused_attention(counts: Counts) -> AbstractContextManager[object]:
    from torch.nn.functional import scaled_dot_product_attention
    from torch.overrides import TorchFunctionMode

    class Calls(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            before = counts.fused
            out = func(*args, **(kwargs or {}))
            if func is scaled_dot_product_attention and counts.fused == before:
                counts.attention.add(UNFUSED)
            return out

    return Calls()


def attention(query: Any, key: Any, value: Any, *others: Any, **options: Any) -> float:
    return float(_scores(query, key) * (query.shape[-1] + value.shape[-1]))


def attention_backward(
    gradient: Any, query: Any, key: Any, value: Any, *others: Any, **options: Any
) -> float:
    return float(_scores(query, key) * (3 * query.shape[-1] + 2 * value.shape[-1]))


def _scores(query: Any, key: Any) -> int:
    return int(2 * math.prod(query.shape[:-1]) * key.shape[-2])
