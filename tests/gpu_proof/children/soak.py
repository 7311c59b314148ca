"""Multiply bf16 matrices for a while; print TFLOP/s by second: power and heat settle within a minute."""

import json
import sys
import time


def rates(device: str, seconds: float) -> list[float]:
    import torch

    on_gpu = device == "cuda"
    n = 8192 if on_gpu else 256
    dtype = torch.bfloat16 if on_gpu and torch.cuda.is_bf16_supported() else torch.float32
    a, b = (torch.randn(n, n, dtype=dtype, device=device) for _ in "ab")
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    for _ in range(3):
        a @ b
    wait()
    found, ends = [], time.perf_counter() + seconds
    while (begun := time.perf_counter()) < ends:
        products = 0
        while time.perf_counter() < min(begun + 1, ends):
            for _ in range(8):
                a @ b
            wait()
            products += 8
        found.append(2 * n**3 * products / (time.perf_counter() - begun) / 1e12)
    return found


if __name__ == "__main__":
    print(json.dumps(rates(sys.argv[1], float(sys.argv[2]))))
