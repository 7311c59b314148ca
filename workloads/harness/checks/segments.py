"""A GPU's memory as torch's caching allocator manages it, with rounding and fragmentation.

Source: c10/cuda/CUDACachingAllocator.cpp of torch 2.13, with its default settings and one stream.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import NamedTuple

UNIT = 512  # bytes; sizes are rounded up to it
SMALL = 2**20  # the largest tensor of a small segment
SMALL_SEGMENT, LARGE_SEGMENT = 2 * 2**20, 20 * 2**20
ALONE, ROUND = 10 * 2**20, 2 * 2**20  # from this size a tensor has a segment, rounded up to a multiple


class SegmentPart(NamedTuple):
    """A part of a segment: address, bytes, and whether it is for small tensors."""

    address: int
    size: int
    is_small: bool


class Segments:
    """Follows a program's allocations; `peak` is the most bytes taken from the driver."""

    def __init__(self) -> None:
        self.peak = 0  # nothing goes back to the driver
        self._next = 0  # address of the next segment; a gap parts segments, so that none are joined
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}  # sorted sizes and addresses
        self._starts: dict[int, SegmentPart] = {}  # of free blocks, by address
        self._ends: dict[int, SegmentPart] = {}  # of free blocks, by end

    def take(self, size: int) -> SegmentPart:
        size = max(-(-size // UNIT) * UNIT, UNIT)
        found = self._found(size)
        left = found.size - size
        if left < UNIT or (left <= SMALL and not found.is_small):
            return found
        self._keep(SegmentPart(found.address + size, left, found.is_small))
        return SegmentPart(found.address, size, found.is_small)

    def give(self, block: SegmentPart) -> None:
        address, size, is_small = block
        if after := self._starts.get(address + size):
            self._forget(after)
            size += after.size
        if before := self._ends.get(address):
            self._forget(before)
            address, size = before.address, before.size + size
        self._keep(SegmentPart(address, size, is_small))

    def _found(self, size: int) -> SegmentPart:
        is_small = size <= SMALL
        free = self._free[is_small]
        place = bisect_left(free, (size, 0))
        if place < len(free):
            block = self._starts[free[place][1]]
            self._forget(block)
            return block
        segment = SMALL_SEGMENT if is_small else LARGE_SEGMENT if size < ALONE else -(-size // ROUND) * ROUND
        address, self._next = self._next, self._next + segment + UNIT
        self.peak += segment
        return SegmentPart(address, segment, is_small)

    def _keep(self, block: SegmentPart) -> None:
        self._starts[block.address] = self._ends[block.address + block.size] = block
        insort(self._free[block.is_small], (block.size, block.address))

    def _forget(self, block: SegmentPart) -> None:
        del self._starts[block.address], self._ends[block.address + block.size]
        free = self._free[block.is_small]
        del free[bisect_left(free, (block.size, block.address))]
