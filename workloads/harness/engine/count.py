"""Torch's own counts of a step: operations handed to the device, and FLOPs of those that it knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

ATTENTION = "_scaled_dot_product_"  # what torch's operations for fused attention begin with


@dataclass(slots=True)
class Counts:
    """Counts of one step.

    Attributes:
        flops: matrix products, convolutions and attention, by torch's own formulas; they leave out
            elementwise operations, sparse products, and attention on a CPU.
        conv_flops: those of `flops` in convolutions.
        launches: operations that compute something: those that only make a view of a tensor don't count.
        attention: the fused kernels that attention took, by torch's names of them.
    """

    flops: float = 0.0
    conv_flops: float = 0.0
    launches: int = 0
    attention: set[str] = field(default_factory=set)


@contextmanager
def counted() -> Iterator[Counts]:
    """Count what happens inside.

    It is `torch.utils.flop_counter.FlopCounterMode` with launches, and without the second that the latter
    takes to import torch's compiler.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    counts, formulas = Counts(), dict[Any, Any](flop_registry)

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
            flops = formula(*args, **kwargs, out_val=out) if formula else 0
            counts.flops += flops
            counts.conv_flops += flops if "convolution" in name else 0
            return out

    counting: Any = Counting
    with counting():
        yield counts
