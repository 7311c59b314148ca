import math
from dataclasses import replace

import pytest
import torch

from tests.workloads.building import build
from workloads.harness.engine.correctness import WrongError, check, first_step
from workloads.harness.records.errors import WorkloadsError
from workloads.harness.registry import find
from workloads.nets import llama
from workloads.nets.shapes import GPT2, LLAMA, GptShape

TINY = LLAMA[0]


def model(seed=0):
    torch.manual_seed(seed)
    return llama.Llama(TINY).double().eval()


def turned(x, start=0):
    """Return rotary positions by complex numbers: pairs (i, i + half) turn by position times frequency."""
    half = x.shape[-1] // 2
    places = torch.arange(start, start + x.shape[-2], dtype=torch.float64)
    rates = 500_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    rotated = torch.complex(x[..., :half], x[..., half:]) * torch.exp(1j * places[:, None] * rates)
    return torch.cat([rotated.real, rotated.imag], -1)


def attended(attention, x):
    """Return attention of every query head with the keys and values of its group."""
    heads, shared, width = TINY.heads, TINY.kv_heads, TINY.head_width
    parts = (x @ attention.together.weight.T).unflatten(-1, (heads + 2 * shared, width))
    mask = torch.full((x.shape[1], x.shape[1]), -math.inf, dtype=x.dtype).triu(1)
    mixed = []
    for head in range(heads):
        group = head // (heads // shared)
        query, key = turned(parts[:, :, head]), turned(parts[:, :, heads + group])
        weights = (query @ key.transpose(1, 2) / math.sqrt(width) + mask).softmax(-1)
        mixed.append(weights @ parts[:, :, heads + shared + group])
    return torch.cat(mixed, -1) @ attention.out.weight.T


def test_attention_of_llama_is_the_textbooks():
    attention = model().blocks[0].attention
    x = torch.randn(2, 9, TINY.width, dtype=torch.float64)
    torch.testing.assert_close(attention(x, llama.turns(TINY.head_width, 0, 9)), attended(attention, x))


def cache(positions, batch=2):
    size = (TINY.layers, 2, batch, TINY.kv_heads, positions, TINY.head_width)
    return torch.full(size, math.nan, dtype=torch.float64)


def test_llama_token_by_token_agrees_with_a_whole_pass():
    net, tokens = model(), torch.randint(TINY.vocabulary, (2, 12))
    turns = llama.turns(TINY.head_width, 0, 12)
    with torch.inference_mode():
        whole = net(tokens, turns, cache(12), 0).scores
        kept = cache(12)
        net(tokens[:, :7], turns[:, :7], kept, 0)
        for at in range(7, 12):
            last = net(tokens[:, at : at + 1], turns[:, at : at + 1], kept, at).scores
    torch.testing.assert_close(last, whole)


@pytest.mark.parametrize(
    ("millions", "parameters"), [(135, 134_515_008), (1236, 1_235_814_400), (8030, 8_030_261_248)]
)
def test_llama_has_the_published_number_of_parameters(millions, parameters):
    """As stated on https://huggingface.co for SmolLM-135M, Llama-3.2-1B and Llama-3.1-8B."""
    assert LLAMA[millions].parameters == parameters
    with torch.device("meta"):
        made = llama.Llama(LLAMA[millions])
    assert sum(p.numel() for p in made.parameters()) == parameters


def test_gpt2_has_the_parameters_of_its_paper():
    assert GptShape(768, 12, 12, 1024, 50_257).parameters == 124_439_808
    assert build("gpt2_train").parameters == GPT2[0].parameters


@pytest.mark.parametrize("name", ["llm_decode", "llm_prefill", "gpt2_train", "lora_step"])
def test_the_flops_of_llama_are_known_before_building(name):
    size = {
        key: value if key in find(name).published else value + 3 for key, value in find(name).tiny.items()
    }
    assert find(name).flops(**size) == build(name, **size).flops


def test_decoding_reads_all_weights_and_the_whole_cache():
    made = build("llm_decode", millions=0, batch=3, context=20)
    cached = 2 * TINY.layers * 3 * 20 * TINY.kv_heads * TINY.head_width
    least = 4 * (TINY.read_weights + cached)
    assert least < made.bytes < 1.1 * least
    assert made.units == 3 and made.unit == "tokens"


@pytest.mark.parametrize("name", ["llm_decode", "llm_prefill"])
@pytest.mark.parametrize(
    "part", ["blocks.0.attention.together", "blocks.0.down", "blocks.1.gate_and_up", "embed"]
)
def test_a_step_with_other_weights_is_wrong(name, part):
    made = build(name)
    result = first_step(made)
    seen = [tensor.clone() for tensor in made.view(result)]
    weights = made.step.__self__.model.get_submodule(part).weight
    with torch.no_grad():
        weights.mul_(1.5)
    with pytest.raises(WrongError):
        check(replace(made, view=lambda result: tuple(seen)), result, "fp32")


def test_a_llama_of_an_unpublished_size_is_refused():
    with pytest.raises(
        WorkloadsError, match="millions=3 is not a published model; choose from 0, 135, 1236, 8030"
    ):
        find("llm_decode").case({"millions": 3, "batch": 1, "context": 16})


def test_gpt2_has_no_positions_beyond_its_longest_sequence():
    with pytest.raises(WorkloadsError, match="length=65 must be at most 64"):
        build("gpt2_train", millions=0, batch=1, length=65)
