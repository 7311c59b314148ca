"""Torch's settings and libraries: read after the measurement, because asking loads libraries."""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

Question = Callable[[Any], Any]
SETTINGS: dict[str, Question] = {
    "cudnn_benchmark": lambda torch: torch.backends.cudnn.benchmark,
    "cudnn_deterministic": lambda torch: torch.backends.cudnn.deterministic,
    "fp16_reduced_precision": lambda torch: torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction,
    "bf16_reduced_precision": lambda torch: torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction,
    "fp16_accumulation": lambda torch: torch.backends.cuda.matmul.allow_fp16_accumulation,
    "float32_matmul_precision": lambda torch: torch.get_float32_matmul_precision(),
    "sdpa": lambda torch: [
        name
        for name in ("flash", "mem_efficient", "cudnn", "math")
        if getattr(torch.backends.cuda, f"{name}_sdp_enabled")()
    ],
}
LIBRARIES: dict[str, Question] = {
    "cudnn": lambda torch: torch.backends.cudnn.version(),
    "nccl": lambda torch: ".".join(map(str, torch.cuda.nccl.version())) if torch.version.cuda else None,
}


def settings() -> dict[str, Any]:
    """Return torch's settings that change results or speed, if it has them."""
    return _answers(SETTINGS)


def libraries() -> dict[str, Any]:
    return dict.fromkeys(LIBRARIES) | _answers(LIBRARIES)


def _answers(questions: dict[str, Question]) -> dict[str, Any]:
    torch, answers = sys.modules.get("torch"), {}
    for name, question in questions.items() if torch else ():
        with suppress(Exception):  # another version of torch, or a build without CUDA
            answers[name] = question(torch)
    return answers
