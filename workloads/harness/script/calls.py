"""Notes on models' outermost calls, their inputs and backward calls."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from workloads.harness.script.amounts import Amounts, ModelCall, amounts_of_calls
from workloads.harness.script.instances import Instances
from workloads.harness.script.loaders import first_tensor, is_token_ids

MOST_CALLS = 1000  # of models in a step that are looked at
MOST_NODES = 20_000  # of a graph in which the calls are looked for
MOST_OUTPUTS = 4  # tensors of a call's result that are looked for in the graph
LEAF = 2**63  # sequence numbers from here on are those of leaves


@dataclass(slots=True)
class _Noted:
    """A call, its results' sequence numbers in the graph, and its backward call."""

    call: ModelCall
    results: frozenset[int]
    backward: int | None = None


class ModelCalls:
    """Notes on calls that no earlier step's backward call has used."""

    def __init__(self) -> None:
        self._models = Instances()
        self._noted: list[_Noted] = []
        self._inputs: dict[int, tuple[weakref.ref[Any], int]] = {}  # by id, with their numbers
        self._count = 0  # of inputs
        self._backwards = 0

    def called(self, module: Any, given: Sequence[Any], result: Any) -> None:
        tensor = first_tensor(given)
        results = frozenset(int(node._sequence_nr()) for node in _nodes(result, MOST_OUTPUTS))
        if tensor is None or not results or len(self._noted) >= MOST_CALLS:
            return
        call = ModelCall(
            self._models.number(module),
            self._source(tensor),
            tuple(tensor.shape),
            is_token_ids(tensor),
            is_root=next(_nodes(given, 1), None) is None,
        )
        self._noted.append(_Noted(call, results))

    def backward(self, losses: Sequence[Any]) -> None:
        noted = {number: each for each in self._noted if each.backward is None for number in each.results}
        if noted:
            for number in _reached(_nodes(losses, len(losses)), noted.keys()):
                noted[number].backward = self._backwards
        self._backwards += 1

    def step_ended(self) -> Amounts:
        calls = [
            ModelCall(c.model, c.source, c.shape, c.is_tokens, noted.backward, c.is_root)
            for noted in self._noted
            if noted.backward is not None and (c := noted.call)
        ]
        self._noted = [noted for noted in self._noted if noted.backward is None]
        self._backwards = 0
        return amounts_of_calls(calls)

    def _source(self, tensor: Any) -> int:
        alive, number = self._inputs.get(id(tensor), (None, 0))
        if alive is None or alive() is not tensor:
            number = self._count = self._count + 1
            self._inputs[id(tensor)] = weakref.ref(tensor), number
        return number


def amounts_of_input(tensor: Any) -> Amounts:
    return _amounts_of_shape(tuple(tensor.shape), is_token_ids(tensor))


@lru_cache(maxsize=64)  # it would take 15 µs of each call
def _amounts_of_shape(shape: tuple[int, ...], is_tokens: bool) -> Amounts:
    return amounts_of_calls([ModelCall(0, 0, shape, is_tokens)])


def _nodes(thing: Any, most: int, depth: int = 3) -> Iterator[Any]:
    if hasattr(thing, "grad_fn"):
        if thing.grad_fn is not None and most > 0:
            yield thing.grad_fn
        return
    if hasattr(thing, "output_nr"):  # a `GradientEdge`
        yield thing.node
        return
    if depth == 0 or isinstance(thing, (str, bytes)):
        return
    if hasattr(thing, "values") and callable(thing.values):
        thing = thing.values()
    elif not isinstance(thing, (list, tuple)):
        return
    for part in thing:
        for node in _nodes(part, most, depth - 1):
            yield node
            most -= 1


def _reached(roots: Iterable[Any], numbers: Iterable[int]) -> set[int]:
    """Return those sequence numbers of nodes that a graph contains; a node's is above its inputs'."""
    left, found = set(numbers), set[int]()
    oldest, stack = min(left), list(roots)
    seen = set(stack)
    while stack and left and len(seen) < MOST_NODES:
        node = stack.pop()
        number = node._sequence_nr()
        if number in left:
            left.discard(number)
            found.add(number)
        for child, _ in node.next_functions:
            if child is not None and child not in seen and oldest <= child._sequence_nr() < LEAF:
                seen.add(child)
                stack.append(child)
    return found
