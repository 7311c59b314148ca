import random

import pytest

from workloads.harness.checks.segments import Segments

MIB = 2**20


@pytest.mark.parametrize(
    ("size", "segment"),
    [(1, 2), (MIB, 2), (MIB + 1, 20), (9 * MIB, 20), (10 * MIB, 10), (11 * MIB, 12), (64 * MIB + 1, 66)],
)
def test_a_first_tensor_takes_a_segment_by_its_size(size, segment):
    memory = Segments()
    memory.take(size)
    assert memory.peak == segment * MIB


def test_small_tensors_share_a_segment_and_large_ones_another():
    memory = Segments()
    for _ in range(4):
        memory.take(MIB // 2)
    for _ in range(2):
        memory.take(9 * MIB)
    assert memory.peak == (2 + 20) * MIB
    memory.take(9 * MIB)
    assert memory.peak == (2 + 20 + 20) * MIB


def test_a_freed_block_is_used_again_and_stays_reserved():
    memory = Segments()
    first = memory.take(100 * MIB)
    memory.give(first)
    assert memory.take(60 * MIB).address == first.address  # the smallest that is large enough
    memory.take(30 * MIB)
    assert memory.peak == 100 * MIB


def test_a_rest_of_up_to_one_mebibyte_of_a_large_segment_is_lost_until_it_is_freed():
    memory = Segments()
    whole = memory.take(12 * MIB)
    memory.give(whole)
    assert memory.take(11 * MIB) == whole
    memory.give(whole)
    assert memory.take(10 * MIB).size == 10 * MIB


def test_holes_that_no_tensor_fits_make_the_allocator_reserve_more():
    memory = Segments()
    held = [memory.take(20 * MIB) for _ in range(8)]
    for block in held[::2]:
        memory.give(block)
    memory.take(40 * MIB)  # 80 MiB are free, in segments of 20
    assert memory.peak == (8 * 20 + 40) * MIB


def test_neighbours_join_within_their_segment_in_any_order():
    memory, chance = Segments(), random.Random(0)
    whole = memory.take(512 * MIB)
    memory.give(whole)
    held = [memory.take(size * MIB) for size in (30, 50, 70, 90, 110)]
    chance.shuffle(held)
    for block in held:
        memory.give(block)
    assert memory.take(512 * MIB) == whole and memory.peak == 512 * MIB
