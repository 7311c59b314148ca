# A small GPT: no loader, four batches a step, warm-up and cosine by hand, evaluation and a checkpoint every so often.
import argparse
import math
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--max_iters", type=int, default=600)
parser.add_argument("--eval_interval", type=int, default=50)
parser.add_argument("--eval_iters", type=int, default=10)
parser.add_argument("--out", type=Path, default=".")
options = parser.parse_args()
block, batch, vocab, width, heads, layers, accumulate = 64, 12, 65, 128, 4, 4, 4
warm_up, rate, least = 20, 1e-3, 1e-4

torch.manual_seed(1337)
text = torch.cumsum(torch.randint(0, 3, (200_000,)), 0) % vocab
parts = {"train": text[:180_000], "val": text[180_000:]}


def get_batch(part):
    data = parts[part]
    at = torch.randint(len(data) - block - 1, (batch,))
    return torch.stack([data[i : i + block] for i in at]), torch.stack(
        [data[i + 1 : i + 1 + block] for i in at]
    )


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (
            part.view(b, t, heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(width, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, width), nn.Embedding(block, width)
        self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position(torch.arange(ids.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.view(-1, vocab), targets.reshape(-1))


def learning_rate(step):
    if step < warm_up:
        return rate * (step + 1) / warm_up
    share = (step - warm_up) / max(options.max_iters - warm_up, 1)
    return least + 0.5 * (1 + math.cos(math.pi * share)) * (rate - least)


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.99))
best = math.inf
for step in range(options.max_iters + 1):
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(step)
    if step % options.eval_interval == 0:
        model.eval()
        with torch.no_grad():
            losses = {
                part: sum(model(*get_batch(part)).item() for _ in range(options.eval_iters))
                / options.eval_iters
                for part in parts
            }
        model.train()
        print(f"step {step}: train {losses['train']:.4f}, val {losses['val']:.4f}", flush=True)
        if losses["val"] < best and step:
            best = losses["val"]
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, options.out / "ckpt.pt"
            )
    if step == options.max_iters:
        break
    for _ in range(accumulate):
        (model(*get_batch("train")) / accumulate).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
