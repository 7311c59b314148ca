import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.workloads.building import build
from tests.workloads.nets import env
from workloads import transformer
from workloads.harness.engine.correctness import check, check_loss, first_step
from workloads.harness.engine.count import counted
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import find
from workloads.nets import decoder, shapes

LAYERS, VOCABULARY = shapes.DECODER_LAYERS, shapes.DECODER_VOCABULARY


def attended(model, x):
    """Return one block's attention written out: softmax of the unmasked, head by head."""
    together, out = model.together, model.out
    width = x.shape[-1]
    heads = max(width // 64, 1)
    q, k, v = (x @ together.weight.T + together.bias).split(width, dim=-1)
    length = x.shape[1]
    mask = torch.full((length, length), -math.inf, dtype=x.dtype).triu(1)
    mixed = []
    for head in range(heads):
        part = slice(head * width // heads, (head + 1) * width // heads)
        scores = q[..., part] @ k[..., part].transpose(1, 2) / math.sqrt(width / heads) + mask
        mixed.append(scores.softmax(-1) @ v[..., part])
    return torch.cat(mixed, -1) @ out.weight.T + out.bias


@pytest.mark.parametrize("width", [32, 128])
def test_attention_of_the_transformer_is_the_textbooks(width):
    torch.manual_seed(0)
    attention = decoder.block(width, max(width // 64, 1))[0].inner.double()
    x = torch.randn(2, 10, width, dtype=torch.float64)
    torch.testing.assert_close(attention(x), attended(attention, x))


def test_a_position_attends_only_to_earlier_positions():
    model = env().model(lambda: decoder.decoder(32, 12)).eval()
    tokens = torch.arange(12)[None]
    changed = tokens.clone()
    changed[0, 7] = 99
    with torch.inference_mode():
        one, other = model(tokens)[0], model(changed)[0]
    same = [torch.equal(a, b) for a, b in zip(one, other, strict=True)]
    assert same == [True] * 7 + [False] * 5


def test_the_last_position_alone_is_the_last_of_all():
    every = env().model(lambda: decoder.decoder(32, 12)).eval()
    last = decoder.decoder(32, 12, last_only=True).eval()
    last.load_state_dict(every.state_dict())
    tokens = torch.arange(24).reshape(2, 12)
    torch.testing.assert_close(last(tokens), every(tokens)[:, -1])


@pytest.mark.parametrize("width", [64, 256])
def test_the_transformer_has_the_parameters_of_its_formula(width):
    length = 24
    block = 12 * width**2 + 13 * width  # products 3 + 1 + 4 + 4, biases 3 + 1 + 4 + 1, two norms of two
    wanted = VOCABULARY * width + length * width + LAYERS * block + 2 * width + (width + 1) * VOCABULARY
    assert build("transformer_infer", width=width, length=length, batch=1).parameters == wanted


class TestFlops:
    width, length, batch = 64, 20, 3

    def linear(self, positions):
        """Return forward FLOPs: every token through the blocks, `positions` through the output layer."""
        tokens = self.batch * self.length
        return 2 * tokens * LAYERS * 12 * self.width**2 + 2 * positions * self.width * VOCABULARY

    def attention(self):
        pairs = sum(range(1, self.length + 1))  # each position with itself and those before it
        return LAYERS * self.batch * pairs * 2 * 2 * self.width

    def test_inference_counts_linear_layers_and_attention(self):
        made = build("transformer_infer", width=self.width, length=self.length, batch=self.batch)
        assert made.matmul_flops == self.linear(self.batch)
        assert made.flops == self.linear(self.batch) + self.attention()

    def test_training_takes_three_times_a_forward_pass(self):
        made = build("transformer_train", width=self.width, length=self.length, batch=self.batch)
        forward = self.linear(self.batch * self.length)
        assert made.matmul_flops == 3 * forward
        assert made.flops == 3 * (forward + self.attention())

    @pytest.mark.parametrize("name", ["transformer_train", "transformer_infer"])
    @pytest.mark.parametrize(
        "size", [{"width": 64, "length": 20, "batch": 3}, {"width": 256, "length": 7, "batch": 1}]
    )
    def test_flops_are_known_before_anything_is_built(self, name, size):
        made, workload = build(name, **size), find(name)
        assert workload.flops(**size) == made.flops

    def test_torch_counts_the_whole_square_where_attention_is_products(self):
        """Without the fused kernel torch's counter sees all l^2 pairs."""
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), torch.inference_mode():
            made = build("transformer_infer", width=self.width, length=self.length, batch=self.batch)
            with FlopCounterMode(display=False) as counter:
                made.step()
        square = LAYERS * 4 * self.batch * self.length**2 * self.width
        assert counter.get_total_flops() == made.matmul_flops + square
        assert self.attention() == square * (self.length + 1) / (2 * self.length)


@pytest.mark.parametrize("name", ["transformer_train", "transformer_infer"])
def test_a_record_names_the_kernel_that_its_attention_took(name):
    made = build(name, width=64, length=16, batch=2)
    with counted() as counts:
        made.step()
    assert counts.attention == {"flash_attention_for_cpu"}  # on a GPU `flash`, `efficient` or `cudnn`


def test_the_loss_of_the_transformer_begins_at_chance_and_falls():
    made = build("transformer_train", width=32, length=16, batch=2)
    first = float(first_step(made))
    assert first == pytest.approx(math.log(VOCABULARY), rel=0.05)
    last = [float(made.step()) for _ in range(20)][-1]
    check_loss(first, last, 20)
    assert float(first_step(made)) == pytest.approx(first, rel=1e-4)


def test_tokens_of_the_transformer_follow_a_learnable_rule():
    tokens = transformer.sentences(env(), 8, 512)
    assert tokens.dtype == torch.int64
    assert 0 <= int(tokens.min()) <= int(tokens.max()) < VOCABULARY
    follows = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(0))
    share = float((follows[tokens[:, :-1]] == tokens[:, 1:]).float().mean())
    assert share == pytest.approx(1 - transformer.NOISE, abs=0.03)


@pytest.mark.parametrize("name", ["transformer_train", "transformer_infer"])
def test_a_width_that_heads_do_not_divide(name):
    with pytest.raises(WorkloadsError, match="width=200 must be a multiple of 64"):
        build(name, width=200, length=8, batch=1)


@pytest.mark.parametrize("name", ["transformer_train", "transformer_infer"])
def test_the_transformer_passes_its_check_with_several_heads(name):
    made = build(name, width=128, length=8, batch=1)
    assert check(made, first_step(made), "fp32").error < 1e-6
