import torch

from workloads.harness.engine.count import counted


def test_the_kernel_that_attention_took_is_named():
    query = torch.randn(1, 2, 16, 8, requires_grad=True)
    with counted() as fused:
        torch.nn.functional.scaled_dot_product_attention(query, query, query).sum().backward()
    with counted() as plain, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        torch.nn.functional.scaled_dot_product_attention(query, query, query).sum().backward()
    assert (fused.attention, plain.attention) == ({"flash_attention_for_cpu"}, set())
