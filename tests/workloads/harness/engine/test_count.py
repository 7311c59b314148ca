import pytest
import torch
from torch.utils.flop_counter import flop_registry

from workloads.harness.engine.count import counted

ATEN = torch.ops.aten
HEADS, SHARED, LONG, WIDE = 32, 8, 64, 128
KERNELS = ("flash", "efficient", "cudnn")


def test_the_kernel_that_attention_took_is_named():
    query = torch.randn(1, 2, 16, 8, requires_grad=True)
    with counted() as fused:
        torch.nn.functional.scaled_dot_product_attention(query, query, query).sum().backward()
    with counted() as plain, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        torch.nn.functional.scaled_dot_product_attention(query, query, query).sum().backward()
    assert (fused.attention, plain.attention) == ({"flash_attention_for_cpu"}, {"math"})


def test_attention_without_a_kernel_is_named_in_inference_too_and_beside_one_that_has():
    query, attend = torch.randn(1, 2, 16, 8), torch.nn.functional.scaled_dot_product_attention
    with torch.inference_mode(), counted() as counts:
        attend(query, query, query, is_causal=True)
        assert counts.attention == {"flash_attention_for_cpu"}
        attend(query, query, query, dropout_p=0.5)  # of which no kernel of a CPU knows
    assert counts.attention == {"flash_attention_for_cpu", "math"}
    with counted() as counts:
        query @ query.transpose(2, 3)
    assert counts.attention == set()


@pytest.fixture
def grouped():
    """Return queries of 32 heads with keys and values of 8, as the Llama models have."""
    return tuple(
        torch.empty(1, heads, LONG, WIDE, device="meta", dtype=torch.bfloat16)
        for heads in (HEADS, SHARED, SHARED)
    )


def refuse(*args, **kwargs):
    """Refuse like `sdpa_flop_count` of torch 2.9 to 2.11 if keys have fewer heads than queries."""
    raise AssertionError


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("way", ["", "_backward"])
def test_grouped_queries_are_counted_where_torchs_own_formula_refuses_them(monkeypatch, grouped, kernel, way):
    operation = getattr(ATEN, f"_scaled_dot_product_{kernel}_attention{way}")
    monkeypatch.setitem(flop_registry, operation, refuse)
    with counted() as counts:
        forward(kernel, *grouped) if not way else backward(kernel, *grouped)
    products = 2 if not way else 5
    assert counts.flops == products * 2 * HEADS * LONG * LONG * WIDE
    assert counts.missing == ""


def forward(kernel, query, key, value):
    operation = getattr(ATEN, f"_scaled_dot_product_{kernel}_attention")
    if kernel == "flash":
        return operation(query, key, value, 0.0, True)
    return operation(query, key, value, None, True, 0.0, True)


def backward(kernel, query, key, value):
    out, logsumexp = torch.empty_like(query), torch.empty(1, HEADS, LONG, device="meta")
    seed, offset = (torch.empty((), dtype=torch.int64, device="meta") for _ in "ab")
    operation = getattr(ATEN, f"_scaled_dot_product_{kernel}_attention_backward")
    given = (torch.empty_like(out), query, key, value)
    if kernel == "flash":
        return operation(*given, out, logsumexp, None, None, LONG, LONG, 0.0, True, seed, offset)
    if kernel == "efficient":
        return operation(*given, None, out, logsumexp, seed, offset, 0.0, [True, True, True, False], True)
    return operation(*given, out, logsumexp, seed, offset, None, None, None, LONG, LONG, 0.0, True)


def test_flops_of_attention_agree_with_torch_for_equal_head_counts():
    query = torch.empty(2, 4, 16, 8, device="meta", dtype=torch.bfloat16)
    key = torch.empty(2, 4, 24, 8, device="meta", dtype=torch.bfloat16)
    with counted() as counts:
        out = forward("flash", query, key, key)
    theirs = flop_registry[ATEN._scaled_dot_product_flash_attention]
    assert counts.flops == theirs(query, key, key, out_val=out) == 4 * 2 * 4 * 16 * 24 * 8


def test_a_formula_that_fails_costs_a_count_and_no_record(monkeypatch):
    monkeypatch.setitem(flop_registry, ATEN.mm, refuse)
    a = torch.ones(3, 3)
    with counted() as counts:
        found = torch.mm(a, a) + torch.nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 1, 1))
    assert float(found.sum()) == 36.0
    assert counts.missing == "torch's count of mm failed: AssertionError"
    assert counts.conv_flops == 18


def test_a_record_says_why_it_has_no_count(engine, monkeypatch):
    monkeypatch.setitem(flop_registry, ATEN.addmm, refuse)
    record = engine("trains")
    assert record.check.error < record.check.bound
    assert record.work.counted_flops is None and record.work.launches > 20
    assert record.missing["counted_flops"] == "torch's count of addmm failed: AssertionError"
