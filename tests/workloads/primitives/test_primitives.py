import pytest
import torch

from tests.workloads.building import build
from tests.workloads.nets import env
from workloads.harness.engine.correctness import check_inputs, recheck
from workloads.harness.engine.device import UnsupportedError, open_device
from workloads.harness.prepared import Prepared
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import find
from workloads.primitives import attention


@pytest.mark.parametrize("length", [5, 24])
def test_the_reference_of_attention_is_plain_products_in_any_parts(length, monkeypatch):
    monkeypatch.setattr(attention, "PART", 7)
    parts = [torch.randn(length, 8, dtype=torch.float64) for _ in range(4)]
    query, key, value = (part.clone().requires_grad_() for part in parts[:3])
    scores = query @ key.T / 8**0.5
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    mixed = scores.masked_fill(later, float("-inf")).softmax(-1) @ value
    (alone,) = attention.exact(*(part.clone() for part in parts[:3]))
    torch.testing.assert_close(alone, mixed.detach())
    mixed.backward(parts[3])
    learnt = attention.exact(*(part.clone() for part in parts))
    torch.testing.assert_close(learnt, (query.grad, key.grad, value.grad))


def test_attention_counts_the_pairs_that_the_mask_leaves():
    pairs = sum(range(1, 25))
    made = build("attention", batch=3, heads=2, length=24, width=16)
    assert made.flops == 3 * 2 * pairs * 2 * 2 * 16
    assert build("attention_train", batch=3, heads=2, length=24, width=16).flops == 3 * made.flops
    assert made.units == 3 * 24


def test_a_skinny_product_reads_its_weights():
    made = build("gemm", m=1, n=64, k=128)
    assert made.bytes == 4 * (64 * 128 + 128 + 64)


def rank(number, seed=0):
    made = env(seed)
    made.rank, made.world = number, 4
    return find("all_reduce").build(made, kib=1, processes=4).inputs[0]


def test_a_rank_draws_its_own_values_and_no_others(monkeypatch):
    """All ranks' values would be eight times the host's memory, in each of eight ranks."""
    drawn, randn = [], torch.randn
    monkeypatch.setattr(torch, "randn", lambda *shape, **o: drawn.append(shape) or randn(*shape, **o))
    parts = [rank(number) for number in range(4)]
    assert drawn == [(256,)] * 4
    assert len({float(part.sum()) for part in parts}) == 4
    assert torch.equal(rank(2), parts[2]) and not torch.equal(rank(2, seed=1), parts[2])


def test_a_cpu_has_no_fp8_and_few_workloads_do():
    assert find("gemm").case(find("gemm").tiny, "fp8").id == "gemm/m=16,n=64,k=32/fp8"
    with pytest.raises(UnsupportedError, match=r"fp8 needs an NVIDIA GPU \(Ada or newer\)"):
        open_device("cpu", "fp8", 1)
    with pytest.raises(
        WorkloadsError, match="precision 'fp8' is unknown; choose from fp32, tf32, fp16, bf16"
    ):
        find("matmul").case({"n": 64}, "fp8")


def test_values_of_fp8_are_looked_at_and_moved_about():
    values = torch.randn(32, 16).to(torch.float8_e4m3fn)
    made = Prepared(
        step=lambda: values.float() * 2,
        inputs=(values,),
        reference=lambda: values.double() * 2,
        view=lambda doubled: doubled,
        units=1,
        unit="products",
        flops=0,
        bytes=0,
        matmul_flops=0,
    )
    check_inputs(made)
    before = values.float()
    recheck(made, made.step(), "fp8")
    assert not torch.equal(before, values.float())
    assert torch.equal(before.flatten().sort().values, values.float().flatten().sort().values)
