import random
from itertools import pairwise

from workloads.harness.checks.heap import LAST_THRESHOLD, Heap

KIB, MIB = 2**10, 2**20


def test_large_blocks_go_back_at_once():
    heap = Heap()
    for _ in range(10):
        heap.give(heap.take(100 * MIB))
    assert 100 * MIB <= heap.peak < 101 * MIB


def test_a_gap_that_is_too_small_stays_and_one_that_is_large_enough_is_used():
    heap = Heap()
    blocks = [heap.take(100 * KIB) for _ in range(100)]
    for block in blocks[::2]:
        heap.give(block)
    before = heap.peak
    kept = [heap.take(100 * KIB) for _ in range(50)]
    assert heap.peak == before and len({*kept, *blocks[1::2]}) == 100
    for block in kept:
        heap.give(block)
    for _ in range(50):
        heap.take(120 * KIB)
    assert heap.peak >= before + 50 * 120 * KIB  # though as much was given back


def test_neighbours_that_are_given_back_make_one_place():
    heap = Heap()
    blocks = [heap.take(50 * KIB) for _ in range(20)]
    for block in blocks[:2]:
        heap.give(block)
    before = heap.peak
    heap.take(99 * KIB)
    assert heap.peak == before


def test_a_freed_mapping_raises_the_mmap_threshold_up_to_a_limit():
    heap = Heap()
    heap.give(heap.take(4 * MIB))
    first, second = heap.take(3 * MIB), heap.take(3 * MIB)
    assert first[0] >= 0 and second[0] >= 0
    heap.give(heap.take(2 * LAST_THRESHOLD))
    assert heap.take(LAST_THRESHOLD + MIB)[0] < 0


def test_no_two_blocks_overlap_and_all_of_them_can_go():
    heap, draw, blocks = Heap(), random.Random(1), []
    for _ in range(3000):
        if blocks and draw.random() < 0.5:
            heap.give(blocks.pop(draw.randrange(len(blocks))))
        else:
            blocks.append(heap.take(draw.choice([KIB, 10 * KIB, 90 * KIB, MIB, 40 * MIB])))
        spans = sorted((a, a + size) for a, size in blocks if a >= 0)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    for block in blocks:
        heap.give(block)
    peak = heap.peak
    heap.give(heap.take(peak // 2 + 64 * MIB))
    assert heap._free == [] and heap._mapped == 0
