import math
import re
from dataclasses import replace

import pytest
import torch.compiler.config as settings
from torch._inductor.utils import run_and_get_code

from tests.workloads.harness.training.environments import environment
from workloads.harness.registry import find
from workloads.nets.shapes import LLAMA

CONTEXT, BATCH = 48, 3


@pytest.fixture
def no_caches():
    before = settings.force_disable_caches
    settings.force_disable_caches = True
    yield
    settings.force_disable_caches = before


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("no_caches")
def test_no_buffer_is_as_large_as_the_cache_of_a_block():
    made = find("llm_decode").build(
        replace(environment(), mode="compiled"), millions=0, batch=BATCH, context=CONTEXT
    )
    _, codes = run_and_get_code(made.step)
    shapes = re.findall(r"empty_strided_cpu\(\(([\d, ]+)\)", "".join(codes))
    largest = max(math.prod(map(int, re.findall(r"\d+", shape))) for shape in shapes)
    assert 0 < largest < BATCH * LLAMA[0].kv_heads * CONTEXT * LLAMA[0].head_width
