from dataclasses import replace

import pytest

from tests.workloads.harness.training.environments import environment
from workloads.harness.checks.fakes import faked
from workloads.harness.checks.needs import OTHER, needs_of
from workloads.harness.engine.correctness import first_step
from workloads.harness.registry import find

LORA = ("lora_step", {"millions": 8030, "batch": 1, "length": 2048, "rank": 16})
GPT2 = ("gpt2_train", {"millions": 124, "batch": 4, "length": 1024})
LARGE_GPT2 = ("gpt2_train", {"millions": 1558, "batch": 1, "length": 1024})
RESNET = ("resnet50_train", {"batch": 64, "pixels": 224})
CASES = [("bf16", *LORA), ("fp32", *GPT2), ("bf16", *RESNET)]
MORE_CASES = [
    ("fp32", *LORA),
    ("bf16", *GPT2),
    ("bf16", *LARGE_GPT2),
    ("fp32", *LARGE_GPT2),
    ("fp32", *RESNET),
]


@pytest.mark.parametrize(
    ("precision", "name", "size"),
    [*CASES, *(pytest.param(*case, marks=pytest.mark.chaos) for case in MORE_CASES)],
)
def test_a_check_takes_no_more_of_the_device_than_the_step(precision, name, size):
    with faked() as fakes:
        env = replace(environment(precision), device=OTHER, to_device=lambda tensor: tensor.to(OTHER))
        made = find(name).build(env, **size)
        made.step()
        loss = first_step(made)
        stepped = fakes.tensors[str(OTHER)]
        made.view(loss), made.reference()
        checked = fakes.tensors[str(OTHER)]
    assert made.reference_on_device
    assert checked <= 1.05 * stepped, (checked / 1e9, stepped / 1e9)


@pytest.mark.chaos
def test_the_memory_of_a_case_includes_its_reference():
    case = find("unet").case({"millions": 860, "latents": 64, "batch": 2}, "bf16")
    assert needs_of(case, "cuda").tensors_bytes > 3 * 2 * 859_520_964
