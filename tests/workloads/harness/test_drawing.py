import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.harness.training.environments import environment
from workloads.harness import prepared
from workloads.harness.engine import transfer
from workloads.harness.engine.device import open_device


def whole(kind, shape, seed=0):
    draw = {"randn": torch.randn, "rand": torch.rand}[kind]
    return draw(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(prepared, "DRAWN", 4 * prepared.BLOCK)


@pytest.mark.parametrize("kind", ["randn", "rand"])
@pytest.mark.parametrize("count", [1, 15, 16, 63, 64, 65, 79, 80, 81, 128, 130, 1000])
def test_pieces_have_the_values_of_the_whole(small_pieces, kind, count):
    env = environment()
    assert torch.equal(getattr(env, kind)(count), whole(kind, [count]))
    after = torch.Generator().manual_seed(0)
    {"randn": torch.randn, "rand": torch.rand}[kind](count, generator=after)
    assert torch.equal(env.generator.get_state(), after.get_state())  # the next draw follows on, too


@given(pieces=st.integers(1, 6), shape=st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_pieces_have_the_values_of_the_whole_in_every_shape(pieces, shape):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prepared, "DRAWN", pieces * prepared.BLOCK)
        assert torch.equal(environment().randn(*shape), whole("randn", shape))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_layout_and_precision_are_the_cases(small_pieces, precision):
    env = environment(precision, "channels_last")
    images = env.rand(2, 3, 5, 7)
    assert images.dtype == env.dtype
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(images, whole("rand", (2, 3, 5, 7)).to(env.dtype))
    assert environment("bf16").rand(3, dtype=torch.float32).dtype == torch.float32


def test_the_host_never_holds_more_than_a_piece(small_pieces):
    moved = []
    env = replace(environment(), to_device=lambda tensor: moved.append(tensor.numel()) or tensor)
    env.randn(10, 100)
    assert sum(moved) == 1000
    assert max(moved) < 5 * prepared.BLOCK


class TestTransfers:
    @pytest.fixture(autouse=True)
    def on_a_gpu(self, monkeypatch):
        """Emulate a GPU: moves go from memory to memory, each as long as its bytes."""
        self.pinned, self.moves, self.now_s = [], [], 0.0
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
        monkeypatch.setattr(
            torch.Tensor, "pin_memory", lambda tensor: self.pinned.append(tensor.nbytes) or tensor.clone()
        )
        monkeypatch.setattr(torch.Tensor, "copy_", lambda *tensors, non_blocking: self.move(*tensors))
        monkeypatch.setattr(transfer.time, "perf_counter", lambda: self.now_s)
        self.device = replace(open_device("cpu", "fp32", 1), name="cuda")

    def move(self, target, source):
        assert target.nbytes == source.nbytes
        self.moves.append(source.nbytes)
        self.now_s += source.nbytes / 1e9

    def test_large_tensors_go_through_one_small_buffer(self, monkeypatch):
        monkeypatch.setattr(transfer, "PIECE_BYTES", 2**10)
        given = torch.rand(1000)
        made = transfer.measure_transfer(self.device, [given, given], torch.rand(10))
        assert self.pinned == [2**10]
        assert set(self.moves) == {1024, 4000 % 1024, 40}
        assert (made.h2d_bytes, made.d2h_bytes) == (8000, 40)
        assert (made.h2d_pageable_s, made.h2d_pinned_s) == pytest.approx((8000 / 1e9, 8000 / 1e9))
        assert (made.d2h_pageable_s, made.d2h_pinned_s) == pytest.approx((40 / 1e9, 40 / 1e9))

    def test_of_very_large_ones_a_part_is_moved_and_its_rate_taken(self, monkeypatch):
        monkeypatch.setattr(transfer, "PIECE_BYTES", 2**8)
        monkeypatch.setattr(transfer, "MOST_BYTES", 2**10)
        made = transfer.measure_transfer(self.device, [torch.rand(10_000)], torch.rand(1))
        assert sum(self.moves) == 2 * (transfer.REPEATS + 1) * (2**10 + 4)
        assert made.h2d_pageable_s == pytest.approx(40_000 / 1e9)


def test_a_large_result_is_fetched_in_parts(monkeypatch):
    fetched = []
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: fetched.append(tensor.nbytes))
    monkeypatch.setattr(transfer, "PIECE_BYTES", 2**10)
    for shape in ((64, 64), (), (3,)):
        fetched.clear()
        transfer.fetch(torch.rand(shape))
        assert sum(fetched) == 4 * math.prod(shape)
        assert max(fetched) <= 2**10


def test_the_reference_of_a_product_takes_a_part_of_it_to_the_host(monkeypatch):
    from tests.workloads.building import build
    from workloads import matmul

    fetched, own = [], torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda tensor: fetched.append(tensor.numel()) or own(tensor))
    monkeypatch.setattr(matmul, "PART", 16)
    made = build("matmul", n=100)
    a, b = made.inputs
    exact = a.double() @ b.double()
    torch.testing.assert_close(made.reference(), made.view(exact), rtol=1e-13, atol=1e-13)
    assert max(fetched) == 16 * 100
