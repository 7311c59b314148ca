"""A host's memory as glibc's malloc manages it, with its fragmentation.

Large blocks are mapped alone and go back at once. Their least size grows with the largest freed block, up to
32 MiB (mallopt(3), M_MMAP_THRESHOLD). Smaller blocks share a heap that shrinks only from its end.
"""

from __future__ import annotations

from bisect import bisect_left, insort

PAGE, ALIGNED = 4096, 64
FIRST_THRESHOLD, LAST_THRESHOLD = 128 * 2**10, 32 * 2**20
Block = tuple[int, int]  # address and size; the address of a mapped one is -1


class Heap:
    """Follows a program's allocations; `peak` is the most resident bytes."""

    def __init__(self) -> None:
        self.peak = 0
        self._threshold, self._trim = FIRST_THRESHOLD, FIRST_THRESHOLD
        self._mapped, self._end, self._touched = 0, 0, 0
        self._free: list[Block] = []  # size and address, sorted
        self._starts: dict[int, int] = {}  # free blocks: size by address
        self._ends: dict[int, int] = {}  # of free blocks: address by end

    def take(self, size: int) -> Block:
        size = -(-size // ALIGNED) * ALIGNED + ALIGNED
        if size >= self._threshold:
            self._mapped += -(-size // PAGE) * PAGE
            block = (-1, size)
        else:
            block = (self._placed(size), size)
        self.peak = max(self.peak, self._mapped + self._touched)
        return block

    def give(self, block: Block) -> None:
        address, size = block
        if address < 0:
            self._mapped -= -(-size // PAGE) * PAGE
            if self._threshold < size <= LAST_THRESHOLD:
                self._threshold, self._trim = size, 2 * size
            return
        if size_after := self._starts.get(address + size):
            self._forget(address + size, size_after)
            size += size_after
        if (before := self._ends.get(address)) is not None:
            self._forget(before, self._starts[before])
            address, size = before, address - before + size
        if address + size == self._end:
            self._end = address
            if self._touched - address > self._trim:
                self._touched = address
            return
        self._starts[address], self._ends[address + size] = size, address
        insort(self._free, (size, address))

    def _placed(self, size: int) -> int:
        place = bisect_left(self._free, (size, 0))
        if place == len(self._free):
            address, self._end = self._end, self._end + size
            self._touched = max(self._touched, self._end)
            return address
        found, address = self._free[place]
        self._forget(address, found)
        if left := found - size:
            self._starts[address + size], self._ends[address + found] = left, address + size
            insort(self._free, (left, address + size))
        return address

    def _forget(self, address: int, size: int) -> None:
        del self._starts[address], self._ends[address + size]
        del self._free[bisect_left(self._free, (size, address))]
